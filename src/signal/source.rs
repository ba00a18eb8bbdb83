//! Signals as sources.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};

use super::kind::SignalKind;
use super::listen::{Listening, listen_for_all};
use crate::base::outside::Expectation;
use crate::base::service::Ring;
use crate::driver::needs_kernel;
use crate::park::WaitList;
use crate::source::Source;

/// A listener for a signal, from its creation until it is dropped. It is a [`Source`] of `()`: an
/// item is available if the signal has arrived since the last item was taken.
///
/// - Signals are recorded but not counted. A signal that arrives before the last one was taken
///   merges with it.
/// - Every `Signal` receives each signal. If several waiters wait for one `Signal`, one of them
///   gets it.
/// - While there is a `Signal`, the default action of the signal is disabled: Ctrl-C does not end
///   the process, not even the second one. A function that was installed before is still called.
/// - When the last `Signal` of a kind is dropped, the previous action is restored.
///
/// A run with [`detect_deadlock`](crate::RuntimeBuilder::detect_deadlock) never counts as stuck
/// while there is a `Signal` in the process, because a signal may arrive.
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
    listening: Listening,
    _expectation: Expectation,
}

struct Inner {
    waiters: WaitList,
}

impl Ring for Inner {
    fn ring(&self) {
        self.waiters.notify_one();
    }
}

impl Signal {
    /// Starts to listen to a signal, given as a [`SignalKind`] or as its number.
    ///
    /// # Errors
    /// Returns `InvalidInput` for signals that cannot be caught (`SIGKILL`, `SIGSTOP`), for those
    /// that report a fault of a thread (`SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`), and for numbers
    /// above 31. Returns `Unsupported` in a simulation. Returns the system's error if no descriptor
    /// or thread is available.
    pub fn new(kind: impl Into<SignalKind>) -> io::Result<Signal> {
        let kind = kind.into();
        kind.check()?;
        needs_kernel("`signal::Signal::new`")?;
        let inner = Arc::new(Inner { waiters: WaitList::new() });
        let told: Weak<Inner> = Arc::downgrade(&inner);
        let listening = listen_for_all(kind.as_raw_value(), told)?;
        Ok(Signal { kind, inner, listening, _expectation: Expectation::new() })
    }

    /// Returns the kind of the signal.
    #[must_use]
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// Starts to listen to Ctrl-C: `ctrl_c()?.wait()?` waits for the next one. [`Signal`] documents
/// what happens to the others.
///
/// # Errors
/// Returns the system's error if no descriptor or thread is available.
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
        self.listening.take().then_some(())
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
