//! Names of channels.

use super::receiver::Receiver;
use super::sender::Sender;

/// Gives a channel a name, which [dumps](crate::diag) show. It is implemented for what the functions
/// of [this module](crate::channel) return. A channel that has a name keeps it.
///
/// A channel without a name pays nothing for this, except for two words of memory.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Named};
///
/// let (sender, receiver) = channel::bounded(5).named("orders");
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub trait Named: sealed::Sealed + Sized {
    /// Gives the channel this name.
    #[must_use]
    fn named(self, name: impl AsRef<str>) -> Self;
}

impl<T> Named for (Sender<T>, Receiver<T>) {
    fn named(self, name: impl AsRef<str>) -> Self {
        self.0.channel().tag.set_name(name.as_ref());
        self
    }
}

impl<T> Named for Receiver<T> {
    fn named(self, name: impl AsRef<str>) -> Self {
        self.channel().tag.set_name(name.as_ref());
        self
    }
}

mod sealed {
    use super::{Receiver, Sender};

    #[expect(unnameable_types, reason = "it is sealed")]
    pub trait Sealed {}
    impl<T> Sealed for (Sender<T>, Receiver<T>) {}
    impl<T> Sealed for Receiver<T> {}
}
