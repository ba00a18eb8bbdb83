//! Running a simulation.
//!
//! The program borrows from the caller of [`Simulation::run`], so `run` returns only after the
//! program's thread has ended. `course` says how the tasks of a run that has failed are brought to
//! their end.

use std::mem;
use std::panic::{self, AssertUnwindSafe, Location};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::course::{Course, Guide};
use super::desk::{Desk, Outcome};
use super::failure::Failure;
use super::faults::Faults;
use super::hosts;
use super::last_words::LastWords;
use super::link::Link;
use super::pages;
use super::pilot::{Pilot, Plan};
use super::report::Report;
use super::step_limit::StepLimit;
use super::strategy::Strategy;
use crate::base::random::{self, Generator};
use crate::base::simulated::Simulated;
use crate::base::{clock, simulated};
use crate::coroutine::{STACK_DEFAULT, STACK_FLOOR, overflow};
use crate::diag::{RECORD_MAX, RECORD_MIN, Recorder};
use crate::driver::{HostId, ROOT_NAME, World};
use crate::park;
use crate::scope::PanicPayload;
use crate::{runtime, task};

/// The size of the root's stack, which is that of the simulation's thread.
const STACK: usize = 8 << 20;

/// What a run may use up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) steps: u64,
    pub(super) time: Duration,
    /// How long a step may take, in real time.
    step: Duration,
}

/// A simulation: a run in which time is virtual, and in which a seed decides which task runs next.
///
/// # Examples
/// Two tasks that wait for two locks, in different orders:
/// ```
/// use ecru::sim::{Failure, Simulation};
/// use ecru::sync::Mutex;
///
/// fn transfers() {
///     let (a, b) = (Mutex::new(1), Mutex::new(2));
///     ecru::scope(|s| {
///         s.spawn(|| {
///             let from = a.lock();
///             let to = b.lock();
///             drop((from, to));
///         });
///         s.spawn(|| {
///             let from = b.lock();
///             let to = a.lock();
///             drop((from, to));
///         });
///     });
/// }
/// let reports = (0..100).map(|seed| Simulation::new(seed).run(transfers));
/// let failed = reports.into_iter().find(|report| report.result.is_err()).unwrap();
/// assert!(matches!(failed.result, Err(Failure::Deadlock(_))));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing before `run`, `explore` or `test`"]
pub struct Simulation {
    seed: u64,
    plan: Plan,
    link: Link,
    faults: Faults,
    limits: Limits,
    /// The place of the root, if it is not that of the call of `run`.
    at: Option<&'static Location<'static>>,
    /// Panics are not reported.
    is_quiet: bool,
    /// The command that repeats the run.
    command: Option<String>,
    /// The size of the tasks' stacks.
    stack_size: usize,
    /// The bytes of the recorder, or `None`.
    record: Option<usize>,
    /// The file for the page of a run that fails.
    record_on_failure: Option<PathBuf>,
}

impl Simulation {
    /// Creates a simulation with this seed.
    pub fn new(seed: u64) -> Simulation {
        let limits = Limits {
            steps: 1_000_000,
            time: Duration::from_secs(3600),
            step: Duration::from_secs(5),
        };
        let (plan, link, faults) = (Plan::default(), Link::default(), Faults::none());
        Simulation {
            seed,
            plan,
            link,
            faults,
            limits,
            at: None,
            is_quiet: false,
            command: None,
            stack_size: STACK_DEFAULT,
            record: None,
            record_on_failure: None,
        }
    }

    /// Sets how the next task is chosen. The default is [`Strategy::Random`].
    pub fn strategy(mut self, strategy: Strategy) -> Simulation {
        self.plan = Plan::of(strategy);
        self
    }

    /// Sets the properties of all links between hosts, which [`link`](super::link()) can change
    /// later.
    pub fn network(mut self, link: Link) -> Simulation {
        self.link = link;
        self
    }

    /// Sets what goes wrong by itself. The default is [`Faults::none`].
    pub fn faults(mut self, faults: Faults) -> Simulation {
        self.faults = faults;
        self
    }

    /// Sets the seed.
    pub(super) fn seeded(self, seed: u64) -> Simulation {
        Simulation { seed, ..self }
    }

