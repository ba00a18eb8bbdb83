//! How tasks get into queues, and how a join takes one out of turn.
#![expect(unsafe_code, reason = "queues tasks by pointer")]

use std::ptr;
use std::sync::{Arc, Weak};

use super::placement::Placement;
use super::pool::Pool;
use super::shared::Chain;
#[cfg(feature = "sim")]
use super::simulated::decide;
use super::worker::{self, Worker};
use crate::base::sync::atomic::Ordering;
use crate::task::Header;

/// Returns whether a worker belongs to that pool. A task of one run must not be queued in another
/// run, which may be over before the task is.
#[inline]
fn is_for(worker: &Worker, pool: *const ()) -> bool {
    ptr::eq(Arc::as_ptr(&worker.pool).cast(), pool)
}

/// Returns the pool that the current thread works for, as an argument for [`spawn`] and
/// [`spawn_local`]. Null if there is none.
#[inline]
pub(crate) fn pool_here() -> *const () {
    worker::current().map_or(ptr::null(), |worker| Arc::as_ptr(&worker.pool).cast())
}

/// Queues a task on the current worker, or on the next one in turn with [`Placement::Spread`].
/// Returns false if this thread is no worker of `pool`.
///
/// In a simulation, other tasks may run before this returns.
///
/// # Safety
/// T1: the task is new, and the caller gives the queue's reference away.
#[inline]
pub(crate) unsafe fn spawn(task: *const Header, pool: *const ()) -> bool {
    // SAFETY: T1, the caller's promise.
    unsafe { queue::<true>(task, pool) }
}

/// Does the same as [`spawn`], but never lets other tasks run.
///
/// # Safety
/// T1: as [`spawn`].
#[inline]
pub(crate) unsafe fn spawn_only(task: *const Header, pool: *const ()) -> bool {
    // SAFETY: T1, the caller's promise.
    unsafe { queue::<false>(task, pool) }
}

/// Queues a task for [`spawn`] or [`spawn_only`].
///
/// # Safety
/// T1: as [`spawn`].
#[inline(always)]
unsafe fn queue<const MAY_YIELD: bool>(task: *const Header, pool: *const ()) -> bool {
    let Some(worker) = worker::current().filter(|worker| is_for(worker, pool)) else {
        return false;
    };
    // SAFETY: T1: no other thread knows the task yet.
    let header = unsafe { &*task };
    if worker.pool.settings.placement == Placement::Spread {
        // SAFETY: T1, the caller's promise.
        unsafe { spread(worker, task) };
        #[cfg(feature = "sim")]
        if MAY_YIELD {
            decide(worker);
        }
        return true;
    }
    header.worker.store(ptr::from_ref(worker.shared).cast_mut().cast(), Ordering::Relaxed);
    worker.shared.unstarted.push(task);
    worker.pool.note_spawn();
    true
}

/// Queues a task that may start only on the current worker. Returns false if this thread is no
/// worker of `pool`.
///
/// # Safety
/// T1, as [`spawn`].
pub(crate) unsafe fn spawn_local(task: *const Header, pool: *const ()) -> bool {
    let Some(worker) = worker::current().filter(|worker| is_for(worker, pool)) else {
        return false;
    };
    // Its `worker` stays null until it starts. The queue links it through its header, so no join
    // may start it from within another frame while it is queued.
    #[cfg(feature = "sim")]
    if worker.simulation.is_some() {
        // SAFETY: T1, the caller's promise.
        super::simulated::number(unsafe { &*task });
    }
    // SAFETY: T1, the caller's promise.
    unsafe { worker.ready.push(task) };
    true
}

/// Queues a task of a worker whose pool has [`Placement::Spread`], as a simulated one has.
///
/// # Safety
/// T1, as [`spawn`].
#[inline(never)]
unsafe fn spread(worker: &Worker, task: *const Header) {
    #[cfg(feature = "sim")]
    if worker.simulation.is_some() {
        // SAFETY: T1, the caller's promise.
        super::simulated::number(unsafe { &*task });
        // SAFETY: T1, the caller's promise. Its `worker` stays null, as in `spawn_local`, so that
        // no join starts it out of turn.
        unsafe { worker.ready.push(task) };
        return;
    }
    // SAFETY: T1, the caller's promise.
    unsafe { send(&worker.pool, task) };
}

/// Queues a task that is to start on the worker that comes `places` after the current one. Returns
/// false if this thread is no worker of `pool`.
///
/// # Safety
/// T1, as [`spawn`].
pub(crate) unsafe fn spawn_beside(task: *const Header, pool: *const (), places: usize) -> bool {
    let Some(worker) = worker::current().filter(|worker| is_for(worker, pool)) else {
        return false;
    };
    let index = (worker.index + places) % worker.pool.workers.len();
    // SAFETY: T1, the caller's promise: a run is going on, because this is a task of it.
    unsafe { spawn_on(&worker.pool, index, task) };
    true
}

/// Returns how many workers the current thread's pool has, or 0 on a thread that is no worker.
pub(crate) fn workers_here() -> usize {
    worker::current().map_or(0, |worker| worker.pool.workers.len())
}

/// Queues a task on the pool's next worker in turn.
/// # Safety
/// T1, as [`spawn`].
unsafe fn send(pool: &Pool, task: *const Header) {
    let mut chain = Chain::EMPTY;
    // SAFETY: T1, the caller's promise.
    unsafe { chain.push(task) };
    // SAFETY: T1: put into the chain just now.
    unsafe { pool.next_worker().send_inbound(chain) };
    pool.note_spawn();
}

