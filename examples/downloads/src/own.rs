//! The mode without URLs: the embedded server's files are downloaded, checked and discarded.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::Context as _;

use crate::args::Args;
use crate::batch::Batch;
use crate::fetch::{Into, Job};
use crate::interrupt::Interrupt;
use crate::progress::{Show, write_line};
use crate::runtime;
use crate::server::{Offer, Server};
use crate::setup::{fit, manner};
use crate::units::bytes;

/// Both ends of each connection belong to this process.
const FILES_EACH: u64 = 2;

/// Returns what the server offers, from the command line.
pub(crate) fn offer(args: &Args, files: usize) -> Offer {
    Offer { files: files as u64, size: args.size, rate: args.rate }
}

/// Returns the jobs that download and check the first `count` files of a server.
pub(crate) fn jobs(count: usize, size: u64, url: impl Fn(u64) -> String) -> Vec<Job> {
    let job = |index| Job {
        uri: url(index).parse().expect("the server's URLs are URLs"),
        credentials: None,
        name: format!("file-{index}.bin"),
        into: Into::Check { index, size },
    };
    (0..count as u64).map(job).collect()
}

/// Starts the server, downloads its files, and reports the result.
pub(crate) fn download(args: &Args, started: Instant) -> anyhow::Result<u8> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(address, offer(args, args.files))
        .context("cannot start the embedded server")?;
    let jobs = jobs(args.files, args.size, |index| server.url(index));
    let window = fit(args, args.window.min(jobs.len()), FILES_EACH);
    let manner = manner(args, jobs.len(), window)?;
    if !args.quiet {
        write_line(&format!(
            "{} files of {} at {} a second each, {window} at a time, from http://{}",
            args.files,
            bytes(args.size),
            bytes(args.rate),
            server.address
        ));
    }
    let expected = args.size.checked_mul(args.files as u64);
    let batch = Batch {
        jobs: &jobs,
        window,
        expected,
        show: Show::choose(args.quiet),
        per_host: &|_| usize::MAX,
        json: args.json,
        started,
    };
    let result = runtime::run(args.workers, || batch.run(&manner))??;
    if result.interrupted.is_some() {
        write_line(&format!(
            "interrupted: {} of {} files done; they were only checked, nothing is kept",
            result.tally.done,
            jobs.len()
        ));
    }
    result.close(args, &jobs);
    Ok(result.status())
}

/// Serves until interrupted. The first line on standard output is the server's URL.
pub(crate) fn serve(args: &Args) -> anyhow::Result<u8> {
    let address = args.serve.context("--serve names the address")?;
    if args.with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    let server = Server::start(address, offer(args, args.files))
        .with_context(|| format!("cannot serve on {address}"))?;
    let stop = server.stopper();
    let interrupt = Interrupt::watch(move || stop.cancel())?;
    writeln!(io::stdout(), "http://{}", server.address)
        .context("cannot write the URL to standard output")?;
    server.wait();
    Ok(interrupt.status().unwrap_or(1))
}
