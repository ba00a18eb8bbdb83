//! Cancellation of a section of code by a handle.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::frame::Opened;
use crate::task::cancel::{self, CancelNode, Kind};
use crate::task::{self, CancelReason};

/// A handle that cancels the section of code run by [`cancel_scope`]. It can be cloned, and it may
/// outlive the section. After the section has ended, the handle does nothing.
#[derive(Clone)]
pub struct CancelHandle {
    node: Arc<CancelNode>,
}

impl CancelHandle {
    /// Cancels the section. Its waits, and those of the tasks below it, return
    /// [`Cancelled`](crate::Cancelled) with the reason [`Explicit`](CancelReason::Explicit). The
    /// request is permanent. This may be called from any task or thread, and more than once.
    pub fn cancel(&self) {
        cancel::cancel(&self.node, CancelReason::Explicit);
    }

    /// Returns whether [`cancel`](CancelHandle::cancel) has been called or a request from further
    /// out has arrived.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.cancelled().is_some()
    }
}

impl CancelHandle {
    /// Returns whether both handles cancel the same scope.
    pub(crate) fn is_same(&self, other: &CancelHandle) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// Runs `body` in place, with a handle that cancels the waits inside it. `body` can use the handle
/// itself or pass it to other tasks and threads.
///
/// # Panics
/// Propagates a panic of `body`.
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
            // Handles may outlive the frame and the task.
            self.0.orphan();
        }
    }
    let owner = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let node = Arc::new(CancelNode::new(task::current_node(), owner, Kind::Plain));
    let _leave = Leave(&node);
    let _opened = Opened::inside(&node);
    body(CancelHandle { node: Arc::clone(&node) })
}
