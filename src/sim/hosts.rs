//! The state of a simulation's hosts, and their incarnations.
//!
//! The closure of a host runs as a task of the run, with a task-local that names the host. So all
//! tasks of the scopes that it opens belong to the host. Each start of the closure is an
//! *incarnation*. A crash cancels the current one. The next one begins when all earlier ones have
//! ended, which takes no virtual time:
//!
//! - The crash cancels the tasks through their shields. Each later wait of theirs begins with a
//!   turn, before which the shield around it is cancelled, too. So all waits fail that can fail.
//! - When no task can run, and time would pass, the waits of these tasks that cannot fail are ended
//!   by force, as those of a run that has failed. Such a wait unwinds its task.
//! - A task that takes more than [`LAST_STEPS`] turns after the crash fails the run.
//!
//! While a host is paused, the scheduler sets its tasks aside.
#![expect(unsafe_code, reason = "reads the task-locals of tasks that do not run")]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;

use super::course::Course;
use super::failure::{Failure, LAST_STEPS};
use crate::base::simulated::{self, CutOff, LostPanic};
use crate::base::{clock, local};
use crate::driver::{HostId, Incident, ROOT_NAME};
use crate::scope::{CancelHandle, JoinHandle, PanicPayload, cancel_scope, shield};
use crate::sync::Latch;
use crate::task::{self, Cancelled, Header, LocalKey};
use crate::{runtime, sched};

/// The host to which the running code belongs.
static HERE: LocalKey<HostId> = LocalKey::new();

/// Returns the host to which the running code belongs.
pub(super) fn current() -> HostId {
    HERE.try_with(|host| *host).unwrap_or(HostId::ROOT)
}

/// Returns the host to which a task belongs. The task has not ended, and it does not run.
pub(super) fn host_of(task: &Header) -> HostId {
    // SAFETY: T5: all tasks of a simulation belong to its thread.
    unsafe { HERE.bound_in(task) }.unwrap_or(HostId::ROOT)
}

/// Returns the name of the host to which a task belongs, as it is shown with the task. `None` for
/// the root. `task` is the header of a task that exists.
pub(super) fn shown_name_of_task(task: *const ()) -> Option<Arc<str>> {
    // SAFETY: T1: the caller's promise.
    let host = host_of(unsafe { &*task.cast::<Header>() });
    Course::here()?.hosts.shown_name_of(host)
}

/// Returns the place of a host among [those of its run](Hosts), or `None` for the root.
fn place_of(id: HostId) -> Option<usize> {
    usize::from(id.0).checked_sub(1)
}

/// The hosts of a run.
#[derive(Default)]
pub(super) struct Hosts {
    /// The hosts in the order of their numbers. The root, which has the number 0, is missing.
    by_id: RefCell<Vec<State>>,
    /// The names of all hosts but the root, for those that may look while a host changes.
    names: RefCell<Vec<Arc<str>>>,
    /// The tasks that make outages happen.
    outages: RefCell<Vec<JoinHandle<'static, ()>>>,
    paused: Cell<u32>,
    down: Cell<u32>,
    /// The program has ended, so no host is started or paused any more.
    has_ended: Cell<bool>,
}

pub(super) type Closure = Rc<dyn Fn() -> io::Result<()>>;

struct State {
    name: Arc<str>,
    closure: Closure,
    /// It has started, and has not crashed since.
    is_started: bool,
    /// Counts the starts and the crashes. An incarnation belongs to one start.
    changes: u64,
    /// Counts the incarnations that have begun.
    lives: u64,
    /// The current incarnation, unless the host is down, or its start has not returned yet.
    current: Option<JoinHandle<'static, ()>>,
    /// Cancels the closure of the current incarnation, while that runs.
    running: Option<CancelHandle>,
    /// Open when an incarnation has ended. Those of earlier incarnations may be missing.
    ends: Vec<Arc<Latch>>,
    is_paused: bool,
    /// It has crashed, and its next incarnation has not begun.
    is_down: bool,
    /// It has lost its power, and its next incarnation has not begun.
    is_off: bool,
    /// The waits of its tasks are ended by force, because it is down.
    ends_by_force: bool,
    /// The turns of its tasks since the crash, by the tasks' ordinals.
    last_steps: BTreeMap<u64, u32>,
}

