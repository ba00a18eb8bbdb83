//! The part of a task that does not depend on its types, and its state word.
#![expect(unsafe_code, reason = "frees the box that it heads")]

use std::alloc::Layout;
use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::busy::{self, Labelled};
use super::cancel::{self, CancelNode};
use super::current;
use super::result::Failure;
use super::switch_hook::Kept;
use crate::base::blocks;
use crate::base::list::Link;
use crate::base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::base::sync::{StaticPtr, StaticU64};
use crate::coroutine::stack::HEAD_SIZE;
use crate::coroutine::switch::{Fiber, Suspender};
use crate::park::{CANCELLED, Mode, Node, WaitList, Waiter};

/// What a task wants when it switches away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Somebody will unpark it.
    Park,
    /// It is ready, but others go first.
    Yield,
    /// It would go on computing, but others are ready.
    MakeRoom,
}

/// Where a parked task puts its stack trace when it is asked to; none: there is not enough stack left to take one.
pub(crate) type TraceSlot = Cell<Option<Backtrace>>;

/// A started task that is not being executed.
pub(crate) type TaskFiber = Fiber<(), Intent, ()>;

/// The result is in the box.
pub(crate) const DONE: u32 = 1;
/// The result has been taken out of the box, or dropped.
pub(crate) const TAKEN: u32 = 2;
/// Somebody waits for the result.
pub(crate) const JOINED: u32 = 4;
/// The handle is gone: nobody will ask for the result.
pub(crate) const DETACHED: u32 = 8;
/// The task panicked, and its scope knows: the result stays until it has looked.
const PANICKED: u32 = 16;
/// Its panic is nobody's: whoever cancelled it does not want to hear of it.
const HUSHED: u32 = 32;
/// One reference.
const REFERENCE: u32 = 64;

/// What depends on the task's types, and on the layers above.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Runs (or drops) the closure on the task's own stack, stores the result and announces it. Returns whether the
    /// reference of the running task was given back with the announcement.
    pub(crate) run: unsafe fn(*const Header) -> bool,
    /// Stores a failure as the result, where nothing is.
    pub(crate) fail: unsafe fn(*const Header, Failure),
    /// Moves the result to where the second pointer says: a `Result<T, Failure>`.
    pub(crate) take: unsafe fn(*const Header, *mut ()),
    /// Moves a value from where the second pointer says, a `T`, back into the box as its result.
    pub(crate) put_back: unsafe fn(*const Header, *mut ()),
    /// Moves the payload of a panic out, if that is what the result is; else drops the result.
    pub(crate) take_panic: unsafe fn(*const Header) -> Option<Box<dyn Any + Send>>,
    /// Drops the closure or the result, whatever there is; a panic of its destructor goes no further.
    pub(crate) discard: unsafe fn(*const Header),
    /// Drops whatever is in the box, and frees it.
    pub(crate) free: unsafe fn(*const Header),
    /// Of the whole box.
    pub(crate) layout: Layout,
    /// The task has panicked; its result says how. For the scope to remember.
    pub(crate) panicked: unsafe fn(*const Header),
    /// The task is over; the last thing it does to its scope.
    pub(crate) ended: unsafe fn(scope: *const (), daemon: bool),
    /// A node of the task has been flagged: wake it if it waits.
    pub(crate) tell: unsafe fn(*const Header),
}

impl VTable {
    /// Of a task that has no closure, no result and no handle: one that runs on a thread's own stack, or in a model.
    pub(crate) const fn bare(tell: unsafe fn(*const Header)) -> VTable {
        VTable {
            run: |_| unreachable!("it has no closure"),
            fail: |_, _| unreachable!("it needs no stack"),
            take: |_, _| unreachable!("it has no handle"),
            put_back: |_, _| unreachable!("it has no handle"),
            take_panic: |_| None,
            discard: |_| {},
            free: |_| {},
            layout: Layout::new::<()>(),
            panicked: |_| {},
            ended: |_, _| {},
            tell,
        }
    }
}

/// What few tasks have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<String>,
    /// In bytes; none: the runtime's default.
    pub(crate) stack_size: Option<usize>,
    /// What the hook at switches keeps for it, until it starts.
    pub(crate) kept: Kept,
    pub(crate) labelled: Labelled,
}

