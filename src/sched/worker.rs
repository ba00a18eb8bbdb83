//! A worker: the loop that picks the next task and runs it.
//!
//! Everything here belongs to one thread. No borrow of a part of the worker is held while a task runs, since the task may come
//! back through [`current`].
#![expect(unsafe_code, reason = "runs tasks by pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

use super::idle::Leisure;
use super::io::Io;
use super::placement::{Moment, Verdict};
use super::pool::Pool;
use super::ready::ReadyQueue;
use super::restraint::Restraint;
use super::shared::WorkerShared;
use super::timers::Timers;
use crate::base::blocks::Blocks;
use crate::base::list::Pile;
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, local};
use crate::coroutine::stack::{Stack, StackCache};
use crate::coroutine::switch::{Fiber, FiberState, Suspender};
use crate::driver::Wait;
use crate::park;
use crate::task::{
    self, BUDGET, Header, Intent, Kept, Leave, Running, TaskFiber, cancel, is_hooked,
};

/// Turns between two looks at inboxes, timers and the driver while there are tasks to run. A prime, so that it does not fall
/// into step with programs.
const MAINTENANCE: u32 = 61;

/// Stacks that a worker keeps for itself.
const STACKS_KEPT: usize = 1024;

/// What only the worker's own thread touches.
pub(crate) struct Worker {
    pub(super) pool: Arc<Pool>,
    pub(super) index: usize,
    pub(super) shared: &'static WorkerShared,
    pub(super) ready: ReadyQueue,
    /// Started tasks that used up their budgets, which run when nothing else is ready. See [`super::restraint`].
    pub(super) preempted: ReadyQueue,
    /// The tasks that have switched away at least once and have not ended, the root aside.
    pub(super) started: Pile,
    pub(super) timers: Timers,
    pub(super) io: RefCell<Io>,
    pub(super) stacks: RefCell<StackCache>,
    pub(super) blocks: Blocks,
    pub(super) leisure: Leisure,
    /// Turns until the next look around.
    turns: Cell<u32>,
    /// Whether the next turn prefers an unstarted task to a ready one.
    unstarted_first: Cell<bool>,
    restraint: Restraint,
    /// Whether tasks may start on other workers than this, by [`super::placement`].
    places: bool,
    /// Tasks until the next one whose life is watched.
    pub(super) until_watched: Cell<u32>,
    /// The task that owns this thread's stack; null on a background worker.
    pub(super) root: Cell<*const Header>,
    /// The scheduler's coroutine, where there is a root.
    scheduler: Cell<*mut Fiber<(), (), ()>>,
    /// Its tasks that wait for closures on the blocking pool.
    pub(super) unblocking: Cell<usize>,
    /// The root goes on at the next turn, to say where it is: see [`super::survey`].
    root_asked: Cell<bool>,
    /// The run is over: the scheduler returns.
    pub(super) finished: Cell<bool>,
}

/// The worker that the current thread is.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Worker> {
    let worker = local::with(|local| local.worker.get()).cast::<Worker>();
    // SAFETY: R1: set by `Worker::enter`, for as long as the worker is there.
    unsafe { worker.as_ref() }
}

/// Which worker the current thread is: for comparison only; null where it is none.
#[inline]
pub(crate) fn current_worker() -> *const () {
    local::with(|local| local.worker.get())
}

impl Worker {
    fn new(pool: Arc<Pool>, index: usize) -> Worker {
        let stacks = StackCache::new(pool.stacks.clone(), STACKS_KEPT);
        Worker {
            shared: pool.workers[index],
            index,
            ready: ReadyQueue::new(),
            preempted: ReadyQueue::new(),
            started: Pile::new(),
            timers: Timers::new(clock::now()),
            io: RefCell::new(Io::new()),
            stacks: RefCell::new(stacks),
            blocks: Blocks::default(),
            leisure: Leisure::new(),
            turns: Cell::new(0),
            unstarted_first: Cell::new(true),
            restraint: Restraint::new(),
            places: pool.places(),
            until_watched: Cell::new(0),
            root: Cell::new(ptr::null()),
            scheduler: Cell::new(ptr::null_mut()),
            unblocking: Cell::new(0),
            root_asked: Cell::new(false),
            finished: Cell::new(false),
            pool,
        }
    }