    /// Sets what the run does, where it was called, whether its panics are reported, and the
    /// command that repeats it.
    pub(super) fn planned(
        self,
        plan: Plan,
        at: &'static Location<'static>,
        is_quiet: bool,
        command: Option<String>,
    ) -> Simulation {
        Simulation { plan, at: Some(at), is_quiet, command, ..self }
    }

    /// Sets the number of steps after which the run fails with [`Failure::OutOfSteps`]. In each
    /// step, one task runs until it waits, ends or is interrupted. The default is 1,000,000.
    pub fn max_steps(mut self, steps: u64) -> Simulation {
        self.limits.steps = steps;
        self
    }

    /// Sets the virtual time after which the run fails with [`Failure::OutOfTime`]. The default is
    /// one hour.
    pub fn max_time(mut self, time: Duration) -> Simulation {
        self.limits.time = time;
        self
    }

    /// Sets the real time after which a step fails the run with [`Failure::Stuck`]. The default is
    /// five seconds. Time in which the step waits for a processor does not count, so a machine that
    /// is busy with something else does not fail the run.
    pub fn max_step_time(mut self, time: Duration) -> Simulation {
        self.limits.step = time;
        self
    }

    /// Sets the size of each task's stack, in bytes. The default is that of
    /// [`Runtime::builder`](crate::Runtime::builder). The closure of [`run`](Simulation::run) has
    /// 8 MiB. A task's builder sets the size for one task.
    ///
    /// # Panics
    /// Panics if the size is below 16 KiB.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::Simulation;
    ///
    /// fn depth(left: u32) -> u32 {
    ///     let room = std::hint::black_box([left; 256]);
    ///     if left == 0 { 0 } else { 1 + depth(left - 1) + room[1] - room[2] }
    /// }
    /// let report = Simulation::new(1).stack_size(16 << 20).run(|| {
    ///     ecru::scope(|s| s.spawn(|| depth(2_000)).join().unwrap())
    /// });
    /// assert_eq!(report.unwrap(), 2_000);
    /// ```
    #[track_caller]
    pub fn stack_size(mut self, bytes: usize) -> Simulation {
        assert!(
            bytes >= STACK_FLOOR,
            "stack_size({bytes}): below the minimum of {STACK_FLOOR} bytes (16 KiB); pass a larger value"
        );
        self.stack_size = bytes;
        self
    }