/// The head of every task's box. See [`crate::task`] for who may touch what.
#[repr(C)]
pub(crate) struct Header {
    state: AtomicU32,
    /// Whoever sets this runs the task.
    pub(crate) started: AtomicBool,
    /// It has a worker, and may wait: requests are told to it. Set before the handshake in [`super::reach`].
    pub(crate) reachable: AtomicBool,
    /// A message about a cancellation is on its way to the task's worker.
    pub(crate) cancel_queued: AtomicBool,
    /// Runs even if it was cancelled before it started.
    pub(crate) always_begins: bool,
    /// How its scope counts it.
    pub(crate) daemon: bool,
    /// The join that has started the task takes its result: the task claims that for it in the step that announces it. Touched by
    /// the worker's thread only, while it has the task.
    pub(crate) claims: Cell<bool>,
    /// Whether the task sits in the fiber slot below.
    pub(crate) has_fiber: Cell<bool>,
    /// Since when its worker watches how long it lives; 0: not at all. Touched by the worker's thread only, while it has the task.
    pub(crate) watched_since: Cell<u32>,
    pub(crate) vtable: &'static VTable,
    /// Link of the queue or the inbox that holds the task.
    pub(crate) next: AtomicPtr<Header>,
    /// Link of the inbox for messages about cancellations.
    pub(crate) cancel_next: AtomicPtr<Header>,
    /// The worker that has it: before its start the one in whose queue it was put, afterwards the one it is pinned to.
    pub(crate) worker: AtomicPtr<()>,
    /// What only a started task has; null before and after.
    pub(crate) running: Cell<*const Running>,
    pub(crate) node: CancelNode,
    /// The innermost task-local binding.
    pub(crate) bindings: Cell<*const ()>,
    /// The scope's core.
    pub(crate) scope: *const (),
    /// Who waits for the result.
    pub(crate) joiners: WaitList,
    pub(crate) extra: Option<Box<Extra>>,
    /// Where it was spawned, in the form in which other threads are told of it while it runs: see [`super::busy`].
    pub(super) note: StaticPtr<()>,
    id: AtomicU64,
}

/// What only a started task has, and only its worker touches. It lies at the top of the task's own stack, in a page that is there
/// anyway, so that a box stays small.
#[repr(C)]
pub(crate) struct Running {
    pub(crate) suspender: Cell<*const Suspender<(), Intent>>,
    /// The wait that the task is parked on.
    pub(crate) parked_on: Cell<*const Waiter>,
    /// What a cancellation does to that wait; none: nothing.
    pub(crate) interrupt: Cell<Option<unsafe fn(&Header)>>,
    /// The innermost node.
    pub(crate) node_top: Cell<*const CancelNode>,
    /// Scopes and the like that are open; see [`crate::coroutine`]. Calls of `no_suspend` cannot be open while a task is switched
    /// away, so they have no such slot.
    pub(crate) open_frames: Cell<u32>,
    /// How many waits have been refused because of a cancellation; see [`super::deaf`].
    pub(crate) refused: Cell<u32>,
    /// What the hook at switches keeps for it.
    pub(crate) kept: Kept,
    /// The suspended fiber, while the header says `has_fiber`.
    pub(crate) fiber: UnsafeCell<MaybeUninit<TaskFiber>>,
    /// There from when the task has first switched away: one that never does costs nothing here.
    entry: UnsafeCell<MaybeUninit<Entry>>,
}

/// By what a worker finds its tasks again, for those who look at a program that is stuck.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    /// In the worker's list. First, so that a pointer to the link is one to all of it.
    pub(crate) link: Link,
    pub(crate) task: *const Header,
    /// Where the task is to put its stack trace. Null, unless it was resumed for this alone and goes on waiting afterwards.
    pub(crate) asked: Cell<*const TraceSlot>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Running>() <= HEAD_SIZE && align_of::<Running>() <= 16);
/// A box of a small closure is one of the smaller classes of [`crate::base::blocks`].
#[cfg(target_pointer_width = "64")]
#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() <= 176);

/// The interrupt of a wait that a cancellation ends.
unsafe fn interrupt_wait(header: &Header) {
    let waiter = header.running().parked_on.get();
    // SAFETY: S4: the frame stays until the wait is over; while the task is parked on its own worker, it is not.
    if unsafe { &*waiter }.claim(CANCELLED) {
        // SAFETY: S4: claimed just now.
        unsafe { Waiter::unpark(waiter) };
    }
}

