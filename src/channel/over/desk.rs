//! What a hub's users leave for the one that runs it, and the hub's state, which that one has alone.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::channel::{Receiver, Sender, unbounded};

/// Messages of type `C` for whoever has the state `S`.
pub(super) struct Desk<C, S> {
    sender: Sender<C>,
    pub(super) messages: Receiver<C>,
    /// None: lent to a `run`. Locked for a move in or out, never while anything else runs.
    state: Mutex<Option<S>>,
}

impl<C, S> Desk<C, S> {
    pub(super) fn new(state: S) -> Desk<C, S> {
        let (sender, messages) = unbounded();
        Desk { sender, messages, state: Mutex::new(Some(state)) }
    }

    /// Leaves a message. Back: the desk has been closed.
    pub(super) fn tell(&self, message: C) -> Result<(), C> {
        self.sender.try_send(message).map_err(|error| error.into_inner())
    }

    /// For those who are to leave a message when the hub is out of their reach.
    pub(super) fn sender(&self) -> Sender<C> {
        self.sender.clone()
    }

    /// No more messages. Those that have been left are still read.
    pub(super) fn close(&self) {
        self.sender.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// The state, for as long as it is held.
    #[track_caller]
    pub(super) fn sit_down(&self, hub: &str) -> Seat<'_, S> {
        let Some(state) = self.lock().take() else {
            panic!("`{hub}::run` is running already; one call at a time does all there is to do")
        };
        Seat { place: &self.state, state: Some(state) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the state back when it is dropped, so that a later `run` goes on where this one stopped.
pub(super) struct Seat<'a, S> {
    place: &'a Mutex<Option<S>>,
    state: Option<S>,
}

impl<S> Deref for Seat<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.state.as_ref().expect("there until it is dropped")
    }
}

impl<S> DerefMut for Seat<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        self.state.as_mut().expect("there until it is dropped")
    }
}

impl<S> Drop for Seat<'_, S> {
    fn drop(&mut self) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = self.state.take();
    }
}
