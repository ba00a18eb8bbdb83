//! What every way of running the program prepares: the manner of downloading, and the window.

use crate::args::Args;
use crate::client::Clients;
use crate::fetch::Manner;
use crate::limits;

/// How to download, from the command line.
pub(crate) fn manner(args: &Args) -> anyhow::Result<Manner> {
    Ok(Manner {
        clients: Clients::new(args.timeout, args.ca.as_deref())?,
        retries: args.retries,
        backoff: args.backoff,
        timeout: args.timeout,
        resume: !args.no_resume,
    })
}

/// The window that the limit of open files allows, said aloud where it is less than asked for.
pub(crate) fn fit(window: usize, each: u64) -> usize {
    let (window, line) = limits::fit(window, each);
    if let Some(line) = line {
        eprintln!("{line}");
    }
    window
}
