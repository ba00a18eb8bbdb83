//! Models of the wakes of a pending task against the polls of its worker. Each wake that comes
//! before the future is ready is answered by a poll that sees what happened before it. The task is
//! in one queue at most. A lost wake leaves the worker without anything to do, which loom reports.

use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use super::super::header::{Header, Upcalls, VTable};
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// The worker's queue, which has room for one task, and what the wakers do before they wake.
#[derive(Default)]
struct Worker {
    is_queued: Mutex<bool>,
    arrived: Condvar,
}

impl Worker {
    fn push(&self) {
        let mut is_queued = self.is_queued.lock().unwrap();
        assert!(!*is_queued, "the task is queued twice");
        *is_queued = true;
        self.arrived.notify_one();
    }

    fn pop(&self) {
        let mut is_queued = self.is_queued.lock().unwrap();
        while !*is_queued {
            is_queued = self.arrived.wait(is_queued).unwrap();
        }
        *is_queued = false;
    }
}

const BARE: VTable = VTable::bare(|_| {});
static VTABLE: VTable = VTable {
    upcalls: Upcalls {
        // The task's scope is the model's worker.
        woken: |task| unsafe { &*(*task).scope.cast::<Worker>() }.push(),
        ..BARE.upcalls
    },
    ..BARE
};

struct Task {
    header: Header,
    worker: Box<Worker>,
    /// The number of events that wakers have announced.
    events: AtomicUsize,
}

unsafe impl Send for Task {}
unsafe impl Sync for Task {}

impl Task {
    fn new() -> Arc<Task> {
        let worker = Box::<Worker>::default();
        let scope = ptr::from_ref(&*worker).cast();
        let at = Location::caller();
        let header = Header::new(&VTABLE, scope, ptr::null(), ptr::null(), true, false, None, at);
        Arc::new(Task { header, worker, events: AtomicUsize::new(0) })
    }

    /// Polls until the future has seen `all` events. Returns the number of polls.
    fn poll_until(&self, all: usize) -> usize {
        let mut polls = 0;
        loop {
            self.header.begin_poll();
            polls += 1;
            if self.events.load(Ordering::Relaxed) == all {
                self.header.wakes.fetch_or(super::OVER, Ordering::AcqRel);
                return polls;
            }
            if self.header.end_poll() {
                self.worker.push();
            }
            self.worker.pop();
        }
    }

    fn announce(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.header.wake();
    }
}

/// Two threads wake the task, which needs the events of both.
#[test]
fn no_wake_is_lost() {
    loom::model(|| {
        let task = Task::new();
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let task = Arc::clone(&task);
                thread::spawn(move || task.announce())
            })
            .collect();
        let polls = task.poll_until(2);
        assert!(polls <= 3, "each poll but the first answers a wake");
        for waker in wakers {
            waker.join().unwrap();
        }
        // A wake after the end queues nothing, unless it came before.
        let was_queued = *task.worker.is_queued.lock().unwrap();
        task.header.wake();
        assert_eq!(*task.worker.is_queued.lock().unwrap(), was_queued);
        assert!(!was_queued);
    });
}

/// A thread wakes the task twice, so that the second wake may meet any state.
#[test]
fn a_second_wake_is_answered() {
    loom::model(|| {
        let task = Task::new();
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                task.announce();
                task.announce();
            })
        };
        task.poll_until(2);
        waker.join().unwrap();
        assert!(!*task.worker.is_queued.lock().unwrap());
    });
}
