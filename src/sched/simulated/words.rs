//! What messages say of the tasks of a simulated run: what they wait for, and how a turn has ended.
#![expect(unsafe_code, reason = "looks at tasks and their waits by pointer")]

use std::ptr;

use super::requests::for_each_started;
use crate::park::{About, Purpose, Waiter, verb};
use crate::sched::simulation::Turn;
use crate::sched::steering::Stop;
use crate::sched::worker::{Worker, current};
use crate::task::{self, DONE, Header, TaskId};

/// Describes the tasks of the simulated run that are parked, with what they wait for and where. The
/// root comes last. Called by the running task.
pub(crate) fn parked_tasks() -> Vec<String> {
    let running = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let mut parked = Vec::new();
    for_each_started(|task| {
        if ptr::eq(task, running) {
            return;
        }
        // SAFETY: S4: the task does not run, so if it is parked, the frame of its wait is there.
        if let Some(waiter) = unsafe { waiter_of(task) } {
            let Purpose { what, at, .. } = waiter.purpose();
            let waits = verb(what);
            parked.push(format!("{}, which {waits} {what}, at {at}", task.description()));
        }
    });
    // It is shown first, and mostly waits for its tasks.
    if let Some(worker) = current()
        && !ptr::eq(worker.root.get(), running)
        && !parked.is_empty()
    {
        parked.rotate_left(1);
    }
    parked
}

/// Describes at most `most` of the tasks of the simulated run that wait, except for the running
/// one, with the holders of what they wait for. Also returns how many more there are. The running
/// task must hold no lock of the library.
pub(crate) fn waiting_tasks(most: usize) -> (Vec<String>, usize) {
    let running = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let (mut waiting, mut more) = (Vec::new(), 0);
    for_each_started(|task| {
        if ptr::eq(task, running) {
            return;
        }
        // SAFETY: S4: the task does not run, so if it is parked, the frame of its wait is there.
        let waiter = unsafe { waiter_of(task) }.filter(|waiter| !waiter.is_over());
        match waiter {
            Some(_) if waiting.len() == most => more += 1,
            Some(waiter) => {
                let wait = describe_wait_and(waiter.purpose(), true);
                waiting.push(format!("{}: {wait}", task.description()));
            }
            None => {}
        }
    });
    (waiting, more)
}

impl Worker {
    /// Describes the task of a turn that has ended just now, and what it did then.
    pub(super) fn about_turn(&self, turn: &Turn, stop: Stop) -> (String, String) {
        let is_root = turn.task == self.root.get();
        if !turn.holds && !is_root && stop == Stop::Waits {
            // The task may have ended.
            return (format!("task #{}", turn.ordinal), String::from("waits, or has ended"));
        }
        // SAFETY: T1/T2: the root lives as long as its worker, the turn has a reference to a task
        // that was watched, and all others are in a queue.
        let header = unsafe { &*turn.task };
        let did = match stop {
            Stop::Cut => String::from("was interrupted at a decision point"),
            Stop::Yielded => String::from("yielded"),
            Stop::Waits if !(is_root && self.finished.get()) => {
                // SAFETY: S4: the task has not been run since, so the frame of its wait is there.
                unsafe { waiter_of(header) }.map_or_else(
                    || String::from("waits for its future to be woken"),
                    |waiter| describe_wait(waiter.purpose()),
                )
            }
            Stop::Waits | Stop::Ended => String::from("ended"),
        };
        (header.description(), did)
    }
}

/// Returns whether a task that has started has ended.
pub(super) fn has_ended(header: &Header) -> bool {
    header.running.get().is_null() && header.state() & DONE != 0
}

/// Returns what a task is parked on, or `None` if it is not parked or its work is a future.
///
/// # Safety
/// S4: the task is not running, and has not been run since it parked.
unsafe fn waiter_of(header: &Header) -> Option<&Waiter> {
    // SAFETY: T4: on the task's worker.
    let running = unsafe { header.running.get().as_ref() }?;
    // SAFETY: S4, by this function's contract.
    unsafe { running.parker.parked_on().as_ref() }
}

/// Describes a wait that lasts.
fn describe_wait(purpose: Purpose) -> String {
    describe_wait_and(purpose, false)
}

/// Describes a wait that lasts, with or without the holders of its object.
fn describe_wait_and(purpose: Purpose, holders: bool) -> String {
    let Purpose { what, about, at } = purpose;
    let (mut text, mut held) = (format!("{} {what}", verb(what)), String::new());
    match about {
        About::Task(other) => {
            // SAFETY: T2: the frame of the wait holds a reference to it.
            let other = unsafe { &*other.cast::<Header>() };
            text.push_str(&format!(" task {}", TaskId::of(other)));
            if let Some(name) = other.name() {
                text.push_str(&format!(" '{}'", name.escape_debug()));
            }
        }
        About::Fd { name, peer, shown_peer, .. } => {
            if let Some(name) = shown_peer.or(peer).or(name) {
                text.push_str(&format!(" {name}"));
            }
        }
        About::Object(object) => {
            text.push_str(&format!(" {}", object.text));
            if holders {
                held = task::describe_holders(&object, |id| format!("task {id}"));
            }
        }
        About::Nothing | About::Scope(..) | About::Time(_) => {}
    }
    let own = file!().strip_suffix("sched/simulated/words.rs").unwrap_or(file!());
    if !at.file().starts_with(own) {
        text.push_str(&format!(", at {at}"));
    }
    // The places of the holders come last, so that none is taken for the place of the wait.
    text + &held
}

/// Describes a task that was parked until just now, and what it waited for.
pub(super) fn about(header: &Header) -> String {
    // SAFETY: S4: the task has not been run since, so the frame of its wait is there.
    let waiter = unsafe { waiter_of(header) };
    let waited = waiter.map(|waiter| {
        let Purpose { what, at, .. } = waiter.purpose();
        let before = if what.starts_with("to ") { "" } else { " for" };
        format!("{before} {what}, at {at}")
    });
    let name = header.name().map_or_else(String::new, |name| format!(" '{}'", name.escape_debug()));
    format!("task {}{name}{}", TaskId::of(header), waited.unwrap_or_default())
}
