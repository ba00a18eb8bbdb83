//! Helpers for the tests: runs with one and with two workers, a watchdog, and panics that print
//! nothing.
#![expect(unsafe_code, reason = "sets what a signal does in a child process")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

pub(crate) use crate::common::{
    HOUR, OnDrop, Watchdog, alone, alone_with, each_run, ms, run_on, run_placed, settle,
    start_again, text_of, until,
};

/// Spawns a task that has begun when this returns, so that cancelling it reaches one of its waits.
pub(crate) fn begin<'scope, T: Send + 'scope>(
    s: &'scope ecru::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> ecru::JoinHandle<'scope, T> {
    let begun = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let handle = s.spawn({
        let begun = std::sync::Arc::clone(&begun);
        move || {
            begun.store(true, std::sync::atomic::Ordering::SeqCst);
            body()
        }
    });
    until(|| begun.load(std::sync::atomic::Ordering::SeqCst));
    settle();
    handle
}

/// Waits until it is cancelled.
pub(crate) fn forever() -> ecru::Cancelled {
    ecru::sleep(HOUR).unwrap_err()
}

/// Panics without printing anything.
pub(crate) fn quiet_panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// Returns the payload of the panic of `body`.
#[track_caller]
pub(crate) fn payload_of<T>(body: impl FnOnce() -> T) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => payload,
    }
}

/// Returns the text of the panic of `body`.
#[track_caller]
pub(crate) fn panic_text<T>(body: impl FnOnce() -> T) -> String {
    text_of(&*payload_of(body)).to_owned()
}

/// The processor time of a thread. A test that measures lateness on a thread that is always busy
/// uses this clock, because other programs do not affect it.
#[derive(Clone)]
pub(crate) struct ProcessorClock(std::path::PathBuf);

impl ProcessorClock {
    /// Returns the clock of the calling thread.
    pub(crate) fn of_this_thread() -> ProcessorClock {
        // The path contains the thread's number and not "this thread", so that other threads can
        // read it.
        ProcessorClock(std::fs::canonicalize("/proc/thread-self").unwrap().join("schedstat"))
    }

    /// Returns the time used so far, accurate to a tick of the kernel's clock if that thread is
    /// running.
    pub(crate) fn used(&self) -> Duration {
        let times = std::fs::read_to_string(&self.0).unwrap();
        Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
    }
}

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
pub(crate) fn everywhere(body: impl Fn(Side)) {
    each_run(|| body(Side::Task));
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