impl Running {
    pub(crate) fn new(node_top: *const CancelNode) -> Running {
        Running {
            entry: UnsafeCell::new(MaybeUninit::uninit()),
            suspender: Cell::new(ptr::null()),
            parked_on: Cell::new(ptr::null()),
            interrupt: Cell::new(None),
            node_top: Cell::new(node_top),
            open_frames: Cell::new(0),
            refused: Cell::new(0),
            kept: Kept::empty(),
            fiber: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Says what the task is about to wait for, and what a cancellation does to that.
    #[inline(always)]
    pub(crate) fn park_on(&self, waiter: &Waiter, mode: Mode) {
        self.parked_on.set(waiter);
        if mode == Mode::Cancellable {
            self.interrupt.set(Some(interrupt_wait));
        }
    }

    /// The wait is over.
    #[inline(always)]
    pub(crate) fn unpark(&self) {
        self.parked_on.set(ptr::null());
        self.interrupt.set(None);
    }

    /// The task has switched away for the first time, or is a root.
    #[inline]
    pub(crate) fn enter(&self, task: *const Header) -> &Entry {
        let entry = Entry { link: Link::new(), task, asked: Cell::new(ptr::null()) };
        // SAFETY: T1: the worker's own thread, and nobody has a reference to it yet.
        unsafe { (*self.entry.get()).write(entry) }
    }

    /// # Safety
    /// T6: [`Running::enter`] was called.
    #[inline]
    pub(crate) unsafe fn entry(&self) -> &Entry {
        // SAFETY: T6, the caller's promise.
        unsafe { &*self.entry.get().cast::<Entry>() }
    }
}

// SAFETY: T1: the fields that are not atomic have one owner at a time, named in the module's table.
unsafe impl Sync for Header {}
// SAFETY: T1, as above.
unsafe impl Send for Header {}

static NEXT_ID: StaticU64 = StaticU64::new(1);

impl Header {
    /// A header with two references: one for the handle, one for the queue and then the worker.
    #[expect(clippy::too_many_arguments, reason = "called once, by the scope")]
    #[inline(always)]
    pub(crate) fn new(
        vtable: &'static VTable,
        scope: *const (),
        group: *const CancelNode,
        bindings: *const (),
        always_begins: bool,
        daemon: bool,
        extra: Option<Box<Extra>>,
        spawned_at: &'static Location<'static>,
    ) -> Header {
        Header {
            state: AtomicU32::new(2 * REFERENCE),
            started: AtomicBool::new(false),
            reachable: AtomicBool::new(false),
            cancel_queued: AtomicBool::new(false),
            always_begins,
            daemon,
            claims: Cell::new(false),
            has_fiber: Cell::new(false),
            watched_since: Cell::new(0),
            vtable,
            next: AtomicPtr::new(ptr::null_mut()),
            cancel_next: AtomicPtr::new(ptr::null_mut()),
            worker: AtomicPtr::new(ptr::null_mut()),
            running: Cell::new(ptr::null()),
            node: CancelNode::new(group, ptr::null(), cancel::Kind::Plain),
            bindings: Cell::new(bindings),
            scope,
            joiners: WaitList::new(),
            extra,
            note: StaticPtr::new(busy::place(spawned_at)),
            id: AtomicU64::new(0),
        }
    }

    /// Memory for the box of a task with these functions.
    #[inline(always)]
    pub(crate) fn room(vtable: &'static VTable) -> NonNull<Header> {
        blocks::allocate(vtable.layout).cast()
    }

    /// Heads a box. The pointer owns the header's two references.
    ///
    /// # Safety
    /// M1: the room was made for the header's table of functions, and is used once. K1: the parent of the header's node is there for as
    /// long as the task is.
    #[inline(always)]
    pub(crate) unsafe fn boxed(room: NonNull<Header>, header: Header) -> *const Header {
        // SAFETY: M1, the caller's promise.
        unsafe { room.write(header) };
        // SAFETY: T2: nobody else knows it.
        let header = unsafe { room.as_ref() };
        header.node.set_owner(room.as_ptr());
        // SAFETY: K1, the caller's promise, and nobody else knows the node yet.
        unsafe { header.node.note() };
        room.as_ptr()
    }

    /// Whether the task, which is about to begin, does: not if somebody has asked it to stop before.
    #[inline]
    pub(crate) fn begins(&self) -> bool {
        // The innermost node is the task's own, at first.
        self.always_begins || self.node.is_clear() || self.was_not_asked()
    }

    #[cold]
    fn was_not_asked(&self) -> bool {
        // SAFETY: K1: a task's ancestors outlive it.
        if unsafe { cancel::ask(&self.node) }.is_none() {
            return true;
        }
        // SAFETY: K1: a task's ancestors outlive it.
        if let Some(origin) = unsafe { cancel::flagged_by(current::flagged_node()) } {
            origin.mark_delivered();
        }
        false
    }

    /// The task's number: unique in the process, given out the first time that somebody asks.
    pub(crate) fn id(&self) -> u64 {
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(other) => other,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.extra.as_ref()?.name.as_deref()
    }

    /// How reports name the task.
    #[cold]
    pub(crate) fn description(&self) -> String {
        let name = self.name().map_or_else(String::new, |name| format!(" '{name}'"));
        let begun = if self.scope.is_null() { "the root, run at" } else { "spawned at" };
        format!("task #{}{name} ({begun} {})", self.id(), self.spawned_at())
    }

    /// What the running task has beyond its box.
    #[inline]
    pub(crate) fn running(&self) -> &Running {
        // SAFETY: T4: called on the running task, or on a parked one by its worker, between start and end.
        unsafe { &*self.running.get() }
    }

    /// The state bits. Acquire: who sees DONE sees the result.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Adds a reference, on the strength of one that the caller holds.
    #[inline]
    pub(crate) fn retain(&self) {
        self.state.fetch_add(REFERENCE, Ordering::Relaxed);
    }

    /// Gives a reference back; the last one frees the box.
    ///
    /// # Safety
    /// T2: the caller owns the reference and does not use the header afterwards.
    #[inline]
    pub(crate) unsafe fn release(this: *const Header) {
        // SAFETY: T2: the reference keeps it alive.
        let header = unsafe { &*this };
        // A sole owner needs no atomic read-modify-write: nobody is left who could change the count.
        let sole = header.state.load(Ordering::Acquire) / REFERENCE == 1;
        if sole || header.state.fetch_sub(REFERENCE, Ordering::AcqRel) / REFERENCE == 1 {
            #[cfg(loom)]
            // SAFETY: T2: it was the last reference. Loom objects if some access to the state is not ordered before this.
            unsafe { &mut (*this.cast_mut()).state }.with_mut(|_| ());
            // SAFETY: T2: it was the last reference.
            unsafe { (header.vtable.free)(this) };
        }
    }

    /// Ends the running task, whose result is in the box. Returns what [`VTable::run`] does.
    ///
    /// # Safety
    /// T3: called once, by the task, on its own stack.
    pub(crate) unsafe fn end(this: *const Header, panicked: bool) -> bool {
        // SAFETY: T2: the running task holds a reference.
        let header = unsafe { &*this };
        // From here on nobody reaches the node any more.
        cancel::unlink(&header.node);
        if panicked {
            // SAFETY: T3: the result is stored, the scope is alive.
            unsafe { (header.vtable.panicked)(this) };
        }
        // SAFETY: T3, the caller's promise.
        unsafe { Header::announce(this, panicked) }
    }

    /// Ends the task without having run it, because it cannot start: the text says why.
    ///
    /// # Safety
    /// T3: instead of [`VTable::run`].
    pub(crate) unsafe fn refuse(this: *const Header, why: String) {
        // SAFETY: T2: the caller holds the running task's reference.
        let header = unsafe { &*this };
        // SAFETY: T1: the task owns its stage until it announces the result.
        unsafe { (header.vtable.discard)(this) };
        // With this the reference is not given back early.
        header.has_fiber.set(true);
        // SAFETY: T1, as above; discarded just now.
        unsafe { (header.vtable.fail)(this, Failure::Panicked(Box::new(why))) };
        // SAFETY: T3, the caller's promise.
        unsafe { Header::end(this, true) };
    }

    /// Announces that the result is in the box, wakes who waits for it, and drops it if nobody ever will.
    ///
    /// If it has never switched away, the running task's own reference is given back in the same step where that is possible.
    /// Returns whether it was; then the header must not be touched again.
    ///
    /// # Safety
    /// T3: called once, by the task, on its own stack, after it has stored the result.
    unsafe fn announce(this: *const Header, panicked: bool) -> bool {
        // SAFETY: T2: the task holds a reference.
        let header = unsafe { &*this };
        let done = DONE
            | if panicked { PANICKED } else { 0 }
            | if header.claims.get() { TAKEN } else { 0 };
        let may_release = !header.has_fiber.get() && !panicked;
        let mut state = header.state.load(Ordering::Relaxed);
        // Messages about cancellations may outlast the task, on its worker: it is not running any more.
        let running = header.running.replace(ptr::null());
        loop {
            if state & DETACHED != 0 && !panicked {
                header.running.set(running);
                // Nobody can ask for it any more. It may borrow from outside the scope: drop it before the scope can end.
                // SAFETY: T1: nobody asks for the result, so the task still owns it.
                unsafe { (header.vtable.discard)(this) };
                // A destructor that waited has linked it again.
                cancel::unlink(&header.node);
                header.running.set(ptr::null());
                header.state.fetch_or(DONE | TAKEN, Ordering::Release);
                return false;
            }
            let release = may_release && state & JOINED == 0 && state / REFERENCE > 1;
            let next = (state | done) - if release { REFERENCE } else { 0 };
            // Release: whoever sees DONE sees the result. Acquire: the task sees what a joiner has put in the list.
            match header.state.compare_exchange_weak(
                state,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Err(seen) => state = seen,
                Ok(_) => {
                    if state & JOINED != 0 {
                        // It may run a callback here, which may ask what a task may ask.
                        header.running.set(running);
                        header.joiners.announce();
                        cancel::unlink(&header.node);
                        header.running.set(ptr::null());
                    }
                    return release;
                }
            }
        }
    }

    /// Puts a node in the list of those who wait for the result; false when the task is done already.
    ///
    /// # Safety
    /// N1: the node and its waiter stay where they are until it is out of the list.
    pub(crate) unsafe fn add_joiner(&self, node: *const Node) -> bool {
        let joiners = self.joiners.lock();
        if self.state.fetch_or(JOINED, Ordering::AcqRel) & DONE != 0 {
            return false;
        }
        // SAFETY: N1, the caller's promise.
        unsafe { joiners.push(node) };
        true
    }

    /// Who waits for the result, having said that somebody does: whoever puts a node in by himself looks once more afterwards
    /// whether the task is done.
    pub(crate) fn announce_to_joiners(&self) -> &WaitList {
        // AcqRel: either the task sees it when it announces its result, or whoever looks after this sees DONE.
        self.state.fetch_or(JOINED, Ordering::AcqRel);
        &self.joiners
    }

    /// Claims the result for the caller; false when there is none (yet, or any more).
    #[inline]
    pub(crate) fn claim_result(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state & (DONE | TAKEN) != DONE {
            return false;
        }
        self.state.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0
    }

    /// Takes the claim back: the result is in the box again.
    ///
    /// # Safety
    /// T1: the caller has claimed the result, and put it back.
    pub(crate) unsafe fn unclaim_result(&self) {
        // Release: whoever claims it next sees it.
        self.state.fetch_and(!TAKEN, Ordering::Release);
    }

    /// Says that nobody wants to hear of the task's panic, should it come to one. It can still be joined.
    pub(crate) fn hush(&self) {
        self.state.fetch_or(HUSHED, Ordering::Relaxed);
    }

    /// Whether [`Header::hush`] was called.
    pub(crate) fn is_hushed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & HUSHED != 0
    }

    /// The handle is going: drops the result if it is there, or tells the task to.
    ///
    /// # Safety
    /// T2: gives back the handle's reference; the caller does not use the header afterwards.
    #[inline]
    pub(crate) unsafe fn detach(this: *const Header) {
        // SAFETY: T2: the handle holds a reference.
        let header = unsafe { &*this };
        let mut state = header.state.load(Ordering::Acquire);
        while state & DONE == 0 {
            // Still to run, and its own reference outlives this one.
            let next = (state | DETACHED) - REFERENCE;
            match header.state.compare_exchange_weak(
                state,
                next,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(seen) => state = seen,
            }
        }
        if state & (TAKEN | PANICKED) == 0 && header.claim_result() {
            // SAFETY: T1: claimed just now.
            unsafe { (header.vtable.discard)(this) };
        }
        // SAFETY: T2, the caller's promise.
        unsafe { Header::release(this) };
    }

    /// A node of this task has been flagged.
    pub(crate) fn tell_cancelled(header: &Header) {
        // SAFETY: K2: the task lives while its node is linked, and the caller holds the lock that keeps it so.
        unsafe { (header.vtable.tell)(header) };
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("state", &self.state)
            .field("spawned_at", &self.spawned_at())
            .finish_non_exhaustive()
    }
}
