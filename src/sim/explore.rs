//! The door to explorations.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::path::PathBuf;

use super::command::command;
use super::drawn::Faults;
use super::failure::{BelowReport, Failure};
use super::legend::legend;
use super::pages;
use super::pilot::{Plan, Record};
use super::program::{Outcome, Program};
use super::search::{Caught, Explore, Explored, How, search};
use super::simulation::Simulation;
use super::timeline::{LastEvents, Timeline};
use super::trace::{self, Trace, WHOLE};
use super::turns::Turns;
use crate::scope::PanicPayload;

/// A failed run, found by [`explore`].
///
/// Its text says what a person needs to repair the program and to repeat the run. A long trace is
/// abbreviated in it. `{:#}` prints the whole trace and, if the run has panicked, what the other
/// tasks waited for at that moment. So does `{}` if the environment variable `ECRU_SIM_TRACE` is
/// `whole`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The seed of the run.
    pub seed: u64,
    /// What failed.
    pub failure: Failure,
    /// The schedule of the run, made as simple as possible.
    pub trace: Trace,
    how: How,
    /// Where the page of the recorder is, as the end of a sentence.
    page: Option<String>,
}

impl Found {
    pub(super) fn new<F>(caught: Caught<Failure>, program: &Simulated<F>) -> Found {
        let Caught { seed, failure, how } = caught;
        let page = program.page.borrow().clone();
        Found { seed, failure, trace: how.best.trace.clone(), how, page }
    }

    /// Returns what has happened to the hosts of the run, in the order of virtual time.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.how.best.timeline()
    }
}

/// Its text, for a message that stands below what the runs have reported.
pub(super) struct BelowReports<'a>(pub(super) &'a Found);

impl fmt::Display for BelowReports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { failure, how, .. } = self.0;
        let reported = how.original.reported.as_deref();
        self.0.write(f, &BelowReport { failure, reported })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &self.failure)
    }
}

impl Found {
    /// Writes the text, with these words for the failure.
    fn write(&self, f: &mut fmt::Formatter<'_>, failure: &dyn fmt::Display) -> fmt::Result {
        let how = &self.how;
        let seed = self.seed;
        write!(f, "the run with seed {seed} failed, after {:?} of virtual time", how.elapsed)?;
        // The seeds of most searches begin with 0, and say it.
        if how.runs > 1 && how.runs - 1 != seed {
            write!(f, " (it was run {} of the search)", how.runs)?;
        }
        f.write_str("\n")?;
        let says_failure = !matches!(self.failure, Failure::NotDeterministic);
        if let Some(unstable) = &how.unstable {
            write!(f, "{unstable}{}", legend(&how.best, unstable.tasks()))?;
            f.write_str(if says_failure { "\n" } else { "" })?;
        }
        if let Some(kept) = &how.kept {
            writeln!(f, "{kept}")?;
        }
        if let Some(place) = how.best.trace.cancel {
            match how.best.cancelled {
                Some(task) => writeln!(f, "task #{task} was cancelled at place {place}")?,
                None => writeln!(f, "a task was to be cancelled at place {place}")?,
            }
        }
        if let Some(number) = how.best.trace.fault {
            match how.best.struck {
                Some(trouble) => {
                    writeln!(f, "I/O operation {number} failed with {}", trouble.name())?;
                }
                None => writeln!(f, "I/O operation {number} was to fail")?,
            }
        }
        let is_whole = f.alternate() || trace::is_wanted_whole();
        if says_failure {
            write!(f, "{failure}")?;
            let waiting = how.best.waiting.as_ref().or(how.original.waiting.as_ref());
            if let Some(waiting) = waiting.filter(|it| is_whole && it.is_of(&self.failure)) {
                write!(f, "{waiting}")?;
            }
        }
        if let Some(last_turn) = &how.best.last_turn {
            write!(f, "\n{last_turn}")?;
        }
        let record = &how.best;
        write!(f, "{}{}", Faults(record), LastEvents(record))?;
        if let Some(page) = &self.page {
            write!(f, "\nthe {page}")?;
        }
        write!(f, "{}", Turns(record))?;
        let tasks = self.trace.steps.iter().map(|step| step.task).chain(self.failure.task());
        write!(f, "{}", legend(record, tasks.collect::<Vec<_>>()))?;
        let (turns, before) = (record.trace.len(), how.original.trace.len());
        write!(f, "\nto repeat it, with the same settings ({turns} turns")?;
        if turns < before {
            write!(f, ", shortened from {before}")?;
        }
        let (trace, rest) = abbreviated(self.trace.to_string(), is_whole);
        write!(
            f,
            "):\nSimulation::new({seed}).strategy(Strategy::Replay(\"{trace}\".parse().unwrap())).run(program){rest}"
        )
    }
}