/// Opens a latch when it is dropped, also if its task never begins.
struct End(Arc<Latch>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.count_down();
    }
}

impl Hosts {
    fn with<T>(&self, id: HostId, f: impl FnOnce(&mut State) -> T) -> T {
        let mut hosts = self.by_id.borrow_mut();
        let state = place_of(id).and_then(|place| hosts.get_mut(place));
        f(state.expect("a host belongs to the run in which it was made"))
    }

    /// Returns whether the host was made in this run. Hosts of other runs may have the same number.
    /// The root is the same machine in each run.
    pub(super) fn have(&self, id: HostId, name: &Arc<str>) -> bool {
        if id == HostId::ROOT {
            return true;
        }
        let hosts = self.by_id.borrow();
        let state = place_of(id).and_then(|place| hosts.get(place));
        state.is_some_and(|state| Arc::ptr_eq(&state.name, name))
    }

    pub(super) fn name_of(&self, id: HostId) -> Arc<str> {
        match id {
            HostId::ROOT => Arc::from(ROOT_NAME),
            id => self.with(id, |state| Arc::clone(&state.name)),
        }
    }

    /// Returns the name of a host as it is shown with its tasks. `None` for the root.
    pub(super) fn shown_name_of(&self, id: HostId) -> Option<Arc<str>> {
        self.names.try_borrow().ok()?.get(place_of(id)?).cloned()
    }

    /// Keeps a task that makes outages happen, until the program ends.
    pub(super) fn keep_outages(&self, task: JoinHandle<'static, ()>) {
        if self.has_ended.get() {
            task.cancel();
        } else {
            self.outages.borrow_mut().push(task);
        }
    }

    /// Returns whether a host has started, and has not been stopped since.
    pub(super) fn is_started(&self, id: HostId) -> bool {
        self.with(id, |state| state.is_started)
    }

    /// Returns whether any host is paused.
    pub(super) fn are_paused(&self) -> bool {
        self.paused.get() > 0
    }

    /// Returns whether the host of a task is paused. The task has not ended, and it does not run.
    pub(super) fn is_paused(&self, task: &Header) -> bool {
        let id = host_of(task);
        id != HostId::ROOT && self.with(id, |state| state.is_paused)
    }

    pub(super) fn set_paused(&self, id: HostId, paused: bool) {
        let paused = paused && !self.has_ended.get();
        let was_paused = self.with(id, |state| mem::replace(&mut state.is_paused, paused));
        self.paused.set(self.paused.get() + u32::from(paused) - u32::from(was_paused));
    }

    fn set_down(&self, id: HostId, down: bool) {
        let was_down = self.with(id, |state| {
            state.is_off &= down;
            state.ends_by_force = false;
            state.last_steps = BTreeMap::new();
            mem::replace(&mut state.is_down, down)
        });
        self.down.set(self.down.get() + u32::from(down) - u32::from(was_down));
    }

    /// Returns whether any host is down. Otherwise no task is cut off.
    pub(super) fn are_down(&self) -> bool {
        self.down.get() > 0
    }

    /// Counts a turn of a task, and returns whether the task is cut off.
    ///
    /// # Errors
    /// Fails if the task has taken too many turns since its host has crashed.
    pub(super) fn turn_of(&self, task: &Header, ordinal: u64) -> Result<CutOff, Failure> {
        let id = host_of(task);
        if id == HostId::ROOT {
            return Ok(CutOff::No);
        }
        self.with(id, |state| {
            if !state.is_down {
                return Ok(CutOff::No);
            }
            let steps = state.last_steps.entry(ordinal).or_default();
            *steps += 1;
            if *steps > LAST_STEPS {
                let (host, task) = (state.name.to_string(), task.description());
                return Err(Failure::OutlivesCrash { host, task });
            }
            Ok(if state.ends_by_force { CutOff::ByForce } else { CutOff::Cancelled })
        })
    }

    /// Returns whether a host is down whose tasks have not ended. Their waits are ended by force
    /// from now on.
    pub(super) fn outlive_a_crash(&self) -> bool {
        let mut found = false;
        if self.down.get() > 0 {
            for state in self.by_id.borrow_mut().iter_mut().filter(|state| state.is_down) {
                state.ends_by_force = state.ends.iter().any(|end| !end.is_open());
                found |= state.ends_by_force;
            }
        }
        found
    }

