//! What all scopes have in common: the count of their children, the wait for it, and who panicked.
//!
//! # The count
//! ```text
//!   bit 63        62         61 .. 32     31 .. 0                         beside it: home_children, home_waits
//!   WAIT_ALL   WAIT_CHILDREN  daemons    children not in home_children + BIAS
//! ```
//! A scope's task is pinned to its worker, the scope's *home*, and so are most spawns and ends of its children. Those count in
//! `home_children`, a plain cell that only the home worker's thread touches; all others in the word. A child may be added in
//! one place and taken off in the other, so each alone may be negative (hence BIAS), but the sum is right at every moment.
//!
//! To wait, the scope moves the cell's count into the word, sets `home_waits` (from then on its own worker uses the word too),
//! writes a waiter and sets one of the bits, unless what it waits for is already so. The child whose decrement makes it so
//! clears the bit in the same exchange and then unparks the waiter: exactly one does, and the core stays until it has, because
//! the scope returns only after that unpark (S5). For every other child the exchange is the last access; for one that ends at
//! home without an exchange, the scope's task cannot run before its worker has moved on.
#![expect(unsafe_code, reason = "children reach the core by pointer")]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr;

use super::builder::Options;
use super::frame::Opened;
use super::join::JoinHandle;
use crate::base::short_trace;
use crate::base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::park::{About, Mode, Waiter};
use crate::sched;
use crate::task::cancel::{self, CancelNode, Kind};
use crate::task::{self, Body, CancelReason, Failure, Header, PASSED_ON, TaskBox, VTable};

const CHILD: u64 = 1;
const DAEMON: u64 = 1 << 32;
const CHILDREN_MASK: u64 = DAEMON - 1;
/// What the children's half of the word holds when it counts none.
const BIAS: u64 = 1 << 30;
const WAIT_CHILDREN: u64 = 1 << 62;
const WAIT_ALL: u64 = 1 << 63;
const DAEMONS_MASK: u64 = (WAIT_CHILDREN - 1) & !CHILDREN_MASK;

/// See the module. Lives on the stack of the scope's task, and does not move.
#[derive(Debug)]
pub(crate) struct ScopeCore {
    /// Above every child; what `s.cancel()` flags.
    pub(super) group: CancelNode,
    /// Above every daemon; flagged when the rest has ended.
    pub(super) daemons: CancelNode,
    count: AtomicU64,
    /// The worker that the scope's task is pinned to.
    home: *const (),
    /// Children counted by the home worker alone; may be negative.
    home_children: Cell<i32>,
    /// The scope waits: the home worker counts in the word, as everybody does.
    home_waits: Cell<bool>,
    /// Written before a WAIT bit is set, read by whoever clears it.
    waiter: UnsafeCell<Option<Waiter>>,
    /// The task-local bindings that children start with.
    bindings: *const (),
    /// Where the children run.
    pub(super) pool: *const (),
    /// Where the scope was opened.
    opened_at: &'static Location<'static>,
    /// Children that panicked, linked through `next`; each with a reference.
    panicked: AtomicPtr<Header>,
}

// SAFETY: S5: what is not atomic is handed over by the count, as the module says.
unsafe impl Sync for ScopeCore {}

/// How a kind of scope starts its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// On any worker.
    Anywhere,
    /// On the spawner's.
    Here,
    /// On the one that comes so many places after the spawner's.
    Beside(usize),
}

