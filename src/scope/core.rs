//! The part that all scopes share: the count of children, the wait for them, and the list of
//! children that panicked.
//!
//! # The count
//! ```text
//!   bit 63        62         61 .. 32     31 .. 0
//!   WAIT_ALL   WAIT_CHILDREN  daemons    children not in home_children + BIAS
//!
//!   beside the word: home_children, home_waits
//! ```
//! A scope's task is pinned to its worker, the scope's *home*. Most children are spawned there and
//! end there. These changes are counted in `home_children`, a plain cell that only the home
//! worker's thread touches. All other changes are counted in the atomic word. A child may be added
//! in one of the two and subtracted in the other. Each of them alone may therefore be negative
//! (hence BIAS), but their sum is correct at every moment.
//!
//! To wait, the scope's task
//! 1. adds the cell's count to the word,
//! 2. sets `home_waits`, so that the home worker uses the word from now on,
//! 3. writes a waiter,
//! 4. sets one of the two WAIT bits, unless the condition that it waits for already holds.
//!
//! The child whose decrement fulfils the condition clears the bit in the same exchange, and then
//! unparks the waiter. Exactly one child does this. The core stays valid until the unpark is done,
//! because the scope returns only after that unpark (S5). For every other child, the exchange is
//! its last access to the core. A child that is counted in the cell makes no exchange. The
//! scope's task cannot run before the home worker has left that child, because it runs on the same
//! worker.
#![expect(unsafe_code, reason = "children reach the core by pointer")]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr;

use super::child_panic::ChildPanic;
use super::frame::Opened;
use super::join::JoinHandle;
#[cfg(feature = "sim")]
use super::lost_panic::lose_panic;
use super::options::{Options, Start};
use crate::base::short_trace;
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::base::simulated::Untaken;
use crate::base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::park::{About, Mode, Single, Wait, What};
use crate::sched;
use crate::task::cancel::{self, CancelNode, Kind};
use crate::task::{
    self, Body, CancelReason, Failure, Header, Polled, PolledBody, TaskBox, Upcalls, VTable,
};

const CHILD: u64 = 1;
const DAEMON: u64 = 1 << 32;
const CHILDREN_MASK: u64 = DAEMON - 1;
/// The value of the children's half of the word when it counts no children.
const BIAS: u64 = 1 << 30;
const WAIT_CHILDREN: u64 = 1 << 62;
const WAIT_ALL: u64 = 1 << 63;
const DAEMONS_MASK: u64 = (WAIT_CHILDREN - 1) & !CHILDREN_MASK;

/// The state that every scope contains; see the module. It lies on the stack of the scope's task
/// and does not move.
#[derive(Debug)]
pub(crate) struct ScopeCore {
    /// The parent of every child's node. `s.cancel()` flags it.
    pub(super) group: CancelNode,
    /// The parent of every daemon's node. Flagged when the body and all other children have ended.
    pub(super) daemons: CancelNode,
    count: AtomicU64,
    /// The home worker, to which the scope's task is pinned.
    home: *const (),
    /// The number of children counted by the home worker without the word. May be negative.
    home_children: Cell<i32>,
    /// Set while the scope waits. The home worker then counts in the word, too.
    home_waits: Cell<bool>,
    /// Written before a WAIT bit is set, and read by the child that clears the bit.
    waiter: UnsafeCell<MaybeUninit<*const Single<()>>>,
    /// The task-local bindings that children start with.
    bindings: *const (),
    /// The pool of workers that run the children.
    pub(super) pool: *const (),
    /// Where the scope was opened.
    opened_at: &'static Location<'static>,
    /// A list of the children that panicked, linked through `next`. It holds a reference to each.
    panicked: AtomicPtr<Header>,
}

// SAFETY: S5: the count hands over the fields that are not atomic, as the module describes.
unsafe impl Sync for ScopeCore {}