/// Queues a task that is to start on the worker `index`. Called on any thread.
///
/// # Safety
/// T1, as [`spawn`]. A run is going on, and does not end before the task has.
pub(crate) unsafe fn spawn_on(pool: &Pool, index: usize, task: *const Header) {
    // SAFETY: T1, the caller's promise. Its `worker` stays null until it starts, as in
    // `spawn_local`.
    unsafe { pool.workers[index].send_woken(task) };
}

/// A reference to a pool for threads outside of it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pool: Weak<Pool>,
}

impl Remote {
    pub(crate) fn new(pool: &Arc<Pool>) -> Remote {
        Remote { pool: Arc::downgrade(pool) }
    }

    /// Queues a task on one of the pool's workers.
    ///
    /// # Safety
    /// T1, as [`spawn`]. A run is going on, and does not end before the task has.
    pub(crate) unsafe fn spawn(&self, task: *const Header) {
        if let Some(pool) = self.pool.upgrade() {
            // SAFETY: T1, the caller's promise.
            unsafe { send(&pool, task) };
        }
    }
}

/// Returns the pool that the current thread works for.
pub(crate) fn current_pool() -> Option<Arc<Pool>> {
    worker::current().map(|worker| Arc::clone(&worker.pool))
}

/// Starts a task that has not started and is queued on the current worker, from within the caller's
/// own frame. `join` uses this. Returns when the task has ended or switched away, or at once if it
/// is no such task. Returns true if the task has ended. With `claim`, its result is then claimed
/// for the caller.
///
/// The task goes on with what is left of the caller's budget, and the caller with what the task
/// leaves of it. If each task had a budget of its own, a fork-join could run for seconds without a
/// look at timers, the driver and other tasks.
///
/// # Safety
/// T2: the caller holds its own reference to the task.
#[inline(always)]
pub(crate) unsafe fn run_if_unstarted(task: *const Header, claim: bool) -> bool {
    // SAFETY: T2, the caller's promise.
    let header = unsafe { &*task };
    if header.started.load(Ordering::Relaxed) {
        return false;
    }
    let Some(worker) = worker::current() else { return false };
    if !ptr::eq(
        header.worker.load(Ordering::Relaxed),
        ptr::from_ref(worker.shared).cast_mut().cast(),
    ) {
        return false;
    }
    let queue = &worker.shared.unstarted;
    let taken = if ptr::eq(queue.newest(), task) {
        Some(queue.pop_newest())
    } else if ptr::eq(queue.oldest(), task) {
        Some(queue.pop_oldest())
    } else {
        worker.take_second_newest(task)
    };
    if let Some(taken) = taken {
        if !ptr::eq(taken, task) {
            // A thief was faster. The task that `pop_oldest` returned instead is next in turn.
            if !taken.is_null() {
                // SAFETY: T1: taken out of the queue just now.
                unsafe { worker.start_other(taken) };
            }
            return false;
        }
        if header.started.load(Ordering::Relaxed) {
            // SAFETY: T2: the queue's reference. The caller has its own.
            unsafe { Header::release(task) };
            return false;
        }
        // The task is out of the queue, so no other thread can start it, and no exchange is needed.
        header.started.store(true, Ordering::Release);
    } else {
        // The task is further down in the queue, or was stolen just now. The flag decides. The
        // entry stays in its deque, with its reference, and is passed over once it is the newest or
        // the oldest.
        //
        // Tasks in the ready queue or in an inbox name no worker and have been turned away above.
        // They are linked through their headers, and a started task needs that link for its own
        // wake-ups.
        if header.started.swap(true, Ordering::AcqRel) {
            return false;
        }
        header.retain();
    }
    header.claims.set(claim);
    // SAFETY: T3: this thread has set `started`.
    let ended = unsafe { worker.start(task, true) };
    if !ended {
        // The task ends later, on this thread. Its result is then for the first reader.
        header.claims.set(false);
    }
    ended
}

impl Worker {
    /// Takes a task that has one newer task above it: the first child of two that are joined in the
    /// order of their spawning. Removes the entries of started tasks that it finds on the way. They
    /// would otherwise stay until the worker comes back to its loop, which a fork-join does not do
    /// for a long time, and each keeps the box of its task.
    #[inline(never)]
    fn take_second_newest(&self, task: *const Header) -> Option<*const Header> {
        let queue = &self.shared.unstarted;
        loop {
            let newest = queue.pop_newest();
            // SAFETY: T1: taken out of the queue just now, with its reference.
            let header = unsafe { newest.as_ref() }?;
            if header.started.load(Ordering::Relaxed) {
                // SAFETY: T2: the queue's reference.
                unsafe { Header::release(newest) };
                continue;
            }
            if ptr::eq(newest, task) {
                return Some(task);
            }
            let taken =
                if ptr::eq(queue.newest(), task) { queue.pop_newest() } else { ptr::null() };
            queue.push(newest);
            self.pool.note_spawn();
            return (!taken.is_null()).then_some(taken);
        }
    }

    /// Calls [`Worker::start_if_first`] in place of the current task. It is out of line.
    ///
    /// # Safety
    /// T1: as [`Worker::start_if_first`].
    #[cold]
    unsafe fn start_other(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        unsafe { self.start_if_first(task, true) };
    }
}
