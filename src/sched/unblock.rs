//! The blocking pool: threads for closures that block, so that workers need not.
//!
//! The pool starts a thread whenever there is work and no idle one, up to [`THREADS_MAX`]; past that, closures queue. An idle
//! thread ends after [`LINGER`].
//!
//! A thread whose closure waits, by a call of this library, may wait for a task that needs a thread of the pool itself. So it
//! does not count while it waits: the pool grows rather than deadlock.
//!
//! A closure may borrow from the stack of the task that waits for it: the wait cannot be cancelled (S3 in spirit: only the
//! closure's own end ends the borrow). One that borrows nothing can be [left](leave): nobody has to wait for its end.
#![expect(unsafe_code, reason = "runs closures that borrow from a parked stack")]

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::worker;
use crate::base::local;
use crate::park::{self, About, Host, Mode, Waiter};
use crate::task::{self, Kept, Leave};

/// The most threads that a runtime's blocking pool has, those aside whose closures wait for something of ours.
pub(crate) const THREADS_MAX: usize = 512;
/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    name: String,
    queue: Mutex<Queue>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Threads whose closures wait.
    waiting: usize,
    stopping: bool,
}

/// A closure on the stack of a task that waits for it.
#[derive(Debug)]
struct Job {
    run: unsafe fn(*const ()),
    data: *const (),
}

// SAFETY: U1: `unblock` requires its closure and result to be Send, and the frame waits.
unsafe impl Send for Job {}

impl BlockingPool {
    pub(super) fn new(name: &str) -> BlockingPool {
        let state = State {
            name: format!("{name}-unblock"),
            queue: Mutex::default(),
            news: Condvar::new(),
        };
        BlockingPool { state: Arc::new(state) }
    }

