//! The wait of this module: for several tasks, in the order in which they end.
//!
//! Each task has an [`Entry`] of one [`Gathering`] in its list of joiners. The caller parks, and a
//! task that ends wakes it. No handle is polled, and the cost of each handle does not depend on
//! their number.
//!
//! # Forms
//! | | the entries are | used by |
//! |---|---|---|
//! | [`find_ended`] | in its frame, until a task decides | `zip`, `try_join_all`, `first_ok` |
//! | [`enter`], [`next`], [`leave`] | on the heap | `JoinSet` |
//!
//! The functions over `find_ended` differ in what they look for: the first failure or the first
//! success. `join_all` and `join!` need no order of ends. They join one task after another, because
//! a join can run a task that has not started in place of the caller.
#![expect(unsafe_code, reason = "puts entries on the stack into the queues of tasks")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use crate::coroutine::OpenFrame;
use crate::park::{Entry, Gathering, Mode, Read};
use crate::scope::JoinError;
use crate::task::{self, Header};

/// The number of entries that are kept on the stack. Longer lists are allocated.
const FEW: usize = 8;

/// Passes the index of each task to `look` when the task ends, until `look` returns something.
/// Returns `None` if it never does. `task` returns the task at an index.
///
/// # Errors
/// Returns [`JoinError::CallerCancelled`] if the caller is cancelled, and [`JoinError::Empty`] if
/// `count` is 0.
#[track_caller]
pub(super) fn find_ended<'h, R>(
    count: usize,
    task: &dyn Fn(usize) -> &'h Header,
    mut look: impl FnMut(usize, &Watch<'_, 'h>) -> Option<R>,
) -> Result<Option<R>, JoinError> {
    task::begin_wait()?;
    if count == 0 {
        return Err(JoinError::Empty);
    }
    // User code runs below here: it converts errors and drops values. `OpenFrame` keeps it from
    // suspending a coroutine over this frame.
    let _frame = OpenFrame::enter();
    let gathering = Gathering::of(count);
    let entry = |index| Entry::new(&gathering, ptr::without_provenance(index));
    let mut few = [const { MaybeUninit::<Entry>::uninit() }; FEW];
    let many: Vec<Entry>;
    let entries = if count <= FEW {
        for (index, place) in few[..count].iter_mut().enumerate() {
            place.write(entry(index));
        }
        // SAFETY: they were written just above. They are never dropped, which loses nothing,
        // because entries of a gathering own nothing.
        unsafe { slice::from_raw_parts(few.as_ptr().cast::<Entry>(), count) }
    } else {
        many = (0..count).map(entry).collect();
        &many[..]
    };
    let watch = Watch { gathering: &gathering, task, entries, left: Cell::new(count) };
    for (index, entry) in entries.iter().enumerate() {
        // SAFETY: G1, N1: before this frame ends, all entries have been read, or dropping `watch`
        // takes them out.
        unsafe { put_in(&gathering, task(index), entry) };
    }
    loop {
        match watch.next(Mode::Cancellable) {
            Read::Entry(index) => {
                let found = look(index.addr(), &watch);
                if found.is_some() {
                    return Ok(found);
                }
            }
            Read::Nothing => return Ok(None),
            Read::Cancelled => return Err(JoinError::CallerCancelled),
        }
    }
}

/// The tasks of a [`find_ended`]. Takes the entries out again when dropped, also while unwinding,
/// unless all have been read.
pub(super) struct Watch<'w, 'h> {
    gathering: &'w Gathering,
    task: &'w dyn Fn(usize) -> &'h Header,
    entries: &'w [Entry],
    /// The number of tasks that have not been returned yet.
    left: Cell<usize>,
}

impl Watch<'_, '_> {
    /// Waits for the next task that ends. The key of its entry is its index.
    fn next(&self, mode: Mode) -> Read {
        let Some(left) = self.left.get().checked_sub(1) else { return Read::Nothing };
        let read = next(self.gathering, mode);
        if matches!(read, Read::Entry(_)) {
            self.left.set(left);
        }
        read
    }

    /// Waits for all tasks that have not ended yet. This is not a cancellation point.
    pub(super) fn rest(&self) {
        while let Read::Entry(_) = self.next(Mode::Uninterruptible) {}
    }
}

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        if self.left.get() == 0 {
            return;
        }
        for (index, entry) in self.entries.iter().enumerate() {
            leave((self.task)(index), entry);
        }
    }
}

/// Registers an entry that the task's end appends to the gathering.
///
/// # Safety
/// G1: gathering and entry stay where they are until the entry has been read, or [`leave`] was
/// called for it.
pub(super) unsafe fn enter(gathering: &Gathering, task: &Header, entry: *const Entry) {
    gathering.open();
    // SAFETY: G1: the caller's promise.
    unsafe { put_in(gathering, task, entry) };
}

/// Registers an entry that the gathering counts as open already.
///
/// # Safety
/// G1: as [`enter`].
unsafe fn put_in(gathering: &Gathering, task: &Header, entry: *const Entry) {
    match task.lock_joiners() {
        // SAFETY: N1: this follows from G1, the caller's promise. A node of this role has no
        // waiter.
        Some(joiners) => unsafe { joiners.push(entry.cast()) },
        // SAFETY: G1: the task has ended and has no pointer to the entry.
        None => unsafe { gathering.note_late(entry) },
    }
}

/// Takes an entry out of the task's list.
pub(super) fn leave(task: &Header, entry: &Entry) {
    task.joiners.lock().remove(entry.node());
}

/// Waits until a task of the gathering ends, and returns the key of its entry.
pub(super) fn next(gathering: &Gathering, mode: Mode) -> Read {
    let read = gathering.read(mode);
    if let Read::Cancelled = read {
        task::cancelled_wait();
    }
    read
}
