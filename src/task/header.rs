//! The part of a task that does not depend on its types, and its state word.
#![expect(unsafe_code, reason = "frees the box that it heads")]

use std::alloc::Layout;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::{MaybeUninit, offset_of};
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::busy::{self, Labelled};
use super::cancel::{self, CancelNode};
use super::current::FIRST_ALLOWANCE;
use super::current::{self, TaskId};
use super::observer::{self, Ending};
use super::polled::{PollTable, UNPOLLED};
use super::result::Failure;
use super::switch_hook::{Kept, calls_observer};
use crate::base::blocks;
use crate::base::list::Link;
use crate::base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::base::sync::{QueueGuard, StaticPtr, StaticU64};
use crate::base::{report, simulated};
use crate::coroutine::stack::HEAD_SIZE;
use crate::coroutine::switch::Fiber;
use crate::park::{Intent, Parker, Queue, WaitList};

/// A started task that is not being executed.
pub(crate) type TaskFiber = Fiber<(), Intent, ()>;

/// The result is in the box.
pub(crate) const DONE: u32 = 1;
/// The result has been taken out of the box, or dropped.
pub(crate) const TAKEN: u32 = 2;
/// Another task or thread may be waiting for the result.
pub(crate) const JOINED: u32 = 4;
/// The handle has been dropped, so the result will not be asked for.
pub(crate) const DETACHED: u32 = 8;
/// The task panicked, and its scope knows. The result is kept until the scope has looked at it.
const PANICKED: u32 = 16;
/// A failure of the task is not reported, because its canceller does not want it.
const HUSHED: u32 = 32;
/// One reference.
const REFERENCE: u32 = 64;
/// The value of the state with half as many references as fit, about 33 million.
const REFERENCES_MAX: u32 = u32::MAX / 2;

/// The functions of the layers above that a task calls. They are the same for tasks of all types.
#[derive(Debug)]
pub(crate) struct Upcalls {
    /// Tells the scope that the task has panicked. The result says how.
    pub(crate) panicked: unsafe fn(*const Header),
    /// Tells the scope, in a simulation, that the handle of a task that has panicked was dropped.
    #[cfg(feature = "sim")]
    pub(crate) left: unsafe fn(*const Header),
    /// Tells the scope that the task is over. This is the task's last access to its scope.
    pub(crate) ended: unsafe fn(scope: *const (), daemon: bool),
    /// Notifies the task that one of its nodes has been flagged, and wakes the task if it waits.
    pub(crate) notify_cancelled: unsafe fn(*const Header),
    /// Queues a pending task that has been woken. Any thread may call it.
    pub(crate) woken: unsafe fn(*const Header),
}

/// The functions that depend on the task's types, and those of the layers above.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Runs (or drops) the closure on the task's own stack, stores the result and announces it.
    /// Returns whether the running task's reference was released with the announcement.
    pub(crate) run: unsafe fn(*const Header) -> bool,
    /// The functions of a task whose work is a future. They replace `run`.
    pub(crate) polled: Option<PollTable>,
    /// Stores a failure as the result. There must be no result yet.
    pub(crate) fail: unsafe fn(*const Header, Failure),
    /// Moves the result, a `Result<T, Failure>`, to the place that the second pointer names.
    pub(crate) take: unsafe fn(*const Header, *mut ()),
    /// Moves a `T` from the place that the second pointer names back into the box, as its result.
    pub(crate) put_back: unsafe fn(*const Header, *mut ()),
    /// Moves out the payload if the result is a panic. Drops any other result.
    pub(crate) take_panic: unsafe fn(*const Header) -> Option<Box<dyn Any + Send>>,
    /// Drops the closure or the result. A panic of its destructor is caught.
    pub(crate) discard: unsafe fn(*const Header),
    /// Drops the contents of the box, and frees it.
    pub(crate) free: unsafe fn(*const Header),
    /// The layout of the whole box.
    pub(crate) layout: Layout,
    pub(crate) upcalls: Upcalls,
}

impl VTable {
    /// Returns the table of a task without closure, result and handle. Such a task runs on a
    /// thread's own stack, or in a model.
    pub(crate) const fn bare(notify_cancelled: unsafe fn(*const Header)) -> VTable {
        VTable {
            run: |_| unreachable!("it has no closure"),
            polled: None,
            fail: |_, _| unreachable!("it needs no stack"),
            take: |_, _| unreachable!("it has no handle"),
            put_back: |_, _| unreachable!("it has no handle"),
            take_panic: |_| None,
            discard: |_| {},
            free: |_| {},
            layout: Layout::new::<()>(),
            upcalls: Upcalls {
                panicked: |_| {},
                #[cfg(feature = "sim")]
                left: |_| {},
                ended: |_, _| {},
                notify_cancelled,
                woken: |_| unreachable!("it has no future"),
            },
        }
    }
}

