//! What is known of each fd, by its number.
//!
//! Numbers are small and dense, because the kernel assigns the lowest free one. But a program may
//! have chosen a high one, so the table consists of pieces that are added when they are needed. An
//! entry outlives its file, and the next file with that number takes it over.

use crate::driver::Token;
use crate::driver::op::Interest;

/// The number of entries in one piece.
const PIECE: usize = 64;

/// The table; see the module.
#[derive(Default)]
pub(super) struct Table {
    pieces: Vec<Option<Box<[Entry; PIECE]>>>,
}

/// An fd's registration, and the ops that wait for it. See the protocol of the driver.
#[derive(Default)]
pub(super) struct Entry {
    /// The generation of the registered file, or `None` if no file has been registered.
    generation: Option<u64>,
    /// True if the file is not registered because it cannot be. Its reads and writes never wait.
    always_ready: bool,
    /// True if a read has left nothing behind, and no news has come since.
    empty: bool,
    /// `Some(true)` if something besides bytes has come or may come, for instance an end. Then a
    /// read says nothing about what it leaves behind. `None` if this is not known yet.
    doubtful: Option<bool>,
    read: Side,
    write: Side,
}

/// The state of one side. It never has waiting ops and is ready at the same time: an event is
/// either told or remembered.
#[derive(Default)]
struct Side {
    waiting: Vec<Token>,
    ready: bool,
}

impl Table {
    /// Returns the entry of this number. Adds an empty one if there is none.
    pub(super) fn entry(&mut self, fd: usize) -> &mut Entry {
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
        let entries: Box<[Entry]> = (0..PIECE).map(|_| Entry::default()).collect();
        self.pieces[piece] = Some(entries.try_into().unwrap_or_else(|_| unreachable!("so many")));
    }

    pub(super) fn get(&self, fd: usize) -> Option<&Entry> {
        Some(&self.pieces.get(fd / PIECE)?.as_ref()?[fd % PIECE])
    }

    pub(super) fn existing(&mut self, fd: usize) -> Option<&mut Entry> {
        Some(&mut self.pieces.get_mut(fd / PIECE)?.as_mut()?[fd % PIECE])
    }
}

impl Entry {
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
        self.empty = false;
        self.doubtful = None;
        self.read.ready = false;
        self.write.ready = false;
    }

    /// Notes that the file is no longer registered. Tells all waiting ops, so that they are
    /// attempted.
    pub(super) fn forget(&mut self, mut tell: impl FnMut(Token)) {
        self.generation = None;
        for side in [&mut self.read, &mut self.write] {
            side.ready = false;
            side.waiting.drain(..).for_each(&mut tell);
        }
    }

    /// Returns whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.empty && self.doubtful == Some(false)
    }

    /// Notes that a read has left nothing behind. `is_plain` returns whether this is reliable for
    /// files of this kind.
    pub(super) fn note_empty(&mut self, is_plain: impl FnOnce() -> bool) {
        self.doubtful.get_or_insert_with(|| !is_plain());
        self.empty = true;
    }

    /// Notes that news has come. `plain` says that it is about bytes and nothing else.
    pub(super) fn note_news(&mut self, plain: bool) {
        self.empty = false;
        if !plain {
            self.doubtful = Some(true);
        }
    }

    /// Lets the op wait, and returns true. If the side is ready, uses that up instead and returns
    /// false.
    pub(super) fn wait(&mut self, side: Interest, token: Token) -> bool {
        if self.always_ready {
            return false;
        }
        let side = self.side(side);
        if std::mem::take(&mut side.ready) {
            return false;
        }
        side.waiting.push(token);
        true
    }

    /// Tells all waiting ops, or remembers the news if there are none.
    pub(super) fn wake(&mut self, side: Interest, tell: impl FnMut(Token)) {
        let side = self.side(side);
        side.ready = side.waiting.is_empty();
        side.waiting.drain(..).for_each(tell);
    }

    /// Removes an op from its side.
    pub(super) fn withdraw(&mut self, side: Interest, token: Token) {
        // `swap_remove` would not keep the order in which the ops came, which is the order in which
        // they are told.
        self.side(side).waiting.retain(|waiting| *waiting != token);
    }

    fn side(&mut self, side: Interest) -> &mut Side {
        match side {
            Interest::Read => &mut self.read,
            Interest::Write => &mut self.write,
        }
    }
}
