//! The error value of a cancelled wait.

use std::{error, fmt, io};

/// Why a wait was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum CancelReason {
    /// `cancel` was called on a handle or a scope.
    Explicit = 1,
    /// The deadline of an enclosing [`timeout`](crate::timeout) has passed.
    Deadline = 2,
    /// Another task of the same scope failed, or the body of the scope did.
    Sibling = 3,
    /// The scope has ended and cancels its daemons.
    ScopeEnd = 4,
    /// The run is shutting down.
    Shutdown = 5,
}

impl CancelReason {
    pub(super) fn from_bits(bits: u8) -> Option<CancelReason> {
        [Self::Explicit, Self::Deadline, Self::Sibling, Self::ScopeEnd, Self::Shutdown]
            .into_iter()
            .find(|reason| *reason as u8 == bits)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            CancelReason::Explicit => "on request",
            CancelReason::Deadline => "its deadline has passed",
            CancelReason::Sibling => "another task of its scope failed",
            CancelReason::ScopeEnd => "its scope has ended",
            CancelReason::Shutdown => "the run is shutting down",
        }
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The error that a wait returns once its task, or a section of code around it, has been cancelled.
///
/// It is an ordinary error value: nothing unwinds. Every further wait in the same place returns it
/// again. So dropping one of them does no harm, and code that propagates errors with `?` ends by
/// itself. A loop that drops all of them never ends, nor does its scope. After 10,000 such waits,
/// one line on standard error names the task and the wait.
///
/// # Examples
/// ```
/// use ecru::{CancelReason, Cancelled};
///
/// ecru::run(|| {
///     let slept: Result<(), Cancelled> = ecru::cancel_scope(|c| {
///         c.cancel();
///         ecru::sleep(std::time::Duration::from_secs(3600))
///     });
///     assert_eq!(slept.unwrap_err().reason(), CancelReason::Explicit);
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cancelled {
    reason: CancelReason,
}

impl Cancelled {
    pub(crate) const fn new(reason: CancelReason) -> Cancelled {
        Cancelled { reason }
    }

    /// Returns the reason for the cancellation.
    #[must_use]
    pub fn reason(&self) -> CancelReason {
        self.reason
    }

    /// Returns the cancellation inside an [`io::Error`], if there is one.
    ///
    /// ecru's IO reports cancellation as an error of kind [`io::ErrorKind::Other`] with this type
    /// as its payload. It passes unchanged through `BufReader`, `io::copy`, rustls and similar
    /// code. If such code has wrapped the error, this function searches the wrapped errors, too.
    ///
    /// # Examples
    /// ```
    /// use ecru::Cancelled;
    /// use std::io;
    ///
    /// assert!(Cancelled::find(&io::Error::other("disk on fire")).is_none());
    /// ```
    #[must_use]
    pub fn find(error: &io::Error) -> Option<Cancelled> {
        Cancelled::find_in(error)
    }

    /// Returns the cancellation that an error is, or that it contains, if there is one. The errors
    /// below it are searched along [`source`](error::Error::source).
    ///
    /// Errors of channels and of joins keep no reason. Theirs is that of the current task, or
    /// [`CancelReason::Explicit`] if it is not cancelled.
    ///
    /// # Examples
    /// ```
    /// use ecru::Cancelled;
    /// use std::error::Error;
    ///
    /// let failed: Result<(), Box<dyn Error + Send + Sync>> = ecru::cancel_scope(|c| {
    ///     c.cancel();
    ///     ecru::sleep(std::time::Duration::from_secs(3600))?;
    ///     Ok(())
    /// });
    /// assert!(Cancelled::find_in(&*failed.unwrap_err()).is_some());
    /// ```
    #[must_use]
    pub fn find_in(error: &(dyn error::Error + 'static)) -> Option<Cancelled> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(cancelled) = error.downcast_ref::<Cancelled>() {
                let keeps_reason = !std::ptr::eq(cancelled, &raw const UNEXPLAINED);
                return if keeps_reason { Some(*cancelled) } else { Some(cancelled_now()) };
            }
            // The source of an I/O error is that of its payload.
            next = match error.downcast_ref::<io::Error>() {
                Some(error) => error.get_ref().map(|inner| inner as _),
                None => error.source(),
            };
        }
        None
    }
}

/// The source of errors that keep no reason.
pub(crate) static UNEXPLAINED: Cancelled = Cancelled::new(CancelReason::Explicit);

/// Returns the current task's cancellation, or one with an explicit reason if there is none.
pub(crate) fn cancelled_now() -> Cancelled {
    crate::task::cancelled().unwrap_or(Cancelled::new(CancelReason::Explicit))
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled: {}", self.reason)
    }
}

impl error::Error for Cancelled {}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> io::Error {
        io::Error::other(cancelled)
    }
}