/// The most bytes of a trace that a message has, and those of its end that are among them.
const LONGEST: usize = 1_000;
const END: usize = 200;

/// Leaves out the middle of a long trace, which is ASCII. Returns a line that says how to get it.
fn abbreviated(trace: String, is_whole: bool) -> (String, String) {
    if is_whole || trace.len() <= LONGEST {
        return (trace, String::new());
    }
    // Whole words are left out.
    let head = &trace[..LONGEST - END];
    let head = &head[..head.rfind(' ').unwrap_or(head.len())];
    let tail = &trace[trace.len() - END..];
    let tail = &tail[tail.find(' ').map_or(0, |space| space + 1)..];
    let left_out = trace.len() - head.len() - tail.len();
    let rest = format!(
        "\n({left_out} of {} bytes of the trace are left out: set {WHOLE}=whole to see all of it, print the `Found` \
         by `{{:#}}`, or take its field `trace`)",
        trace.len()
    );
    (format!("{head} .. {tail}"), rest)
}

impl std::error::Error for Found {}

/// Runs `f` again and again in simulations with other schedules, until a run fails or the plan is
/// at its end.
///
/// A run that fails is repeated first, which shows whether the program is deterministic. So is one
/// in sixteen runs that do not fail. If it is another run then, the exploration fails with
/// [`Failure::NotDeterministic`]. The runs differ if their tasks take other turns, or if other bytes
/// are sent or written. After a failure, the first of all runs is repeated again, which shows
/// whether the program keeps something between runs. Then
/// the trace of the failure is made simpler: runs with fewer drawn faults, fewer preemptions and
/// fewer turns are tried, and the simplest one that fails in the same way is returned. This ends
/// after 500 runs, or a million decision points.
///
/// The runs have no [`Faults`](super::Faults). [`Simulation::explore`] has settings for the
/// network, the faults and the limits.
///
/// While a run is repeated, the messages of panics are not printed.
///
/// With `ECRU_SIM_PAGES=folder` in the environment, a run that fails writes the page of its
/// [recorder](Simulation::record_on_failure) into that folder.
///
/// # Errors
/// Returns the first failure, with a trace that repeats it.
///
/// # Panics
/// Panics inside a task, as [`Simulation::run`] does.
///
/// # Examples
/// Two tasks read a number and write the next one. Between the two acts, another task may run:
/// ```
/// use ecru::sim::{Explore, explore};
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// let found = explore(Explore::Exhaustive { max_runs: 1_000 }, || {
///     let number = AtomicU32::new(0);
///     let add = || {
///         let read = number.load(Relaxed);
///         ecru::sim::point();
///         number.store(read + 1, Relaxed);
///     };
///     ecru::scope(|s| {
///         s.spawn(add);
///         s.spawn(add);
///     });
///     assert_eq!(number.into_inner(), 2);
/// });
/// let found = found.unwrap_err();
/// println!("{found}");
/// ```
#[track_caller]
pub fn explore(plan: Explore, f: impl Fn() + Send + Sync) -> Result<Explored, Box<Found>> {
    Simulation::default().explore(plan, f)
}

impl Simulation {
    /// Explores `f` as [`explore`] does, in simulations with the network, the faults and the limits
    /// of this one. The plan decides the seed and the strategy of each run, so those of this
    /// simulation are not used.
    ///
    /// # Errors
    /// Returns the first failure, with a trace that repeats it. Faults that the failure does not
    /// need have been taken away, and the text lists the others.
    ///
    /// # Panics
    /// Panics inside a task, as [`Simulation::run`] does.
    ///
    /// # Examples
    /// A program that forgets that a write may fail:
    /// ```
    /// use ecru::sim::{Explore, Faults, Simulation, Strategy};
    ///
    /// let plan = Explore::Seeds { seeds: 0..1_000, strategy: Strategy::Random };
    /// let found = Simulation::default().faults(Faults::default().disk_errors(0.01)).explore(plan, || {
    ///     for _ in 0..10 {
    ///         ecru::fs::write("file", "text").unwrap();
    ///     }
    /// });
    /// let text = found.unwrap_err().to_string();
    /// assert!(text.contains(" of a file of the root host failed with EIO"), "{text}");
    /// ```
    #[track_caller]
    pub fn explore(
        self,
        plan: Explore,
        f: impl Fn() + Send + Sync,
    ) -> Result<Explored, Box<Found>> {
        let program = Simulated::with(self, f);
        search(plan, &program).map_err(|caught| Box::new(Found::new(*caught, &program)))
    }
}

