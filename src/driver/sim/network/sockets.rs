//! The sockets of a network, by their names.
//!
//! A name is a number that is never used again, so the sockets lie in a row of places, from that of
//! the oldest socket on. A lookup is an index, and a walk goes in the order of the numbers.

use super::{Id, Socket};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    places: VecDeque<Option<Box<Socket>>>,
    /// The number of the first place.
    first: u32,
}

impl Sockets {
    fn place(&self, Id(number): Id) -> usize {
        // A number before the first place is beyond the last one, too.
        number.wrapping_sub(self.first) as usize
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&Socket> {
        self.places.get(self.place(id))?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Socket> {
        let place = self.place(id);
        self.places.get_mut(place)?.as_deref_mut()
    }

    pub(super) fn contains(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    /// Adds a socket, whose number is above all others that have been added.
    pub(super) fn insert(&mut self, id: Id, socket: Socket) {
        if self.places.is_empty() {
            self.first = id.0;
        }
        let place = self.place(id);
        debug_assert!(place >= self.places.len(), "numbers are used once, in order");
        self.places.resize_with(place, || None);
        self.places.push_back(Some(Box::new(socket)));
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Socket> {
        let place = self.place(id);
        let socket = self.places.get_mut(place)?.take()?;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        Some(*socket)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &Socket)> {
        let sockets = (self.first..).zip(&self.places);
        sockets.filter_map(|(number, socket)| Some((Id(number), socket.as_deref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Id, &mut Socket)> {
        let sockets = (self.first..).zip(&mut self.places);
        sockets.filter_map(|(number, socket)| Some((Id(number), socket.as_deref_mut()?)))
    }

    /// Removes the sockets for which `is_gone` returns true, and returns them.
    pub(super) fn extract(&mut self, is_gone: impl Fn(&Socket) -> bool) -> Vec<(Id, Socket)> {
        let gone = self.iter().filter(|(_, socket)| is_gone(socket)).map(|(id, _)| id);
        let gone = Vec::from_iter(gone);
        gone.into_iter().filter_map(|id| Some((id, self.remove(id)?))).collect()
    }

    /// Returns the number of sockets, for tests of what is left.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.iter().count()
    }
}