/// The options that few tasks have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<String>,
    /// In bytes. `None` means the runtime's default.
    pub(crate) stack_size: Option<usize>,
    /// What the switch hook keeps for the task until it starts.
    pub(crate) kept: Kept,
    pub(crate) labelled: Labelled,
    /// A call of the observer has spawned the task.
    pub(super) is_unobserved: bool,
}

/// The head of every task's box. See [`crate::task`] for the owners of its fields.
#[repr(C)]
pub(crate) struct Header {
    /// The part that only a started task has. Null before the start and after the end. It is the
    /// first field, and a `Running` begins with a parker: T7.
    pub(crate) running: Cell<*const Running>,
    /// The link in the queue or inbox that holds the task.
    pub(crate) next: AtomicPtr<Header>,
    /// The link in the inbox for cancellation messages.
    pub(crate) cancel_next: AtomicPtr<Header>,
    /// The worker that has the task. Before the start, it is the worker in whose queue the task was
    /// put. Afterwards it is the worker that the task is pinned to.
    pub(crate) worker: AtomicPtr<()>,
    state: AtomicU32,
    /// The thread that sets this runs the task.
    pub(crate) started: AtomicBool,
    /// The task has a worker and may wait, so cancellers tell it of requests. Set before the
    /// handshake in [`super::reach`].
    pub(crate) reachable: AtomicBool,
    /// A cancellation message for the task is on its way to its worker.
    pub(crate) cancel_queued: AtomicBool,
    /// The task runs even if it was cancelled before it started.
    pub(crate) always_begins: bool,
    /// The scope counts the task as a daemon.
    pub(crate) daemon: bool,
    /// The join that started the task takes its result. The task claims the result for that join in
    /// the step that announces it. Accessed only by the thread of the worker that has the task.
    pub(crate) claims: Cell<bool>,
    /// The fiber slot of `Running` holds the suspended task. Also set when a task whose work is a
    /// future ends.
    pub(crate) has_fiber: Cell<bool>,
    /// Whether a future is being polled or has been woken: see [`super::polled`].
    pub(super) wakes: AtomicU8,
    /// The time from which the worker measures how long the task lives, or 0 if it does not.
    /// Accessed only by the thread of the worker that has the task.
    pub(crate) watched_since: Cell<u32>,
    pub(crate) vtable: &'static VTable,
    pub(crate) node: CancelNode,
    /// The innermost task-local binding.
    pub(crate) bindings: Cell<*const ()>,
    /// The scope's core.
    pub(crate) scope: *const (),
    /// The waiters for the result.
    pub(crate) joiners: WaitList,
    pub(crate) extra: Option<Box<Extra>>,
    /// The place of the spawn, in the form that other threads read while the task runs: see
    /// [`super::busy`].
    pub(super) note: StaticPtr<()>,
    id: AtomicU64,
}

/// The part that only a started task has, and that only its worker accesses. It lies at the top of
/// the task's own stack, in a page that is needed anyway, so that a box stays small.
#[repr(C)]
pub(crate) struct Running {
    /// What `park` knows of the task. It is the first field: T7.
    pub(crate) parker: Parker,
    /// The number of open scopes and similar frames; see [`crate::coroutine`]. There is no such
    /// slot for `no_suspend`, whose calls cannot be open while a task is switched away.
    pub(crate) open_frames: Cell<u32>,
    /// How many waits a cancellation has refused; see [`super::deaf`].
    pub(crate) refused: Cell<u16>,
    /// The budget of the task's turns; see `sched::pace`.
    pub(crate) allowance: Cell<u8>,
    /// An answer to a request is not passed on to the caller, so it does not count as delivered.
    pub(crate) keeps_answers: Cell<bool>,
    /// What the switch hook keeps for the task.
    pub(crate) kept: Kept,
    /// The innermost node.
    node_top: Cell<*const CancelNode>,
    /// The suspended fiber, while `has_fiber` is set in the header.
    pub(crate) fiber: UnsafeCell<MaybeUninit<TaskFiber>>,
    /// Initialized when the task first switches away. A task that never does so pays nothing here.
    entry: UnsafeCell<MaybeUninit<StartedEntry>>,
}

