//! Signals as sources.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::kind::SignalKind;
use super::listen::{Listening, listen_for_all};
use crate::base::outside::Expectation;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::WaitList;
use crate::source::Source;

/// Listens to a signal from now on, until it is dropped: a [`Source`] of `()`, one for each time that the signal has come since the last was
/// taken.
///
/// - As signals are, it is noted and not counted: one that comes before the last was taken is the same one.
/// - Each `Signal` hears every one; of several that wait for one `Signal`, one gets it.
/// - While there is one, the signal does not do what it does by default: Ctrl-C does not end the process, not even the second one. A function
///   that was installed before is called all the same.
/// - When the last one for this signal has gone, what was installed before is put back.
///
/// A run with [`detect_deadlock`](crate::RuntimeBuilder::detect_deadlock) is not taken for stuck while there is a `Signal` in the process: one
/// may come.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::signal::{Signal, SignalKind};
///
/// let hangup = Signal::new(SignalKind::hangup()).unwrap();
/// assert!(hangup.try_take().is_none());
///
/// let refused = Signal::new(9).unwrap_err();
/// assert!(refused.to_string().starts_with("SIGKILL cannot be listened to"));
/// ```
pub struct Signal {
    kind: SignalKind,
    inner: Arc<Inner>,
    _listening: Listening,
    _expectation: Expectation,
}

struct Inner {
    /// Release and acquire: whoever takes it sees what was done before it was told.
    came: AtomicBool,
    waiters: WaitList,
}

impl Signal {
    /// Listens to a signal: a [`SignalKind`] or its number.
    ///
    /// # Errors
    /// `InvalidInput` for signals that cannot be caught (`SIGKILL`, `SIGSTOP`), for those that are about a fault of a thread (`SIGSEGV`, `SIGBUS`,
    /// `SIGFPE`, `SIGILL`), and for numbers above 31; the system's: no descriptor or thread to be had.
    pub fn new(kind: impl Into<SignalKind>) -> io::Result<Signal> {
        let kind = kind.into();
        kind.check()?;
        let inner = Arc::new(Inner { came: AtomicBool::new(false), waiters: WaitList::new() });
        let told = Arc::clone(&inner);
        let listening = listen_for_all(kind.as_raw_value(), move || {
            told.came.store(true, Ordering::Release);
            told.waiters.notify_one();
        })?;
        Ok(Signal { kind, inner, _listening: listening, _expectation: Expectation::new() })
    }

    /// Which signal it is.
    #[must_use]
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// Listens to Ctrl-C from now on: `ctrl_c()?.wait()?` waits for the next one. See [`Signal`] for what becomes of the others.
///
/// # Errors
/// The system's: no descriptor or thread to be had.
///
/// # Examples
/// ```no_run
/// use ecru::Source;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// println!("stop me with Ctrl-C");
/// ecru::signal::ctrl_c()?.wait()?;
/// println!("good bye");
/// # Ok(())
/// # }
/// ```
pub fn ctrl_c() -> io::Result<Signal> {
    Signal::new(SignalKind::interrupt())
}

impl Source for Signal {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.inner.came.swap(false, Ordering::AcqRel).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.inner.waiters);
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.kind).finish()
    }
}
