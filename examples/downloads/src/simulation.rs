//! The program's server and its downloads, in simulations: slow links, partitions, connections that
//! are reset, and machines that crash and start again.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser as _;
use ecru::channel;
use ecru::sim::{self, Host, Simulation};

use crate::args::Args;
use crate::batch::{self, Batch};
use crate::content;
use crate::fetch::{Into, Job};
use crate::fleet;
use crate::own;
use crate::progress::Show;
use crate::runtime::{self, Cancelled, fs};
use crate::server::{self, Offer};
use crate::setup;

const PORT: u16 = 8000;

/// A file takes a virtual second.
const OFFER: Offer = Offer { files: 100, size: 50_000, rate: 50_000 };

fn serve(offer: Offer) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let (started, start) = mpsc::channel();
    runtime::cancel_scope(|stop| server::listen(address, offer, stop, &started));
    start.try_recv().expect("it has started or failed").map(drop)
}

/// Downloads all files, and checks every byte, or keeps them in a folder. Returns the virtual time
/// that this took, or `None` if it was cancelled.
fn download(address: SocketAddr, offer: Offer, folder: Option<PathBuf>) -> Option<Duration> {
    // The pauses between attempts are drawn from this thread's generator.
    fastrand::seed(sim::random_u64());
    let args = Args::parse_from(["downloads", "--quiet", "--retries", "100", "--timeout", "5"]);
    let files = offer.files as usize;
    let mut jobs =
        own::jobs(files, offer.size, |index| format!("http://{address}{}", server::path(index)));
    if let Some(folder) = folder {
        jobs.iter_mut().for_each(|job: &mut Job| job.into = Into::Folder(folder.clone()));
    }
    let manner = setup::manner(&args, files, files).expect("the arguments are right");
    let batch = Batch {
        jobs: &jobs,
        window: files,
        expected: None,
        show: Show::Nothing,
        per_host: &|_| usize::MAX,
        json: false,
        started: runtime::now(),
    };
    let batch::Result { tally, figures, .. } = batch.run(&manner).expect("signals can be watched");
    if runtime::is_cancelled() {
        return None;
    }
    assert_eq!(tally.done + tally.there, files, "{tally:?}");
    Some(figures.wall)
}

/// Downloads on a host of its own, while `trouble` happens to it and to the server. If the machine
/// crashes, the same command is given again. At the end, `check` runs on it.
fn download_amid(
    trouble: fn(&Host, &Host) -> Result<(), Cancelled>,
    offer: Offer,
    folder: Option<&'static str>,
    check: fn(Offer),
) {
    let server = sim::host("server", move || serve(offer));
    let address = SocketAddr::new(server.addr(), PORT);
    let (done, finished) = channel::bounded(1);
    let client = sim::host("client", move || {
        if download(address, offer, folder.map(PathBuf::from)).is_some() {
            check(offer);
            let _ = done.send(());
        }
        Ok(())
    });
    ecru::scope(|s| {
        s.spawn(|| trouble(&server, &client));
        finished.recv().expect("the client ends after this");
    });
}

/// Each file has the bytes that the server has.
fn all_files_are_right(offer: Offer) {
    for index in 0..offer.files {
        let bytes = fs::read(format!("folder/file-{index}.bin")).expect("the file is there");
        assert_eq!(bytes.len() as u64, offer.size, "file {index}");
        assert_eq!(content::first_difference(index, 0, &bytes), None, "file {index}");
    }
}

fn pause(milliseconds: u64) -> Result<(), Cancelled> {
    runtime::sleep(Duration::from_millis(sim::random_u64() % milliseconds))
}

/// The network fails eight times, and the server crashes.
fn failing_network(server: &Host, client: &Host) -> Result<(), Cancelled> {
    for fault in 0..8 {
        pause(1000)?;
        match fault % 4 {
            0 => sim::partition(&[server], &[client]),
            1 => sim::partition_one_way(server, client),
            2 => _ = sim::link(server, client).reset(),
            _ => server.crash(),
        }
        pause(1000)?;
        sim::heal();
        if fault % 4 == 3 {
            server.restart();
        }
    }
    Ok(())
}

/// Both machines crash in turn.
fn crashes(server: &Host, client: &Host) -> Result<(), Cancelled> {
    for fault in 0..6 {
        pause(1000)?;
        let host = if fault % 3 == 0 { server } else { client };
        host.crash();
        pause(500)?;
        host.restart();
    }
    Ok(())
}

/// A hundred slow files at once take the time of one.
#[test]
fn a_hundred_files_take_the_time_of_one() {
    sim::test(|| {
        let server = sim::host("server", || serve(OFFER));
        let took = download(SocketAddr::new(server.addr(), PORT), OFFER, None).expect("it ends");
        assert!(took >= Duration::from_secs(1) && took < Duration::from_millis(1100), "{took:?}");
    });
}

/// Each file is complete in the end, although the network fails and the server crashes.
#[test]
fn a_network_that_fails_slow() {
    sim::test(|| download_amid(failing_network, OFFER, None, |_| ()));
}

/// The same files on the disk.
#[test]
fn files_on_a_disk_slow() {
    sim::test(|| download_amid(failing_network, OFFER, Some("folder"), all_files_are_right));
}

/// A machine that crashes resumes its downloads.
#[test]
fn downloads_are_resumed_after_crashes_slow() {
    let offer = Offer { files: 20, size: 300_000, rate: 100_000 };
    sim::test(move || download_amid(crashes, offer, Some("folder"), all_files_are_right));
}

/// A coordinator and two workers, which share a folder.
#[test]
fn a_fleet_slow() {
    sim::test(|| {
        let offer = Offer { files: 20, size: 100_000, rate: 100_000 };
        let server = sim::host("server", move || serve(offer));
        let address = SocketAddr::new(server.addr(), PORT);
        let (done, finished) = channel::bounded(1);
        let client = sim::host("client", move || {
            fastrand::seed(sim::random_u64());
            let args =
                Args::parse_from(["downloads", "--quiet", "--retries", "100", "--timeout", "5"]);
            let folder = PathBuf::from("folder");
            fs::create_dir_all(&folder)?;
            let jobs = own::jobs(20, offer.size, |index| {
                format!("http://{address}{}", server::path(index))
            });
            let manner = setup::manner(&args, 0, 8).expect("the arguments are right");
            let tally = fleet::rehearse(&jobs, &folder, &manner);
            assert_eq!(tally.done, 20, "{tally:?}");
            all_files_are_right(offer);
            let _ = done.send(());
            Ok(())
        });
        ecru::scope(|s| {
            s.spawn(|| failing_network(&server, &client));
            finished.recv().expect("the client ends after this");
        });
    });
}

#[test]
fn ten_thousand_downloads_slow() {
    let offer = Offer { files: 10_000, size: 2_000, rate: 1_000 };
    let report = Simulation::new(1)
        .max_steps(u64::MAX)
        .run(move || download_amid(failing_network, offer, None, |_| ()));
    println!("{:?} virtual, {} steps", report.elapsed, report.steps);
    report.unwrap();
}
