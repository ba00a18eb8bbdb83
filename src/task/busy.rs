//! What each worker is running, for threads that cannot ask the worker: a task that computes or
//! blocks answers no message.
//!
//! At each switch, a worker notes the task that it runs in a cell of its thread, with one load and
//! one store. Another thread may read the cell at any time, even when the task has ended and its
//! box has been freed. So the cell never names the task. It names something that is never freed:
//! the place where the task was spawned or, for a task with a name, a label that has a copy of the
//! place and the name. Labels are reused for later tasks.
//!
//! ```text
//!   the worker                                  another thread
//!   ---------------------------------------     -----------------------------------------------
//!   board.open(): the address of its cell
//!   cell <- a place, or a label (release)       board.read(), under the board's lock:
//!   ..                                            read the cell, copy what it names,
//!   board.close(), under the board's lock         read the cell again: if it has changed, repeat
//! ```
//! The lock keeps the cell alive while it is read, because the worker's thread does not end before
//! its board is closed. The copy may be out of date when it is used. This is true of every look at
//! a running program.
#![expect(unsafe_code, reason = "reads another thread's cell by its address")]

use std::cell::Cell;
use std::mem::offset_of;
use std::num::NonZero;
use std::panic::Location;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::header::{Extra, Header};
use crate::base::local;
use crate::base::sync::StaticPtr;
use crate::base::sync::atomic::Ordering;
use crate::base::watched::WatchedThread;

/// The content of a cell: the address of a place or of a label, with its kind in the lowest bits.
/// Null means no task.
pub(crate) type Note = *mut ();

const ROOT: usize = 1;
const LABEL: usize = 2;
const BITS: usize = 3;

