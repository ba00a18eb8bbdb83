//! Gatherings: one reader for many lines, which learns in which order they were notified.
//!
//! A select looks into each of its lines anew each time it waits. A wait for ten thousand tasks to
//! end, one after another, cannot do that, because its cost would be quadratic. Such a wait
//! registers once in each line, by entries of a gathering.
//!
//! # Terms
//! - An [`Entry`] is a registration in one line, in the place of a waiter's node. It is identified
//!   by its *key*.
//! - A [`Gathering`] holds the entries whose lines have been notified, in the order of the
//!   notifications, until they are *read*.
//! - An entry is *open* until it has been read.
//!
//! # Protocol
//! ```text
//!   the notifier of a line                      a reader of the gathering
//!   ------------------------------------        ------------------------------------
//!   lock the line; for each entry in it:        lock the gathering
//!     take it out                                 take the first entry, if there is one,
//!     lock the gathering                          or wait in the line of the readers
//!       append the entry                        woken: begin again, because another reader may
//!       claim the reader that came first          have taken the entry
//!     unlock the gathering
//!   unlock the line
//!   unpark the claimed readers
//! ```
//! G1: a notifier appends an entry while it holds the gathering's lock. After it has released that
//! lock, it touches neither the entry nor, for this entry, the gathering. From then on only a
//! reader touches the entry. So an owner has its entry back once it has taken the entry out of its
//! line, or has found under the line's lock that the entry is out, or has read it. When this holds
//! for all entries, the owner has the gathering back.
#![expect(unsafe_code, reason = "reaches entries in frames of other threads")]

use std::cell::Cell;
use std::ptr;

use super::wait_list::{Node, Queue, Role, WaitList, Woken};
use super::{Mode, Outcome, Wait, What};
use crate::base::list::List;
#[cfg(loom)]
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::sync::{SpinGuard, SpinLock};

/// A registration in one line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    /// In a line, the node's links are guarded by the line's lock. Afterwards they are in the
    /// gathering, and guarded by its lock.
    node: Node,
    key: Cell<*const ()>,
}

impl Entry {
    /// Creates an entry that is in no line. Its [node](Entry::node) is what is put into a line.
    pub(crate) fn new(gathering: &Gathering, key: *const ()) -> Entry {
        let gathering = ptr::from_ref(gathering).cast_mut().cast();
        Entry { node: Node::new(ptr::null(), 0, Role::Gather, gathering), key: Cell::new(key) }
    }

    /// Changes the key, before the entry is used.
    pub(crate) fn set_key(&self, key: *const ()) {
        self.key.set(key);
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

/// The entries whose lines have been notified; see the module.
#[derive(Debug)]
pub(crate) struct Gathering {
    inner: SpinLock<Inner>,
    /// Waiters that look again whenever an entry is appended, or when none is left. Its lock is taken
    /// under that of `inner`.
    onlookers: WaitList,
    /// Accessed at each use of the gathering, so that loom can check the order of these uses.
    #[cfg(loom)]
    used: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    notified: List,
    readers: Queue,
    /// Whether there may be onlookers.
    is_watched: bool,
    open: usize,
}

// SAFETY: L3: its links are only followed under the lock that guards it.
unsafe impl Send for Inner {}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum Read {
    /// The line of the entry with this key has been notified. The entry belongs to the reader now.
    Entry(*const ()),
    /// No entry is open.
    Nothing,
    /// The wait for an entry was cancelled.
    Cancelled,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        Gathering::of(0)
    }

    /// Creates a gathering with this many open entries, which are about to be put into lines or
    /// noted.
    pub(crate) fn of(open: usize) -> Gathering {
        let inner = Inner { notified: List::new(), readers: Queue::new(), is_watched: false, open };
        Gathering {
            inner: SpinLock::new(inner),
            onlookers: WaitList::new(),
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

    /// Counts an entry that is about to be put into a line or noted.
    pub(crate) fn open(&self) {
        self.lock().open += 1;
    }

    /// Returns the number of open entries.
    pub(crate) fn len(&self) -> usize {
        self.lock().open
    }

    /// Appends an entry.
    ///
    /// # Safety
    /// G1: the entry belongs to this gathering and is in no line, and the caller does not touch it
    /// afterwards. Either it came out of its line under the line's lock, which is still held, or it
    /// never was in a line.
    pub(super) unsafe fn note(this: *const Gathering, entry: *const Entry, woken: &mut Woken) {
        // SAFETY: G1: the entry's owner cannot leave before the line's lock is released.
        let this = unsafe { &*this };
        let inner = this.lock();
        // SAFETY: L3: the entry is in no list, and stays until it has been read.
        unsafe { inner.notified.push_back(entry.cast()) };
        if !inner.readers.claim_first(woken) {
            this.tell_onlookers(&inner, woken);
        }
    }

    fn tell_onlookers(&self, inner: &Inner, woken: &mut Woken) {
        if inner.is_watched {
            self.onlookers.lock().look_again(woken);
        }
    }

    /// Returns the list of the onlookers, to register in it and then look with
    /// [`Gathering::try_read`].
    pub(crate) fn watch(&self) -> &WaitList {
        self.lock().is_watched = true;
        &self.onlookers
    }

    /// Returns the list of the onlookers.
    pub(crate) fn onlookers(&self) -> &WaitList {
        &self.onlookers
    }

    /// Reads the first entry if there is one. Returns `None` if the caller has to wait for it.
    pub(crate) fn try_read(&self) -> Option<Read> {
        let mut woken = Woken::none();
        let mut inner = self.lock();
        self.take_first(&mut inner, &mut woken)
    }

    fn take_first(&self, inner: &mut Inner, woken: &mut Woken) -> Option<Read> {
        let first = inner.notified.first();
        // SAFETY: G1: an entry stays until it has been read.
        let Some(entry) = (unsafe { first.cast::<Entry>().as_ref() }) else {
            return (inner.open == 0).then_some(Read::Nothing);
        };
        // SAFETY: L3: the entry is in this list, whose lock is held.
        unsafe { inner.notified.remove(first) };
        inner.open -= 1;
        if inner.open == 0 {
            // The other readers have nothing left to wait for.
            while inner.readers.claim_first(woken) {}
            self.tell_onlookers(inner, woken);
        }
        Some(Read::Entry(entry.key.get()))
    }

    /// Appends an entry whose line was notified before the entry could be put into it.
    ///
    /// # Safety
    /// G1: the entry belongs to this gathering and was never in a line, and the caller does not
    /// touch it afterwards.
    pub(crate) unsafe fn note_late(&self, entry: *const Entry) {
        let mut woken = Woken::none();
        // SAFETY: G1, by the caller's promise.
        unsafe { Gathering::note(self, entry, &mut woken) };
    }

    /// Reads the first entry, and waits for it if no entry is there yet.
    #[inline]
    pub(crate) fn read(&self, mode: Mode) -> Read {
        loop {
            let mut woken = Woken::none();
            let mut inner = self.lock();
            if let Some(read) = self.take_first(&mut inner, &mut woken) {
                drop(inner);
                return read;
            }
            let wait = Wait::new(const { &What::new("the end of one of several tasks") }, mode);
            let outcome = wait.in_line(inner, |inner| &inner.readers, || (), || self.lock());
            if let Outcome::Cancelled(_) = outcome {
                return Read::Cancelled;
            }
        }
    }
}

#[cfg(all(test, loom))]
impl Gathering {
    /// Marks the end of the frame. loom objects if another thread's use is not ordered before this.
    fn gone(&mut self) {
        self.used.with_mut(|_| ());
    }
}

#[cfg(all(test, loom))]
mod loom_models;
