//! The course of one run: the director of its scheduler.
//!
//! # Phases
//! ```text
//!             stuck, out of steps, out of time            the tree of tasks has been taken
//!   RUNS --------------------------------------> LOOKS -----------------------------------> ENDS
//!     |                                                                                      ^
//!     +--------------------------------------------------------------------------------------+
//!                       an invariant does not hold, or a foreign thread interferes
//! ```
//! In each phase the run may end by itself. In the phase LOOKS, a task that is not shown in trees
//! looks at all others, and runs before them. When the phase ENDS begins, the root is cancelled, so
//! that the tasks end. This is not part of the run any more: it is not recorded, and panics are not
//! reported.
//!
//! If the tasks wait for each other even then, or take too long, their waits are ended [by
//! force](crate::base::simulated::ends_by_force): those in shields are cancelled, and those that
//! have no error unwind. The process is aborted if even that does not help, because the program
//! borrows from the caller of `run`, which must not continue before all tasks have ended.

mod director;

use std::cell::{Cell, RefCell, RefMut};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::desk::{Desk, Outcome};
use super::failure::Failure;
use super::faults::Faults;
use super::hosts::{self, Hosts};
use super::legend::Met;
use super::notes::Note;
use super::pilot::Pilot;
use super::simulation::Limits;
use super::timeline::History;
use super::trace::Step;
use super::turns::Turn;
use super::waiting::Waiting;
use crate::base::random::Generator;
use crate::base::simulated::LostPanic;
use crate::base::{clock, simulated};
use crate::diag::{self, TaskTree};
use crate::driver::{HostId, Incident, World, mix};
use crate::park;
use crate::sched;
use crate::scope::PanicPayload;
use crate::task::{self, Header};
pub(super) use director::Guide;

/// How many steps the tasks of a failed run may take until they have ended.
const LAST_STEPS: u64 = 10_000;
/// How often a run that cannot go on looks again for what other threads do, and how long it sleeps
/// before each look. That is so before it fails as a deadlock, and when the waits of a failed run
/// have been ended by force.
const LAST_LOOKS: u32 = 5_000;
/// How often each task that can run may yield, on average, while no task does anything else. Then time
/// advances, because such tasks wait for something in loops.
const YIELDS: u64 = 100;
/// How often a run looks for a thread that could end a wait, although none is doing so, before it
/// fails as a deadlock. A run that is only repeated does not look, so that it takes no time.
const FIRST_LOOKS: u32 = 20;
/// The same as long as there is a thread that the run has started. A thread that never ends delays
/// each deadlock by this.
const THREAD_LOOKS: u32 = 500;
/// The budget of a task in a phase in which nothing is left to chance.
const PLAIN_BUDGET: u32 = 128;

/// What the program and the director of a run share, on the simulation's thread.
pub(super) struct Course {
    desk: Arc<Desk>,
    pub(super) world: Arc<World>,
    pub(super) hosts: Hosts,
    pub(super) faults: Box<Faults>,
    limits: Limits,
    pub(super) start: Instant,
    random: RefCell<Generator>,
    invariants: RefCell<Vec<Rc<Invariant>>>,
    notes: RefCell<Vec<Note>>,
    /// Faults have ended.
    pub(super) is_calm: Cell<bool>,
    /// Each latency is the least of its range.
    is_steady: bool,
    pilot: RefCell<Pilot>,
    record: RefCell<Record>,
    /// The turns are recorded for a message, from the one with this number on.
    turns_from: Option<u64>,
    phase: Cell<Phase>,
    /// The steps since the run has failed.
    last_steps: Cell<u64>,
    /// Whether the turn that is under way has failed the run.
    fails_in_turn: Cell<bool>,
    /// How many they were when waits were last ended by force.
    forced_at: Cell<Option<u64>>,
    /// How often the run has looked since then for what other threads do.
    last_looks: Cell<u32>,
    /// How often the run has looked before it failed for what other threads do.
    looks: Cell<u32>,
    /// The running task waits in the system.
    is_blocked: Cell<bool>,
    /// The turns in a row that have ended because their tasks yielded.
    yields: Cell<u64>,
    /// The steps of the run when the waits of a host's tasks were last ended by force.
    host_forced_at: Cell<Option<u64>>,
}

