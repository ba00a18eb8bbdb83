//! A handle that can only close a channel.

use std::fmt;
use std::sync::Arc;

use super::core::Channel;

/// The operations of a channel that a closer needs.
pub(super) trait Close: Send + Sync {
    fn close(&self);
    fn close_now(&self);
    fn is_closed(&self) -> bool;
}

impl<T: Send> Close for Channel<T> {
    fn close(&self) {
        Channel::close(self);
    }

    fn close_now(&self) {
        Channel::close_now(self);
    }

    fn is_closed(&self) -> bool {
        Channel::is_closed(self)
    }
}

/// A handle that can only close a channel, whatever the type of its values. It allows channels of
/// different types in one list, and lets code stop a channel that it must not read. It keeps
/// neither side connected.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (numbers, _n) = channel::unbounded::<u32>();
/// let (texts, t) = channel::unbounded::<String>();
/// for closer in [numbers.closer(), t.closer()] {
///     closer.close();
/// }
/// assert!(numbers.send(1).is_err() && texts.send(String::new()).is_err());
/// ```
#[derive(Clone)]
pub struct Closer<'a> {
    channel: Arc<dyn Close + 'a>,
}

impl<'a> Closer<'a> {
    pub(super) fn new(channel: Arc<dyn Close + 'a>) -> Closer<'a> {
        Closer { channel }
    }

    /// Closes the channel like [`Sender::close`](super::Sender::close).
    pub fn close(&self) {
        self.channel.close();
    }

    /// Closes the channel like [`Sender::close_now`](super::Sender::close_now).
    pub fn close_now(&self) {
        self.channel.close_now();
    }

    /// Returns whether the channel has been closed, or all senders or all receivers have been
    /// dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }
}

impl fmt::Debug for Closer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closer").field("closed", &self.is_closed()).finish()
    }
}