impl ScopeCore {
    /// A core whose children hang below `parent`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(parent: *const CancelNode) -> ScopeCore {
        ScopeCore::opened_at(parent, Location::caller())
    }

    /// The same, opened somewhere else. Inlined, as it would be copied otherwise.
    #[inline(always)]
    pub(crate) fn opened_at(
        parent: *const CancelNode,
        at: &'static Location<'static>,
    ) -> ScopeCore {
        let owner = task::current_header().map_or(ptr::null(), ptr::from_ref);
        ScopeCore {
            group: CancelNode::new(parent, owner, Kind::Plain),
            daemons: CancelNode::new(ptr::null(), owner, Kind::Plain),
            count: AtomicU64::new(BIAS),
            home: sched::current_worker(),
            home_children: Cell::new(0),
            home_waits: Cell::new(false),
            waiter: UnsafeCell::new(None),
            bindings: task::bindings_now(),
            pool: sched::pool_here(),
            opened_at: at,
            panicked: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where the scope of a task was opened; none for a root task.
    pub(crate) fn opening_of(task: &Header) -> Option<&'static Location<'static>> {
        // SAFETY: S5: the scope does not end before its task, which is there.
        unsafe { task.scope.cast::<ScopeCore>().as_ref() }.map(|core| core.opened_at)
    }

    /// Opens the core's node. From here on the core must not move.
    #[inline]
    pub(crate) fn open(&self) -> Opened<'_> {
        self.daemons.set_parent(&raw const self.group);
        let opened = Opened::below(&self.group);
        self.daemons.take_limit_of(&self.group);
        opened
    }

    /// Makes a task of `body` and queues it.
    #[inline]
    #[track_caller]
    pub(crate) fn spawn<'scope, B>(
        &self,
        body: B,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, B::Output>
    where
        B: Body,
    {
        let task = self.allocate(body, options, Location::caller());
        // SAFETY: T1: a new task, whose queue reference is given away.
        unsafe { self.queue(task, start) };
        // SAFETY: T2: the handle's reference.
        unsafe { JoinHandle::new(task) }
    }

    /// Counts a new child and boxes it.
    #[inline(always)]
    pub(crate) fn allocate<B: Body>(
        &self,
        body: B,
        options: Options,
        at: &'static Location<'static>,
    ) -> *const Header {
        let task = self.adopt(&Erased::<B>::VTABLE, options, at);
        // SAFETY: M1: the table is that of this type.
        unsafe { TaskBox::fill(task, body) };
        task
    }

    /// The part of it that does not depend on the body's type. Inlined all the same: a call would cost a spawn a tenth.
    #[inline(always)]
    fn adopt(
        &self,
        vtable: &'static VTable,
        options: Options,
        at: &'static Location<'static>,
    ) -> *const Header {
        // First, so that the header is written where it stays.
        let room = Header::room(vtable);
        let group = if options.daemon { &self.daemons } else { &self.group };
        if options.daemon {
            self.count_daemon();
        } else if self.counts_at_home() {
            self.home_children.set(self.home_children.get() + 1);
        } else {
            self.count.fetch_add(CHILD, Ordering::Relaxed);
        }
        let scope = ptr::from_ref(self).cast();
        let begins = options.daemon || options.always_begins;
        let (daemon, extra) = (options.daemon, options.extra);
        let header = Header::new(vtable, scope, group, self.bindings, begins, daemon, extra, at);
        // SAFETY: K1: the parent is in this core, which waits for the task.
        let task = unsafe { Header::boxed(room, header) };
        if task::is_hooked() {
            // SAFETY: T1: nobody else knows it yet.
            unsafe { task::inherit(task) };
        }
        task
    }

    /// Few scopes have any.
    #[cold]
    fn count_daemon(&self) {
        // Not before the first.
        // SAFETY: K1: both nodes are in this core, which stays until `close`, and what is above stays longer.
        unsafe { cancel::reach(&self.daemons) };
        self.count.fetch_add(DAEMON, Ordering::Relaxed);
    }

    /// Queues a new task.
    ///
    /// # Safety
    /// T1: the queue's reference is given away.
    #[inline(always)]
    #[track_caller]
    unsafe fn queue(&self, task: *const Header, start: Start) {
        let queued = match start {
            // SAFETY: T1, the caller's promise.
            Start::Anywhere => unsafe { sched::spawn(task, self.pool) },
            // SAFETY: T1, as above.
            Start::Here => unsafe { sched::spawn_local(task, self.pool) },
            // SAFETY: T1, as above.
            Start::Beside(places) => unsafe { sched::spawn_beside(task, self.pool, places) },
        };
        if !queued {
            refuse_to_spawn(task, start);
        }
    }

    /// Asks every child to stop.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        // A request from further up that came first stays the reason, and the one that is answered.
        // SAFETY: K1: the scope is open, and so is what is above it.
        unsafe { cancel::reach(&self.group) };
        cancel::cancel(&self.group, reason);
    }

    /// Opens the core, runs a scope's body, waits for its tasks, and passes on a panic of the body. Returns that of a task that was
    /// not joined: the caller panics, so that the place is its own caller's. From here on the core must not move.
    #[inline(always)]
    pub(crate) fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, Box<ChildPanic>> {
        let opened = self.open();
        let result = panic::catch_unwind(AssertUnwindSafe(body));
        if result.is_err() {
            self.cancel(CancelReason::Sibling);
        }
        self.finish();
        self.close();
        drop(opened);
        match result {
            Ok(value) => {
                // No exchange: nobody adds one any more.
                if !self.panicked.load(Ordering::Acquire).is_null()
                    && let Some(panic) = self.look_for_panic()
                {
                    // Not while the panic unwinds: a second one would end the process.
                    task::drop_quietly(value);
                    return Err(Box::new(panic));
                }
                Ok(value)
            }
            Err(payload) => self.fail(payload),
        }
    }

    /// Passes on the body's panic: those of its tasks come second.
    #[cold]
    fn fail(&self, payload: Box<dyn Any + Send>) -> ! {
        task::drop_quietly(self.unclaimed_panic());
        panic::resume_unwind(payload)
    }

    /// Waits for the children, then cancels the daemons and waits for them. No cancel point.
    #[inline]
    pub(crate) fn finish(&self) {
        if !self.is_over() {
            self.finish_slowly();
        }
    }

    fn finish_slowly(&self) {
        self.wait(WAIT_CHILDREN);
        // Not "if there are daemons": one may have spawned a child just now, and ended.
        if !self.is_over() {
            cancel::cancel(&self.daemons, CancelReason::ScopeEnd);
            self.wait(WAIT_ALL);
        }
    }

    /// Whether the plain cell is this thread's, and in use.
    #[inline]
    fn counts_at_home(&self) -> bool {
        // A model's threads are no workers.
        cfg!(not(loom))
            && std::ptr::eq(self.home, sched::current_worker())
            && !self.home_waits.get()
    }

    /// Moves the count of the plain cell into the word. At home.
    fn fold(&self) -> u64 {
        let own = i64::from(self.home_children.take()).cast_unsigned();
        // Wrapping: the children's half has room on both sides of the bias.
        self.count.fetch_add(own, Ordering::AcqRel).wrapping_add(own)
    }

    /// Whether there is no child any more. At home: the cell does not change meanwhile, so one look at the word is one moment.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let own = i64::from(self.home_children.get()).cast_unsigned();
        // Acquire: what the children did, that ended elsewhere, happened before.
        self.count.load(Ordering::Acquire).wrapping_add(own) == BIAS
    }

    /// Takes the node of the daemons out of the tree again, if it is in.
    #[inline]
    pub(crate) fn close(&self) {
        cancel::unlink(&self.daemons);
    }

    fn wait(&self, bit: u64) {
        let mut count = self.fold();
        if is_reached(count, bit) {
            return;
        }
        self.home_waits.set(true);
        // SAFETY: S5: no WAIT bit is set, so no child reads the slot.
        unsafe { *self.waiter.get() = Some(Waiter::new()) };
        // Shared from here on, with the child that wakes it.
        // SAFETY: S5: it is not written again before this wait is over.
        let waiter = unsafe { (*self.waiter.get()).as_ref() }.expect("written just now");
        waiter.set_purpose("the tasks of its scope", About::Nothing);
        waiter.set_place(self.opened_at);
        loop {
            if is_reached(count, bit) {
                self.home_waits.set(false);
                return;
            }
            // Release: the child that clears the bit sees the waiter.
            match self.count.compare_exchange_weak(
                count,
                count | bit,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(seen) => count = seen,
            }
        }
        task::wait(waiter, None, Mode::Uninterruptible);
        self.home_waits.set(false);
    }

    /// A child has ended. See the module for why this is its last access.
    ///
    /// # Safety
    /// S5: called once for each child, as the last thing it does.
    unsafe fn child_ended(this: *const ScopeCore, daemon: bool) {
        // SAFETY: S5: the scope has not returned: this child is still counted.
        let core = unsafe { &*this };
        if !daemon && core.counts_at_home() {
            // This worker is the only one that could run the scope's task, so it does not wait now.
            core.home_children.set(core.home_children.get() - 1);
            return;
        }
        let unit = if daemon { DAEMON } else { CHILD };
        let mut count = core.count.load(Ordering::Relaxed);
        loop {
            let mut next = count - unit;
            let bit = next & (WAIT_CHILDREN | WAIT_ALL);
            let wakes = bit != 0 && is_reached(next, bit);
            if wakes {
                next &= !bit;
            }
            // Release: what the child did happens before the scope returns. Acquire: the waiter.
            match core.count.compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Err(seen) => count = seen,
                Ok(_) if wakes => {
                    // SAFETY: S5: this child has cleared the bit, so the scope waits for the unpark below.
                    let waiter = unsafe { (*core.waiter.get()).as_ref() }
                        .expect("written before the bit was set");
                    // SAFETY: S4: nobody else claims a wait that cannot be interrupted; the last access.
                    unsafe { Waiter::wake(waiter) };
                    return;
                }
                Ok(_) => return,
            }
        }
    }

    /// Notes that a child has panicked, with a reference to it.
    fn note_panic(&self, task: *const Header) {
        // SAFETY: T2: the running task holds a reference, and is in no queue.
        let header = unsafe { &*task };
        header.retain();
        let mut head = self.panicked.load(Ordering::Relaxed);
        loop {
            header.next.store(head, Ordering::Relaxed);
            match self.panicked.compare_exchange_weak(
                head,
                task.cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// The payload of the first panic that nobody has taken by joining. Call it after [`ScopeCore::finish`].
    #[inline]
    pub(crate) fn unclaimed_panic(&self) -> Option<Box<dyn Any + Send>> {
        // No exchange: nobody adds one any more.
        let none = self.panicked.load(Ordering::Acquire).is_null();
        if none { None } else { self.look_for_panic().map(|panic| panic.payload) }
    }

    #[cold]
    fn look_for_panic(&self) -> Option<ChildPanic> {
        let mut first = None;
        let mut task = self.panicked.swap(ptr::null_mut(), Ordering::Acquire).cast_const();
        while !task.is_null() {
            // SAFETY: T2: the list holds a reference to each.
            let header = unsafe { &*task };
            let next = header.next.load(Ordering::Relaxed);
            if header.claim_result() {
                // SAFETY: T1: claimed just now. The type does not matter for a panic, see `take_panic`.
                let payload = unsafe { (header.vtable.take_panic)(task) };
                let panic = payload.map(|payload| {
                    let (payload, place) = task::split(payload);
                    ChildPanic { payload, place, task: header.description() }
                });
                // The list has the last that panicked in front. Its destructor is user code, and the rest of the list has to be let go.
                let unwanted = match panic {
                    Some(panic) if !header.is_hushed() => first.replace(panic),
                    hushed => hushed,
                };
                task::drop_quietly(unwanted);
            }
            // SAFETY: T2: the list's reference.
            unsafe { Header::release(task) };
            task = next;
        }
        first
    }
}

#[inline]
fn is_reached(count: u64, bit: u64) -> bool {
    let children = count & CHILDREN_MASK == BIAS;
    if bit == WAIT_CHILDREN { children } else { children && count & DAEMONS_MASK == 0 }
}

/// The functions of a task whose body is a `B`.
struct Erased<B>(B);

impl<B: Body> Erased<B> {
    const VTABLE: VTable = VTable {
        run: TaskBox::<B>::__rust_begin_short_backtrace,
        fail: TaskBox::<B>::fail,
        take: TaskBox::<B>::take,
        put_back: TaskBox::<B>::put_back,
        take_panic: TaskBox::<B>::take_panic,
        discard: TaskBox::<B>::discard,
        free: TaskBox::<B>::free,
        layout: TaskBox::<B>::LAYOUT,
        panicked: note_panic,
        ended: child_ended,
        tell: sched::tell,
    };
}

unsafe fn note_panic(task: *const Header) {
    // SAFETY: T2: the running task holds a reference.
    let scope = unsafe { &*task }.scope.cast::<ScopeCore>();
    // SAFETY: S5: its scope waits for it.
    let core = unsafe { &*scope };
    core.note_panic(task);
}

unsafe fn child_ended(scope: *const (), daemon: bool) {
    // SAFETY: S5, the caller's promise.
    unsafe { ScopeCore::child_ended(scope.cast(), daemon) };
}

/// A scope is used off the workers of its run, where nothing could be queued.
#[cold]
#[track_caller]
pub(super) fn refuse_to_spawn(task: *const Header, start: Start) -> ! {
    // SAFETY: T3: nobody else has started it, nor can.
    let header = unsafe { &*task };
    header.started.store(true, Ordering::Relaxed);
    let (scope, daemon) = (header.scope, header.daemon);
    // SAFETY: T3, as above.
    unsafe { Header::refuse(task, String::new()) };
    // Nobody is to hear of this one: the spawner does, below.
    header.claim_result();
    // SAFETY: T2: the queue's reference.
    unsafe { Header::release(task) };
    // SAFETY: T2: the handle's reference.
    unsafe { Header::release(task) };
    // SAFETY: S5: the last access to the scope.
    unsafe { child_ended(scope, daemon) };
    match start {
        Start::Anywhere | Start::Beside(_) => panic!(
            "`spawn` called on a thread that runs no tasks of this scope's run; spawn from inside the run, or use `RuntimeHandle::spawn`"
        ),
        Start::Here => panic!(
            "`spawn_local`, or a `spawn` that is `near()`, called on a thread that is no worker of this scope's run; it starts tasks on the caller's own worker"
        ),
    }
}

/// What a child that panicked has left behind.
pub(crate) struct ChildPanic {
    payload: Box<dyn Any + Send>,
    /// Where it was thrown, if that is known.
    place: Option<String>,
    /// Which child it was.
    task: String,
}

impl ChildPanic {
    /// Panics in the scope's task.
    #[cold]
    #[track_caller]
    pub(super) fn pass_on(self: Box<Self>) -> ! {
        let text = self.text();
        // Not while this unwinds: a second panic would end the process.
        task::drop_quietly(self);
        panic!("{text}");
    }

    /// For the panic of the scope.
    fn text(&self) -> String {
        let text = task::text_of(&*self.payload);
        if let Some(text) = text.filter(|text| text.starts_with(PASSED_ON)) {
            // The child has passed on the panic of one of its own: that one is what counts.
            return text.to_owned();
        }
        let place = self.place.as_ref().map_or_else(String::new, |place| format!(", at {place}"));
        let text = text.map_or_else(String::new, |text| format!(": {text}"));
        format!("{PASSED_ON}{}{place}{text}", self.task)
    }
}

/// Runs a closure as a plain task does: its panic is its failure.
pub(super) fn catch<T>(closure: impl FnOnce() -> T) -> Result<T, Failure> {
    let closure = || short_trace::begin(closure);
    let caught = panic::catch_unwind(AssertUnwindSafe(closure));
    caught.map_err(|payload| Failure::Panicked(task::located(payload)))
}

#[cfg(all(test, loom))]
pub(super) mod loom_models;