/// The entry by which a worker finds its started tasks, for dumps of a program that is stuck.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct StartedEntry {
    /// The link in the worker's list. It is the first field, so that a pointer to it is also a
    /// pointer to the entry.
    pub(crate) link: Link,
    pub(crate) task: *const Header,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Running>() <= HEAD_SIZE && align_of::<Running>() <= 16);
/// With this size, the box of a small closure belongs to one of the smaller classes of
/// [`crate::base::blocks`].
#[cfg(target_pointer_width = "64")]
#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() <= 176);

impl Running {
    /// For debuggers: the offset of the fiber.
    pub(crate) const FIBER: usize = offset_of!(Running, fiber);

    pub(crate) fn new(node_top: *const CancelNode) -> Running {
        Running {
            allowance: Cell::new(FIRST_ALLOWANCE),
            entry: UnsafeCell::new(MaybeUninit::uninit()),
            parker: Parker::new(),
            keeps_answers: Cell::new(false),
            node_top: Cell::new(node_top),
            open_frames: Cell::new(0),
            refused: Cell::new(0),
            kept: Kept::empty(),
            fiber: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns the innermost node.
    #[inline]
    pub(crate) fn node_top(&self) -> *const CancelNode {
        self.node_top.get()
    }

    /// Makes `node` the innermost node, and returns the previous one.
    #[inline]
    pub(crate) fn replace_node(&self, node: *const CancelNode) -> *const CancelNode {
        // The next wait must ask this node.
        self.parker.alert();
        self.node_top.replace(node)
    }

    /// Initializes the entry. Called when the task has switched away for the first time, or is a
    /// root.
    #[inline]
    pub(crate) fn enter(&self, task: *const Header) -> &StartedEntry {
        let entry = StartedEntry { link: Link::new(), task };
        // SAFETY: T1: this is the worker's own thread, and no reference to the entry exists yet.
        unsafe { (*self.entry.get()).write(entry) }
    }

    /// # Safety
    /// T6: [`Running::enter`] has been called.
    #[inline]
    pub(crate) unsafe fn entry(&self) -> &StartedEntry {
        // SAFETY: T6, by this function's contract.
        unsafe { &*self.entry.get().cast::<StartedEntry>() }
    }
}

// SAFETY: T1: each field that is not atomic has one owner at a time, named in the module's table.
unsafe impl Sync for Header {}
// SAFETY: T1: no field belongs to a thread. One that is not atomic passes from owner to owner with the
// task.
unsafe impl Send for Header {}

static NEXT_ID: StaticU64 = StaticU64::new(1);

impl Header {
    /// For debuggers: the offset of the task's number, which is 0 before it is asked for.
    pub(crate) const ID: usize = offset_of!(Header, id);
    /// For debuggers: the offset of the task's note: see [`super::busy`].
    pub(crate) const NOTE: usize = offset_of!(Header, note);

    /// Creates a header with two references. One is the handle's. The other belongs to the queue
    /// and then to the worker.
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
            wakes: AtomicU8::new(UNPOLLED),
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

    /// Allocates the box of a task with this vtable.
    #[inline(always)]
    pub(crate) fn room(vtable: &'static VTable) -> NonNull<Header> {
        blocks::allocate(vtable.layout).cast()
    }

    /// Writes the header into its box. The returned pointer owns the header's two references.
    ///
    /// # Safety
    /// M1: the memory was allocated for the header's vtable, and is used once. K1: the parent of
    /// the header's node outlives the task.
    #[inline(always)]
    pub(crate) unsafe fn boxed(room: NonNull<Header>, header: Header) -> *const Header {
        // SAFETY: M1, by this function's contract.
        unsafe { room.write(header) };
        // SAFETY: T2: no other thread knows the task.
        let header = unsafe { room.as_ref() };
        header.node.set_owner(room.as_ptr());
        // SAFETY: K1, by this function's contract. No other thread knows the node yet.
        unsafe { header.node.note() };
        room.as_ptr()
    }

    /// Returns whether the task, which is about to begin, runs its body. It does not if it was
    /// cancelled before.
    #[inline]
    pub(crate) fn begins(&self) -> bool {
        // At this point the innermost node is the task's own.
        self.always_begins || self.node.is_clear() || self.has_no_request()
    }

    #[cold]
    fn has_no_request(&self) -> bool {
        // SAFETY: K1: a task's ancestors outlive it.
        if unsafe { cancel::request_above(&self.node) }.is_none() {
            return true;
        }
        // SAFETY: K1: a task's ancestors outlive it.
        if let Some(origin) = unsafe { cancel::flagged_by(current::flagged_node()) } {
            origin.mark_delivered();
        }
        false
    }

    /// Returns the task's number. It is unique in the process, and assigned when it is first asked
    /// for.
    pub(crate) fn id(&self) -> u64 {
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh =
            simulated::task_number().unwrap_or_else(|| NEXT_ID.fetch_add(1, Ordering::Relaxed));
        match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(other) => other,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.extra.as_ref()?.name.as_deref()
    }

    /// Returns the task's name in reports.
    #[cold]
    pub(crate) fn description(&self) -> String {
        let name =
            self.name().map_or_else(String::new, |name| format!(" '{}'", name.escape_debug()));
        let begun = if self.scope.is_null() { "the root, run at" } else { "spawned at" };
        let text = format!("task {}{name} ({begun} {})", TaskId::of(self), self.spawned_at());
        #[cfg(feature = "sim")]
        if let Some(host) = simulated::host_of(ptr::from_ref(self).cast()) {
            return format!("{text}, on the host '{host}'");
        }
        text
    }

    /// Returns the part of the running task that lies on its stack.
    #[inline]
    pub(crate) fn running(&self) -> &Running {
        // SAFETY: T4: called on the running task, or by its worker on a parked one, between start
        // and end.
        unsafe { &*self.running.get() }
    }

    /// Returns the state bits. Acquire: a thread that sees DONE sees the result.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Adds a reference. The caller must hold one. Aborts the process if there are far too many,
    /// which takes a program that forgets them: the count must not wrap around.
    #[inline]
    pub(crate) fn retain(&self) {
        if self.state.fetch_add(REFERENCE, Ordering::Relaxed) > REFERENCES_MAX {
            too_many_references();
        }
    }

    /// Releases a reference. Releasing the last one frees the box.
    ///
    /// # Safety
    /// T2: the caller owns the reference and does not use the header afterwards.
    #[inline]
    pub(crate) unsafe fn release(this: *const Header) {
        // SAFETY: T2: the reference keeps the header alive.
        let header = unsafe { &*this };
        // A sole owner needs no atomic read-modify-write, because no other thread can change the
        // count.
        let sole = header.state.load(Ordering::Acquire) / REFERENCE == 1;
        if sole || header.state.fetch_sub(REFERENCE, Ordering::AcqRel) / REFERENCE == 1 {
            #[cfg(loom)]
            // SAFETY: T2: this was the last reference. Loom reports an error if an access to the
            // state is not ordered before this.
            unsafe { &mut (*this.cast_mut()).state }.with_mut(|_| ());
            // SAFETY: T2: this was the last reference.
            unsafe { (header.vtable.free)(this) };
        }
    }

    /// Ends the running task, whose result is in the box. Returns whether the task's own reference
    /// was released, as [`VTable::run`] does.
    ///
    /// # Safety
    /// T3: called once, by the task, on its own stack.
    pub(crate) unsafe fn end(this: *const Header, panicked: bool) -> bool {
        // SAFETY: T2: the running task holds a reference.
        let header = unsafe { &*this };
        // After this, no other thread reaches the node.
        cancel::unlink(&header.node);
        if panicked {
            // SAFETY: T3: the result is stored and the scope is alive.
            unsafe { (header.vtable.upcalls.panicked)(this) };
        }
        // SAFETY: T3, by this function's contract.
        unsafe { Header::announce(this, panicked) }
    }

    /// Ends a task that cannot start, without running it. `why` is the reason.
    ///
    /// # Safety
    /// T3: called once, instead of [`VTable::run`].
    pub(crate) unsafe fn refuse(this: *const Header, why: String) {
        // SAFETY: T2: the caller holds the running task's reference.
        let header = unsafe { &*this };
        // SAFETY: T1: the task owns its stage until it announces the result.
        unsafe { (header.vtable.discard)(this) };
        if calls_observer() {
            observer::ended(header, Ending::Panicked);
        }
        // This keeps `announce` from releasing the reference early.
        header.has_fiber.set(true);
        // SAFETY: T1: the task owns its stage, which was discarded just now.
        unsafe { (header.vtable.fail)(this, Failure::Panicked(Box::new(why))) };
        // SAFETY: T3, by this function's contract.
        unsafe { Header::end(this, true) };
    }

    /// Announces that the result is in the box, and wakes the waiters for it. Drops the result
    /// instead if the handle has been dropped.
    ///
    /// If the task has never switched away, its own reference is released in the same step where
    /// possible. Returns whether it was. In that case the header must not be accessed again.
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
        // Cancellation messages may reach the worker after the task has ended. They find `running`
        // null then.
        let running = header.running.replace(ptr::null());
        loop {
            if state & DETACHED != 0 && !panicked {
                header.running.set(running);
                // The result can no longer be asked for. It may borrow from outside the scope, so
                // it is dropped before the scope can end.
                // SAFETY: T1: the result cannot be claimed by a handle, so the task still owns it.
                unsafe { (header.vtable.discard)(this) };
                // A destructor that waited has linked the node again.
                cancel::unlink(&header.node);
                header.running.set(ptr::null());
                header.state.fetch_or(DONE | TAKEN, Ordering::Release);
                return false;
            }
            let release = may_release && state & JOINED == 0 && state / REFERENCE > 1;
            let next = (state | done) - if release { REFERENCE } else { 0 };
            // Release: a thread that sees DONE sees the result. Acquire: the task sees the nodes
            // that joiners have put in the list.
            match header.state.compare_exchange_weak(
                state,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Err(seen) => state = seen,
                Ok(_) => {
                    if state & JOINED != 0 {
                        // The announcement may run a callback, which may use everything that a task
                        // may use.
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

    /// Locks the list of the waiters for the result, to add a node. Returns `None` if the task is
    /// already done.
    #[inline]
    pub(crate) fn lock_joiners(&self) -> Option<QueueGuard<'_, Queue>> {
        let joiners = self.joiners.lock();
        let done = self.state.fetch_or(JOINED, Ordering::AcqRel) & DONE != 0;
        (!done).then_some(joiners)
    }

    /// Sets JOINED and returns the list of waiters for the result. A caller that adds a node itself
    /// must then check once more whether the task is done.
    pub(crate) fn announce_to_joiners(&self) -> &WaitList {
        // AcqRel: either the task sees JOINED when it announces its result, or a check after this
        // sees DONE.
        self.state.fetch_or(JOINED, Ordering::AcqRel);
        &self.joiners
    }

    /// Claims the result for the caller. Returns `false` if there is no result yet, or if it has
    /// been claimed before.
    #[inline]
    pub(crate) fn claim_result(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state & (DONE | TAKEN) != DONE {
            return false;
        }
        self.state.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0
    }

    /// Takes back the claim, because the result is in the box again.
    ///
    /// # Safety
    /// T1: the caller has claimed the result, and has put it back.
    pub(crate) unsafe fn unclaim_result(&self) {
        // Release: the next thread that claims the result sees it.
        self.state.fetch_and(!TAKEN, Ordering::Release);
    }

    /// Marks the task's failure as unwanted. If the task is not joined, its panic does not reach
    /// the scope, and its `Err` is not reported. A join still returns the panic.
    pub(crate) fn hush(&self) {
        self.state.fetch_or(HUSHED, Ordering::Relaxed);
    }

    /// Returns whether a join can still ask for the result.
    #[cfg(feature = "sim")]
    pub(crate) fn has_handle(&self) -> bool {
        self.state.load(Ordering::Relaxed) & DETACHED == 0
    }

    /// Returns whether [`Header::hush`] was called.
    pub(crate) fn is_hushed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & HUSHED != 0
    }

    /// Gives up the handle: drops the result if it is there, or leaves that to the task.
    ///
    /// # Safety
    /// T2: releases the handle's reference. The caller does not use the header afterwards.
    #[inline]
    pub(crate) unsafe fn detach(this: *const Header) {
        // SAFETY: T2: the handle holds a reference.
        let header = unsafe { &*this };
        let mut state = header.state.load(Ordering::Acquire);
        while state & DONE == 0 {
            // The task has not ended, and its own reference outlives this one.
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
        #[cfg(feature = "sim")]
        if state & (TAKEN | PANICKED) == PANICKED && simulated::is_simulated() {
            // SAFETY: S5: the scope has not looked at the panic yet, so it has not returned.
            unsafe { (header.vtable.upcalls.left)(this) };
        }
        // SAFETY: T2, by this function's contract.
        unsafe { Header::release(this) };
    }

    /// Notifies the task that one of its nodes has been flagged.
    pub(crate) fn notify_cancelled(header: &Header) {
        // SAFETY: K2: the task lives while its node is linked, and the caller holds the lock that
        // keeps it linked.
        unsafe { (header.vtable.upcalls.notify_cancelled)(header) };
    }
}

#[cold]
fn too_many_references() -> ! {
    let text =
        "ecru: a task has more than 33 million handles and wakers; they were forgotten: aborting";
    report::last_words(String::from(text));
    std::process::abort()
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("state", &self.state)
            .field("spawned_at", &self.spawned_at())
            .finish_non_exhaustive()
    }
}
