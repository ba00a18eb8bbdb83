//! Waiting for several tasks in the order in which they end.
#![expect(unsafe_code, reason = "puts entries on the stack into the queues of tasks")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;

use crate::coroutine::OpenFrame;
use crate::park::{Entry, Gathering, Mode, Read};
use crate::scope::JoinError;
use crate::task::{self, Header};

/// The number of entries that are kept on the stack. Longer lists are allocated.
const FEW: usize = 8;

/// Several tasks that are being watched.
#[derive(Debug)]
pub(super) struct Watch<'w> {
    gathering: &'w Gathering,
    /// The number of tasks that have not been returned yet.
    left: &'w Cell<usize>,
}

/// Watches `count` tasks while `body` runs. `task` returns the task at an index.
pub(super) fn watch<'h, R>(
    count: usize,
    task: &dyn Fn(usize) -> &'h Header,
    body: impl FnOnce(&Watch<'_>) -> R,
) -> R {
    // User code runs below here: it converts errors and drops values. `OpenFrame` keeps it from
    // suspending a coroutine over this frame.
    let _frame = OpenFrame::enter();
    let gathering = Gathering::of(count);
    let left = Cell::new(count);
    let entry = |index| Entry::new(&gathering, ptr::without_provenance(index));
    let mut few = [const { MaybeUninit::<Entry>::uninit() }; FEW];
    let many: Vec<Entry>;
    let entries = if count <= FEW {
        for (index, place) in few[..count].iter_mut().enumerate() {
            place.write(entry(index));
        }
        // SAFETY: they were written just above. They are never dropped, which loses nothing,
        // because entries of a gathering own nothing.
        unsafe { few[..count].assume_init_ref() }
    } else {
        many = (0..count).map(entry).collect();
        &many[..]
    };
    let _listed = Listed { task, entries, left: &left };
    for (index, entry) in entries.iter().enumerate() {
        // SAFETY: G1, N1: before this frame ends, all entries have been read, or `Listed` takes
        // them out.
        unsafe { put_in(&gathering, task(index), entry) };
    }
    body(&Watch { gathering: &gathering, left: &left })
}

impl Watch<'_> {
    /// Returns the index of the next task that ends or has already ended. Returns `None` if all
    /// have been returned.
    pub(super) fn next(&self) -> Result<Option<usize>, JoinError> {
        match self.next_as(Mode::Cancellable) {
            Next::Ended(key) => Ok(Some(key.addr())),
            Next::Nobody => Ok(None),
            Next::Cancelled => Err(JoinError::CallerCancelled),
        }
    }

    /// Waits for all tasks that have not been returned. This is not a cancellation point.
    pub(super) fn rest(&self) {
        while matches!(self.next_as(Mode::Uninterruptible), Next::Ended(_)) {}
    }

    fn next_as(&self, mode: Mode) -> Next {
        let left = self.left.get();
        if left == 0 {
            return Next::Nobody;
        }
        let next = next(self.gathering, mode);
        if matches!(next, Next::Ended(_)) {
            self.left.set(left - 1);
        }
        next
    }
}

/// Takes the entries out again when dropped, also while unwinding, unless all have been read.
struct Listed<'w, 'h> {
    task: &'w dyn Fn(usize) -> &'h Header,
    entries: &'w [Entry],
    left: &'w Cell<usize>,
}

impl Drop for Listed<'_, '_> {
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

/// The result of [`next`].
pub(super) enum Next {
    /// The task whose entry has this key has ended.
    Ended(*const ()),
    /// All tasks have been returned.
    Nobody,
    Cancelled,
}

/// Waits for the next task of a gathering.
pub(super) fn next(gathering: &Gathering, mode: Mode) -> Next {
    match gathering.read(mode) {
        Read::Entry(key) => Next::Ended(key),
        Read::Nothing => Next::Nobody,
        Read::Cancelled => {
            task::cancelled_wait();
            Next::Cancelled
        }
    }
}