    /// Sets the size of the flight recorder's memory, in bytes, as
    /// [`RuntimeBuilder::record`](crate::RuntimeBuilder::record) does. The default is to record
    /// nothing. [`Report::recorder`] has what was recorded, with virtual times and a row for each host.
    ///
    /// # Panics
    /// Panics if `bytes` is less than 4096 or more than 1 GiB.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::Simulation;
    ///
    /// let report = Simulation::new(1).record(1 << 16).run(|| ecru::diag::mark("here"));
    /// let mut page = Vec::new();
    /// report.recorder().unwrap().write_page(&mut page)?;
    /// assert!(String::from_utf8(page).unwrap().contains("here"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn record(mut self, bytes: usize) -> Simulation {
        assert!(
            (RECORD_MIN..=RECORD_MAX).contains(&bytes),
            "record({bytes}): the events need between {RECORD_MIN} and {RECORD_MAX} bytes; pass `1 << 20` for the last 26,000"
        );
        self.record = Some(bytes);
        self
    }

    /// Sets a file to which the recorder's page is written if a run fails. It has the
    /// [timeline](Report::timeline), too. The text of the report names the file. An
    /// [exploration](Simulation::explore) and a [test](Simulation::test) write the page of the run that
    /// they report. The default is to write none.
    ///
    /// This also sets a [recorder](Simulation::record) of 1 MiB, unless there is one.
    ///
    /// Without this setting, explorations and tests write a page if the environment variable
    /// `ECRU_SIM_PAGES` names a folder. The file there has the name of the test, the line of the
    /// call and the seed: `ECRU_SIM_PAGES=pages cargo test` may write
    /// `pages/a_slow_server_is_given_up.line-12.seed-7.html`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::Simulation;
    ///
    /// let path = std::env::temp_dir().join(format!("ecru-failed-{}.html", std::process::id()));
    /// let simulation = Simulation::new(1).record_on_failure(&path);
    /// let report = simulation.run(|| ecru::channel::bounded::<u32>(1).1.recv());
    /// assert!(report.to_string().contains("last events are in "));
    /// assert!(std::fs::read_to_string(&path)?.starts_with("<!doctype html>"));
    /// std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_on_failure(self, path: impl Into<PathBuf>) -> Simulation {
        self.with_page(Some(path.into())).record_at_least()
    }

    /// Returns the file for the page of a failed run.
    pub(super) fn page(&self) -> Option<&Path> {
        self.record_on_failure.as_deref()
    }

    /// Sets a recorder, unless there is one.
    pub(super) fn record_at_least(mut self) -> Simulation {
        self.record.get_or_insert(pages::BYTES);
        self
    }

    /// Sets or unsets the file for the page of a failed run. The recorder stays.
    pub(super) fn with_page(self, record_on_failure: Option<PathBuf>) -> Simulation {
        Simulation { record_on_failure, ..self }
    }

    /// Runs `f` as the root task of a simulated run, on a thread of its own.
    ///
    /// In the run, the calls of this library that wait do so in virtual time. Time stands still
    /// while a task can run. When all tasks wait, it jumps to the moment at which the first of them
    /// goes on. [`time::now`](crate::time::now) returns the virtual time.
    /// [`unblock`](crate::unblock) runs its closure in place. Child processes and signals are
    /// refused with an error of kind `Unsupported`.
    ///
    /// If a task panics, the run ends as that of [`ecru::run`](crate::run()) does, with
    /// [`Failure::Panicked`]. A run that has failed in another way is cancelled, and `run` returns
    /// when its tasks have ended. If they do not end by themselves, shields no longer protect
    /// them, and waits without an error, such as [`Mutex::lock`](crate::sync::Mutex::lock), end by
    /// a panic.
    ///
    /// # Aborts
    /// Aborts the process if a task of a run that has failed does not end even then. The task may
    /// wait for a lock of `std` that is never released, or compute for ever. The program borrows
    /// from the caller, so `run` must not return before it.
    ///
    /// # Panics
    /// Panics inside a task, and if the system refuses a thread or memory.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::Simulation;
    /// use std::time::Duration;
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     let begun = ecru::time::now();
    ///     ecru::sleep(Duration::from_secs(600)).unwrap();
    ///     ecru::time::now() - begun
    /// });
    /// assert_eq!(report.elapsed, Duration::from_secs(600));
    /// assert_eq!(report.unwrap(), Duration::from_secs(600));
    /// ```
    #[track_caller]
    pub fn run<T, F>(self, f: F) -> Report<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        assert!(
            task::current_header().is_none() && !simulated::is_simulated(),
            "`Simulation::run` called inside a task; call it on a plain thread"
        );
        let Simulation { seed, limits, .. } = self;
        overflow::install_for_aborts();
        // As an argument of `unwrap_or_else`, it would return a place in the standard library.
        let at = if let Some(at) = self.at { at } else { Location::caller() };
        let words = LastWords::new(seed, self.command.clone());
        let (desk, place) = (Arc::new(Desk::new(words)), Mutex::new(None));
        let limit = StepLimit::begin(&desk, limits.step);
        let limit = limit.unwrap_or_else(|error| panic!("a simulation cannot be watched: {error}"));
        let joined = thread::scope(|s| {
            let main = || *lock(&place) = simulate(&self, Arc::clone(&desk), at, f);
            let builder = thread::Builder::new().name(format!("ecru-sim-{seed}")).stack_size(STACK);
            match builder.spawn_scoped(s, main) {
                Ok(thread) => thread.join(),
                Err(error) => panic!("the thread of a simulation could not be started: {error}"),
            }
        });
        // The destructors of its thread-locals have run. If one has panicked, so does this thread.
        if let Err(payload) = joined {
            panic::resume_unwind(payload);
        }
        drop(limit);
        let outcome = desk.take_outcome().expect("a thread that has not panicked delivers it");
        let Outcome { failure, trace_hash, elapsed, steps, mut record, notes } = outcome;
        let value = lock(&place).take();
        let result = match (failure, value) {
            (None, Some(value)) => Ok(value),
            (Some(failure), value) => {
                task::drop_quietly(value);
                Err(failure)
            }
            (None, None) => unreachable!("a run without a value has failed"),
        };
        let trace = mem::take(&mut record.trace);
        let recorder = desk.pool.get().and_then(|pool| pool.recorder.clone()).map(Recorder::new);
        let whole_recorder = OnceLock::new();
        let mut report = Report {
            result,
            seed,
            trace_hash,
            elapsed,
            steps,
            trace,
            notes,
            record,
            recorder,
            whole_recorder,
            page: None,
        };
        if let Some(path) = &self.record_on_failure
            && report.result.is_err()
        {
            report.page = report.recorder().map(|recorder| recorder.write_to(path));
        }
        report
    }
}

