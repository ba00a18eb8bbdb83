//! Numbers of a worker's tasks, operations and timers, for metrics.
//!
//! As in [`inspect`](super::inspect), the worker counts its own tasks, in a task that runs on it.
#![expect(unsafe_code, reason = "reaches tasks by pointer")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pool::Pool;
use super::worker::current;
use crate::base::sync::atomic::Ordering;
use crate::coroutine::StackStatistics;
use crate::task::{Header, StartedEntry};

/// A worker with more unstarted tasks than this does not look at each. It may then count some that a
/// join has started.
const UNSTARTED_MAX: usize = 10_000;

/// What a worker has counted.
#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) running: usize,
    pub(crate) ready: usize,
    pub(crate) unstarted: usize,
    /// How many tasks wait, by what they wait for.
    pub(crate) waiting: BTreeMap<&'static str, usize>,
    pub(crate) in_flight: usize,
    pub(crate) timers: usize,
    /// The addresses of the scopes of the tasks that have begun.
    pub(crate) scopes: BTreeSet<usize>,
}

/// Counts the tasks of the current worker, except the running one and those that are `hidden`. The
/// task that `asks` counts as running.
pub(crate) fn census(hidden: impl Fn(&Header) -> bool, asks: impl Fn(&Header) -> bool) -> Census {
    let mut census = Census::default();
    let Some(worker) = current() else { return census };
    let own = crate::task::current_header().map_or(std::ptr::null(), std::ptr::from_ref);
    worker.receive_inbound();
    worker.shared.receive_woken(|task| {
        // SAFETY: T1: it came through the inbox of this worker, so it is in no queue.
        unsafe { worker.ready.push(task) };
    });
    // The task that asks waits for the answers with a timer, unless it runs this task in its place.
    let mut timers_of_asker = 0;
    let mut scope = 0;
    let mut add = |header: &Header, waits_for: Option<&'static str>| {
        if std::ptr::eq(header, own) || hidden(header) {
            return;
        }
        // Tasks of one scope often follow each other. A root has no scope.
        if scope != header.scope.addr() && !header.scope.is_null() {
            scope = header.scope.addr();
            census.scopes.insert(scope);
        }
        match waits_for {
            _ if asks(header) => {
                census.running += 1;
                timers_of_asker += usize::from(waits_for.is_some());
            }
            Some(what) => *census.waiting.entry(what).or_default() += 1,
            None => census.ready += 1,
        }
    };
    // SAFETY: T1: the root lives as long as its worker.
    if let Some(root) = unsafe { worker.root.get().as_ref() } {
        add(root, waits_for(root));
    }
    let mut link = worker.started.first();
    while !link.is_null() {
        // SAFETY: T6: an entry in the list exists, and the link is its first field.
        let entry = unsafe { &*link.cast::<StartedEntry>() };
        link = entry.link.next();
        // SAFETY: T6: a task in the list has not ended.
        let header = unsafe { &*entry.task };
        add(header, if std::ptr::eq(header, own) { None } else { waits_for(header) });
    }
    worker.for_each_pending(|header| {
        add(header, (!header.is_woken()).then_some("its future to be woken"));
    });
    let mut unstarted = 0;
    let mut add_unstarted = |header: &Header| {
        if !header.started.load(Ordering::Relaxed) && !hidden(header) {
            unstarted += 1;
        }
    };
    worker.ready.for_each(&mut add_unstarted);
    #[cfg(feature = "sim")]
    if let Some(simulation) = &worker.simulation {
        simulation.for_each_runnable(&mut add_unstarted);
    }
    let queue = &worker.shared.unstarted;
    let count = queue.len();
    if count > UNSTARTED_MAX {
        unstarted += count;
    } else {
        // They are taken out, so that no thief starts one meanwhile, and put back in their order.
        for _ in 0..count {
            let task = queue.pop_oldest();
            // SAFETY: T1: taken out of the queue just now, with its reference.
            let Some(header) = (unsafe { task.as_ref() }) else { break };
            if !header.started.load(Ordering::Relaxed) {
                unstarted += 1;
            }
            queue.push(task);
        }
    }
    census.unstarted = unstarted;
    census.in_flight = worker.io.borrow().in_flight();
    census.timers = worker.timers.count().saturating_sub(timers_of_asker);
    census
}

/// Returns what a task of this worker that does not run waits for, or `None` if it is ready.
fn waits_for(header: &Header) -> Option<&'static str> {
    // SAFETY: S4: the task is not running, so the frame of what it is parked on stays.
    let waiter = unsafe { header.running().parker.parked_on().as_ref() }?;
    (!waiter.is_over()).then(|| waiter.brief().0)
}

/// Returns roughly how many tasks a worker has that does not answer.
pub(crate) fn burden(pool: &Pool, worker: usize) -> usize {
    pool.workers[worker].burden()
}

/// Returns how many tasks have ended on the workers of a pool, and how long each worker's thread has
/// been on a processor.
pub(crate) fn ended(pool: &Pool) -> u64 {
    pool.workers.iter().map(|worker| worker.ended.load(Ordering::Relaxed)).sum()
}

/// Returns how long the thread of each worker has been on a processor.
pub(crate) fn processor_times(pool: &Pool) -> Vec<Duration> {
    pool.workers.iter().map(|worker| worker.board.thread().times().ran).collect()
}

/// Returns the numbers of the pool's stacks.
pub(crate) fn stacks(pool: &Pool) -> StackStatistics {
    pool.stacks.statistics()
}
