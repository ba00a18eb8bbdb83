//! Helpers for the tests: runs with one and with two workers, a watchdog, and panics that print
//! nothing.
#![expect(unsafe_code, reason = "sets what a signal does in a child process")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::thread;

pub(crate) use crate::common::{
    HOUR, OnDrop, Watchdog, alone, alone_with, begin, forever, ms, panic_text, payload_of,
    quiet_panic, settle, since, start_again, text_of, until,
};
pub(crate) use crate::simulated::{each_run, run_on, run_placed};
pub(crate) use ecru::time::now;

/// Counts its drops.
pub(crate) struct Counted<'c>(pub(crate) &'c std::sync::atomic::AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// As [`common::is_child`](crate::common::is_child). If this is the child, also makes it react to
/// Ctrl-C.
pub(crate) fn is_child(test: &str) -> bool {
    let is = crate::common::is_child(test);
    if is {
        // A shell that runs the tests in the background ignores the signal for all of them.
        // SAFETY: the default action is a valid one, and no other code has set an action in this
        // process.
        let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        assert_ne!(before, libc::SIG_ERR);
    }
    is
}

/// Runs `body` while no descriptor can be opened. It is for a process of its own.
pub(crate) fn without_descriptors(body: impl FnOnce()) {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    body();
    setrlimit(Resource::Nofile, before).unwrap();
}

/// The place of both sides of a test: in tasks of a run, or on plain threads without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Task,
    Thread,
}

/// Runs `body` in tasks with one worker and with two, and on plain threads.
#[track_caller]
pub(crate) fn everywhere(body: impl Fn(Side) + Sync) {
    each_run(|| body(Side::Task));
    if crate::simulated::is_on() {
        return;
    }
    let _watchdog = Watchdog::new();
    body(Side::Thread);
}

impl Side {
    /// Runs both at once, `here` on the caller.
    pub(crate) fn both<A: Send, B>(
        self,
        there: impl FnOnce() -> A + Send,
        here: impl FnOnce() -> B,
    ) -> (A, B) {
        match self {
            Side::Task => ecru::scope(|s| {
                let there = s.spawn(there);
                let here = here();
                (there.join().unwrap(), here)
            }),
            Side::Thread => thread::scope(|s| {
                let there = s.spawn(there);
                let here = here();
                (there.join().unwrap(), here)
            }),
        }
    }

    /// Runs `count` functions at once, each with its number, and `here` on the caller. Returns
    /// their results in order.
    pub(crate) fn many<A: Send, B>(
        self,
        count: usize,
        there: impl Fn(usize) -> A + Sync,
        here: impl FnOnce() -> B,
    ) -> (Vec<A>, B) {
        let there = &there;
        match self {
            Side::Task => ecru::scope(|s| {
                let all: Vec<_> = (0..count).map(|n| s.spawn(move || there(n))).collect();
                let here = here();
                (all.into_iter().map(|one| one.join().unwrap()).collect(), here)
            }),
            Side::Thread => thread::scope(|s| {
                let all: Vec<_> = (0..count).map(|n| s.spawn(move || there(n))).collect();
                let here = here();
                (all.into_iter().map(|one| one.join().unwrap()).collect(), here)
            }),
        }
    }

    /// Lets the others run long enough that those that are about to wait do so.
    pub(crate) fn pause(self) {
        match self {
            Side::Task => {
                settle();
                // For tasks on another worker.
                let _ = ecru::sleep(ms(2));
            }
            Side::Thread => thread::sleep(ms(4)),
        }
    }
}

/// Checks by a chi-squared test that things with the same probability were taken equally often.
/// Chance alone fails it once in 10^9 runs.
#[track_caller]
pub(crate) fn assert_even(counts: &[u32]) {
    let bound = match counts.len() {
        2 => 37.33,
        3 => 41.45,
        length => panic!("there is no bound here for {length} things"),
    };
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let squared: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2)).sum();
    assert!(squared / expected < bound, "{counts:?} are not even: {}", squared / expected);
}