impl ScopeCore {
    /// Creates a core whose children's nodes hang below `parent`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(parent: *const CancelNode) -> ScopeCore {
        ScopeCore::opened_at(parent, Location::caller())
    }

    /// Creates a core with an explicit place of opening. Inlined, because the core would be copied
    /// otherwise.
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
            waiter: UnsafeCell::new(MaybeUninit::uninit()),
            bindings: task::bindings_now(),
            pool: sched::pool_here(),
            opened_at: at,
            panicked: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the place where the scope of a task was opened, or `None` for a root task.
    pub(crate) fn opening_of(task: &Header) -> Option<&'static Location<'static>> {
        // SAFETY: S5: the scope does not end before its task, and the task is alive.
        unsafe { task.scope.cast::<ScopeCore>().as_ref() }.map(|core| core.opened_at)
    }

    /// Opens the core's node. The core must not move after this call.
    #[inline]
    pub(crate) fn open(&self) -> Opened<'_> {
        self.daemons.set_parent(&raw const self.group);
        let opened = Opened::below(&self.group);
        self.daemons.take_limit_of(&self.group);
        opened
    }

    /// Boxes `body` as a task and queues it.
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
        self.spawn_at(Location::caller(), body, options, start)
    }

    /// Does the same for a task that is said to be spawned at the given place. A function that
    /// spawns in a closure, where its caller is not known, passes the place of its own call.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn spawn_at<'scope, B>(
        &self,
        at: &'static Location<'static>,
        body: B,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, B::Output>
    where
        B: Body,
    {
        let task = self.allocate(body, options, at);
        // SAFETY: T1: no other thread knows the task yet.
        unsafe { task::announce(task) };
        // SAFETY: T1: the task is new, and its queue reference is given away here.
        unsafe { self.queue(task, start) };
        // SAFETY: T2: this is the handle's reference.
        unsafe { JoinHandle::new(task) }
    }

    /// Counts a new child and allocates its box. The caller announces it before it is queued.
    #[inline(always)]
    pub(crate) fn allocate<B: Body>(
        &self,
        body: B,
        options: Options,
        at: &'static Location<'static>,
    ) -> *const Header {
        let task = self.adopt(&Erased::<B>::VTABLE, options, at);
        // SAFETY: M1: the table belongs to this type.
        unsafe { TaskBox::fill(task, body) };
        task
    }

    /// Boxes a future as a task and queues it.
    pub(crate) fn spawn_future_at<'scope, P: PolledBody>(
        &self,
        at: &'static Location<'static>,
        body: P,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, P::Output> {
        let task = self.allocate_future(body, options, at);
        // SAFETY: T1: no other thread knows the task yet.
        unsafe { task::announce(task) };
        // SAFETY: T1: the task is new, and its queue reference is given away here.
        unsafe { self.queue(task, start) };
        // SAFETY: T2: this is the handle's reference.
        unsafe { JoinHandle::new(task) }
    }

    /// Counts a new child whose work is a future, and allocates its box. The caller announces it
    /// before it is queued.
    pub(crate) fn allocate_future<P: PolledBody>(
        &self,
        body: P,
        options: Options,
        at: &'static Location<'static>,
    ) -> *const Header {
        let task = self.adopt(&ErasedFuture::<P>::VTABLE, options, at);
        // SAFETY: M1: the table belongs to this type.
        unsafe { TaskBox::fill(task, Polled::new(body)) };
        task
    }

    /// The part of `allocate` that does not depend on the body's type. It is inlined nevertheless:
    /// a call would make a spawn a tenth slower.
    #[inline(always)]
    fn adopt(
        &self,
        vtable: &'static VTable,
        options: Options,
        at: &'static Location<'static>,
    ) -> *const Header {
        // The memory is allocated first, so that the header is written directly into it.
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
        // SAFETY: K1: the parent node is in this core, which waits for the task.
        unsafe { Header::boxed(room, header) }
    }

    /// Counts a daemon. Cold, because few scopes have daemons.
    #[cold]
    fn count_daemon(&self) {
        // The daemons' node is linked when the first daemon is spawned, not before.
        // SAFETY: K1: both nodes are in this core, which stays until `close`. Their ancestors
        // outlive it.
        unsafe { cancel::reach(&self.daemons) };
        self.count.fetch_add(DAEMON, Ordering::Relaxed);
    }

    /// Queues a new task.
    ///
    /// # Safety
    /// T1: the caller gives away the queue's reference.
    #[inline(always)]
    #[track_caller]
    unsafe fn queue(&self, task: *const Header, start: Start) {
        let queued = match start {
            // SAFETY: T1, by this function's contract.
            Start::Anywhere => unsafe { sched::spawn(task, self.pool) },
            // SAFETY: T1, by this function's contract.
            Start::Here => unsafe { sched::spawn_local(task, self.pool) },
            // SAFETY: T1, by this function's contract.
            Start::Beside(places) => unsafe { sched::spawn_beside(task, self.pool, places) },
        };
        if !queued {
            refuse_to_spawn(task, start);
        }
    }

    /// Cancels every child.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        // Links the group's node first. If a request from further up came earlier, the node
        // inherits it. That request then stays the reason, and it is the one that waits answer.
        // SAFETY: K1: the scope is open, and so are all nodes above it.
        unsafe { cancel::reach(&self.group) };
        cancel::cancel(&self.group, reason);
    }

    /// Opens the core, runs a scope's body, waits for the children, and resumes a panic of the
    /// body. Returns the panic of a child that was not joined. The caller then panics itself, so
    /// that the reported place is that of its own caller. The core must not move after this call.
    #[inline(always)]
    pub(crate) fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, Box<ChildPanic>> {
        let opened = self.open();
        let result = panic::catch_unwind(AssertUnwindSafe(body));
        {
            let _untaken = result.as_ref().err().map(|payload| self.hold_panic(&**payload));
            self.finish();
            self.close();
            drop(opened);
        }
        match result {
            Ok(value) => {
                // A load is enough: no child is left that could add itself.
                if !self.panicked.load(Ordering::Acquire).is_null()
                    && let Some(panic) = self.find_panic()
                {
                    // Dropped before the panic begins: a second panic during unwinding would abort
                    // the process.
                    task::drop_quietly(value);
                    return Err(Box::new(panic));
                }
                Ok(value)
            }
            Err(payload) => self.fail(payload),
        }
    }

    /// Cancels the children, because the body has panicked.
    #[cold]
    fn hold_panic(&self, payload: &(dyn Any + Send)) -> Untaken {
        let untaken = task::hold(payload);
        self.cancel(CancelReason::Sibling);
        untaken
    }

    /// Resumes the body's panic. It takes precedence over panics of the children.
    #[cold]
    fn fail(&self, payload: Box<dyn Any + Send>) -> ! {
        task::drop_quietly(self.unclaimed_panic());
        panic::resume_unwind(payload)
    }

    /// Waits for the children, then cancels the daemons and waits for them. This is not a
    /// cancellation point. It counts as an operation of the task, because a task whose scopes never
    /// have to wait would otherwise never let other tasks run.
    #[inline]
    pub(crate) fn finish(&self) {
        task::spend_budget();
        if !self.is_over() {
            self.finish_slowly();
        }
    }

    fn finish_slowly(&self) {
        self.wait(WAIT_CHILDREN);
        // The test is not "are there daemons": a daemon may just have spawned a child and ended.
        if !self.is_over() {
            cancel::cancel(&self.daemons, CancelReason::ScopeEnd);
            self.wait(WAIT_ALL);
        }
    }

    /// Returns whether the current thread counts in the plain cell.
    #[inline]
    fn counts_at_home(&self) -> bool {
        // Threads of a loom model are not workers.
        cfg!(not(loom))
            && std::ptr::eq(self.home, sched::current_worker())
            && !self.home_waits.get()
    }

    /// Moves the count of the plain cell into the word. Called on the home worker.
    fn fold(&self) -> u64 {
        let own = i64::from(self.home_children.take()).cast_unsigned();
        // The addition may wrap: the children's half has room on both sides of the bias.
        self.count.fetch_add(own, Ordering::AcqRel).wrapping_add(own)
    }

    /// Returns whether every child has ended. Called on the home worker, where the cell cannot
    /// change meanwhile. One load of the word therefore gives the count of a single moment.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let own = i64::from(self.home_children.get()).cast_unsigned();
        // Acquire: everything that children did on other threads happens before the return.
        self.count.load(Ordering::Acquire).wrapping_add(own) == BIAS
    }

    /// Unlinks the daemons' node from the cancellation tree, if it is linked.
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
        let object = ptr::from_ref(self).cast();
        let wait = Wait { object, ..Wait::new(&THE_CHILDREN, Mode::Uninterruptible) };
        // An error: the last child has ended meanwhile, so there is nothing to wait for.
        let _ = Wait { at: Some(self.opened_at), ..wait }.single_unless((), |wait| {
            // SAFETY: S5: no WAIT bit is set, so no child reads the slot.
            unsafe { (*self.waiter.get()).write(wait) };
            while !is_reached(count, bit) {
                // Release: the child that clears the bit sees the slot.
                match self.count.compare_exchange_weak(
                    count,
                    count | bit,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return Ok(()),
                    Err(seen) => count = seen,
                }
            }
            Err(())
        });
        self.home_waits.set(false);
    }

    /// Counts one child off. The module explains why this is the child's last access to the core.
    ///
    /// # Safety
    /// S5: called once for each child, as the last thing that it does.
    unsafe fn child_ended(this: *const ScopeCore, daemon: bool) {
        // SAFETY: S5: this child is still counted, so the scope has not returned.
        let core = unsafe { &*this };
        if !daemon && core.counts_at_home() {
            // Only this worker could run the scope's task, and it is busy here. So the scope cannot
            // begin to wait now.
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
            // Release: what the child did happens before the scope returns. Acquire: makes the
            // waiter visible.
            match core.count.compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Err(seen) => count = seen,
                Ok(_) if wakes => {
                    // SAFETY: S5: this child has cleared the bit, so the scope waits for the call
                    // below. The slot was written before the bit was set.
                    let slot = unsafe { *core.waiter.get() };
                    // SAFETY: S5: this child has cleared the bit, so the scope waits for the call
                    // below. The slot was written before the bit was set.
                    let wait = unsafe { slot.assume_init() };
                    // SAFETY: S4: only this child ends the wait. This is the last access.
                    unsafe { Single::wake(wait) };
                    return;
                }
                Ok(_) => return,
            }
        }
    }

    /// Records that a child has panicked, and keeps a reference to it.
    fn note_panic(&self, task: *const Header) {
        // SAFETY: T2: the running task holds a reference and is in no queue.
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

    /// Returns the payload of the first panic that no join has taken. Called after
    /// [`ScopeCore::finish`].
    #[inline]
    pub(crate) fn unclaimed_panic(&self) -> Option<Box<dyn Any + Send>> {
        // A load is enough: no child is left that could add itself.
        let none = self.panicked.load(Ordering::Acquire).is_null();
        if none { None } else { self.find_panic().map(|panic| panic.payload) }
    }

    /// The same, with what is known of the panic.
    pub(crate) fn unclaimed_and_located(&self) -> Option<Box<dyn Any + Send>> {
        let ChildPanic { payload, thrown, .. } = self.find_panic()?;
        Some(match thrown {
            Some(thrown) => task::unsplit(payload, thrown),
            None => payload,
        })
    }

    #[cold]
    fn find_panic(&self) -> Option<ChildPanic> {
        let mut first = None;
        let mut task = self.panicked.swap(ptr::null_mut(), Ordering::Acquire).cast_const();
        while !task.is_null() {
            // SAFETY: T2: the list holds a reference to each task.
            let header = unsafe { &*task };
            let next = header.next.load(Ordering::Relaxed);
            if header.claim_result() {
                // SAFETY: T1: claimed just now. A panic does not depend on the result's type, see
                // `take_panic`.
                let payload = unsafe { (header.vtable.take_panic)(task) };
                let panic = payload.map(|payload| {
                    let (payload, thrown) = task::split(payload);
                    ChildPanic { payload, thrown, task: header.description() }
                });
                // The list begins with the task that panicked last, so each further entry replaces
                // `first`. A payload's destructor is user code that may panic. It must not keep the
                // rest of the list from being released.
                let unwanted = match panic {
                    Some(panic) if !header.is_hushed() => first.replace(panic),
                    hushed => hushed,
                };
                task::drop_quietly(unwanted);
            }
            // SAFETY: T2: this is the list's reference.
            unsafe { Header::release(task) };
            task = next;
        }
        first
    }
}