    /// Returns whether a host is down whose tasks have not ended.
    pub(super) fn is_any_ending(&self) -> bool {
        self.down.get() > 0
            && self
                .by_id
                .borrow()
                .iter()
                .any(|state| state.is_down && state.ends.iter().any(|end| !end.is_open()))
    }

    /// Returns whether the waits of a task are ended by force. The task has not ended, and it does
    /// not run.
    pub(super) fn ends_by_force(&self, task: &Header) -> bool {
        let id = host_of(task);
        id != HostId::ROOT && self.with(id, |state| state.ends_by_force)
    }

    /// Cancels the tasks of all hosts, because the program has ended.
    pub(super) fn end(&self) {
        self.paused.set(0);
        self.has_ended.set(true);
        let mut running = Vec::new();
        for state in self.by_id.borrow_mut().iter_mut() {
            state.is_paused = false;
            running.extend(state.current.take());
        }
        running.append(&mut self.outages.borrow_mut());
        // Hooks of the program run here, and may stop and start hosts.
        running.iter().for_each(JoinHandle::cancel);
    }

    /// Forgets the closures.
    pub(super) fn clear(&self) {
        let hosts = mem::take(&mut *self.by_id.borrow_mut());
        hosts.into_iter().for_each(|state| task::drop_quietly(state.closure));
    }
}

/// Adds a host, and starts it. Returns `None` if there is no place for it, or its name is taken.
#[track_caller]
pub(super) fn add(course: &Course, name: &Arc<str>, closure: Closure) -> Option<HostId> {
    let id = course.world.network(|network, _| network.add_host(name))?;
    let state = State {
        name: Arc::clone(name),
        closure,
        is_started: false,
        changes: 0,
        lives: 0,
        current: None,
        running: None,
        ends: Vec::new(),
        is_paused: false,
        is_down: false,
        is_off: false,
        ends_by_force: false,
        last_steps: BTreeMap::new(),
    };
    let mut by_id = course.hosts.by_id.borrow_mut();
    debug_assert_eq!(place_of(id), Some(by_id.len()), "a host has the next number");
    by_id.push(state);
    drop(by_id);
    course.hosts.names.borrow_mut().push(Arc::clone(name));
    set_faults(course, id, name);
    start(course, id);
    Some(id)
}

/// Sets what goes wrong on a new host by itself, if that is something of its own.
pub(super) fn set_faults(course: &Course, id: HostId, name: &str) {
    let Course { faults, world, .. } = course;
    if let Some(own) = faults.of_host(name) {
        world.set_disk_faults_of(id, own.disk.clone());
        world.network(|network, _| network.set_faults_of(id, own.network));
    }
    for other in (0..id.0).map(HostId) {
        if let Some(between) = faults.of_link(name, &course.hosts.name_of(other)) {
            world.network(|network, _| network.set_faults_between(id, other, between.network));
        }
    }
}

/// Moves the wall clock of a host by this many milliseconds.
pub(super) fn jump(course: &Course, id: HostId, milliseconds: i64) {
    course.world.note(id, Incident::Jumps { milliseconds });
    simulated::jump(id.0, milliseconds);
}

/// Begins an incarnation of a host.
#[track_caller]
pub(super) fn start(course: &Course, id: HostId) {
    if course.hosts.has_ended.get() {
        return;
    }
    let end = Arc::new(Latch::new(1));
    let (number, is_first, earlier) = course.hosts.with(id, |state| {
        state.is_started = true;
        state.changes += 1;
        let is_first = state.ends.is_empty();
        state.ends.retain(|end| !end.is_open());
        let earlier = state.ends.clone();
        state.ends.push(Arc::clone(&end));
        (state.changes, is_first, earlier)
    });
    let end = End(end);
    // Other tasks may run in this call, also the new one.
    let handle = runtime::spawn(move || {
        let _end = end;
        incarnation(id, number, is_first, &earlier);
    });
    let unwanted = course.hosts.with(id, |state| {
        if state.changes == number { state.current.replace(handle) } else { Some(handle) }
    });
    // The host has crashed or was started again meanwhile.
    unwanted.inspect(JoinHandle::cancel);
    if course.hosts.has_ended.get() {
        // The program has ended meanwhile.
        course.hosts.end();
    }
}

