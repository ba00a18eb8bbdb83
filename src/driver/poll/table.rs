//! What is known of each fd, by its number.
//!
//! Numbers are small and dense, because the kernel assigns the lowest free one. But a program may
//! have chosen a high one, so the table consists of pieces that are added when they are needed. An
//! entry outlives its file, and the next file with that number takes it over.

use crate::driver::InFlight;
use crate::driver::flight::Flying;
use crate::driver::observer::Observer;
use crate::driver::op::Interest;
use std::sync::Arc;
use std::{mem, ptr};

/// The number of entries in one piece.
const PIECE: usize = 64;

/// The table; see the module.
#[derive(Default)]
pub(super) struct Table {
    pieces: Vec<Option<Box<[FdEntry; PIECE]>>>,
}

/// An fd's registration, and the ops that wait for it. See the protocol of the driver.
#[derive(Default)]
pub(super) struct FdEntry {
    /// The generation of the registered file, or `None` if no file has been registered.
    generation: Option<u64>,
    /// True if the file is not registered because it cannot be. Its reads and writes never wait.
    always_ready: bool,
    /// `Some(true)` if something besides bytes has come or may come, for instance an end, or if the
    /// file has two names. Then a read that leaves nothing behind proves nothing. `None` if this is
    /// not known yet.
    doubtful: Option<bool>,
    read: Side,
    write: Side,
    /// What is told of all news of the file, beside the ops.
    pub(super) observer: Option<Arc<Observer>>,
}

/// The state of one side. It never has waiting ops and is ready at the same time: an event is
/// either told or remembered.
#[derive(Default)]
struct Side {
    waiting: Vec<Flying>,
    ready: bool,
}

/// What a new wait for a side finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// News comes as an event.
    Nothing,
    /// News came for which no op waited. It is used up now.
    News,
    /// No event ever comes.
    AlwaysReady,
}

impl Table {
    /// Removes all observers.
    pub(super) fn take_observers(&mut self) -> impl Iterator<Item = Arc<Observer>> {
        let entries = self.pieces.iter_mut().flatten().flat_map(|piece| piece.iter_mut());
        entries.filter_map(|entry| entry.observer.take())
    }

    /// Returns the entry of this number. Adds an empty one if there is none.
    pub(super) fn entry(&mut self, fd: usize) -> &mut FdEntry {
        let (piece, place) = (fd / PIECE, fd % PIECE);
        if self.pieces.get(piece).is_none_or(Option::is_none) {
            self.add(piece);
        }
        &mut self.pieces[piece].as_mut().expect("added above")[place]
    }

    /// Adds a piece. This is a separate function, and it makes the entries directly on the heap,
    /// because it runs on the stack of a waiting task, which should need only one page.
    #[cold]
    #[inline(never)]
    fn add(&mut self, piece: usize) {
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let entries: Box<[FdEntry]> = (0..PIECE).map(|_| FdEntry::default()).collect();
        self.pieces[piece] = Some(entries.try_into().unwrap_or_else(|_| unreachable!("so many")));
    }

    pub(super) fn existing(&mut self, fd: usize) -> Option<&mut FdEntry> {
        Some(&mut self.pieces.get_mut(fd / PIECE)?.as_mut()?[fd % PIECE])
    }
}

impl FdEntry {
    pub(super) fn is_known(&self, generation: u64) -> bool {
        self.generation == Some(generation)
    }

    /// Returns whether `tag`, the generation's part of an event's key, means the registered file.
    pub(super) fn has_tag(&self, tag: u32) -> bool {
        self.generation.is_some_and(|generation| generation as u32 == tag)
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.read.waiting.is_empty() || !self.write.waiting.is_empty()
    }

    /// Notes that another file has been registered under this number. Ops that wait continue to
    /// wait, for this file.
    pub(super) fn renew(&mut self, generation: u64, always_ready: bool) {
        self.generation = Some(generation);
        self.always_ready = always_ready;
        self.doubtful = None;
        self.observer = None;
        self.read.ready = false;
        self.write.ready = false;
    }

    /// Notes that the file is no longer registered. Returns all waiting ops.
    pub(super) fn forget(&mut self) -> Vec<Flying> {
        self.generation = None;
        (self.read.ready, self.write.ready) = (false, false);
        let mut waiting = mem::take(&mut self.read.waiting);
        waiting.append(&mut self.write.waiting);
        waiting
    }

    /// Returns whether a read that leaves nothing behind proves that the next news comes as an
    /// event or has come as one that is remembered here. `is_plain` returns whether files of this
    /// kind can prove that at all.
    pub(super) fn tells_of_all_that_comes(&mut self, is_plain: impl FnOnce() -> bool) -> bool {
        !*self.doubtful.get_or_insert_with(|| !is_plain())
    }

    /// Notes that something besides bytes has come to be read, or that another name of the file is
    /// waited for.
    pub(super) fn doubt(&mut self) {
        self.doubtful = Some(true);
    }

    /// Returns whether something besides bytes has come or may come, as far as it is known.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful == Some(true)
    }

    /// Returns what a wait for the side finds. If that is nothing, an op may [wait](FdEntry::wait).
    pub(super) fn find(&mut self, side: Interest) -> Found {
        if self.always_ready {
            Found::AlwaysReady
        } else if mem::take(&mut self.side(side).ready) {
            Found::News
        } else {
            Found::Nothing
        }
    }

    /// Lets the op wait for an event.
    pub(super) fn wait(&mut self, side: Interest, flying: Flying) {
        self.side(side).waiting.push(flying);
    }

    /// Tells all waiting ops, in the order in which they came, or remembers the news if there are
    /// none. Those for which `ends` returns false go on waiting.
    pub(super) fn wake(&mut self, side: Interest, mut ends: impl FnMut(Flying) -> bool) {
        let side = self.side(side);
        side.ready = side.waiting.is_empty();
        side.waiting.retain(|flying| !ends(*flying));
    }

    /// Removes an op from its side. Returns whether it waited there.
    pub(super) fn withdraw(&mut self, side: Interest, flight: &InFlight<'_>) -> bool {
        let waiting = &mut self.side(side).waiting;
        let before = waiting.len();
        // `swap_remove` would not keep the order in which the ops came, which is the order in which
        // they are told.
        waiting.retain(|waiting| !ptr::addr_eq(*waiting, flight));
        waiting.len() < before
    }

    /// Returns whether reads and writes of the file never wait.
    pub(super) fn is_always_ready(&self) -> bool {
        self.always_ready
    }

    fn side(&mut self, side: Interest) -> &mut Side {
        match side {
            Interest::Read => &mut self.read,
            Interest::Write => &mut self.write,
        }
    }
}
