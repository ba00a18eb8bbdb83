//! The one function through which requests go.

use std::io;

/// A call to the kernel that needs no op, with its arguments.
pub(crate) trait Request {
    /// What the kernel returns.
    type Answer;

    /// Makes the call.
    fn perform(self) -> io::Result<Self::Answer>;
}

/// Makes a request. All requests go through this function, so that one place decides what answers.
///
/// # Errors
/// Returns the errors of the system call.
#[inline(always)]
pub(crate) fn request<R: Request>(request: R) -> io::Result<R::Answer> {
    request.perform()
}
