//! CPU tasks that several servers share.
//!
//! Each server of a fleet calls one function for them and also runs it. The queue of the function
//! has the limit on tasks that run at once, and its results are the answers that are known, so both
//! hold over all servers.

use crate::server::CPU_TASKS;
use ecru_fleet::{CallError, Fleet, Function, Run};
use std::io;
use std::time::Duration;

/// The tasks of a server that was killed are run by another one after this long.
const LEASE: Duration = Duration::from_secs(5);

/// The CPU tasks of a fleet.
#[derive(Debug)]
pub struct Shared<'f>(Function<'f, u64, u8>);

impl<'f> Shared<'f> {
    /// Joins the servers of a fleet. `compute` runs the tasks that this server gets.
    ///
    /// # Errors
    /// Returns the errors of [`open`](ecru_fleet::FunctionBuilder::open).
    pub fn join(
        fleet: &Fleet<'f>,
        compute: impl Fn(u64) -> u8 + Send + Sync + 'f,
    ) -> io::Result<Shared<'f>> {
        let function =
            fleet.function("task-server-cpu", move |seed: u64, _: &Run| Ok(compute(seed)));
        function.lease(LEASE).limit(CPU_TASKS).open().map(Shared)
    }

    /// Runs tasks for all servers of the fleet until it is cancelled. Those that were begun are
    /// finished.
    ///
    /// # Errors
    /// Returns the errors of the NATS server.
    pub fn serve(&self) -> io::Result<()> {
        self.0.serve(CPU_TASKS)
    }

    /// Returns the answer to a CPU task. It is computed once in the fleet, even if several servers
    /// ask for it at the same time.
    ///
    /// # Errors
    /// Returns an error if the task has failed for good, or the NATS server cannot be used.
    ///
    /// # Cancellation
    /// This is a cancellation point. The task runs on, for other servers.
    pub fn answer(&self, seed: u64) -> Result<u8, CallError> {
        self.0.call_keyed(&seed.to_string(), seed)
    }

    /// Returns how many tasks wait, and how many run, in the whole fleet.
    ///
    /// # Errors
    /// Returns the errors of the NATS server.
    pub fn waiting_and_running(&self) -> io::Result<(u64, u64)> {
        self.0.stats().map(|stats| (stats.queued, stats.running))
    }
}
