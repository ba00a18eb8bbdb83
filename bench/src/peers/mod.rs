//! What the rows need of the peers: runtimes set up the way their own documentation does it, on a given number of workers.

pub(crate) mod channels;
pub(crate) mod may;
pub(crate) mod monoio;
pub(crate) mod raw_epoll;
pub(crate) mod raw_uring;
pub(crate) mod smol;
pub(crate) mod stack_slab;
pub(crate) mod tokio;

/// may stops at this many coroutines that live at once: each takes two memory mappings, and Linux grants a process 65,530.
pub(crate) const MAY_LIVE_AT_MOST: usize = 30_000;

/// Tells a reader about [`MAY_LIVE_AT_MOST`].
pub(crate) const MAY_NOTE: &str =
    "at 30,000: it dies at 32,750 live coroutines (two mappings each)";

/// Runs `work` in a coroutine of may, with that many workers.
///
/// may's workers are set up once for a process; a child process does one row only.
pub(crate) fn in_may<T: Send + 'static>(
    workers: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    ::may::config().set_workers(workers);
    ::may::go!(work).join().expect("the coroutine does not panic")
}
