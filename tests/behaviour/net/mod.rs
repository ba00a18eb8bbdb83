//! Rows of `doc/behaviour/net.md`. Tests that need no runtime are in `tests/net.rs`, on plain
//! threads.

mod as_std;
mod bytes;
mod elsewhere;
mod failures;
mod idle;
mod leftovers;
mod limits;
mod names;

use crate::simulated;
use crate::support::each_run;
use std::thread;

/// Runs the same code in a task with one worker, in a task with two, and on a plain thread.
fn everywhere(body: impl Fn() + Sync) {
    each_run(&body);
    // It does not run in the root, which has the thread's own stack.
    each_run(|| ecru::scope(|s| s.spawn(&body).join().unwrap()));
    if !simulated::is_on() {
        thread::scope(|scope| scope.spawn(&body).join().unwrap());
    }
}

/// Returns the number of open descriptors of this process. It is for processes of their own.
fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
