//! Lines on standard error, written without blocking. All of the library's own messages are written
//! here, except the report of a stack overflow.
//!
//! `eprintln!` waits for the lock of standard error, which a parked task may hold. It waits for
//! space in a pipe that is not read, and it panics if the pipe is closed. A program that reports
//! why it is stuck must do none of these. So each report is written by a thread of its own. That
//! thread inherits the caller's captured output, if a test runner captures it.
//!
//! The caller of [`say`] waits until its report has been written, but at most for [`WRITE_LIMIT`].
//! So what the caller prints or does afterwards comes later. While a report is overdue, later
//! callers do not wait.
//!
//! ```text
//!   the caller of `say`                            the writing thread
//!   ----------------------------------------      ----------------------------------------
//!   start the thread; wait for its channel  --->   write
//!     closed in time: go on                 <---   left <- true; close the channel
//!     timeout: OVERDUE + 1                            it was true before: OVERDUE - 1
//!              left <- true
//!                it was true before: OVERDUE - 1
//! ```
//! Both sides exchange `left`. So exactly one of them sees that the other was first, and takes the
//! increment back.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::sync::StaticU64;
use super::sync::atomic::Ordering;
use super::{clock, simulated};

/// How long a caller waits for its report.
const WRITE_LIMIT: Duration = Duration::from_millis(500);
/// The maximal number of reports that are being written. Further reports are dropped.
const PENDING_MAX: u64 = 16;
/// The maximal number of reports of which the observer is being told. It is not told of further ones,
/// which are written all the same: an observer that never returns keeps these threads, and nothing
/// else.
const OBSERVED_MAX: u64 = 16;

/// The number of reports that are being written.
static PENDING: StaticU64 = StaticU64::new(0);
/// The number of reports of which the observer is being told.
static OBSERVED: StaticU64 = StaticU64::new(0);
/// The number of those reports whose callers have stopped waiting.
static OVERDUE: StaticU64 = StaticU64::new(0);

/// What is called with each report after it has been written.
static OBSERVER: OnceLock<fn(&str)> = OnceLock::new();

/// Calls a function with each later report, on the thread that has written it. Only the first such
/// function is called. It must not panic.
pub(crate) fn observe(observer: fn(&str)) {
    let _ = OBSERVER.set(observer);
}

/// Writes one or several lines. Returns when they have been written, or after [`WRITE_LIMIT`].
/// Never panics. Does nothing at the end of a simulation that has failed, where tasks are only
/// cancelled.
pub(crate) fn say(text: impl Into<String>) {
    if simulated::is_silent() {
        return;
    }
    let text = text.into();
    say_by(print, move || text, are_punctual(), true);
}

/// Writes a long text, as [`say`] does, without telling the observer.
pub(crate) fn show(text: impl Into<String>) {
    if !simulated::is_silent() {
        let text = text.into();
        say_by(print, move || text, are_punctual(), false);
    }
}

/// Writes a text that the writing thread makes, as [`show`] does. The caller does not wait.
pub(crate) fn show_later(make: impl FnOnce() -> String + Send + 'static) {
    if !simulated::is_silent() {
        say_by(print, make, false, false);
    }
}

/// Returns whether no report is overdue.
fn are_punctual() -> bool {
    // Relaxed: only the duration of a call depends on it.
    OVERDUE.load(Ordering::Relaxed) == 0
}

/// Writes a text, as [`say`] does, for a process that is about to be aborted. It is written without
/// the lock of standard error, which may be held, and past the output that a test runner captures,
/// which would be lost.
pub(crate) fn last_words(text: impl Into<String>) {
    let text = text.into();
    say_by(print_raw, move || text, true, false);
}

/// Writes a text. `waits` says whether the caller waits until it is written, and `is_observed`
/// whether the observer is told.
fn say_by(
    print: fn(String),
    make: impl FnOnce() -> String + Send + 'static,
    waits: bool,
    is_observed: bool,
) {
    simulated::aside(|| say_aside(print, make, waits, is_observed));
}