/// What is recorded of a run.
#[derive(Debug, Default)]
struct Record {
    hash: u64,
    steps: u64,
    /// The virtual time at the end of the last step, as a time and since the start.
    now: Option<Instant>,
    elapsed: Duration,
    /// The last turn before an invariant did not hold.
    last_turn: Option<String>,
    tasks: Met,
    turns: Vec<Turn>,
    waiting: Option<Waiting>,
}

struct Invariant {
    name: String,
    holds: Box<dyn Fn() -> bool>,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Runs,
    Looks,
    Ends,
}

impl Course {
    /// Begins the course of a run on the current thread, which is that of a simulation.
    pub(super) fn begin(
        desk: Arc<Desk>,
        limits: Limits,
        random: Generator,
        pilot: Pilot,
        (is_steady, faults): (bool, Faults),
        turns_from: Option<u64>,
    ) -> Rc<Course> {
        let course = Rc::new(Course {
            desk,
            world: World::current().expect("the world is made before"),
            hosts: Hosts::default(),
            is_calm: Cell::new(false),
            is_steady,
            faults: Box::new(faults),
            limits,
            start: clock::common_now(),
            random: RefCell::new(random),
            invariants: RefCell::default(),
            notes: RefCell::default(),
            pilot: RefCell::new(pilot),
            record: RefCell::default(),
            turns_from,
            phase: Cell::new(Phase::Runs),
            last_steps: Cell::new(0),
            fails_in_turn: Cell::new(false),
            forced_at: Cell::new(None),
            last_looks: Cell::new(0),
            looks: Cell::new(0),
            is_blocked: Cell::new(false),
            yields: Cell::new(0),
            host_forced_at: Cell::new(None),
        });
        course.world.set_here(hosts::current);
        simulated::set_here(|| hosts::current().0);
        simulated::set_last_words(|out| {
            if let Some(course) = Course::here() {
                course.desk.words.say(out);
            }
        });
        simulated::set_host_of(hosts::shown_name_of_task);
        simulated::set_lost(|panic| {
            if let Some(course) = Course::here() {
                course.lose(panic);
            }
        });
        simulated::set_panicked(|task, text| {
            if let Some(course) = Course::here() {
                course.note_waiting(task, text);
            }
        });
        simulated::set_course(Rc::<Course>::clone(&course));
        course
    }

    /// Returns the course of the current thread's run, or `None` outside of a simulation.
    pub(super) fn here() -> Option<Rc<Course>> {
        simulated::course()
    }

