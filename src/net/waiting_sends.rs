//! The sends of a Unix socket that wait, so that its shutdown can end them.

use crate::scope::CancelHandle;
use std::mem;
use std::sync::{Mutex, PoisonError};

/// The sends of a socket that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingSends(Mutex<Vec<CancelHandle>>);

impl WaitingSends {
    fn with<T>(&self, body: impl FnOnce(&mut Vec<CancelHandle>) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a send. `handle` cancels it.
    pub(super) fn keep(&self, handle: CancelHandle) -> Kept<'_> {
        self.with(|sends| sends.push(handle.clone()));
        Kept { sends: self, handle }
    }

    /// Cancels all sends.
    pub(super) fn end(&self) {
        let ended = self.with(mem::take);
        ended.iter().for_each(CancelHandle::cancel);
    }
}

/// A send that waits, until it is dropped.
pub(super) struct Kept<'s> {
    sends: &'s WaitingSends,
    handle: CancelHandle,
}

impl Kept<'_> {
    /// Returns whether the socket was shut since the send was kept.
    pub(super) fn is_ended(&self) -> bool {
        self.sends.with(|sends| !sends.iter().any(|other| other.is_same(&self.handle)))
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.sends.with(|sends| sends.retain(|other| !other.is_same(&self.handle)));
    }
}
