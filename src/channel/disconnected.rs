//! Waiting for the end of a channel, on the sending side.
//!
//! The waiters have a list of their own, which exists once a sender has asked for it. So a value
//! that is sent or received wakes none of them. The list's lock is taken under the channel's.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::core::{Channel, ChannelGuard};
use super::sender::Sender;
use crate::park::WaitList;
use crate::source::Source;

impl<T> ChannelGuard<'_, T> {
    /// Wakes the waiters for the end of the channel.
    pub(super) fn notify_end_waiters(&mut self) {
        let ChannelGuard { state, woken, .. } = self;
        if let Some(list) = &state.end_waiters {
            list.lock().look_again(woken);
        }
    }
}

impl<T> Sender<T> {
    /// Returns a source that has an item once the channel is disconnected: all receivers or all
    /// senders have been dropped, or the channel has been closed. From then on it always has one.
    ///
    /// A task can wait for it beside its work, and stop when no one needs the result any more. The
    /// source does not count as a sender.
    ///
    /// # Examples
    /// ```
    /// use ecru::{channel, select};
    ///
    /// let (answers, answer) = channel::bounded::<u32>(1);
    /// let (_requests, request) = channel::unbounded::<u32>();
    /// drop(answer);
    /// let gone = select! {
    ///     recv(request) -> _ => false,
    ///     wait(answers.disconnected()) -> gone => gone.is_ok(),
    /// };
    /// assert!(gone);
    /// ```
    #[doc(alias = "closed")]
    pub fn disconnected(&self) -> Disconnected<T> {
        let channel = Arc::clone(self.shared());
        let present = channel.lock().state.end_waiters.clone();
        let waiters = present.unwrap_or_else(|| {
            let new = Arc::new(WaitList::new());
            Arc::clone(channel.lock().state.end_waiters.get_or_insert(new))
        });
        Disconnected { channel, waiters }
    }
}

/// The source returned by [`Sender::disconnected`].
#[must_use = "it does nothing unless something waits for it"]
pub struct Disconnected<T> {
    channel: Arc<Channel<T>>,
    waiters: Arc<WaitList>,
}

// Like `Sender`.
impl<T> UnwindSafe for Disconnected<T> {}
impl<T> RefUnwindSafe for Disconnected<T> {}

impl<T> Source for Disconnected<T> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.channel.is_closed().then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiters);
    }
}

impl<T> Clone for Disconnected<T> {
    fn clone(&self) -> Disconnected<T> {
        Disconnected { channel: Arc::clone(&self.channel), waiters: Arc::clone(&self.waiters) }
    }
}

impl<T> fmt::Debug for Disconnected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Disconnected").field(&self.channel.is_closed()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
