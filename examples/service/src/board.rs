//! What the handlers share: the store, feeds of new notes, and counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecru_flow::{BroadcastReceiver, BroadcastSender, broadcast};
use serde::Serialize;

use crate::store::Store;

/// How many notes a feed may be behind.
const BEHIND: usize = 1_000;

/// A note, as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Note {
    pub(crate) author: String,
    pub(crate) text: String,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) store: Store,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// `None` when the service stops.
    news: Mutex<Option<BroadcastSender<Note>>>,
}

impl Board {
    pub(crate) fn new(store: Store) -> Board {
        let news = Mutex::new(Some(broadcast(BEHIND).0));
        Board { store, requests: 0.into(), failures: 0.into(), news }
    }

    /// The lock is never held across a wait.
    fn news(&self) -> MutexGuard<'_, Option<BroadcastSender<Note>>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all feeds of a note.
    pub(crate) fn tell(&self, note: &Note) {
        // It fails if there is no feed.
        let _ = self.news().as_ref().map(|news| news.try_send(note.clone()));
    }

    /// Returns the notes that come from now on. They end when the service stops.
    pub(crate) fn feed(&self) -> BroadcastReceiver<Note> {
        self.news().as_ref().map_or_else(|| broadcast(1).1, BroadcastSender::subscribe)
    }

    /// Ends the feeds.
    pub(crate) fn close(&self) {
        self.news().take();
    }

    /// Writes the counts in Prometheus's format.
    pub(crate) fn metrics(&self) -> String {
        let feeds = self.news().as_ref().map_or(0, BroadcastSender::receiver_count);
        let counts = [
            ("requests_total", self.requests.load(Relaxed)),
            ("failures_total", self.failures.load(Relaxed)),
            ("feeds", feeds as u64),
        ];
        counts.map(|(name, count)| format!("service_{name} {count}\n")).concat()
    }
}

/// As handlers receive it.
pub(crate) type Shared = Arc<Board>;