fn incarnation(id: HostId, number: u64, is_first: bool, earlier: &[Arc<Latch>]) {
    let Some(course) = Course::here() else { return };
    if !is_first {
        // They end in no time, because their host is down.
        let _ = shield(|| earlier.iter().try_for_each(|end| end.wait()));
    }
    if task::cancelled().is_some() || course.hosts.with(id, |state| state.changes != number) {
        return;
    }
    // The host may have crashed, even if nothing of its earlier incarnations is left.
    course.world.restart_host(id);
    course.hosts.set_down(id, false);
    let life = course.hosts.with(id, |state| {
        state.lives += 1;
        state.lives
    });
    course.world.note(id, Incident::Started { life });
    course.note_host(id);
    let (name, closure) =
        course.hosts.with(id, |state| (Arc::clone(&state.name), Rc::clone(&state.closure)));
    // Nothing joins this task, because the program has no handle of it.
    if let Some(task) = task::current_header() {
        simulated::set_never_joined(task.id());
    }
    let body = |cancel: CancelHandle| {
        course.hosts.with(id, |state| state.running = Some(cancel));
        HERE.scope(id, || {
            panic::catch_unwind(AssertUnwindSafe(|| closure())).map_err(task::located)
        })
    };
    let result = panic::catch_unwind(AssertUnwindSafe(|| cancel_scope(body)));
    if course.hosts.with(id, |state| state.is_down) {
        // What a task does after the crash of its host does not count.
        task::drop_quietly(result);
        return;
    }
    let (payload, origin) = match result {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) if Cancelled::find(&error).is_some() => return,
        Ok(Ok(Err(error))) => {
            let text = format!("the host '{name}' failed: {error}");
            (Box::new(text) as Box<dyn Any + Send>, None)
        }
        Ok(Err(payload)) | Err(payload) => {
            let (payload, thrown) = task::split(payload);
            let thrown = thrown.filter(|_| !task::is_passed_on(&*payload));
            let place = || format!("on the host '{name}'");
            (payload, Some(thrown.map_or_else(place, |thrown| thrown.to_string())))
        }
    };
    let failure = Failure::Panicked(PanicPayload::thrown(payload, origin));
    course.fail_in_turn(id, clock::common_now(), failure);
}

/// Returns the failure of a run by a panic that would not be noticed otherwise.
pub(super) fn lost(course: &Course, panic: LostPanic) -> Failure {
    let LostPanic { at, text, origin, .. } = panic;
    let after = at.saturating_duration_since(course.start);
    let origin = format!("{origin}, after {after:?} of virtual time");
    let payload = text.map_or_else(|| Box::new(()) as Box<dyn Any + Send>, |text| Box::new(text));
    Failure::Panicked(PanicPayload::thrown(payload, origin))
}

/// What stops a host: its programs end, or its power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    Crash,
    PowerFailure,
}

/// Stops a host, unless it is down.
pub(super) fn stop(course: &Course, id: HostId, outage: Outage) {
    let cuts_power = outage == Outage::PowerFailure;
    let stopped = course.hosts.with(id, |state| {
        let was_off = state.is_off;
        state.is_off |= cuts_power;
        if !state.is_started && (was_off || !cuts_power) {
            return None;
        }
        state.is_started = false;
        state.changes += 1;
        Some((state.current.take(), state.running.take()))
    });
    let Some((current, running)) = stopped else { return };
    match outage {
        Outage::Crash => {
            course.world.note(id, Incident::Crashes);
            course.world.crash_host(id);
        }
        Outage::PowerFailure => {
            course.world.note(id, Incident::LosesPower);
            course.world.fail_power(id);
        }
    }
    course.hosts.set_paused(id, false);
    course.hosts.set_down(id, true);
    simulated::lose_those_on(id.0);
    // Hooks of the program run here.
    current.inspect(JoinHandle::cancel);
    running.inspect(CancelHandle::cancel);
    sched::cancel_through_shields(|task| host_of(task) == id);
    if self::current() == id {
        // The rest of this turn is cut off, too.
        simulated::set_cut_off(CutOff::Cancelled);
        local::with(|local| local.budget.set(0));
    }
}
