//! Senders that do not keep their channel connected.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::core::Channel;
use super::sender::Sender;
use crate::base::sync::atomic::Ordering;

impl<T> Sender<T> {
    /// Returns a weak sender to the same channel.
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { channel: Arc::clone(self.shared()) }
    }
}

/// A sender that does not count: it does not keep its channel connected.
///
/// A task that receives from a channel may keep a weak sender to it, for messages to itself. The
/// channel is disconnected all the same when the last [`Sender`] is dropped.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::unbounded();
/// let weak = sender.downgrade();
/// weak.upgrade().unwrap().send(7).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [7]);
/// ```
pub struct WeakSender<T> {
    channel: Arc<Channel<T>>,
}

// Like `Sender`.
impl<T> UnwindSafe for WeakSender<T> {}
impl<T> RefUnwindSafe for WeakSender<T> {}

impl<T> WeakSender<T> {
    /// Returns a sender, unless the last one has been dropped. Never waits.
    ///
    /// The channel may have been closed, or may have no receiver left. A send then fails.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        // Once the count is 0, the channel is being disconnected, so it must not rise again.
        let one_more = |senders| if senders == 0 { None } else { Some(senders + 1) };
        let senders = &self.channel.sender_count;
        senders.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Sender::new(Arc::clone(&self.channel)))
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> WeakSender<T> {
        WeakSender { channel: Arc::clone(&self.channel) }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakSender").field(&self.channel).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
