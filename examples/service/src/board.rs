//! What the handlers share: notes, sessions, feeds and counts.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecru::channel::{self, Receiver, Sender};
use serde::Serialize;

/// How many notes a feed may be behind. One that is further behind is closed.
const BEHIND: usize = 64;

/// A note, as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Note {
    pub(crate) author: String,
    pub(crate) text: String,
}

/// What the service keeps, in memory.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    notes: Vec<Note>,
    /// The users, by the secrets in their cookies.
    sessions: HashMap<String, String>,
    feeds: Vec<Sender<Note>>,
    is_closed: bool,
}

impl Board {
    /// The lock is never held across a wait.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session. Returns its secret.
    pub(crate) fn begin_session(&self, name: String) -> String {
        // A real service takes its secrets from the system's randomness.
        let secret = format!("{:032x}", fastrand::u128(..));
        self.state().sessions.insert(secret.clone(), name);
        secret
    }

    pub(crate) fn user_of(&self, secret: &str) -> Option<String> {
        self.state().sessions.get(secret).cloned()
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        self.state().notes.clone()
    }

    /// Keeps a note, and tells all feeds.
    pub(crate) fn add(&self, note: &Note) {
        let mut state = self.state();
        state.notes.push(note.clone());
        state.feeds.retain(|feed| feed.try_send(note.clone()).is_ok());
    }

    /// Returns the notes that come from now on. They end when the service stops.
    pub(crate) fn feed(&self) -> Receiver<Note> {
        let (tx, rx) = channel::bounded(BEHIND);
        let mut state = self.state();
        if !state.is_closed {
            state.feeds.push(tx);
        }
        rx
    }

    /// Ends the feeds.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.feeds.clear();
    }

    /// Writes the counts in Prometheus's format.
    pub(crate) fn metrics(&self) -> String {
        let state = self.state();
        let counts = [
            ("requests_total", self.requests.load(Relaxed)),
            ("failures_total", self.failures.load(Relaxed)),
            ("notes", state.notes.len() as u64),
            ("feeds", state.feeds.len() as u64),
        ];
        counts.map(|(name, count)| format!("service_{name} {count}\n")).concat()
    }
}

/// As handlers receive it.
pub(crate) type Shared = Arc<Board>;
