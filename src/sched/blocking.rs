//! The blocking pool: threads for closures that block, so that workers need not.
//!
//! The pool starts a thread whenever there is work and no thread is idle, up to [`THREADS_MAX`]
//! threads. Beyond that, closures queue. An idle thread ends after [`LINGER`].
//!
//! A closure that waits in a call of this library may wait for a task that itself needs a thread of
//! the pool. So its thread does not count while it waits: the pool grows rather than deadlocks.
//!
//! A closure may borrow from the stack of the task that waits for it. Such a wait cannot be
//! cancelled, because only the closure's own end ends the borrow (as in S3). A closure that borrows
//! nothing can be detached (`unblock::leave`), and then no task has to wait for its end.
#![expect(unsafe_code, reason = "runs closures that borrow from a parked stack")]

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::local;
use crate::park::{self, Host};

/// The most threads of a runtime's blocking pool. Threads whose closures wait in a call of this
/// library do not count.
pub(crate) const THREADS_MAX: usize = 512;
/// How long an idle thread waits for work before it ends.
const LINGER: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    state: Arc<BlockingState>,
}

#[derive(Debug)]
struct BlockingState {
    name: String,
    queue: Mutex<JobQueue>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
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

impl BlockingPool {
    pub(super) fn new(name: &str) -> BlockingPool {
        let state = BlockingState {
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
        if queue.idle >= queue.jobs.len() {
            drop(queue);
            self.state.news.notify_one();
            return Ok(());
        }
        if !self.state.grow(queue) {
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
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // SAFETY: U1: the job's frame waits for it, and the job is run once.
                unsafe { (job.run)(job.data) };
                queue = self.lock();
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
            if waited.timed_out() && queue.jobs.is_empty() {
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
        if queue.idle < queue.jobs.len() {
            state.grow(queue);
        }
    } else {
        queue.waiting -= 1;
    }
}