const _: () = assert!(align_of::<Location<'static>>() > BITS && align_of::<Label>() > BITS);

/// The name of a started task and the place where it was spawned. Never freed.
#[derive(Debug)]
#[repr(align(8))]
struct Label {
    name: Mutex<String>,
    spawned_at: StaticPtr<Location<'static>>,
    shelf: usize,
}

/// Labels that no task uses. They are spread over several shelves by thread, so that workers do not
/// wait for each other's locks.
static FREE: [Mutex<Vec<&'static Label>>; 16] = [const { Mutex::new(Vec::new()) }; 16];

/// A task's label. Dropping this returns the label to its shelf.
#[derive(Debug, Default)]
pub(crate) struct Labelled(Cell<Option<&'static Label>>);

impl Drop for Labelled {
    fn drop(&mut self) {
        if let Some(label) = self.0.get() {
            FREE[label.shelf].lock().unwrap_or_else(PoisonError::into_inner).push(label);
        }
    }
}

/// Returns the note for a task without a label.
#[inline(always)]
pub(super) fn place(spawned_at: &'static Location<'static>) -> Note {
    ptr::from_ref(spawned_at).cast_mut().cast()
}

fn with_bit(note: Note, bit: usize) -> Note {
    note.map_addr(|address| address | bit)
}

/// Returns the place that a note names, or `None` for an empty note.
#[inline]
fn place_in(note: Note) -> Option<&'static Location<'static>> {
    let address = note.map_addr(|address| address & !BITS);
    let place = if note.addr() & LABEL == 0 {
        address.cast::<Location<'static>>()
    } else {
        // SAFETY: R2: a label is never freed.
        unsafe { &*address.cast::<Label>() }.spawned_at.load(Ordering::Relaxed)
    };
    // SAFETY: R2: a place is part of the program.
    unsafe { place.cast_const().as_ref() }
}

impl Header {
    /// Returns the place where the task was spawned. For a root, it is the place where the run
    /// began.
    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        place_in(self.note.load(Ordering::Acquire)).expect("a header's note names a place")
    }
}

/// Gives a label to a task that is about to start, if the task has a name. `extra` belongs to the
/// task.
#[cold]
pub(crate) fn label(header: &Header, extra: &Extra) {
    let Some(name) = &extra.name else { return };
    let spawned_at = ptr::from_ref(header.spawned_at()).cast_mut();
    let shelf = (local::with(|local| ptr::from_ref(local).addr()) >> 12) % FREE.len();
    let free = FREE[shelf].lock().unwrap_or_else(PoisonError::into_inner).pop();
    let label = free.unwrap_or_else(|| {
        let (name, spawned_at) = (Mutex::new(String::new()), StaticPtr::new(spawned_at));
        Box::leak(Box::new(Label { name, spawned_at, shelf }))
    });
    {
        let mut said = label.name.lock().unwrap_or_else(PoisonError::into_inner);
        said.clear();
        said.push_str(name);
        label.spawned_at.store(spawned_at, Ordering::Relaxed);
    }
    extra.labelled.0.set(Some(label));
    let note = ptr::from_ref(label).cast_mut().cast::<()>();
    // Release: a thread that sees the note sees the label's contents.
    header.note.store(with_bit(note, LABEL), Ordering::Release);
}

/// Marks a header as that of a root.
pub(crate) fn label_root(header: &Header) {
    header.note.store(with_bit(place(header.spawned_at()), ROOT), Ordering::Relaxed);
}

/// Notes that this thread runs a task.
#[inline(always)]
pub(crate) fn note(task: &Header) {
    note_again(task.note.load(Ordering::Relaxed));
}

/// Notes that this thread runs no task.
#[inline(always)]
pub(crate) fn note_none() {
    note_again(ptr::null_mut());
}

/// Restores an earlier note of this thread.
#[inline(always)]
pub(crate) fn note_again(note: Note) {
    // Release: a thread that sees the note sees the label's contents.
    local::with(|local| local.busy_with.store(note, Ordering::Release));
}

/// Returns the current note of this thread.
#[inline(always)]
pub(crate) fn noted() -> Note {
    local::with(|local| local.busy_with.load(Ordering::Relaxed))
}

/// A task that a worker was running when another thread looked.
#[derive(Clone, Debug)]
pub(crate) struct SeenTask {
    pub(crate) name: Option<String>,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) is_root: bool,
}

/// The place where other threads find the address of a worker's cell. Null means that the worker
/// has no thread.
#[derive(Debug)]
pub(crate) struct Board {
    cell: Mutex<Address>,
    thread: WatchedThread,
}

#[derive(Debug)]
struct Address(*const StaticPtr<()>);

// SAFETY: R2: the cell is atomic, and it stays as long as its address is on the board.
unsafe impl Send for Address {}

impl Board {
    /// For debuggers: the offset of the number of the worker's thread.
    pub(crate) const THREAD: usize = offset_of!(Board, thread) + WatchedThread::NUMBER;
    /// For debuggers: the bit of a note that means a root.
    pub(crate) const ROOT: usize = ROOT;
    /// For debuggers: the bit of a note that means a label.
    pub(crate) const LABEL: usize = LABEL;
    /// For debuggers: the offset of the pointer to the place in a label.
    pub(crate) const LABEL_PLACE: usize = offset_of!(Label, spawned_at);

    pub(crate) fn new() -> Board {
        let thread = WatchedThread::new();
        Board { cell: Mutex::new(Address(ptr::null())), thread }
    }

    /// Publishes the current thread's cell.
    pub(crate) fn open(&self) {
        let cell = local::with(|local| &raw const local.busy_with);
        self.cell.lock().unwrap_or_else(PoisonError::into_inner).0 = cell;
        self.thread.begin();
    }

    /// Withdraws the cell. This must be called before the thread ends.
    pub(crate) fn close(&self) {
        self.thread.end();
        self.cell.lock().unwrap_or_else(PoisonError::into_inner).0 = ptr::null();
    }

    /// Returns the worker's thread.
    pub(crate) fn thread(&self) -> &WatchedThread {
        &self.thread
    }

    /// Returns the address that the cell holds, which differs between tasks of different places or
    /// names. Returns `None` if the worker runs no task.
    pub(crate) fn address(&self) -> Option<NonZero<usize>> {
        let address = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: R2: the thread waits for the lock before it ends.
        let cell = unsafe { address.0.as_ref() }?;
        NonZero::new(cell.load(Ordering::Relaxed).addr())
    }

    /// Returns the task that the worker runs. Returns `None` if the worker runs no task, or changes
    /// tasks too often to be read.
    pub(crate) fn read(&self) -> Option<SeenTask> {
        let address = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: R2: the thread waits for the lock before it ends.
        let cell = unsafe { address.0.as_ref() }?;
        let mut note = cell.load(Ordering::Acquire);
        for _ in 0..8 {
            let seen = see(note)?;
            let now = cell.load(Ordering::Acquire);
            if now == note {
                return Some(seen);
            }
            note = now;
        }
        None
    }
}

fn see(note: Note) -> Option<SeenTask> {
    let spawned_at = place_in(note)?;
    let name = (note.addr() & LABEL != 0).then(|| {
        let label = note.map_addr(|address| address & !BITS).cast::<Label>();
        // SAFETY: R2: a label is never freed.
        unsafe { &*label }.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    });
    Some(SeenTask { name, spawned_at, is_root: note.addr() & ROOT != 0 })
}
