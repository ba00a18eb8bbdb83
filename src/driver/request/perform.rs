//! The one function through which requests go.

use crate::base::simulated;
use crate::driver::sim::World;
use std::io;

/// A call to the kernel that needs no op, with its arguments.
pub(crate) trait Request: Sized {
    /// What the kernel returns.
    type Answer;

    /// Makes the call.
    fn perform(self) -> io::Result<Self::Answer>;

    /// Lets a simulated world answer instead of the kernel.
    fn simulate(self, world: &World) -> io::Result<Self::Answer>;
}

/// Makes a request. All requests go through this function, so that one place decides what answers:
/// the kernel, or the simulated world of this thread.
///
/// # Errors
/// Returns the errors of the system call.
#[inline(always)]
pub(crate) fn request<R: Request>(request: R) -> io::Result<R::Answer> {
    if simulated::is_simulated() {
        return simulate(request);
    }
    request.perform()
}

/// Makes a request on the thread of a simulation.
#[cold]
#[inline(never)]
fn simulate<R: Request>(request: R) -> io::Result<R::Answer> {
    World::current().map_or_else(
        || Err(io::Error::other("the simulation has no world yet; this is a bug in ecru")),
        |world| request.simulate(&world),
    )
}
