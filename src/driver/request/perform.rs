//! The one function through which requests go.

use crate::base::simulated;
#[cfg(feature = "sim")]
use crate::driver::sim::World;
use std::io;

/// A call to the kernel that needs no op, with its arguments.
pub(crate) trait Request: Sized {
    /// What the kernel returns.
    type Answer;

    /// Makes the call.
    fn perform(self) -> io::Result<Self::Answer>;

    /// Lets a simulated world answer instead of the kernel.
    #[cfg(feature = "sim")]
    fn simulate(self, world: &World) -> io::Result<Self::Answer>;
}

/// Makes a request. All requests go through this function, so that one place decides what answers:
/// the kernel, or the simulated world of this thread.
///
/// # Errors
/// Returns the errors of the system call.
#[inline(always)]
pub(crate) fn request<R: Request>(request: R) -> io::Result<R::Answer> {
    #[cfg(feature = "sim")]
    if simulated::is_simulated() {
        return simulate(request);
    }
    request.perform()
}

/// Makes a request on the thread of a simulation.
#[cfg(feature = "sim")]
#[cold]
#[inline(never)]
fn simulate<R: Request>(request: R) -> io::Result<R::Answer> {
    World::current().map_or_else(
        || Err(io::Error::other("the simulation has no world yet; this is a bug in ecru")),
        |world| request.simulate(&world),
    )
}

/// Checks that a call may use the kernel. Calls that cannot be simulated begin with this.
///
/// # Errors
/// Returns an error of kind `Unsupported` that names the call if it is made in a simulation.
#[inline]
pub(crate) fn needs_kernel(call: &str) -> io::Result<()> {
    if simulated::is_simulated() { Err(unsupported(call)) } else { Ok(()) }
}

/// Returns the error of a call that cannot be simulated.
#[cold]
pub(in crate::driver) fn unsupported(call: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{call} is not possible in a simulation"))
}