    /// Queues a job, with a thread for it if one can be had. The job is given back if there is no thread at all.
    fn submit(&self, job: Job) -> Result<(), Job> {
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
            // Others may have queued theirs meanwhile.
            let own = queue.jobs.iter().position(|queued| ptr::eq(queued.data, data));
            // With threads that all wait, for tasks that may wait for this very job, it would be stuck.
            if queue.threads == queue.waiting
                && let Some(job) = own.and_then(|at| queue.jobs.remove(at))
            {
                return Err(job);
            }
        }
        Ok(())
    }

    /// Lets idle threads end. No closure is running or queued, since their tasks would still be there, unless it was left alone.
    pub(super) fn stop(&self) {
        self.state.lock().stopping = true;
        self.state.news.notify_all();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread if there may be one more. False: the system refuses.
    fn grow(self: &Arc<State>, mut queue: MutexGuard<'_, Queue>) -> bool {
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

    fn work(self: &Arc<State>) {
        let _host = park::enter_host(&HOST);
        local::with(|local| local.blocking.set(ptr::from_ref(self).cast()));
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // SAFETY: U1: the job's frame waits for it; it is run once.
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

/// Waits of the pool's threads block them, as on any plain thread, but the pool hears of it.
static HOST: Host = Host {
    park: |_, _, _| {},
    unpark: |_| {},
    may_listen: || false,
    listen: |_| {},
    leave: || {},
    linger: || {},
    yield_now: thread::yield_now,
    out_of_budget: || {},
    blocks,
};

/// The current thread is about to block in one of this library's waits (true), or goes on (false). See the module.
pub(super) fn blocks(begins: bool) {
    let state = local::with(|local| local.blocking.get()).cast::<Arc<State>>();
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

/// What a job needs and gives, on the stack of its task.
struct Frame<F, T> {
    waiter: Waiter,
    closure: Option<F>,
    result: Option<Result<T, Box<dyn Any + Send>>>,
    node: *const (),
    bindings: *const (),
    /// What the hook at switches keeps for the closure.
    kept: Kept,
}

/// Runs a closure that blocks the thread, or computes for long, on a thread of its own, while the task waits and its worker
/// goes on with others.
///
/// The closure may borrow from the caller, because the caller waits for it. It keeps the caller's task-locals and cancel
/// scope, so [`is_cancelled`](crate::is_cancelled) works in it; calls that wait block its thread. On a plain thread it
/// runs in place. The pool has as many threads as are needed at once, up to 512; more closures wait for their turn. A closure
/// that itself waits in a call of this library does not count, so closures may wait for tasks that call `unblock`.
///
/// # Panics
/// With the closure's panic; inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// Not a cancel point: a closure that has been handed over is awaited.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let mut words = vec!["undyed", "cloth"];
///     let longest = ecru::unblock(|| {
///         words.push("ecru");
///         words.iter().map(|word| word.len()).max()
///     });
///     assert_eq!(longest, Some(6));
///     assert_eq!(words.len(), 3);
/// });
/// ```
#[track_caller]
pub fn unblock<F, T>(closure: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    park::refuse_if_no_suspend();
    let Some(worker) = worker::current().filter(|_| task::current_header().is_some()) else {
        return closure();
    };
    // What the closure opens hangs below the task's own node: requests must reach that.
    task::current_header().map(task::reach);
    let mut frame = Frame {
        waiter: Waiter::new(),
        closure: Some(closure),
        result: None,
        node: task::current_node().cast(),
        bindings: task::bindings_now(),
        kept: Kept::inherited(),
    };
    let job = Job { run: run_job::<F, T>, data: (&raw mut frame).cast_const().cast() };
    frame.waiter.set_purpose("a closure on a thread that may block", About::Nothing);
    match worker.pool.blocking.submit(job) {
        Ok(()) => {
            worker.unblocking.set(worker.unblocking.get() + 1);
            task::wait(&frame.waiter, None, Mode::Uninterruptible);
            worker.unblocking.set(worker.unblocking.get() - 1);
        }
        // Not even one thread could be started: better to hold up this worker than to fail.
        Err(_) => {
            frame.result =
                frame.closure.take().map(|closure| panic::catch_unwind(AssertUnwindSafe(closure)))
        }
    }
    match frame.result.take().expect("the job has run") {
        Ok(value) => value,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Says that the calling task waits for something on the pool, so that its worker does not count as at rest.
#[derive(Debug)]
pub(crate) struct Expecting(());

impl Expecting {
    fn new(worker: &worker::Worker) -> Expecting {
        worker.unblocking.set(worker.unblocking.get() + 1);
        Expecting(())
    }
}

impl Drop for Expecting {
    fn drop(&mut self) {
        // S2: the task is still on the worker on which this was made; it does not leave the task's stack.
        if let Some(worker) = worker::current() {
            worker.unblocking.set(worker.unblocking.get() - 1);
        }
    }
}

/// Runs a closure on a thread of the pool, without waiting for it. Whoever waits for what it does keeps the answer until then.
/// It has none of the task's locals, and no cancellation reaches it.
///
/// # Errors
/// The closure, where there is no pool (off a task), or no thread to be had.
pub(crate) fn leave<F: FnOnce() + Send + 'static>(closure: F) -> Result<Expecting, F> {
    let Some(worker) = worker::current().filter(|_| task::current_header().is_some()) else {
        return Err(closure);
    };
    let data = Box::into_raw(Box::new(closure));
    match worker.pool.blocking.submit(Job { run: run_left::<F>, data: data.cast_const().cast() }) {
        Ok(()) => Ok(Expecting::new(worker)),
        // SAFETY: U3: the job was given back unrun.
        Err(_) => Err(*unsafe { Box::from_raw(data) }),
    }
}

unsafe fn run_left<F: FnOnce()>(data: *const ()) {
    // SAFETY: U3: a job is run once.
    let closure = unsafe { Box::from_raw(data.cast_mut().cast::<F>()) };
    // There is nobody to tell about a panic but the hook, which has heard of it.
    drop(panic::catch_unwind(AssertUnwindSafe(closure)));
}

unsafe fn run_job<F: FnOnce() -> T, T>(data: *const ()) {
    let frame = data.cast_mut().cast::<Frame<F, T>>();
    // Each field by itself: the task's own frame keeps a reference to the waiter, beside them, all the time.
    // SAFETY: U1: the frame waits, and only this thread touches the field until it unparks the waiter.
    let closure = unsafe { &mut (*frame).closure }.take().expect("a job runs once");
    // SAFETY: U1, as above.
    let (node, bindings) = (unsafe { (*frame).node }, unsafe { (*frame).bindings });
    // SAFETY: U1, as above.
    let kept = unsafe { &(*frame).kept };
    local::with(|local| {
        local.cancel.set(node);
        local.bindings.set(bindings);
    });
    task::hear_of_hook();
    kept.enter();
    let result = panic::catch_unwind(AssertUnwindSafe(closure));
    kept.leave(Leave::Ended);
    local::with(|local| {
        local.cancel.set(ptr::null());
        local.bindings.set(ptr::null());
    });
    // SAFETY: U1, as above.
    unsafe { (*frame).result = Some(result) };
    // SAFETY: U1: only its address is taken.
    let waiter = unsafe { &raw const (*frame).waiter };
    // SAFETY: S4: nobody else claims a wait that cannot be interrupted; the last access.
    unsafe { Waiter::wake(waiter) };
}
