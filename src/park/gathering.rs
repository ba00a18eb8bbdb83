//! Many lines and one reader: who was notified, in that order.
//!
//! A select looks into each of its lines anew each time it waits. Who waits for ten thousand tasks to end, one after another, cannot:
//! that would be their square. So he registers once.
//!
//! # Words
//! - An [`Entry`] is a registration in one line, in the place of a waiter's. It is known by its *key*.
//! - A [`Gathering`] holds the entries whose lines have been notified, the first of them first, until they are *read*.
//! - An entry is *open* until it has been read.
//!
//! # Protocol
//! ```text
//!   who notifies a line                         a reader of the gathering
//!   ------------------------------------        ------------------------------------
//!   lock the line; for each entry in it:        lock the gathering
//!     take it out                                 take the first entry: there it is
//!     lock the gathering                          or put a node among the readers, which wakes it
//!       append the entry                        unlock, park
//!       claim the reader that came first        woken: begin again, for another reader may have been quicker
//!     unlock the gathering                      cancelled: lock, take the node out
//!   unlock the line
//!   unpark those it has claimed
//! ```
//! G1: once the gathering's lock under which an entry was appended is free again, nobody touches the entry, unless he reads it, nor
//! the gathering on its behalf. So whoever takes an entry out of its line, or finds under the line's lock that it is out, knows that
//! the entry is his again; so does he who reads it. And when this is so of all entries, the gathering is.
#![expect(unsafe_code, reason = "reaches entries in frames of others")]

use std::cell::Cell;
use std::ptr;

use super::wait_list::{Node, Queue, Role, Woken};
use crate::base::list::List;
#[cfg(loom)]
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::sync::{SpinGuard, SpinLock};

/// A registration in one line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    /// Its links are in the line, and guarded by that one's lock; afterwards in the gathering, and guarded by its.
    node: Node,
    key: Cell<*const ()>,
}

impl Entry {
    /// An entry in no line. Its [node](Entry::node) is what is put into one.
    pub(crate) fn new(gathering: &Gathering, key: *const ()) -> Entry {
        let gathering = ptr::from_ref(gathering).cast_mut().cast();
        Entry { node: Node::new(ptr::null(), 0, Role::Gather, gathering), key: Cell::new(key) }
    }

    /// Gives it another key, before it is used.
    pub(crate) fn set_key(&self, key: *const ()) {
        self.key.set(key);
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

/// Entries whose lines have been notified. See the module.
#[derive(Debug)]
pub(crate) struct Gathering {
    inner: SpinLock<Inner>,
    /// Looked at wherever the gathering is used, so that loom knows.
    #[cfg(loom)]
    used: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    notified: List,
    readers: Queue,
    open: usize,
}

// SAFETY: L3: its links are followed under the lock that guards it.
unsafe impl Send for Inner {}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Read {
    /// The line of the entry with this key has been notified. Nobody else knows the entry any more.
    Entry(*const ()),
    /// No entry is open.
    Nothing,
    /// Not yet: the reader's node is where it will be found.
    Listed,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        Gathering::of(0)
    }

    /// One with so many open entries, which are about to be put into lines, or noted.
    pub(crate) fn of(open: usize) -> Gathering {
        let inner = Inner { notified: List::new(), readers: Queue::new(), open };
        Gathering {
            inner: SpinLock::new(inner),
            #[cfg(loom)]
            used: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> SpinGuard<'_, Inner> {
        let inner = self.inner.lock();
        #[cfg(loom)]
        self.used.load(Ordering::Relaxed);
        inner
    }

    /// Counts an entry that is about to be put into a line, or noted.
    pub(crate) fn open(&self) {
        self.lock().open += 1;
    }

    /// How many entries are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().open
    }

    /// Appends an entry.
    ///
    /// # Safety
    /// G1: the entry is this gathering's and in no line, and the caller does not touch it afterwards. It came out of its line under
    /// the line's lock, which is still held; or it never was in one.
    pub(super) unsafe fn note(this: *const Gathering, entry: *const Entry, woken: &mut Woken) {
        // SAFETY: G1: the entry's owner cannot leave before that lock is free.
        let inner = unsafe { &*this }.lock();
        // SAFETY: L3: in no list, and it stays until it has been read.
        unsafe { inner.notified.push_back(entry.cast()) };
        inner.readers.claim_first(woken);
    }

    /// Appends an entry whose line had been notified before it could be put in.
    ///
    /// # Safety
    /// G1: the entry is this gathering's and was never in a line, and the caller does not touch it afterwards.
    pub(crate) unsafe fn note_late(&self, entry: *const Entry) {
        let mut woken = Woken::none();
        // SAFETY: G1, the caller's promise.
        unsafe { Gathering::note(self, entry, &mut woken) };
    }

    /// Reads the first entry. If there is none yet, `reader` is entered, to be claimed when there is; then it is to park.
    ///
    /// # Safety
    /// N1: the node and its waiter stay where they are until it has been claimed or [taken out](Gathering::leave).
    pub(crate) unsafe fn read(&self, reader: &Node) -> Read {
        let mut woken = Woken::none();
        let mut inner = self.lock();
        let first = inner.notified.first();
        // SAFETY: G1: it stays until it has been read.
        if let Some(entry) = unsafe { first.cast::<Entry>().as_ref() } {
            // SAFETY: L3: it is in this list, whose lock is held.
            unsafe { inner.notified.remove(first) };
            inner.open -= 1;
            if inner.open == 0 {
                // The other readers wait for nothing.
                while inner.readers.claim_first(&mut woken) {}
            }
            let key = entry.key.get();
            drop(inner);
            return Read::Entry(key);
        }
        if inner.open == 0 {
            return Read::Nothing;
        }
        // SAFETY: N1, the caller's promise.
        unsafe { inner.readers.push(reader) };
        Read::Listed
    }

    /// Takes a reader out whose wait has ended otherwise.
    pub(crate) fn leave(&self, reader: &Node) {
        self.lock().readers.remove(reader);
    }
}

#[cfg(all(test, loom))]
impl Gathering {
    /// The frame goes: loom objects if somebody else's use is not ordered before this.
    fn gone(&mut self) {
        self.used.with_mut(|_| ());
    }
}

#[cfg(all(test, loom))]
mod loom_models;
