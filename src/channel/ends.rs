//! What both ends ask of a channel, and how it ends.

use super::core::Channel;
use crate::base::clock;

impl<T> Channel<T> {
    pub(super) fn len(&self) -> usize {
        let locked = self.lock();
        let due =
            locked.state.clockwork.as_ref().is_some_and(|clockwork| clockwork.next <= clock::now());
        locked.state.buffer.len() + usize::from(due)
    }

    pub(super) fn is_full(&self) -> bool {
        let locked = self.lock();
        if locked.state.clockwork.is_some() {
            drop(locked);
            return self.len() == 1;
        }
        !locked.state.has_room()
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        let capacity = self.lock().state.capacity;
        (capacity != usize::MAX).then_some(capacity)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().state.closed
    }

    pub(super) fn close(&self) {
        self.lock().close();
    }

    pub(super) fn close_now(&self) {
        let values = self.lock().close_now();
        // User code: not under the lock.
        drop(values);
    }
}