    /// Runs `body` with this thread as the worker.
    fn enter<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Leave(*const (), *const (), &'static WorkerShared);
        impl Drop for Leave {
            fn drop(&mut self) {
                self.2.board.close();
                local::with(|local| {
                    local.worker.set(self.0);
                    local.listens.set(false);
                    local.blocks.set(self.1);
                });
            }
        }
        task::hear_of_hook();
        let _host = park::enter_host(&super::host::HOST);
        let _leave = local::with(|local| {
            let blocks = ptr::from_ref(&self.blocks).cast();
            let worker = local.worker.replace(ptr::from_ref(self).cast());
            Leave(worker, local.blocks.replace(blocks), self.shared)
        });
        self.shared.board.open();
        body()
    }

    /// A background worker's life.
    pub(super) fn serve(pool: Arc<Pool>, index: usize) {
        let worker = Worker::new(pool, index);
        worker.enter(|| {
            while !worker.finished.get() {
                worker.turn();
            }
        });
    }

    /// Makes the calling thread the first worker and runs the root task's `body` on its own stack. What `body` leaves behind
    /// (there must be no task left) is not waited for.
    ///
    /// # Safety
    /// T1: `root` is a header for this call alone and lives until it returns.
    pub(crate) unsafe fn run_root<T>(
        pool: Arc<Pool>,
        root: *const Header,
        stack: Stack,
        body: impl FnOnce() -> T,
    ) -> T {
        let worker = Worker::new(pool, 0);
        worker.root.set(root);
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*root };
        header.worker.store(ptr::from_ref(worker.shared).cast_mut().cast(), Ordering::Relaxed);
        let at = &raw const worker;
        let scheduler = move |suspender: &Suspender<(), ()>, ()| {
            // SAFETY: R1: the worker outlives its scheduler, below.
            let worker = unsafe { &*at };
            worker.schedule(suspender);
        };
        // SAFETY: C-contract of `Fiber::new`: the closure holds a pointer only, and the fiber ends before the worker goes.
        let mut fiber = unsafe { Fiber::new(stack, scheduler) };
        worker.scheduler.set(&raw mut fiber);
        worker.enter(|| {
            let outer = local::with(|local| {
                local.budget.set(BUDGET);
                (local.task.replace(root.cast()), local.open_frames.replace(0))
            });
            task::note(header);
            // Puts the thread back and ends the scheduler, also when the body panics.
            struct Finish<'w>(&'w Worker, (*const (), u32));
            impl Drop for Finish<'_> {
                fn drop(&mut self) {
                    // The root's header goes with this frame: nobody may reach it any more, nor a message about it be left.
                    // SAFETY: T1: it lives until `run_root` returns.
                    cancel::unlink(&unsafe { &*self.0.root.get() }.node);
                    self.0.receive();
                    self.0.finished.set(true);
                    self.0.resume_scheduler();
                    task::note_none();
                    local::with(|local| {
                        local.task.set(self.1.0);
                        local.open_frames.set(self.1.1);
                    });
                }
            }
            let _finish = Finish(&worker, outer);
            body()
        })
    }

    /// The root's scheduler: runs tasks until the root itself is next.
    fn schedule(&self, suspender: &Suspender<(), ()>) {
        while !self.finished.get() {
            if self.turn() {
                suspender.suspend(());
            }
        }
    }

    /// The root waits: everybody else runs, until it is ready again.
    #[inline(never)]
    pub(super) fn resume_scheduler(&self) {
        let root = self.root.get();
        // SAFETY: T1: the root lives as long as its worker.
        let header = unsafe { &*root };
        let kept = &header.running().kept;
        kept.leave(Leave::Suspended);
        let frames = local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.replace(0)
        });
        // SAFETY: R1: set for as long as the root runs, and resumed by the root only, never by itself.
        let state = unsafe { (*self.scheduler.get()).resume(()) };
        debug_assert_eq!(matches!(state, FiberState::Complete(())), self.finished.get());
        local::with(|local| {
            local.task.set(root.cast());
            local.open_frames.set(frames);
            local.budget.set(BUDGET);
        });
        task::note(header);
        kept.enter();
    }

    /// One turn of the loop; true when the root is to go on.
    ///
    /// This, and everything between a switch and the next, is inlined: the processor predicts a return by the call that it saw
    /// last, and across a switch that was another task's. Each return after a switch would cost a misprediction.
    #[inline(always)]
    fn turn(&self) -> bool {
        if self.restraint.holds() { self.restrained_turn() } else { self.take_turn::<false>() }
    }

    /// A turn while unstarted tasks are held back. Out of line, so that the usual turn stays short.
    #[inline(never)]
    fn restrained_turn(&self) -> bool {
        self.take_turn::<true>()
    }

    #[inline(always)]
    fn take_turn<const RESTRAINED: bool>(&self) -> bool {
        let turns = self.turns.get();
        self.turns.set(turns.wrapping_sub(1));
        if turns == 0 {
            self.turns.set(MAINTENANCE);
            self.look_around(Wait::Poll);
            if self.root_asked.take() {
                return true;
            }
            if RESTRAINED && self.restraint.is_over() {
                self.unstarted_first.set(true);
            }
            self.promote();
        }
        // A worker with ready and unstarted tasks takes turns, unless the unstarted ones are held back.
        let ready_first = !self.unstarted_first.get();
        let mut task =
            if ready_first { self.ready.pop() } else { self.shared.unstarted.pop_oldest() };
        let mut from_ready = ready_first;
        if task.is_null() {
            if RESTRAINED && self.promote() {
                return false;
            }
            from_ready = !ready_first;
            task = if ready_first { self.shared.unstarted.pop_oldest() } else { self.ready.pop() };
        }
        if task.is_null() {
            if !self.promote() {
                self.idle();
            }
            return false;
        }
        self.unstarted_first.set(from_ready && !RESTRAINED);
        if from_ready {
            if task == self.root.get() {
                return true;
            }
            // SAFETY: T1: it was ready on this worker.
            unsafe { self.go_on(task) };
        } else if self.places {
            // SAFETY: T1: it was in this worker's queue.
            unsafe { self.place_or_begin(task) };
        } else {
            // SAFETY: T1: it was in this worker's queue.
            unsafe { self.begin(task) };
        }
        false
    }

    /// Begins a task that came out of the queue of unstarted ones, with a slice and a budget of its own. Returns whether it has
    /// ended; `None` if a join had started it.
    ///
    /// # Safety
    /// T1: as [`Worker::start_if_first`].
    #[inline(always)]
    unsafe fn begin(&self, task: *const Header) -> Option<bool> {
        self.restraint.begin_slice();
        local::with(|local| local.budget.set(BUDGET));
        // SAFETY: T1, the caller's promise.
        let ended = unsafe { self.start_if_first(task, false) };
        if ended.is_some() {
            self.restraint.learn();
        }
        ended
    }

    /// Begins a task here, unless another worker is to have it.
    ///
    /// # Safety
    /// T1: as [`Worker::start_if_first`].
    #[inline(always)]
    unsafe fn place_or_begin(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let Verdict::Here { is_watched } = (unsafe { self.place(task) }) else { return };
        if !is_watched {
            // SAFETY: T1, the caller's promise.
            unsafe { self.begin(task) };
            return;
        }
        // SAFETY: T1, the caller's promise.
        let site = unsafe { &*task }.spawned_at();
        // SAFETY: T1, as above.
        if let Some(ended) = unsafe { self.begin(task) } {
            // SAFETY: T1: it was started here just now.
            unsafe { self.watch_task(task, site, ended) };
        }
    }

    /// The next preempted task becomes ready. False: there is none.
    #[inline(never)]
    fn promote(&self) -> bool {
        let task = self.preempted.pop();
        if task.is_null() {
            return false;
        }
        self.restraint.begin_slice();
        // SAFETY: T1: it was in the other queue just now.
        unsafe { self.ready.push(task) };
        true
    }

    /// Whether the running task, which has used up its budget, is to make room: a ready task waits, or its slice is over and
    /// there is another that computes. Looks around first.
    ///
    /// Otherwise the task stays where it is. To switch away from it is to switch away from the joiners on whose stacks it
    /// was started as well, and from their joiners.
    pub(super) fn is_to_make_room(&self) -> bool {
        let outer = Outer::leave_for(ptr::null(), 0);
        let noted = task::noted();
        self.look_around(Wait::Poll);
        task::note_again(noted);
        outer.come_back();
        let (oldest, next) = self.shared.unstarted.span();
        let others_compute = oldest < next || !self.preempted.is_empty();
        // The slice begins now if it has not begun.
        let is_slice_over = self.restraint.note_used_up(others_compute);
        if self.root_asked.get() || !self.ready.is_empty() {
            return true;
        }
        if !is_slice_over {
            return false;
        }
        let is_due = oldest < next && self.restraint.is_over();
        if is_due {
            self.unstarted_first.set(true);
        }
        is_due || !self.preempted.is_empty()
    }

    /// Runs a task from the ready queue: a suspended one, or one that may only start here.
    #[inline(always)]
    unsafe fn go_on(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        if unsafe { &*task }.has_fiber.get() {
            // SAFETY: T1, as above.
            unsafe { self.resume(task) };
        } else {
            local::with(|local| local.budget.set(BUDGET));
            // SAFETY: T1, as above.
            unsafe { self.start_if_first(task, false) };
        }
    }

    /// Starts a task that came out of a queue. Returns whether it has ended; `None` if a join had started it. `in_place` as for
    /// [`Worker::start`].
    ///
    /// # Safety
    /// T1: the caller took the task, and the queue's reference with it, out of a queue.
    #[inline(always)]
    pub(super) unsafe fn start_if_first(
        &self,
        task: *const Header,
        in_place: bool,
    ) -> Option<bool> {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        if header.started.load(Ordering::Relaxed) || header.started.swap(true, Ordering::AcqRel) {
            // SAFETY: T2: the queue's reference.
            unsafe { Header::release(task) };
            return None;
        }
        // SAFETY: T3: this thread has set `started`.
        Some(unsafe { self.start(task, in_place) })
    }

    /// Gives a task a stack and runs it for the first time. Returns whether it has ended. `in_place` says that the current task does
    /// this, and not the scheduler's loop.
    ///
    /// # Safety
    /// T3: the caller has set `started`, and owns the reference of the running task.
    #[inline(always)]
    pub(super) unsafe fn start(&self, task: *const Header, in_place: bool) -> bool {
        // SAFETY: T3, the caller's promise.
        let header = unsafe { &*task };
        header.worker.store(ptr::from_ref(self.shared).cast_mut().cast(), Ordering::Relaxed);
        let stack = match self.stack_for(header) {
            Ok(stack) => stack,
            Err(error) => {
                super::spawn::fail_to_start(task, &error, in_place);
                return true;
            }
        };
        let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.ended);
        let own_size = header.extra.as_ref().is_some_and(|extra| {
            task::label(header, extra);
            extra.stack_size.is_some()
        });
        let running = stack.head().cast::<Running>();
        // SAFETY: C1: the head is the owner's, and large enough.
        unsafe { running.write(Running::new(&raw const header.node)) };
        header.running.set(running.as_ptr());
        if is_hooked() {
            // SAFETY: C1: written just now.
            enter_first(header, unsafe { &running.as_ref().kept }, in_place);
        }
        let main = move |suspender: &Suspender<(), Intent>, ()| {
            // SAFETY: T2: the running task holds a reference.
            let header = unsafe { &*task };
            header.running().suspender.set(suspender);
            // SAFETY: T3: once, here, on the task's stack.
            let released = unsafe { (header.vtable.run)(task) };
            if !released && !header.has_fiber.get() {
                // It never switched away, so nobody but this frame looks at the header any more.
                // SAFETY: T2: the running task's reference.
                unsafe { Header::release(task) };
            }
        };
        // SAFETY: C-contract of `Fiber::new`: the closure holds a pointer to the task, which lives while it runs; a fiber is
        // dropped only when complete (S1).
        let mut fiber = unsafe { Fiber::new(stack, main) };
        // The scheduler's loop notes what it runs next.
        let noted = in_place.then(task::noted);
        let outer = Outer::leave_for(task, 0);
        task::note(header);
        let state = fiber.resume(());
        if let Some(noted) = noted {
            task::note_again(noted);
        }
        match state {
            FiberState::Complete(()) => {
                outer.come_back();
                let stack = fiber.into_stack();
                if is_hooked() {
                    // SAFETY: C1: it is still at the stack's top.
                    let running = unsafe { stack.head().cast::<Running>().as_ref() };
                    leave_first(&running.kept, Leave::Ended, in_place);
                }
                if !own_size {
                    self.stacks.borrow_mut().give(stack);
                }
                // SAFETY: S5: the last access to the scope.
                unsafe { ended(scope, daemon) };
                true
            }
            FiberState::Suspended(intent) => {
                let running = header.running();
                running.open_frames.set(outer.come_back());
                // SAFETY: T1: the slot is the worker's, and empty until `has_fiber`.
                unsafe { (*running.fiber.get()).write(fiber) };
                header.has_fiber.set(true);
                // SAFETY: L3/T6: in no list yet, taken out by `retire` before the stack is used again; this worker's thread only.
                unsafe { self.started.push(&raw const running.enter(task).link) };
                self.shared
                    .load
                    .store(self.shared.load.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                if intent == Intent::Yield && !self.restraint.holds() {
                    // It may have spawned what it lets begin by this.
                    self.unstarted_first.set(true);
                }
                if is_hooked() {
                    leave_first(&running.kept, Leave::Suspended, in_place);
                }
                // SAFETY: T1: it has just switched away.
                unsafe { self.after(task, intent) };
                false
            }
        }
    }

    /// Runs a suspended task further.
    ///
    /// # Safety
    /// T1: the task is ready, in no queue, and belongs to this worker.
    #[inline(always)]
    unsafe fn resume(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        let running = header.running();
        running.kept.enter();
        // Called by the scheduler's loop only, which needs nothing put back: what it looks at is set when it looks around.
        local::with(|local| {
            local.task.set(task.cast());
            local.open_frames.set(running.open_frames.get());
            local.budget.set(BUDGET);
        });
        task::note(header);
        // SAFETY: T1: `has_fiber` says that it is there; the task does not touch its own slot.
        let fiber = unsafe { &mut *running.fiber.get().cast::<TaskFiber>() };
        let state = fiber.resume(());
        match state {
            FiberState::Suspended(intent) => {
                running.open_frames.set(local::with(|local| local.open_frames.get()));
                running.kept.leave(Leave::Suspended);
                // SAFETY: T1: it has just switched away.
                unsafe { self.after(task, intent) };
            }
            // SAFETY: T1: it is complete.
            FiberState::Complete(()) => unsafe { self.retire(task, running) },
        }
    }

    /// The end of a task that had switched away.
    ///
    /// # Safety
    /// T1: its fiber is complete, and nobody has retired it.
    #[inline(never)]
    unsafe fn retire(&self, task: *const Header, running: *const Running) {
        // SAFETY: T2: the running task's reference is still there.
        let header = unsafe { &*task };
        let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.ended);
        let own_size = header.extra.as_ref().is_some_and(|extra| extra.stack_size.is_some());
        // SAFETY: C1: the stack is still the fiber's, and what lies at its top with it.
        let running = unsafe { &*running };
        running.kept.leave(Leave::Ended);
        // SAFETY: T6: entered when it first switched away.
        let entry = unsafe { running.entry() };
        // SAFETY: L3: there since then.
        unsafe { self.started.remove(&raw const entry.link) };
        let slot = running.fiber.get();
        // SAFETY: T1: it is there, and not used again.
        let fiber = unsafe { slot.cast::<TaskFiber>().read() };
        let stack = fiber.into_stack();
        if !own_size {
            self.stacks.borrow_mut().give(stack);
        }
        self.shared.load.store(self.shared.load.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        if header.watched_since.get() != 0 {
            self.note_end(header.spawned_at(), header.watched_since.get());
        }
        // SAFETY: T2: the running task's reference, which `run` does not give back once there is a fiber.
        unsafe { Header::release(task) };
        // SAFETY: S5: the last access to the scope.
        unsafe { ended(scope, daemon) };
    }

    /// Puts a task that switches away where it is to wait.
    ///
    /// # Safety
    /// T1: the task belongs to this worker and is in no queue.
    #[inline(always)]
    pub(super) unsafe fn after(&self, task: *const Header, intent: Intent) {
        match intent {
            Intent::Park => {}
            // SAFETY: T1: it is in no queue.
            Intent::Yield => unsafe { self.ready.push(task) },
            // SAFETY: T1, as above.
            Intent::MakeRoom => unsafe { self.preempted.push(task) },
        }
    }

    /// The next turn is the root's, which is parked.
    pub(super) fn ask_root(&self) {
        self.root_asked.set(true);
        self.turns.set(0);
    }

    #[inline(always)]
    fn stack_for(&self, header: &Header) -> std::io::Result<Stack> {
        match header.extra.as_ref().and_then(|extra| extra.stack_size) {
            Some(size) => Stack::new(size),
            None => self.stacks.borrow_mut().take(),
        }
    }

    /// Looks at inboxes, timers and the driver.
    pub(super) fn look_around(&self, wait: Wait) {
        task::hear_of_hook();
        // Hooks that a timer sets off run here, on behalf of no task.
        local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.set(0);
        });
        task::note_none();
        self.io.borrow_mut().poll(self, wait);
        self.receive();
        if self.places {
            let now = clock::now();
            let moment = Moment::at(now, self.pool.epoch);
            self.shared.looked_at.store(moment.word(), Ordering::Relaxed);
        }
        if !self.timers.is_empty() {
            self.timers.ring(clock::now());
        }
    }

    /// Takes the tasks that others have placed here into the queue.
    pub(super) fn receive_inbound(&self) {
        self.shared.take_inbound(|task| self.queue(task));
    }

    /// Queues an unstarted task here.
    pub(super) fn queue(&self, task: *const Header) {
        // SAFETY: T1: it was taken out of an inbox just now, with its reference.
        let header = unsafe { &*task };
        header.worker.store(ptr::from_ref(self.shared).cast_mut().cast(), Ordering::Relaxed);
        self.shared.unstarted.push(task);
    }

    /// Empties the inboxes.
    pub(super) fn receive(&self) {
        self.receive_inbound();
        self.shared.receive_woken(|task| {
            // SAFETY: T1: it came through the inbox of this worker, so it is in no queue.
            unsafe { self.ready.push(task) };
        });
        self.shared.receive_cancelled(|task| {
            // SAFETY: T2: the message's reference.
            let header = unsafe { &*task };
            super::host::interrupt(header);
            // SAFETY: T2, as above.
            unsafe { Header::release(task) };
        });
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Tells the hook that a task starts, and that the current one does not run meanwhile if that starts it in its place.
#[cold]
#[inline(never)]
pub(super) fn enter_first(header: &Header, kept: &Kept, in_place: bool) {
    if in_place && let Some(outer) = task::current_header() {
        outer.running().kept.leave(Leave::Suspended);
    }
    if let Some(extra) = &header.extra {
        kept.take_from(&extra.kept);
    }
    kept.enter();
}

/// Tells the hook that a task's first stretch is over, and that the current task goes on if that has started it in its place.
#[cold]
#[inline(never)]
pub(super) fn leave_first(kept: &Kept, why: Leave, in_place: bool) {
    kept.leave(why);
    if in_place && let Some(outer) = task::current_header() {
        outer.running().kept.enter();
    }
}

/// What the thread was doing before it went over to a task.
pub(super) struct Outer {
    task: *const (),
    frames: u32,
}

impl Outer {
    #[inline(always)]
    pub(super) fn leave_for(task: *const Header, frames: u32) -> Outer {
        local::with(|local| Outer {
            task: local.task.replace(task.cast()),
            frames: local.open_frames.replace(frames),
        })
    }

    /// Returns the task's count of open frames.
    #[inline(always)]
    pub(super) fn come_back(self) -> u32 {
        local::with(|local| {
            local.task.set(self.task);
            local.open_frames.replace(self.frames)
        })
    }
}
