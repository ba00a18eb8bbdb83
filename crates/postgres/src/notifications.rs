//! Notifications of the server, on their way to receivers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ecru::channel::{self, Receiver, Sender};
use tokio_postgres::Notification;

/// The receivers of one connection, by the names of their channels. `None` after its end.
#[derive(Debug)]
pub(crate) struct Notifications {
    senders: Mutex<Option<HashMap<String, Vec<Sender<Notification>>>>>,
}

impl Default for Notifications {
    fn default() -> Notifications {
        Notifications { senders: Mutex::new(Some(HashMap::new())) }
    }
}

impl Notifications {
    fn senders(&self) -> MutexGuard<'_, Option<HashMap<String, Vec<Sender<Notification>>>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new receiver. It is disconnected if the connection has ended.
    pub(crate) fn receiver(&self, name: &str) -> Receiver<Notification> {
        let (sender, receiver) = channel::unbounded();
        if let Some(senders) = &mut *self.senders() {
            senders.entry(name.to_owned()).or_default().push(sender);
        }
        receiver
    }

    /// Passes a notification to the receivers of its channel, and forgets those that have been
    /// dropped.
    pub(crate) fn deliver(&self, notification: Notification) {
        let mut senders = self.senders();
        let all = senders.as_mut().and_then(|senders| senders.get_mut(notification.channel()));
        if let Some(all) = all {
            all.retain(|sender| sender.try_send(notification.clone()).is_ok());
        }
    }

    /// Disconnects all receivers when the returned value is dropped.
    pub(crate) fn until_the_end(&self) -> Ending<'_> {
        Ending(self)
    }
}

pub(crate) struct Ending<'n>(&'n Notifications);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let senders = self.0.senders().take();
        drop(senders);
    }
}
