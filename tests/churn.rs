//! A thousand connections a second: for a minute with
//! `ECRU_CHURN_SECONDS=60 cargo test --release --test churn -- --nocapture`, otherwise for a
//! second.
//!
//! The same test at full speed is a row of `doc/behaviour/serve.md`.

mod common;

use common::{PATIENCE, Watchdog, resident_bytes};
use ecru::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PER_SECOND: usize = 1_000;
const CLIENTS: usize = 10;
/// The memory that a second without a leak may add.
const MOST: usize = 64 * 4096;

fn open_sockets() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Returns the length of the test in seconds. Only a longer run than the ordinary one checks that
/// the machine keeps up.
fn length() -> usize {
    let said = std::env::var("ECRU_CHURN_SECONDS").ok();
    said.map_or(1, |seconds| seconds.parse().expect("ECRU_CHURN_SECONDS is a number"))
}

#[test]
fn a_thousand_connections_a_second_leave_nothing_behind_slow() {
    let seconds = length();
    // Several rounds of a second may follow, and a busy machine needs longer for each.
    let _in_time = Watchdog::within(2 * PATIENCE + 5 * Duration::from_secs(seconds as u64));
    ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sockets, served) = (open_sockets(), AtomicUsize::new(0));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                listener.serve(100, |mut stream, _| {
                    let mut bytes = [0; 4];
                    stream.read_exact(&mut bytes)?;
                    stream.write_all(&bytes)?;
                    assert_eq!(stream.read(&mut bytes)?, 0);
                    served.fetch_add(1, SeqCst);
                    Ok(())
                })
            });
            // Each client opens a connection every hundredth of a second, at its own time.
            let run_for = |seconds: usize| {
                let (start, before) = (Instant::now(), served.load(SeqCst));
                let pause = Duration::from_secs(1) / (PER_SECOND / CLIENTS) as u32;
                ecru::scope(|s| {
                    for client in 0..CLIENTS {
                        let start = start + pause * client as u32 / CLIENTS as u32;
                        s.spawn(move || {
                            for turn in 0..seconds * PER_SECOND / CLIENTS {
                                ecru::time::sleep_until(start + pause * turn as u32).unwrap();
                                let mut stream = TcpStream::connect(address).unwrap();
                                stream.write_all(b"ping").unwrap();
                                stream.read_exact(&mut [0; 4]).unwrap();
                            }
                        });
                    }
                });
                while served.load(SeqCst) < before + seconds * PER_SECOND {
                    ecru::sleep(Duration::from_millis(1)).unwrap();
                }
                start.elapsed()
            };
            // A connection is closed a moment after it has been counted.
            let all_closed = || {
                let start = Instant::now();
                while open_sockets() != sockets {
                    assert!(start.elapsed() < PATIENCE, "{} sockets", open_sockets());
                    ecru::sleep(Duration::from_millis(1)).unwrap();
                }
            };
            run_for(1);
            all_closed();
            let mut bytes = resident_bytes();
            let elapsed = run_for(seconds);
            all_closed();
            let mut more = resident_bytes().saturating_sub(bytes);
            // Another worker may have served most connections this time, with stacks of its own.
            // A leak shows in every second.
            for _ in 0..5 {
                if more < MOST {
                    break;
                }
                bytes = resident_bytes();
                run_for(1);
                all_closed();
                more = resident_bytes().saturating_sub(bytes);
            }
            println!(
                "{} connections in {elapsed:?}; {} sockets; {more} of {bytes} bytes more",
                seconds * PER_SECOND,
                open_sockets()
            );
            assert!(more < MOST, "{more} bytes more than before, which were {bytes}");
            let in_time = Duration::from_secs(seconds as u64) * 11 / 10;
            assert!(seconds == 1 || elapsed < in_time, "it does not keep up: {elapsed:?}");
        });
    });
}