/// A scope's wait for its tasks.
// SAFETY: O1: the object is the scope, which is in a frame around the wait.
static THE_CHILDREN: What = unsafe { What::about("the tasks of its scope", describe) };

/// Describes a scope's wait for its tasks.
///
/// # Safety
/// O1: `core` is a [`ScopeCore`] whose task waits for it.
unsafe fn describe(core: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise. While the scope waits, its children are counted in the word.
    let word = unsafe { &*core.cast::<ScopeCore>() }.count.load(Ordering::Relaxed);
    let children = (word & CHILDREN_MASK).saturating_sub(BIAS);
    let daemons = (word / DAEMON) & (WAIT_CHILDREN / DAEMON - 1);
    let left = u32::try_from(children + daemons).unwrap_or(u32::MAX);
    ("the tasks of its scope", About::Scope(core.addr(), left))
}

#[inline]
fn is_reached(count: u64, bit: u64) -> bool {
    let children = count & CHILDREN_MASK == BIAS;
    if bit == WAIT_CHILDREN { children } else { children && count & DAEMONS_MASK == 0 }
}

/// Holds the vtable of a task whose body is a `B`.
struct Erased<B>(B);

impl<B: Body> Erased<B> {
    const VTABLE: VTable = VTable {
        run: TaskBox::<B>::__rust_begin_short_backtrace,
        polled: None,
        fail: TaskBox::<B>::fail,
        take: TaskBox::<B>::take,
        put_back: TaskBox::<B>::put_back,
        take_panic: TaskBox::<B>::take_panic,
        discard: TaskBox::<B>::discard,
        free: TaskBox::<B>::free,
        layout: TaskBox::<B>::LAYOUT,
        upcalls: UPCALLS,
    };
}

