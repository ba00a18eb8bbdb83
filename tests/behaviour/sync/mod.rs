//! Locks and events.

mod condvars;
mod events;
mod every_kind;
mod guards;
mod made_once;
mod mutexes;
mod poisoning;
mod pools;
mod rwlocks;
mod semaphores;
mod watches;

use crate::simulated;
use crate::support::{each_run, run_on};
use std::cell::RefCell;
use std::thread;

/// Runs `task` in `count` tasks on one worker, on two, and on two with as many plain threads.
fn everywhere(count: usize, task: impl Fn() + Sync) {
    let tasks = || {
        ecru::scope(|s| {
            for _ in 0..count {
                s.spawn(&task);
            }
        });
    };
    each_run(tasks);
    if simulated::is_on() {
        return;
    }
    thread::scope(|s| {
        for _ in 0..count {
            s.spawn(&task);
        }
        run_on(2, tasks);
    });
}

/// A log of events, in order, on one worker.
#[derive(Default)]
struct Log(RefCell<Vec<&'static str>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.borrow_mut().push(what);
    }

    #[track_caller]
    fn assert(&self, expected: &[&str]) {
        assert_eq!(*self.0.borrow(), expected);
    }
}

/// Runs `body` in a task that is cancelled from the start.
fn cancelled<T>(body: impl FnOnce() -> T) -> T {
    ecru::cancel_scope(|c| {
        c.cancel();
        body()
    })
}