    /// Returns the generator of the program's own numbers.
    pub(super) fn random(&self) -> RefMut<'_, Generator> {
        self.random.borrow_mut()
    }

    pub(super) fn add_invariant(&self, name: &str, holds: impl Fn() -> bool + 'static) {
        let invariant = Invariant { name: String::from(name), holds: Box::new(holds) };
        self.invariants.borrow_mut().push(Rc::new(invariant));
    }

    /// Adds a note, unless the run is over. It is part of the run's hash.
    pub(super) fn add_note(&self, note: Note) {
        if self.phase.get() == Phase::Runs {
            let mut record = self.record.borrow_mut();
            record.hash = note.text.bytes().fold(record.hash, |hash, byte| mix(hash, byte.into()));
            let mut notes = self.notes.borrow_mut();
            self.world.note(hosts::current(), Incident::Notes(notes.len()));
            notes.push(note);
        }
    }

    /// Notes that the running task belongs to a host.
    pub(super) fn note_host(&self, host: HostId) {
        if let Some(task) = task::current_header() {
            let ordinal = simulated::shown_number(task.id());
            self.record.borrow_mut().tasks.set_host(ordinal, host);
        }
    }

    pub(super) fn notes(&self) -> Vec<Note> {
        self.notes.borrow().clone()
    }

    /// Returns the failure of the first invariant that does not hold.
    #[inline]
    fn check_invariants(&self) -> Result<(), Failure> {
        if self.invariants.borrow().is_empty() { Ok(()) } else { self.check_each_invariant() }
    }

    fn check_each_invariant(&self) -> Result<(), Failure> {
        let mut place = 0;
        loop {
            // It may add another one.
            let Some(invariant) = self.invariants.borrow().get(place).cloned() else {
                return Ok(());
            };
            let checked =
                panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(|| (invariant.holds)())));
            match checked {
                Ok(true) => place += 1,
                Ok(false) => return Err(Failure::Invariant { name: invariant.name.clone() }),
                Err(payload) => {
                    let origin = format!("in the invariant '{}'", invariant.name);
                    let payload = PanicPayload::thrown(payload, origin);
                    return Err(Failure::Panicked(payload));
                }
            }
        }
    }

    /// Records a step. Returns the hash of all that has happened so far.
    fn note(&self, task: u64, passed: u32) -> u64 {
        let mut record = self.record.borrow_mut();
        let now = clock::common_now();
        let mut hash = mix(record.hash, task ^ u64::from(passed) << 32);
        // It stands still in most steps.
        if record.now.replace(now) != Some(now) {
            record.elapsed = now.saturating_duration_since(self.start);
            hash = mix(hash, record.elapsed.as_secs());
            hash = mix(hash, u64::from(record.elapsed.subsec_nanos()));
        }
        record.hash = mix(hash, self.world.happened());
        record.steps += 1;
        record.hash
    }

    /// Returns whether the turns are recorded by now.
    fn records_turns(&self) -> bool {
        self.turns_from.is_some_and(|from| self.record.borrow().steps >= from)
    }

    /// Records a turn for a message.
    #[cold]
    fn record_turn(&self, step: Step, does: String) {
        let place = simulated::take_place().map(Arc::new);
        let mut record = self.record.borrow_mut();
        let at = record.elapsed;
        record.turns.push(Turn { at, step, does, place });
    }

    /// Fails the run, because of what the running code does.
    pub(super) fn fail(&self, failure: Failure) {
        self.fail_on(hosts::current(), clock::common_now(), failure);
    }

    /// Fails the run, because of what has happened then on a host.
    pub(super) fn fail_on(&self, host: HostId, at: Instant, failure: Failure) {
        self.world.note_at(at, host, Incident::Fails);
        self.desk.fail(failure);
        self.end();
    }

    /// Notes what the other tasks wait for, because the running one has panicked. A run that is only
    /// repeated notes it if it is the one that a message is about.
    fn note_waiting(&self, task: u64, text: Option<&str>) {
        let is_shown = self.turns_from.is_some() || !simulated::is_silent();
        if is_shown && self.phase.get() == Phase::Runs {
            let mut waiting = self.record.borrow_mut().waiting.take();
            Waiting::look(&mut waiting, task, text);
            self.record.borrow_mut().waiting = waiting;
        }
    }

    /// Fails the run by a panic that would not be noticed otherwise.
    fn lose(&self, panic: LostPanic) {
        if self.phase.get() == Phase::Runs {
            let (host, at) = (HostId(panic.host), panic.at);
            self.fail_on(host, at, hosts::lost(self, panic));
        }
    }

    /// Fails the run because a task makes a call whose effect no seed decides.
    pub(super) fn refuse(&self, call: &str) {
        if self.phase.get() == Phase::Runs {
            let task = task::current_header().map(Header::description);
            let task = task.unwrap_or_else(|| String::from("code outside of any task"));
            let failure = Failure::Foreign { call: format!("{task} called {call}") };
            self.fail_in_turn(hosts::current(), clock::common_now(), failure);
        }
    }

    /// Fails the run in the turn of a task, and counts that turn. A run that repeats this one has to
    /// take it, too.
    pub(super) fn fail_in_turn(&self, host: HostId, at: Instant, failure: Failure) {
        let counts = self.phase.get() == Phase::Runs && task::current_header().is_some();
        self.fail_on(host, at, failure);
        self.fails_in_turn.set(counts);
    }

    /// Calls `wait`, in which the thread waits in the system for something that another task may
    /// hold. If that takes too long, the failure names these tasks.
    pub(super) fn block<T>(&self, wait: impl FnOnce() -> T) -> T {
        // What is done here may wait in the same way.
        if self.phase.get() != Phase::Runs || self.is_blocked.replace(true) {
            return wait();
        }
        self.desk.set_holders(sched::parked_tasks());
        let result = wait();
        self.desk.set_holders(Vec::new());
        self.is_blocked.set(false);
        result
    }

    fn end(&self) {
        if self.phase.replace(Phase::Ends) != Phase::Ends {
            self.note_time();
            simulated::set_silent(true);
        }
    }

    /// Notes that the run itself is over.
    fn note_time(&self) {
        self.record.borrow_mut().elapsed =
            clock::common_now().saturating_duration_since(self.start);
        self.world.end_draws();
        self.world.end_journal();
    }

    /// Has a task look at all others. `failure` makes the failure of what it finds.
    fn look(&self, failure: fn(TaskTree) -> Failure) {
        if self.phase.get() == Phase::Runs {
            self.phase.set(Phase::Looks);
            self.world.note(HostId::ROOT, Incident::Fails);
            self.note_time();
            let desk = Arc::clone(&self.desk);
            let pool = sched::current_pool();
            if pool.is_some_and(|pool| diag::examine(&pool, move |tree| desk.fail(failure(tree)))) {
                return;
            }
        }
        // The run has ended, and something of it waits all the same.
        self.desk.fail(failure(TaskTree::default()));
        self.end();
        self.end_by_force();
    }

    /// Gives time to another thread that is in the middle of what it does to the run, or may be
    /// about to do something. Returns false if there is none, or if it takes too long.
    fn waits_for_others(&self) -> bool {
        let looks = self.looks.get();
        let is_to_look = !simulated::is_silent();
        // The names of threads are in files of the machine.
        let has_threads = || simulated::aside(|| self.desk.thread.has_started_others());
        let may_begin =
            is_to_look && (looks < FIRST_LOOKS || (looks < THREAD_LOOKS && has_threads()));
        if looks == LAST_LOOKS || !(may_begin || sched::is_interfered_with()) {
            return false;
        }
        self.looks.set(self.looks.get() + 1);
        self.desk.note_turn();
        self.desk.pause();
        true
    }

    /// Ends the waits of all tasks by force. If that has been tried since the last step, another
    /// thread has won a wait and has not yet said so, for instance because it has just unlocked a
    /// lock that it shared with the simulation. So it is given time. Aborts the process if it says
    /// nothing.
    fn end_by_force(&self) {
        let steps = self.last_steps.get();
        if self.forced_at.replace(Some(steps)) != Some(steps) {
            self.last_looks.set(0);
            simulated::end_by_force();
            sched::end_waits(|_| true);
            return;
        }
        self.last_looks.set(self.last_looks.get() + 1);
        if self.last_looks.get() > LAST_LOOKS {
            self.desk.abort(&format!("its tasks do not end: {}", self.desk.text()));
        }
        self.desk.pause();
    }

    /// Ends the waits by force for which tasks of hosts that are down still wait. Returns false if
    /// there is none, or if that has been tried since the last step.
    fn end_hosts_by_force(&self) -> bool {
        let steps = self.record.borrow().steps;
        if self.host_forced_at.get() == Some(steps) || !self.hosts.outlive_a_crash() {
            return false;
        }
        self.host_forced_at.set(Some(steps));
        sched::end_waits(|task| self.hosts.ends_by_force(task));
        true
    }

    /// Ends the course. `failure` is how the root has failed, if it has.
    pub(super) fn finish(&self, failure: Option<Failure>) {
        if self.phase.get() == Phase::Runs {
            if failure.is_some() {
                self.world.note(HostId::ROOT, Incident::Fails);
            }
            self.note_time();
        }
        // The values of the program that they have captured end with the run. Waits in their
        // destructors are cancelled.
        let invariants = mem::take(&mut *self.invariants.borrow_mut());
        invariants.into_iter().for_each(task::drop_quietly);
        self.hosts.clear();
        self.desk.deliver(self.outcome(failure));
    }

    fn outcome(&self, failure: Option<Failure>) -> Outcome {
        let Record { hash, steps, elapsed, last_turn, tasks, turns, waiting, .. } =
            mem::take(&mut *self.record.borrow_mut());
        let mut record = self.pilot.borrow_mut().finish();
        record.struck = self.world.failed_operation();
        (record.drawn, record.varies) = self.world.drawn();
        record.hosts = self.world.host_names();
        record.trace.drawn = record.drawn.iter().map(|struck| struck.fault).collect();
        record.trace.drawn.sort_unstable();
        record.trace.is_steady = self.is_steady;
        record.reported = simulated::take_reported();
        record.last_turn = last_turn;
        record.tasks = tasks;
        record.turns = turns;
        record.waiting = waiting;
        let failure = failure.or_else(|| record.diverged.clone().map(Failure::Diverged));
        let notes = mem::take(&mut *self.notes.borrow_mut());
        record.history = Some(Arc::new(History {
            start: self.start,
            events: self.world.take_journal(),
            notes: notes.iter().map(|note| note.text.clone()).collect(),
        }));
        Outcome { failure, trace_hash: hash, elapsed, steps, record, notes }
    }
}
