//! Shared code for the peers: runtimes with a given number of workers, set up as their
//! documentation does it.

pub(crate) mod channels;
pub(crate) mod may;
pub(crate) mod monoio;
pub(crate) mod raw_epoll;
pub(crate) mod raw_uring;
pub(crate) mod smol;
pub(crate) mod stack_slab;
pub(crate) mod tokio;

/// The limit for may's live coroutines. Each takes two memory mappings, and Linux allows a process
/// 65,530.
pub(crate) const MAY_LIVE_AT_MOST: usize = 30_000;

/// A note on [`MAY_LIVE_AT_MOST`].
pub(crate) const MAY_NOTE: &str =
    "at 30,000: it dies at 32,750 live coroutines (two mappings each)";

/// Runs `work` in a coroutine of may, with this number of workers.
///
/// may's workers are set up once for a process, and a child process runs one row only.
pub(crate) fn in_may<T: Send + 'static>(
    workers: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    ::may::config().set_workers(workers);
    ::may::go!(work).join().expect("the coroutine does not panic")
}
