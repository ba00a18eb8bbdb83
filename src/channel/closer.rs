//! The end that can only close.

use std::fmt;
use std::sync::Arc;

use super::core::Channel;

/// What a closer needs of a channel.
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

/// An end of a channel that can only close it, whatever it carries: to keep channels of different kinds in one list, or to let
/// somebody stop what they must not read. It keeps neither side connected.
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

    /// As [`Sender::close`](super::Sender::close).
    pub fn close(&self) {
        self.channel.close();
    }

    /// As [`Sender::close_now`](super::Sender::close_now).
    pub fn close_now(&self) {
        self.channel.close_now();
    }

    /// Whether the channel has been closed, or one side has gone.
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
