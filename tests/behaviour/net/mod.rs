//! Rows of `doc/behaviour/net.md`. What does not need a runtime is in `tests/net.rs`, on plain threads.

mod as_std;
mod bytes;
mod elsewhere;
mod failures;
mod leftovers;
mod limits;
mod names;

use crate::support::each_run;
use std::thread;

/// In a task with one worker, in a task with two, and on a plain thread: the same lines.
fn everywhere(body: impl Fn() + Sync) {
    each_run(&body);
    // Not the root alone, which has the thread's own stack.
    each_run(|| ecru::scope(|s| s.spawn(&body).join().unwrap()));
    thread::scope(|scope| scope.spawn(&body).join().unwrap());
}

/// How many fds this process has open on sockets or otherwise; for processes of their own.
fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
