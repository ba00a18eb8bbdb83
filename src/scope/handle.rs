//! Cancelling a section of code from wherever one likes.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::frame::Opened;
use crate::task::cancel::{self, CancelNode, Kind};
use crate::task::{self, CancelReason};

/// Cancels the section that a [`cancel_scope`] runs. Clones and outlives it freely; afterwards it does nothing.
#[derive(Clone)]
pub struct CancelHandle {
    node: Arc<CancelNode>,
}

impl CancelHandle {
    /// Asks the section to stop: its waits, and those of the tasks below it, return [`Cancelled`](crate::Cancelled) with the
    /// reason [`Explicit`](CancelReason::Explicit). It stays asked. May be called from any task or thread, more than once.
    pub fn cancel(&self) {
        cancel::cancel(&self.node, CancelReason::Explicit);
    }

    /// Whether [`cancel`](CancelHandle::cancel) has been called, or a request from further out has come through.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.cancelled().is_some()
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// Runs `body` in place and gives it a handle by which it, or anybody it passes the handle to, can cancel what waits inside.
///
/// # Panics
/// With the body's panic.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let slept = ecru::cancel_scope(|c| {
///             s.spawn(move || c.cancel());
///             ecru::sleep(Duration::from_secs(3600))
///         });
///         assert!(slept.is_err());
///         // Outside nothing is cancelled.
///         assert!(ecru::checkpoint().is_ok());
///     });
/// });
/// ```
pub fn cancel_scope<T>(body: impl FnOnce(CancelHandle) -> T) -> T {
    struct Leave<'n>(&'n CancelNode);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            // Handles outlive the frame, and the task.
            self.0.orphan();
        }
    }
    let owner = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let node = Arc::new(CancelNode::new(task::current_node(), owner, Kind::Plain));
    let _leave = Leave(&node);
    let _opened = Opened::inside(&node);
    body(CancelHandle { node: Arc::clone(&node) })
}
