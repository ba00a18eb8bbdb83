//! What the worker of a simulated run has in addition: the tasks that can run, and the director
//! that picks one of them. [`super::simulated`] is the loop.
#![expect(unsafe_code, reason = "keeps tasks by pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::time::Instant;

use super::runnable::Runnable;
use super::steering::{After, NextTurn, Stop};
use crate::coroutine::Stack;
use crate::park::Single;
use crate::task::Header;

/// How many of the large stacks of `unblock` are kept for reuse.
const LARGE_STACKS_KEPT: usize = 4;

/// Decides what a simulated run does next. It is called on the run's thread, outside of any task.
/// The layer that starts simulations implements it.
///
/// A task is named by its *ordinal*. The root has the ordinal 0. The other tasks are counted as
/// they become ready for the first time.
pub(crate) trait Director {
    /// Picks one of the tasks that can run. There is at least one.
    fn next(&mut self, ready: &Runnable) -> NextTurn;

    /// Called before each turn of a task.
    fn meet(&mut self, task: &Header, ordinal: u64);

    /// Called after a task has given the thread back. `passed` is the number of decision points
    /// that it has passed. If the run is to end, the root is cancelled. `about` describes the task,
    /// if it was watched, and says what it did at the end of its turn.
    fn ran(
        &mut self,
        task: u64,
        passed: u32,
        stop: Stop,
        about: &dyn Fn() -> (String, String),
    ) -> After;

    /// Returns the time that the clock must not pass, if there is one.
    fn limit(&self) -> Option<Instant>;

    /// Returns whether any task is held back at the moment.
    fn holds_back(&self) -> bool {
        false
    }

    /// Returns whether this task, which has not ended, is held back although it can run.
    fn is_held_back(&self, task: &Header) -> bool {
        let _ = task;
        false
    }

    /// Called before the turn of a task, which has not ended. Returns whether the task is cut off:
    /// it is to end at once, and shields do not protect it.
    fn cuts_off(&mut self, task: &Header, ordinal: u64) -> bool {
        let _ = (task, ordinal);
        false
    }

    /// Called when this many tasks can run, before one is picked. Returns true if all of them have
    /// only yielded for long, so that time is to advance as if none could run.
    fn only_yield(&mut self, tasks: usize) -> bool {
        let _ = tasks;
        false
    }

    /// Called when no task can run, before time advances. Returns true if it may have changed that.
    fn is_idle(&mut self) -> bool {
        false
    }

    /// Called when no task can run, and nothing will happen at any later time. Gets the run going,
    /// or does not return.
    fn stuck(&mut self);

    /// Called when no task can run, and nothing will happen before the limit. Gets the run going,
    /// or does not return.
    fn out_of_time(&mut self);

    /// Called when a thread outside of the simulation has done something to a task of the run.
    /// `call` says what. The root is then cancelled.
    fn foreign(&mut self, call: String);
}

/// The turn of a task.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) task: *const Header,
    pub(super) ordinal: u64,
    pub(super) budget: u32,
    /// The turn holds a reference to the task, which is not the root.
    pub(super) holds: bool,
}

/// See the module.
pub(super) struct Simulation {
    pub(super) director: RefCell<Box<dyn Director>>,
    /// The tasks that can run. They are in no other queue.
    pub(super) runnable: RefCell<Runnable>,
    /// The tasks that could run, and that the director holds back.
    aside: RefCell<Runnable>,
    /// The tasks that wait until no other task can run.
    pub(super) settlers: RefCell<Vec<*const Single<()>>>,
    pub(super) running: Cell<Option<Turn>>,
    /// The virtual time at the last look around.
    pub(super) looked_at: Cell<Option<Instant>>,
    /// The root has been cancelled, because the run has to end.
    pub(super) ends: Cell<bool>,
    large_stacks: RefCell<Vec<Stack>>,
}

impl Simulation {
    pub(super) fn new(director: Box<dyn Director>) -> Simulation {
        Simulation {
            director: RefCell::new(director),
            runnable: RefCell::default(),
            aside: RefCell::default(),
            settlers: RefCell::default(),
            running: Cell::new(None),
            looked_at: Cell::new(None),
            ends: Cell::new(false),
            large_stacks: RefCell::default(),
        }
    }

    /// Calls `each` for the tasks that can run.
    pub(super) fn for_each_runnable(&self, mut each: impl FnMut(&Header)) {
        let (runnable, aside) = (self.runnable.borrow(), self.aside.borrow());
        for task in runnable.tasks().chain(aside.tasks()) {
            // SAFETY: T1: a queued task lives.
            each(unsafe { &*task });
        }
    }

    /// Returns whether the director holds back a task that can run.
    pub(super) fn holds(&self, task: &Header) -> bool {
        self.aside.borrow().tasks().any(|other| ptr::eq(other, task))
    }

    /// Sets the tasks aside that the director holds back, and takes those back that it does not
    /// hold back any more.
    pub(super) fn hold_back(&self) {
        let director = self.director.borrow();
        if self.aside.borrow().is_empty() && !director.holds_back() {
            return;
        }
        let (mut runnable, mut aside) = (self.runnable.borrow_mut(), self.aside.borrow_mut());
        aside.move_to(&mut runnable, |task| !director.is_held_back(task));
        runnable.move_to(&mut aside, |task| director.is_held_back(task));
    }

    pub(super) fn take_large_stack(&self) -> Option<Stack> {
        self.large_stacks.borrow_mut().pop()
    }

    pub(super) fn keep_large_stack(&self, stack: Stack) {
        let mut kept = self.large_stacks.borrow_mut();
        if kept.len() < LARGE_STACKS_KEPT {
            kept.push(stack);
        }
    }
}
