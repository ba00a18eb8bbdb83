//! What is known of each fd, by its number.
//!
//! Numbers are small and dense, since the kernel gives out the lowest free one; but a program may have chosen a high one, so the
//! table is made of pieces that come when they are needed. An entry outlives its file, and is taken over by the next of that number.

use crate::driver::Token;
use crate::driver::op::Interest;

/// Entries of one piece.
const PIECE: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Table {
    pieces: Vec<Option<Box<[Entry; PIECE]>>>,
}

/// An fd's registration, and who waits. See the protocol of the driver.
#[derive(Default)]
pub(super) struct Entry {
    /// Of the file that is registered; none: none has been.
    generation: Option<u64>,
    /// It is not registered, because it cannot be: its reads and writes never wait.
    always_ready: bool,
    /// A read has left nothing behind, and no news has come since.
    empty: bool,
    /// Besides bytes something else has come, an end say, or may come: reads say nothing about what they leave behind.
    doubtful: Option<bool>,
    read: Side,
    write: Side,
}

/// Who waits for one side. Never both: an event is either told or remembered.
#[derive(Default)]
struct Side {
    waiting: Vec<Token>,
    ready: bool,
}

impl Table {
    /// The entry of this number, an empty one if there was none.
    pub(super) fn entry(&mut self, fd: usize) -> &mut Entry {
        let (piece, place) = (fd / PIECE, fd % PIECE);
        if self.pieces.get(piece).is_none_or(Option::is_none) {
            self.add(piece);
        }
        &mut self.pieces[piece].as_mut().expect("added above")[place]
    }

    /// Out of the way, and made where it is to stay: this runs on the stack of a task that waits, which is to do with one page.
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

    /// Whether an event's key, of which this is the generation's part, is about the file that is registered.
    pub(super) fn has_tag(&self, tag: u32) -> bool {
        self.generation.is_some_and(|generation| generation as u32 == tag)
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.read.waiting.is_empty() || !self.write.waiting.is_empty()
    }

    /// Another file has been registered under this number. Whoever waits goes on waiting, for this one.
    pub(super) fn renew(&mut self, generation: u64, always_ready: bool) {
        self.generation = Some(generation);
        self.always_ready = always_ready;
        self.empty = false;
        self.doubtful = None;
        self.read.ready = false;
        self.write.ready = false;
    }

    /// The file is not registered any more. Tells all who wait, so that they look.
    pub(super) fn forget(&mut self, mut tell: impl FnMut(Token)) {
        self.generation = None;
        for side in [&mut self.read, &mut self.write] {
            side.ready = false;
            side.waiting.drain(..).for_each(&mut tell);
        }
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.empty && self.doubtful == Some(false)
    }

    /// A read has left nothing behind; `is_plain` says whether that can be relied on, for files of this kind.
    pub(super) fn note_empty(&mut self, is_plain: impl FnOnce() -> bool) {
        self.doubtful.get_or_insert_with(|| !is_plain());
        self.empty = true;
    }

    /// News has come; `plain`: of bytes, and nothing else.
    pub(super) fn note_news(&mut self, plain: bool) {
        self.empty = false;
        if !plain {
            self.doubtful = Some(true);
        }
    }

    /// Lets the op wait, or uses up what has been remembered for it; whether it waits.
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

    /// Tells all who wait, or remembers that there was something to tell.
    pub(super) fn wake(&mut self, side: Interest, tell: impl FnMut(Token)) {
        let side = self.side(side);
        side.ready = side.waiting.is_empty();
        side.waiting.drain(..).for_each(tell);
    }

    /// The op waits no more.
    pub(super) fn withdraw(&mut self, side: Interest, token: Token) {
        // Not by swapping with the last: they are told in the order in which they came.
        self.side(side).waiting.retain(|waiting| *waiting != token);
    }

    fn side(&mut self, side: Interest) -> &mut Side {
        match side {
            Interest::Read => &mut self.read,
            Interest::Write => &mut self.write,
        }
    }
}
