//! Cancel requests that the [service](crate::base::service) makes: when a signal has come, or when
//! the worker that should enforce a time limit is busy.
//!
//! # Protocol
//! ```text
//!            the service is called                the request has been made
//!   WAITING -----------------------> MAKING ------------------------------> OVER
//!      |                                                                      ^
//!      +----------------------------------------------------------------------+
//!                            the owner drops the request
//! ```
//! The request is made without the lock, because hooks are user code. An owner that drops it
//! meanwhile waits until it is OVER. So the node is used only while the owner keeps it (K5).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::{CancelNode, CancelReason, cancel};
use crate::base::service::Ring;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Making,
    Over,
}

#[derive(Debug)]
struct Request {
    node: *const CancelNode,
    reason: CancelReason,
    stage: Mutex<Stage>,
    /// Notified when the request has been made.
    made: Condvar,
}

// SAFETY: K5: the node is used only while its owner keeps it, and may be flagged by any thread.
unsafe impl Send for Request {}
// SAFETY: K5: the node is used only while its owner keeps it, and may be flagged by any thread.
unsafe impl Sync for Request {}

impl Request {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring for Request {
    fn ring(&self) {
        let mut stage = self.stage();
        if *stage != Stage::Waiting {
            return;
        }
        *stage = Stage::Making;
        drop(stage);
        // SAFETY: K5: the owner waits while the request is being made.
        cancel(unsafe { &*self.node }, self.reason);
        *self.stage() = Stage::Over;
        self.made.notify_all();
    }
}

/// A cancel request that the service makes at most once, until this is dropped.
#[derive(Debug)]
pub(crate) struct CancelByService(Arc<Request>);

impl CancelByService {
    /// # Safety
    /// K5: the node stays in place until the result has been dropped.
    pub(crate) unsafe fn new(node: *const CancelNode, reason: CancelReason) -> CancelByService {
        let (stage, made) = (Mutex::new(Stage::Waiting), Condvar::new());
        CancelByService(Arc::new(Request { node, reason, stage, made }))
    }

    /// Returns what the service is to call.
    pub(crate) fn ring(&self) -> Weak<dyn Ring> {
        let request: Weak<Request> = Arc::downgrade(&self.0);
        request
    }
}

impl Drop for CancelByService {
    fn drop(&mut self) {
        let mut stage = self.0.stage();
        while *stage == Stage::Making {
            stage = self.0.made.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
        *stage = Stage::Over;
    }
}
