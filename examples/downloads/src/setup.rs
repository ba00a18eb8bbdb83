//! What several modes of the program prepare: the jobs, the parameters of the downloads, the
//! window.

use std::path::Path;

use anyhow::Context as _;
use clap::ArgMatches;

use crate::address::Address;
use crate::args::{Args, DEFAULT_PER_HOST};
use crate::client::{Clients, Trust};
use crate::fetch::{self, Buffers, Existing, Indexes, Job, Listings, Manner, Patience};
use crate::flags::given;
use crate::headers::Headers;
use crate::limits;
use crate::progress::write_line;
use crate::runtime;
use crate::throttle::Throttle;
use crate::turns::is_loopback;

/// Returns the jobs that download these URLs into `folder`.
pub(crate) fn jobs(addresses: Vec<Address>, directories: bool, folder: &Path) -> Vec<Job> {
    let names = fetch::names::assign(addresses.iter().map(|address| &address.uri), directories);
    let job = |(address, name): (Address, String)| Job {
        uri: address.uri,
        credentials: address.credentials,
        name,
        into: fetch::Into::Folder(folder.to_path_buf()),
    };
    addresses.into_iter().zip(names).map(job).collect()
}

/// Warns of `--insecure`, and creates the folder.
pub(crate) fn prepare(args: &Args) -> anyhow::Result<()> {
    if args.insecure {
        write_line(
            "warning: --insecure: no certificate is checked; others can read and change what is sent",
        );
    }
    runtime::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the folder {}", args.output.display()))
}

/// Returns the parameters to download `jobs` files, `window` at a time, from the command line.
pub(crate) fn manner(args: &Args, jobs: usize, window: usize) -> anyhow::Result<Manner> {
    let trust = match &args.ca {
        Some(file) => Trust::File(file),
        None if args.insecure => Trust::All,
        None => Trust::Web,
    };
    let existing = match (args.keep, args.overwrite || args.no_resume) {
        (true, _) => Existing::Keep,
        (_, true) => Existing::Overwrite,
        _ => Existing::Compare,
    };
    let buffers = Buffers::share(window);
    Ok(Manner {
        clients: Clients::new(args.timeout, trust, buffers.input, window)?,
        retries: args.retries,
        backoff: args.backoff,
        timeout: args.timeout,
        resume: !args.no_resume,
        existing,
        headers: Headers::parse(&args.header)?,
        throttle: args.limit_rate.map(Throttle::new),
        buffers,
        patience: Patience::default(),
        indexes: Indexes::default(),
        listings: Listings::new(jobs),
    })
}

/// Returns the number of downloads from `host` that may run at a time.
pub(crate) fn per_host(args: &Args, matches: &ArgMatches, host: &str) -> usize {
    match args.per_host {
        Some(count) => count,
        None if given(matches, "window") || is_loopback(host) => usize::MAX,
        None => DEFAULT_PER_HOST,
    }
}

/// Returns the window that the limit on open files allows, and prints a line if that is less than
/// requested.
pub(crate) fn fit(args: &Args, window: usize, each: u64) -> usize {
    let (window, line) = limits::fit(window, each);
    if let Some(line) = line.filter(|_| !args.quiet) {
        write_line(&line);
    }
    window
}
