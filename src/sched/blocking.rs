//! The blocking pool: threads for closures that block, so that workers need not.
//!
//! The pool starts a thread whenever there is work and no thread is idle, up to [`THREADS_MAX`]
//! threads. Beyond that, closures queue. An idle thread ends after [`LINGER`].
//!
//! Lookups of host names have a line of their own, and at most [`LOOKUPS_MAX`] of them run at once.
//! A resolver that does not answer then leaves most threads to other closures. A lookup that no
//! task waits for any more leaves its line, unless it has begun.
//!
//! A closure that waits in a call of this library may wait for a task that itself needs a thread of
//! the pool. So its thread does not count while it waits: the pool grows rather than deadlocks.
//!
//! A closure may borrow from the stack of the task that waits for it. Such a wait cannot be
//! cancelled, because only the closure's own end ends the borrow (as in S3). A closure that borrows
//! nothing can be detached (`unblock::leave`), and then no task has to wait for its end.
#![expect(unsafe_code, reason = "runs closures that borrow from a parked stack")]

use std::collections::{BTreeMap, VecDeque};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::local;
use crate::park::{self, Host};

/// The most threads of a runtime's blocking pool: a limit. Threads whose closures wait in a call of
/// this library do not count.
pub(crate) const THREADS_MAX: usize = 512;
/// The most lookups that run at once: a limit. A resolver that answers in 10 ms then still answers
/// 6,400 lookups per second, and a silent one holds an eighth of the pool's threads.
const LOOKUPS_MAX: usize = 64;
/// How long an idle thread waits for work before it ends. It moves no row: the programs of rows
/// end earlier.
const LINGER: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    state: Arc<BlockingState>,
}

#[derive(Debug)]
struct BlockingState {
    name: String,
    /// The pool whose closure has begun the current run. No lock is taken while this one is held.
    outer: Mutex<Option<Arc<BlockingState>>>,
    queue: Mutex<JobQueue>,
    news: Condvar,
}

/// Notes, while it lives, which pool's closure has begun a run. See [`BlockingPool::begin_run`].
#[derive(Debug)]
pub(crate) struct RunInPool<'a>(&'a BlockingState);

impl Drop for RunInPool<'_> {
    fn drop(&mut self) {
        self.0.set_outer(None);
    }
}

#[derive(Debug, Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    /// The lookups that have not begun, by their tickets. The lowest ticket is the oldest.
    lookups: BTreeMap<u64, Job>,
    /// The ticket of the lookup that was queued last.
    last_ticket: u64,
    /// Lookups that run.
    looking: usize,
    threads: usize,
    idle: usize,
    /// Threads whose closures wait.
    waiting: usize,
    stopping: bool,
}

/// A closure, on the stack of the task that waits for it. A detached closure lies in a box.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) run: unsafe fn(*const ()),
    pub(super) data: *const (),
}

// SAFETY: U1: `unblock` requires its closure and result to be `Send`, and the frame waits.
unsafe impl Send for Job {}

/// The numbers of jobs that wait for a thread, and of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockingCounts {
    pub(crate) queued: usize,
    pub(crate) threads: usize,
    pub(crate) idle: usize,
}

impl JobQueue {
    /// Returns how many of the queued jobs may begin.
    fn runnable(&self) -> usize {
        self.jobs.len() + self.lookups.len().min(LOOKUPS_MAX - self.looking)
    }

    /// Takes the next job. Returns whether it is a lookup, too.
    fn next(&mut self) -> Option<(Job, bool)> {
        // Lookups are first, because their bound keeps them from holding up other jobs for long.
        if self.looking < LOOKUPS_MAX
            && let Some((_, job)) = self.lookups.pop_first()
        {
            self.looking += 1;
            return Some((job, true));
        }
        self.jobs.pop_front().map(|job| (job, false))
    }
}

impl BlockingPool {
    pub(super) fn new(name: &str) -> BlockingPool {
        let state = BlockingState {
            outer: Mutex::new(None),
            name: format!("{name}-unblock"),
            queue: Mutex::default(),
            news: Condvar::new(),
        };
        BlockingPool { state: Arc::new(state) }
    }

    /// Queues a job, and starts a thread for it if no thread is idle. Returns the job as the error
    /// if no thread can run it.
    pub(super) fn submit(&self, job: Job) -> Result<(), Job> {
        let data = job.data;
        let mut queue = self.state.lock();
        queue.jobs.push_back(job);
        if !self.state.provide(queue) {
            let mut queue = self.state.lock();
            // Other threads may have queued their jobs meanwhile.
            let own = queue.jobs.iter().position(|queued| ptr::eq(queued.data, data));
            // If all threads wait, perhaps for tasks that wait for this very job, the job would
            // never run.
            if queue.threads == queue.waiting
                && let Some(job) = own.and_then(|at| queue.jobs.remove(at))
            {
                return Err(job);
            }
        }
        Ok(())
    }

    /// Queues a lookup. Returns its ticket, or the job as the error if no thread can run it.
    pub(super) fn submit_lookup(&self, job: Job) -> Result<u64, Job> {
        let mut queue = self.state.lock();
        queue.last_ticket += 1;
        let ticket = queue.last_ticket;
        queue.lookups.insert(ticket, job);
        if queue.looking < LOOKUPS_MAX && !self.state.provide(queue) {
            let mut queue = self.state.lock();
            // As in `submit`.
            if queue.threads == queue.waiting
                && let Some(job) = queue.lookups.remove(&ticket)
            {
                return Err(job);
            }
        }
        Ok(ticket)
    }