fn say_aside(
    print: fn(String),
    make: impl FnOnce() -> String + Send + 'static,
    waits: bool,
    is_observed: bool,
) {
    let left = Arc::new(AtomicBool::new(false));
    let (open, closed) = mpsc::channel::<()>();
    let writer = hand_over(print, make, is_observed, {
        let left = Arc::clone(&left);
        move || {
            if left.swap(true, Ordering::AcqRel) {
                OVERDUE.fetch_sub(1, Ordering::Relaxed);
            }
            drop(open);
        }
    });
    if waits && closed.recv_timeout(WRITE_LIMIT) != Err(RecvTimeoutError::Timeout) {
        // The thread has written the text, and ends, unless it tells the observer.
        if !is_observed || OBSERVER.get().is_none() {
            let _ = writer.map(thread::JoinHandle::join);
        }
        return;
    }
    OVERDUE.fetch_add(1, Ordering::Relaxed);
    if left.swap(true, Ordering::AcqRel) {
        OVERDUE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until all reports have been written and the observer has been told of them, but at most for
/// [`WRITE_LIMIT`]. Called before the process may end.
pub(crate) fn flush() {
    let end = clock::real_now() + WRITE_LIMIT;
    // A report is counted as observed before it stops being pending.
    let is_over = || PENDING.load(Ordering::Acquire) == 0 && OBSERVED.load(Ordering::Relaxed) == 0;
    while !is_over() && clock::real_now() < end {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts the thread that writes. Returns `None` if the report is dropped, because the system
/// refuses a thread or too many reports are waiting.
fn hand_over(
    print: fn(String),
    make: impl FnOnce() -> String + Send + 'static,
    is_observed: bool,
    finally: impl FnOnce() + Send + 'static,
) -> Option<thread::JoinHandle<()>> {
    /// Counts a report until it is dropped. It is dropped even if no thread could be started.
    struct Pending<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Pending<F> {
        fn drop(&mut self) {
            // Release: it has been counted as observed before, if it will be.
            PENDING.fetch_sub(1, Ordering::Release);
            if let Some(finally) = self.0.take() {
                finally();
            }
        }
    }
    let before = PENDING.fetch_add(1, Ordering::Relaxed);
    let pending = Pending(Some(finally));
    if before >= PENDING_MAX {
        return None;
    }
    let write = move || {
        let pending = pending;
        let observation = is_observed.then(Observation::begin).flatten();
        let text = make();
        let copy = observation.as_ref().map(|_| text.clone());
        print(text);
        // The caller goes on: what observes may block. `flush` waits for it.
        drop(pending);
        if let (Some(observation), Some(text)) = (observation, copy) {
            (observation.observer)(&text);
        }
    };
    thread::Builder::new().name(String::from("ecru-report")).spawn(write).ok()
}

/// Counts a report of which the observer is told, until it is dropped.
struct Observation {
    observer: fn(&str),
}

impl Observation {
    /// Returns `None` if there is no observer, or if it is being told of too many reports.
    fn begin() -> Option<Observation> {
        let observer = *OBSERVER.get()?;
        let observation = Observation { observer };
        (OBSERVED.fetch_add(1, Ordering::Relaxed) < OBSERVED_MAX).then_some(observation)
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        OBSERVED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn print(text: String) {
    #[expect(clippy::print_stderr, reason = "the only place that prints")]
    {
        eprint!("{}", Line(text));
    }
}

fn print_raw(text: String) {
    let line = Line(text).to_string();
    let mut rest = line.as_bytes();
    while let Ok(written @ 1..) = rustix::io::write(std::io::stderr(), rest) {
        rest = &rest[written..];
    }
}

/// A text and a newline. Formatting it never fails, because `eprint!` panics on an error.
struct Line(String);

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let _ = f.write_str(&self.0).and_then(|()| f.write_str("\n"));
        Ok(())
    }
}

/// Returns whether optional messages are enabled: `ECRU_LOG` is set, and neither empty nor `0`. It
/// is read once.
pub(crate) fn is_verbose() -> bool {
    static VERBOSE: OnceLock<bool> = OnceLock::new();
    *VERBOSE.get_or_init(|| is_set("ECRU_LOG"))
}

/// Returns whether an environment variable is set, and neither empty nor `0`.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Formatting succeeds even if the text cannot be written.
    #[test]
    fn a_line_never_fails() {
        struct Closed;
        impl std::io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        use std::io::Write;
        assert!(Closed.write_fmt(format_args!("{}", Line(String::from("text")))).is_ok());
        assert_eq!(Line(String::from("text")).to_string(), "text\n");
    }
}
