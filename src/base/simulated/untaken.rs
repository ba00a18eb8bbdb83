//! Panics on hosts that the program has not taken yet.
//!
//! A panic that has come to the end of its task, or to a scope that waits for its tasks, is *held*
//! until it is joined or unwinds further. If its host stops meanwhile, nothing of it would be left.
//! If nothing can join its task, it would be noticed only when the scope ends. In both cases the
//! panic is *lost*, and the layer that starts simulations is told of it.
//!
//! A panic counts if it was thrown before the host of its task stopped.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::on::{common_now, here, is_cut_off, with};

/// A panic that is lost, or would be if its host stopped.
pub(crate) struct LostPanic {
    /// The number of its host, which is 0 for the program of the run.
    pub(crate) host: u16,
    /// When it was thrown, in virtual time.
    pub(crate) at: Instant,
    pub(crate) text: Option<String>,
    /// Where it was thrown, and by which task.
    pub(crate) origin: String,
}

/// The panics of a simulation that are held.
pub(super) struct Held {
    /// By their numbers, with the numbers of their tasks.
    panics: RefCell<BTreeMap<u64, (u64, LostPanic)>>,
    next: Cell<u64>,
    /// The tasks that nothing joins, although they have handles.
    never_joined: RefCell<BTreeSet<u64>>,
    /// Is told of panics that are lost. Set by the layer that starts simulations.
    lost: Cell<fn(LostPanic)>,
    /// Is told of panics that have come to the end of their task, or to a scope, before that
    /// cancels its tasks. Set by the same layer.
    panicked: Cell<Panicked>,
}

/// Is called with the number of a task and the text of its panic.
type Panicked = fn(u64, Option<&str>);

impl Default for Held {
    fn default() -> Held {
        Held {
            panics: RefCell::default(),
            next: Cell::new(1),
            never_joined: RefCell::default(),
            lost: Cell::new(drop),
            panicked: Cell::new(|_, _| ()),
        }
    }
}

/// Sets what is told of panics that are lost.
pub(crate) fn set_lost(lost: fn(LostPanic)) {
    with(|simulated| simulated.held.lost.set(lost));
}

/// Sets what is told of panics of the running code, while the other tasks are as they were.
pub(crate) fn set_panicked(panicked: fn(u64, Option<&str>)) {
    with(|simulated| simulated.held.panicked.set(panicked));
}

/// When a panic was thrown. `None` if it does not count.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Option<Instant>);

impl Moment {
    /// Returns the present moment.
    pub(crate) fn now() -> Moment {
        Moment(common_now().filter(|_| !is_cut_off()))
    }
}

/// Holds a panic until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Untaken(Option<u64>);

impl Untaken {
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            with(|simulated| simulated.held.panics.borrow_mut().remove(&number));
        }
    }
}

/// Holds a panic of the running code, if that belongs to a host. `task` is the number of its task.
/// A panic that counts is lost at once if its host has stopped since.
pub(crate) fn hold(
    Moment(at): Moment,
    task: u64,
    text: Option<&str>,
    origin: impl FnOnce() -> String,
) -> Untaken {
    if let Some(panicked) = with(|simulated| simulated.held.panicked.get()) {
        panicked(task, text);
    }
    let (Some(at), Some(host)) = (at, here().filter(|host| *host != 0)) else {
        return Untaken(None);
    };
    let panic = LostPanic { host, at, text: text.map(String::from), origin: origin() };
    if is_cut_off() {
        tell(panic);
        return Untaken(None);
    }
    Untaken(with(|simulated| {
        let held = &simulated.held;
        let number = held.next.get();
        held.next.set(number + 1);
        held.panics.borrow_mut().insert(number, (task, panic));
        number
    }))
}

/// Reports that a panic of the running code is lost, because no code of the program handles it.
pub(crate) fn lose(Moment(at): Moment, text: Option<&str>, origin: impl FnOnce() -> String) {
    if let (Some(at), Some(host)) = (at, here()) {
        tell(LostPanic { host, at, text: text.map(String::from), origin: origin() });
    }
}

/// Reports that the panic of a task is lost, if it is held.
pub(crate) fn lose_that_of(task: u64) {
    let found = with(|simulated| {
        let mut panics = simulated.held.panics.borrow_mut();
        let number =
            panics.iter().find(|(_, (other, _))| *other == task).map(|(number, _)| *number)?;
        panics.remove(&number)
    });
    if let Some((_, panic)) = found.flatten() {
        tell(panic);
    }
}

/// Reports that the panics of a host are lost, because it stops.
pub(crate) fn lose_those_on(host: u16) {
    let found = with(|simulated| {
        let mut panics = simulated.held.panics.borrow_mut();
        let lost: Vec<_> = panics
            .iter()
            .filter(|(_, (_, panic))| panic.host == host)
            .map(|(key, _)| *key)
            .collect();
        Vec::from_iter(lost.iter().filter_map(|number| panics.remove(number)))
    });
    found.into_iter().flatten().for_each(|(_, panic)| tell(panic));
}

fn tell(panic: LostPanic) {
    if let Some(lost) = with(|simulated| simulated.held.lost.get()) {
        lost(panic);
    }
}

/// Notes that nothing joins a task, although it has a handle.
pub(crate) fn set_never_joined(task: u64) {
    with(|simulated| simulated.held.never_joined.borrow_mut().insert(task));
}

/// Returns whether [`set_never_joined`] was called for a task.
pub(crate) fn is_never_joined(task: u64) -> bool {
    with(|simulated| simulated.held.never_joined.borrow().contains(&task)).unwrap_or(false)
}