/// Holds the vtable of a task whose work is a `P`, which contains a future.
struct ErasedFuture<P>(P);

impl<P: PolledBody> ErasedFuture<P> {
    const VTABLE: VTable = VTable {
        run: |_| unreachable!("it is polled"),
        polled: Some(TaskBox::<Polled<P>>::POLL_TABLE),
        fail: TaskBox::<Polled<P>>::fail,
        take: TaskBox::<Polled<P>>::take,
        put_back: TaskBox::<Polled<P>>::put_back,
        take_panic: TaskBox::<Polled<P>>::take_panic,
        discard: TaskBox::<Polled<P>>::discard,
        free: TaskBox::<Polled<P>>::free,
        layout: TaskBox::<Polled<P>>::LAYOUT,
        upcalls: UPCALLS,
    };
}

const UPCALLS: Upcalls = Upcalls {
    panicked: note_panic,
    #[cfg(feature = "sim")]
    left: lose_panic,
    ended: child_ended,
    notify_cancelled: sched::notify_cancelled,
    woken: sched::queue_woken,
};

unsafe fn note_panic(task: *const Header) {
    // SAFETY: T2: the running task holds a reference.
    let scope = unsafe { &*task }.scope.cast::<ScopeCore>();
    // SAFETY: S5: the scope waits for this task.
    let core = unsafe { &*scope };
    core.note_panic(task);
    #[cfg(feature = "sim")]
    // SAFETY: T2: the running task holds a reference.
    if simulated::is_simulated() && !unsafe { &*task }.has_handle() {
        // SAFETY: T2, S5: the caller's reference, and the scope waits for this task.
        unsafe { lose_panic(task) };
    }
}

