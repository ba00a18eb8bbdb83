//! A hub's mailbox: requests from its users, and the state that belongs to the running `run`.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use ecru::channel::{Receiver, Sender, unbounded};

use crate::base::{Mutex, MutexGuard};

/// Requests of type `C` for the task that holds the state `S`.
pub(crate) struct Mailbox<C, S> {
    sender: Sender<C>,
    pub(crate) requests: Receiver<C>,
    /// `None` while a `run` holds the state. The lock is held only to move the state in or out.
    state: Mutex<Option<S>>,
}

impl<C, S> Mailbox<C, S> {
    pub(crate) fn new(state: S) -> Mailbox<C, S> {
        let (sender, requests) = unbounded();
        Mailbox { sender, requests, state: Mutex::new(Some(state)) }
    }

    /// Posts a request. Returns it if the mailbox is closed.
    pub(crate) fn post(&self, request: C) -> Result<(), C> {
        self.sender.try_send(request).map_err(|error| error.into_inner())
    }

    /// Returns a sender for code that cannot reach the hub.
    pub(crate) fn sender(&self) -> Sender<C> {
        self.sender.clone()
    }

    /// Closes the mailbox, which then accepts no more requests. Those that have been posted are
    /// still read.
    pub(crate) fn close(&self) {
        self.sender.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Borrows the state for a `run`.
    #[track_caller]
    pub(crate) fn state(&self, hub: &str) -> StateGuard<'_, S> {
        let Some(state) = self.lock().take() else {
            panic!("`{hub}::run` is running already; call it from one task at a time")
        };
        StateGuard { place: &self.state, state: Some(state) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the state back when it is dropped, so that the next `run` continues where this one stopped.
pub(crate) struct StateGuard<'a, S> {
    place: &'a Mutex<Option<S>>,
    state: Option<S>,
}

impl<S> Deref for StateGuard<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.state.as_ref().expect("there until the guard is dropped")
    }
}

impl<S> DerefMut for StateGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        self.state.as_mut().expect("there until the guard is dropped")
    }
}

impl<S> Drop for StateGuard<'_, S> {
    fn drop(&mut self) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = self.state.take();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
