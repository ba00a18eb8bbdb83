//! A task from its first stretch to its end: it gets a stack, is resumed, switches away, and is
//! retired.
#![expect(unsafe_code, reason = "runs tasks by pointer")]

use std::io;
use std::ptr;

use super::record::{self, Stop};
use super::worker::{Outer, Worker};
use crate::base::local;
use crate::base::sync::atomic::Ordering;
use crate::coroutine::stack::Stack;
use crate::coroutine::switch::{Fiber, FiberState, Suspender};
use crate::park::Intent;
use crate::task::{self, Header, Kept, Running, TaskFiber, is_hooked};

impl Worker {
    /// Starts a task that was taken out of a queue. Returns whether it has ended, or `None` if a
    /// join had started it. `in_place` is as for [`Worker::start`].
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

    /// Gives a task a stack and runs it for the first time. Returns whether it has ended.
    /// `in_place` means that the current task calls this, not the scheduler's loop.
    ///
    /// # Safety
    /// T3: the caller has set `started`, and owns the reference of the running task.
    #[inline(always)]
    pub(super) unsafe fn start(&self, task: *const Header, in_place: bool) -> bool {
        // SAFETY: T3, the caller's promise.
        let header = unsafe { &*task };
        header.worker.store(ptr::from_ref(self.shared).cast_mut().cast(), Ordering::Relaxed);
        if header.is_polled() {
            // SAFETY: T3, the caller's promise.
            return unsafe { self.start_polled(task, in_place) };
        }
        let stack = match self.stack_for(header) {
            Ok(stack) => stack,
            Err(error) => {
                self.shared.count_end();
                fail_to_start(task, &error, in_place);
                return true;
            }
        };
        let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.upcalls.ended);
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
            record::starts(header, unsafe { &running.as_ref().kept }, in_place);
        }
        let main = move |suspender: &Suspender<(), Intent>, ()| {
            // SAFETY: T2: the running task holds a reference.
            let header = unsafe { &*task };
            header.running().parker.set_suspender(suspender);
            // SAFETY: T3: once, here, on the task's stack.
            let released = unsafe { (header.vtable.run)(task) };
            if !released && !header.has_fiber.get() {
                // It never switched away, so only this frame still looks at the header.
                // SAFETY: T2: the running task's reference.
                unsafe { Header::release(task) };
            }
        };
        // SAFETY: C-contract of `Fiber::new`: the closure holds a pointer to the task, which lives
        // while it runs. A fiber is dropped only when it is complete (S1).
        let mut fiber = unsafe { Fiber::new(stack, main) };
        // The scheduler's loop notes what it runs next by itself.
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
                    record::first_stop(&running.kept, Stop::Ended, in_place);
                }
                if !own_size {
                    self.stacks.borrow_mut().give(stack);
                }
                self.shared.count_end();
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
                // SAFETY: L3/T6: it is in no list yet, and `retire` takes it out before the stack
                // is used again. Only this worker's thread touches the list.
                unsafe { self.started.push(&raw const running.enter(task).link) };
                self.shared
                    .load
                    .store(self.shared.load.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                if intent == Intent::Yield && !self.restraint.holds() {
                    // It may yield so that tasks that it has spawned begin.
                    self.unstarted_first.set(true);
                }
                if is_hooked() {
                    record::first_stop(&running.kept, Stop::Switches(header, intent), in_place);
                }
                // SAFETY: T1: it has just switched away.
                unsafe { self.after(task, intent) };
                false
            }
        }
    }

    /// Runs a suspended task further, with a budget for this turn.
    ///
    /// # Safety
    /// T1: the task is ready, in no queue, and belongs to this worker.
    #[inline(always)]
    pub(super) unsafe fn resume(&self, task: *const Header, budget: u32) {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        let running = header.running();
        if is_hooked() {
            record::goes_on(header, &running.kept);
        }
        // Only the scheduler's loop calls this, and it needs nothing restored: it sets these cells
        // when it looks around.
        local::with(|local| {
            local.task.set(task.cast());
            local.open_frames.set(running.open_frames.get());
            local.budget.set(budget);
        });
        task::note(header);
        // SAFETY: T1: `has_fiber` says that the fiber is there. The task does not touch its own
        // slot.
        let fiber = unsafe { &mut *running.fiber.get().cast::<TaskFiber>() };
        let state = fiber.resume(());
        match state {
            FiberState::Suspended(intent) => {
                running.open_frames.set(local::with(|local| local.open_frames.get()));
                if is_hooked() {
                    record::stops(&running.kept, Stop::Switches(header, intent));
                }
                // SAFETY: T1: it has just switched away.
                unsafe { self.after(task, intent) };
            }
            // SAFETY: T1: it is complete.
            FiberState::Complete(()) => unsafe { self.retire(task, running) },
        }
    }

    /// Ends a task that had switched away.
    ///
    /// T1: its fiber is complete, and it has not been retired.
    #[inline(never)]
    unsafe fn retire(&self, task: *const Header, running: *const Running) {
        // SAFETY: T2: the running task's reference is still there.
        let header = unsafe { &*task };
        let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.upcalls.ended);
        let own_size = header.extra.as_ref().is_some_and(|extra| extra.stack_size.is_some());
        // SAFETY: C1: the stack is still the fiber's, and what lies at its top with it.
        let running = unsafe { &*running };
        if is_hooked() {
            record::stops(&running.kept, Stop::Ended);
        }
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
        self.shared.count_end();
        // SAFETY: T2: the running task's reference, which `run` does not release once there is a
        // fiber.
        unsafe { Header::release(task) };
        // SAFETY: S5: the last access to the scope.
        unsafe { ended(scope, daemon) };
    }

    /// Queues a task that has switched away, as its intent says.
    ///
    /// # Safety
    /// T1: the task belongs to this worker and is in no queue.
    #[inline(always)]
    pub(super) unsafe fn after(&self, task: *const Header, intent: Intent) {
        match intent {
            Intent::Park => {}
            // SAFETY: T1: it is in no queue.
            Intent::Yield => unsafe { self.ready.push(task) },
            // SAFETY: T1: it is in no queue.
            Intent::MakeRoom => unsafe { self.preempted.push(task) },
        }
    }

    /// Runs other tasks until the root, which waits, is ready again. The scheduler sets its budget.
    #[inline(never)]
    pub(super) fn resume_scheduler(&self) {
        let root = self.root.get();
        // SAFETY: T1: the root lives as long as its worker.
        let header = unsafe { &*root };
        let kept = &header.running().kept;
        if is_hooked() {
            record::stops(kept, Stop::Root(header));
        }
        let frames = local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.replace(0)
        });
        // SAFETY: R1: set for as long as the root runs. Only the root resumes it, so it never
        // resumes itself.
        let state = unsafe { (*self.scheduler.get()).resume(()) };
        debug_assert_eq!(matches!(state, FiberState::Complete(())), self.finished.get());
        local::with(|local| {
            local.task.set(root.cast());
            local.open_frames.set(frames);
        });
        task::note(header);
        if is_hooked() {
            record::goes_on(header, kept);
        }
    }

    #[inline(always)]
    fn stack_for(&self, header: &Header) -> io::Result<Stack> {
        match header.extra.as_ref().and_then(|extra| extra.stack_size) {
            Some(size) => Stack::new(size),
            None => self.stacks.borrow_mut().take(),
        }
    }
}

/// Ends a task that could not get a stack.
#[cold]
pub(super) fn fail_to_start(task: *const Header, error: &io::Error, in_place: bool) {
    // SAFETY: T3: the worker has set `started`. Without a stack for the task, the closure is
    // dropped on the scheduler's own stack, where it must not wait.
    let header = unsafe { &*task };
    let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.upcalls.ended);
    let text = format!("a task could not start: {error}");
    let kept = Kept::empty();
    if is_hooked() {
        record::starts(header, &kept, in_place);
    }
    // The task that the thread ran before has nothing to do with this.
    let before = local::with(|local| local.task.replace(ptr::null()));
    crate::park::no_suspend(|| {
        // SAFETY: T3: the worker has set `started`. Without a stack for the task, the closure is
        // dropped on the scheduler's own stack, where it must not wait.
        unsafe { Header::refuse(task, text) };
    });
    local::with(|local| local.task.set(before));
    if is_hooked() {
        record::first_stop(&kept, Stop::Ended, in_place);
    }
    // SAFETY: T2: the running task's reference.
    unsafe { Header::release(task) };
    // SAFETY: S5: the last access to the scope.
    unsafe { ended(scope, daemon) };
}