unsafe fn child_ended(scope: *const (), daemon: bool) {
    // SAFETY: S5, by this function's contract.
    unsafe { ScopeCore::child_ended(scope.cast(), daemon) };
}

/// Undoes a spawn that found no queue, because the calling thread is not a worker of the scope's
/// run. Then panics.
#[cold]
#[track_caller]
pub(super) fn refuse_to_spawn(task: *const Header, start: Start) -> ! {
    // SAFETY: T3: no other thread has started the task, nor can start it.
    let header = unsafe { &*task };
    header.started.store(true, Ordering::Relaxed);
    let (scope, daemon) = (header.scope, header.daemon);
    // SAFETY: T3: no other thread has started the task, nor can start it.
    unsafe { Header::refuse(task, String::new()) };
    // The result is not reported as unseen: the panic below tells the spawner.
    header.claim_result();
    // SAFETY: T2: this is the queue's reference.
    unsafe { Header::release(task) };
    // SAFETY: T2: this is the handle's reference.
    unsafe { Header::release(task) };
    // SAFETY: S5: this is the last access to the scope.
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

/// Runs the closure of a plain task. A panic becomes [`Failure::Panicked`].
pub(super) fn catch<T>(closure: impl FnOnce() -> T) -> Result<T, Failure> {
    let closure = || short_trace::begin(closure);
    let caught = panic::catch_unwind(AssertUnwindSafe(closure));
    caught.map_err(|payload| Failure::Panicked(task::located(payload)))
}

#[cfg(all(test, loom))]
pub(super) mod loom_models;