/// A closure as a program of simulations.
pub(super) struct Simulated<F> {
    f: F,
    settings: Simulation,
    /// Where the exploration was called.
    at: &'static Location<'static>,
    is_quiet: Cell<bool>,
    /// A seed in the environment repeats a run.
    is_of_test: bool,
    /// The folder for pages, if the environment names it and the settings name no file.
    pages: Option<PathBuf>,
    /// Where the last page that was written is, as the end of a sentence.
    page: RefCell<Option<String>>,
}

impl<F: Fn() + Send + Sync> Simulated<F> {
    #[track_caller]
    pub(super) fn new(f: F) -> Simulated<F> {
        Simulated::with(Simulation::default(), f)
    }

    #[track_caller]
    pub(super) fn with(mut settings: Simulation, f: F) -> Simulated<F> {
        let (at, is_quiet) = (Location::caller(), Cell::new(false));
        let pages = if settings.page().is_none() { pages::folder() } else { None };
        if pages.is_some() {
            settings = settings.record_at_least();
        }
        Simulated { f, settings, at, is_quiet, is_of_test: false, pages, page: RefCell::default() }
    }
}

impl<F> Simulated<F> {
    /// Returns the file for the page of a run with this seed, if it fails. Of the runs that make a
    /// trace simpler only the last one needs a page. That one also records its turns.
    fn page_of(&self, seed: u64, plan: &Plan) -> Option<PathBuf> {
        if self.is_quiet.get() && plan.turns_from.is_none() {
            return None;
        }
        let in_folder = self.pages.as_deref().map(|folder| pages::file(folder, self.at, seed));
        in_folder.or_else(|| self.settings.page().map(PathBuf::from))
    }

    /// Lets a run that ends with its process name the command that repeats it.
    pub(super) fn of_a_test(self) -> Simulated<F> {
        Simulated { is_of_test: true, ..self }
    }
}

impl<F: Fn() + Send + Sync> Program for Simulated<F> {
    type Failure = Failure;

    fn run(&self, seed: u64, plan: &Plan) -> Outcome<Failure> {
        let f = &self.f;
        let settings = self.settings.clone().seeded(seed).with_page(self.page_of(seed, plan));
        let command = self.is_of_test.then(|| command(seed));
        let simulation = settings.planned(plan.clone(), self.at, self.is_quiet.get(), command);
        let report = simulation.run(f);
        if report.page.is_some() {
            self.page.replace(report.page);
        }
        let record = Record { trace: report.trace, ..report.record };
        Outcome {
            failure: report.result.err(),
            record,
            hash: report.trace_hash,
            elapsed: report.elapsed,
        }
    }

    fn is_same(&self, one: &Failure, other: &Failure) -> bool {
        match (one, other) {
            (Failure::Panicked(one), Failure::Panicked(other)) => {
                match (place_of(one), place_of(other)) {
                    (Some(one), Some(other)) => one == other,
                    _ => is_same_message(one.message(), other.message()),
                }
            }
            (Failure::Invariant { name: one }, Failure::Invariant { name: other }) => one == other,
            (Failure::Deadlock(_), Failure::Deadlock(_))
            | (Failure::Foreign { .. }, Failure::Foreign { .. })
            | (Failure::Stuck { .. }, Failure::Stuck { .. })
            | (Failure::OutlivesCrash { .. }, Failure::OutlivesCrash { .. })
            | (Failure::OutOfSteps(_), Failure::OutOfSteps(_))
            | (Failure::OutOfTime(_), Failure::OutOfTime(_)) => true,
            _ => false,
        }
    }

    fn not_deterministic(&self) -> Failure {
        Failure::NotDeterministic
    }

    fn be_quiet(&self, is_quiet: bool) {
        self.is_quiet.set(is_quiet);
    }
}

/// Returns the place where a panic was thrown, if it is known.
fn place_of(panic: &PanicPayload) -> Option<&str> {
    let (place, _) = panic.origin()?.strip_prefix("at ")?.split_once(", ")?;
    Some(place)
}

/// Compares two messages but for the numbers in them.
fn is_same_message(one: Option<&str>, other: Option<&str>) -> bool {
    let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    one.map(without_numbers) == other.map(without_numbers)
}
