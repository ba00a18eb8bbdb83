//! The queries that both ends make, and the end of a channel.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use super::core::Channel;
use super::state::ChannelKind;
use crate::base::clock;
use crate::task::drop_quietly;

impl<T> Channel<T> {
    pub(super) fn len(&self) -> usize {
        let locked = self.lock();
        let due = locked.state.next_due().is_some_and(|next| next <= clock::now());
        locked.state.buffer.len() + usize::from(due)
    }

    pub(super) fn is_full(&self) -> bool {
        let locked = self.lock();
        if locked.state.is_timed() {
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
        self.lock().state.is_closed()
    }

    pub(super) fn is_never(&self) -> bool {
        matches!(self.lock().state.kind, ChannelKind::Never)
    }

    pub(super) fn close(&self) {
        self.lock().close();
    }

    pub(super) fn close_now(&self) {
        let values = self.lock().close_now();
        // Dropping values runs user code, so it happens outside the lock.
        drop_each(values);
    }

    /// Closes the channel after its last sender was dropped.
    pub(super) fn senders_have_gone(&self) {
        self.do_unlocked((), |channel, ()| channel.close());
    }

    /// Closes the channel at once after its last receiver was dropped, or with the subscription
    /// that owns the receiver.
    pub(super) fn receivers_have_gone(&self) {
        self.do_unlocked((), |channel, ()| channel.close_now());
    }
}

/// Drops all values, even if a destructor panics. The first panic is resumed after all values have
/// been dropped; later panics are lost. A queue that drops itself would abort the process at the
/// second panic.
fn drop_each<T>(values: VecDeque<T>) {
    let mut first = None;
    for value in values {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
            match first {
                None => first = Some(payload),
                Some(_) => drop_quietly(payload),
            }
        }
    }
    match first {
        Some(payload) if !thread::panicking() => panic::resume_unwind(payload),
        payload => drop_quietly(payload),
    }
}
