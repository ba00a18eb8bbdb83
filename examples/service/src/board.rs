//! What the handlers share: the store, feeds of new notes, and counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecru::channel::{self, Receiver, Sender};
use serde::Serialize;

use crate::store::Store;

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
    news: Mutex<News>,
}

/// What is told of new notes.
#[derive(Debug, Default)]
struct News {
    feeds: Vec<Sender<Note>>,
    is_closed: bool,
}

impl Board {
    pub(crate) fn new(store: Store) -> Board {
        let (requests, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Board { store, requests, failures, news: Mutex::default() }
    }

    /// The lock is never held across a wait.
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all feeds of a note.
    pub(crate) fn tell(&self, note: &Note) {
        self.news().feeds.retain(|feed| feed.try_send(note.clone()).is_ok());
    }

    /// Returns the notes that come from now on. They end when the service stops, or when `behind` of
    /// them have not been received.
    pub(crate) fn feed(&self, behind: usize) -> Receiver<Note> {
        let (tx, rx) = channel::bounded(behind);
        let mut news = self.news();
        if !news.is_closed {
            news.feeds.push(tx);
        }
        rx
    }

    /// Ends the feeds.
    pub(crate) fn close(&self) {
        *self.news() = News { is_closed: true, ..News::default() };
    }

    /// Writes the counts in Prometheus's format.
    pub(crate) fn metrics(&self) -> String {
        let counts = [
            ("requests_total", self.requests.load(Relaxed)),
            ("failures_total", self.failures.load(Relaxed)),
            ("feeds", self.news().feeds.len() as u64),
        ];
        counts.map(|(name, count)| format!("service_{name} {count}\n")).concat()
    }
}

/// As handlers receive it.
pub(crate) type Shared = Arc<Board>;