/// A simulation with the seed 0. It is for [`explore`](Simulation::explore) and
/// [`test`](Simulation::test), which have seeds of their own.
impl Default for Simulation {
    fn default() -> Simulation {
        Simulation::new(0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time of day at which a simulation begins, as the time since the epoch. All of a
/// process begin at the same time, so that a run that is repeated writes the same times to files.
fn wall_start() -> Duration {
    static FIRST: OnceLock<Duration> = OnceLock::new();
    match clock::std_wall_clock() {
        // std's clock has been replaced, and shows the same in every process.
        simulated::BEGIN => simulated::BEGIN,
        shown => *FIRST.get_or_init(|| shown),
    }
}

/// The main function of a simulation's thread.
fn simulate<T>(
    simulation: &Simulation,
    desk: Arc<Desk>,
    at: &'static Location<'static>,
    f: impl FnOnce() -> T,
) -> Option<T> {
    let Simulation { seed, plan, link, faults, limits, is_quiet, .. } = simulation;
    desk.thread.begin();
    // The numbers of the generators that a seed has.
    let [choices, world, own, program, system] =
        [0, 1, 2, 3, 4].map(|number| Generator::new(*seed, number));
    let simulated = Simulated::new(clock::real_now());
    simulated.seed_entropy({ system }.any());
    let _entered = simulated.enter();
    let _marked = park::enter_simulation();
    // The same in each run if std's clock has been replaced. Otherwise it is the machine's time.
    simulated.begin_at(clock::std_now(), wall_start());
    simulated::set_silent(*is_quiet);
    random::seed_thread({ own }.any());
    World::create(world);
    let pilot = Pilot::new(plan, { choices }.any()).recording_in(desk.words.turns());
    let settings = (plan.is_steady, faults.clone());
    let turns_from = plan.turns_from;
    let course = Course::begin(Arc::clone(&desk), *limits, program, pilot, settings, turns_from);
    course.world.impose(plan.drawn.as_deref(), plan.is_steady);
    course.world.set_disk_faults(faults.disk.clone());
    course.world.fail_operation(plan.fault);
    course.world.network(|network, _| {
        network.set_usual_link(link.settings.clone());
        network.set_faults(faults.network);
    });
    hosts::set_faults(&course, HostId::ROOT, ROOT_NAME);
    let guide = Box::new(Guide { course: course.clone() });
    let begun = |pool: &Arc<_>| {
        let _ = desk.pool.set(Arc::clone(pool));
    };
    let root = || {
        let _hosts = EndOfHosts(&course);
        // The place of a panic is known only in the task that panics.
        let result = panic::catch_unwind(AssertUnwindSafe(f));
        result.unwrap_or_else(|payload| panic::resume_unwind(task::located(payload)))
    };
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        runtime::run_simulated(at, (simulation.stack_size, simulation.record), guide, begun, root)
    }));
    let (value, failure) = match result {
        Ok(value) => (Some(value), None),
        Err(payload) => {
            let (payload, thrown) = task::split(payload);
            let thrown = thrown.filter(|_| !task::is_passed_on(&*payload));
            let origin = thrown.map(|thrown| thrown.to_string());
            (None, Some(Failure::Panicked(PanicPayload::thrown(payload, origin))))
        }
    };
    let kept = if desk.has_failed() {
        // It comes from a run that was cancelled.
        task::drop_quietly(value);
        None
    } else {
        value
    };
    course.finish(failure);
    kept
}

/// Cancels the tasks of all hosts when the program ends.
struct EndOfHosts<'a>(&'a Course);

impl Drop for EndOfHosts<'_> {
    fn drop(&mut self) {
        self.0.hosts.end();
    }
}
