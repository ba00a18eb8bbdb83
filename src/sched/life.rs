//! The life of a worker: its thread, the root task, and its end.
#![expect(unsafe_code, reason = "runs the root task by pointer")]

use std::io;
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::thread;

use super::debugger;
use super::host::HOST;
use super::pool::Pool;
use super::record::runs;
#[cfg(feature = "sim")]
use super::simulated::SIMULATED_HOST;
use super::worker::{Scheduling, Worker};
use crate::base::record::{self, Ring};
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, local};
use crate::coroutine::hook;
use crate::coroutine::stack::Stack;
use crate::coroutine::switch::{Fiber, Suspender};
use crate::park::{self, Host};
use crate::task::{self, Header, cancel};

impl Worker {
    /// Runs `body` with this thread as the worker.
    fn enter<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Leave<'w>(*const (), *const (), *const (), &'w Worker);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.3.shared.worker.store(ptr::null_mut(), Ordering::Relaxed);
                self.3.shared.board.close();
                hook::enter_run(self.2);
                local::with(|local| {
                    local.worker.set(self.0);
                    local.listens.set(false);
                    local.blocks.set(self.1);
                });
                // The thread is no worker of this run any more, so what is woken now does not come
                // back to it.
                self.3.end_naps();
            }
        }
        debugger::prepare();
        task::hear_of_hook();
        let recorder = self.pool.recorder.as_deref();
        let _recording = recorder.map(|rings| record::enter(rings, self.index));
        if recorder.is_some() {
            task::hook_thread();
        }
        let _host = park::enter_host(self.host());
        let _mark = park::enter_worker();
        let _explains = self.pool.settings.explains.then(park::explain);
        let here = 0_u8;
        let outer = hook::enter_run((&raw const here).cast());
        let _leave = local::with(|local| {
            let blocks = ptr::from_ref(&self.blocks).cast();
            let worker = local.worker.replace(ptr::from_ref(self).cast());
            Leave(worker, local.blocks.replace(blocks), outer, self)
        });
        self.shared.board.open();
        local::with(|local| {
            let shared = self.shared;
            shared.local.store(ptr::from_ref(local).cast_mut().cast(), Ordering::Relaxed);
            shared.worker.store(ptr::from_ref(self).cast_mut().cast(), Ordering::Relaxed);
        });
        // An earlier run of this thread has counted from another moment.
        self.note_moment(clock::now());
        body()
    }

    /// Returns what carries out the waits of this worker's tasks.
    fn host(&self) -> &'static Host {
        #[cfg(feature = "sim")]
        if self.simulation.is_some() {
            return &SIMULATED_HOST;
        }
        &HOST
    }

    /// Runs a background worker until its pool stops.
    fn serve(pool: Arc<Pool>, index: usize) {
        let worker = Worker::new(pool, index);
        worker.enter(|| {
            while !worker.finished.get() {
                worker.turn();
            }
        });
    }

    /// Makes the calling thread the first worker and runs the root task's `body` on its own stack.
    /// Does not wait for what `body` leaves behind: no task may be left. If the run is
    /// simulated, the pool has one worker.
    ///
    /// # Safety
    /// T1: `root` is a header for this call alone and lives until it returns.
    pub(crate) unsafe fn run_root<T>(
        pool: Arc<Pool>,
        root: *const Header,
        stack: Stack,
        scheduling: Scheduling,
        body: impl FnOnce() -> T,
    ) -> T {
        let worker = Worker::of_root(pool, scheduling);
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
        // SAFETY: C-contract of `Fiber::new`: the closure holds only a pointer, and the fiber ends
        // before the worker does.
        let mut fiber = unsafe { Fiber::new(stack, scheduler) };
        worker.scheduler.set(&raw mut fiber);
        worker.enter(|| {
            let budget = worker.first_budget(header);
            let outer = local::with(|local| {
                local.budget.set(budget);
                (local.task.replace(root.cast()), local.open_frames.replace(0))
            });
            task::note(header);
            record::with(|ring| runs(ring, header, true));
            // Restores the thread and ends the scheduler, also when the body panics.
            struct Finish<'w>(&'w Worker, (*const (), u32));
            impl Drop for Finish<'_> {
                fn drop(&mut self) {
                    // The root's header ends with this frame. After this no canceller may reach it,
                    // and no message about it may be left.
                    // SAFETY: T1: it lives until `run_root` returns.
                    cancel::unlink(&unsafe { &*self.0.root.get() }.node);
                    self.0.receive();
                    self.0.finished.set(true);
                    self.0.resume_scheduler();
                    record::with(Ring::end);
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

    /// Runs tasks until the root is next. This is the root's scheduler.
    fn schedule(&self, suspender: &Suspender<(), ()>) {
        #[cfg(feature = "sim")]
        if let Some(simulation) = &self.simulation {
            return self.schedule_simulated(simulation, suspender);
        }
        // The root may have placed tasks here in its first turn. The worker does not look around,
        // so that this turn is measured by the next.
        self.receive_inbound();
        while !self.finished.get() {
            if self.turn() {
                // SAFETY: T1: the root lives as long as its worker.
                let root = unsafe { &*self.root.get() }.running();
                local::with(|local| local.budget.set(self.pace.budget_of(root)));
                suspender.suspend(());
            }
        }
    }

    /// Returns the budget of the root's first stretch.
    fn first_budget(&self, root: &Header) -> u32 {
        #[cfg(feature = "sim")]
        if let Some(simulation) = &self.simulation {
            return simulation.begin(root);
        }
        self.pace.budget_of(root.running())
    }
}

impl Pool {
    /// Starts the threads of all workers except the first, which is the thread that calls `run`.
    /// Called once.
    pub(crate) fn start_threads(self: &Arc<Pool>) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for index in threads.len() + 1..self.workers.len() {
            let pool = Arc::clone(self);
            let name = format!("{}-{index}", self.settings.name);
            let thread = thread::Builder::new()
                .name(name)
                .spawn(move || Worker::serve(pool, index))
                .map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("could not start the thread of worker {index}: {error}"),
                    )
                })?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Ends the threads. Called when there is no run.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for worker in &self.workers {
            worker.wake();
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A worker's own code does not panic; tasks' panics are caught.
            let _ = thread.join();
        }
        self.blocking.stop();
    }
}
