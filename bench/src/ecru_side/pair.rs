//! The placement of the two tasks of a pair in rows with two workers.

use ecru::{JoinHandle, Scope};

/// Spawns the partner of the calling task, on the same worker.
///
/// This is the only function that places the tasks of the rows "two workers, ecru's tasks together
/// on one".
pub(super) fn spawn_partner<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> JoinHandle<'scope, T> {
    scope.builder().near().spawn(work)
}