    /// Takes a lookup out of its line, unless it has begun.
    pub(super) fn withdraw_lookup(&self, ticket: u64) -> Option<Job> {
        self.state.lock().lookups.remove(&ticket)
    }

    /// Returns whether the caller is inside the run of this pool: in a closure on one of its
    /// threads, or in a run that such a closure has begun. Only runs that have called
    /// [`BlockingPool::begin_run`] are known.
    pub(crate) fn is_around_caller(&self) -> bool {
        // The closures whose runs are passed here have not ended, so the chain does not change. It
        // has no cycle, because a run that would close one is refused.
        let mut next = current_state();
        while let Some(state) = next {
            if Arc::ptr_eq(&state, &self.state) {
                return true;
            }
            next = state.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        false
    }

    /// Notes that the calling thread begins this pool's run, which is the only one for as long as
    /// the result lives.
    pub(crate) fn begin_run(&self) -> RunInPool<'_> {
        self.state.set_outer(current_state());
        RunInPool(&self.state)
    }

    /// Returns the numbers of jobs and threads.
    pub(crate) fn counts(&self) -> BlockingCounts {
        let queue = self.state.lock();
        BlockingCounts {
            queued: queue.jobs.len() + queue.lookups.len(),
            threads: queue.threads,
            idle: queue.idle,
        }
    }

    /// Lets idle threads end. No closure is running or queued then, because its task would still be
    /// there. Only detached closures may be.
    pub(super) fn stop(&self) {
        self.state.lock().stopping = true;
        self.state.news.notify_all();
    }
}

impl BlockingState {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_outer(&self, outer: Option<Arc<BlockingState>>) {
        let before = {
            let mut place = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, outer)
        };
        drop(before);
    }

    /// Sees to it that a thread runs the job that was queued just now. Returns false if none was
    /// idle and the system refuses another one.
    fn provide(self: &Arc<BlockingState>, queue: MutexGuard<'_, JobQueue>) -> bool {
        if queue.idle >= queue.runnable() {
            drop(queue);
            self.news.notify_one();
            return true;
        }
        self.grow(queue)
    }

    /// Starts a thread unless there are enough. Returns false if the system refuses.
    fn grow(self: &Arc<BlockingState>, mut queue: MutexGuard<'_, JobQueue>) -> bool {
        if queue.threads - queue.waiting >= THREADS_MAX {
            return true;
        }
        queue.threads += 1;
        drop(queue);
        let state = Arc::clone(self);
        let started = thread::Builder::new().name(self.name.clone()).spawn(move || state.work());
        if started.is_err() {
            self.lock().threads -= 1;
        }
        started.is_ok()
    }

    fn work(self: &Arc<BlockingState>) {
        let _host = park::enter_host(&HOST);
        local::with(|local| local.blocking.set(ptr::from_ref(self).cast()));
        let mut queue = self.lock();
        loop {
            if let Some((job, is_lookup)) = queue.next() {
                drop(queue);
                // SAFETY: U1: the job's frame waits for it, and the job is run once.
                unsafe { (job.run)(job.data) };
                queue = self.lock();
                queue.looking -= usize::from(is_lookup);
                continue;
            }
            if queue.stopping {
                break;
            }
            queue.idle += 1;
            let (guard, waited) =
                self.news.wait_timeout(queue, LINGER).unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            queue.idle -= 1;
            if waited.timed_out() && queue.runnable() == 0 {
                break;
            }
        }
        queue.threads -= 1;
        // The destructors of this thread's own thread-locals may still wait.
        local::with(|local| local.blocking.set(ptr::null()));
    }
}

/// The host of the pool's threads. A wait blocks the thread, as on any plain thread, but the pool
/// is notified of it.
static HOST: Host = Host {
    unpark: |_| {},
    is_cancelled: || false,
    park_until: |_, _, _| {},
    hold: |_, _| {},
    may_listen: || false,
    listen: |_| {},
    leave: || {},
    yield_now: thread::yield_now,
    out_of_budget: || {},
    blocks,
};

/// Returns the state of the pool that the current thread works for.
fn current_state() -> Option<Arc<BlockingState>> {
    let state = local::with(|local| local.blocking.get()).cast::<Arc<BlockingState>>();
    // SAFETY: U2: set by `State::work`, for as long as the thread works.
    unsafe { state.as_ref() }.map(Arc::clone)
}

/// Tells the pool that the current thread is about to block in one of this library's waits
/// (`begins`), or that it goes on. Does nothing on other threads. See the module.
#[inline]
pub(super) fn blocks(begins: bool) {
    let state = local::with(|local| local.blocking.get()).cast::<Arc<BlockingState>>();
    // SAFETY: U2: set by `State::work`, for as long as the thread works.
    let Some(state) = (unsafe { state.as_ref() }) else { return };
    let mut queue = state.lock();
    if begins {
        queue.waiting += 1;
        if queue.idle < queue.runnable() {
            state.grow(queue);
        }
    } else {
        queue.waiting -= 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
