//! What a simulation has found.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::drawn::Faults;
use super::failure::{BelowReport, Failure};
use super::legend::legend;
use super::notes::Note;
use super::pilot::Record;
use super::timeline::{LastEvents, Timeline};
use super::trace::{self, Trace};
use super::turns::TracedTurns;
use crate::diag::Recorder;

/// The result of a [`Simulation`](super::Simulation).
///
/// The same program with the same seed gives the same `trace_hash`, `elapsed` and `steps` each
/// time. If it does not, the program depends on something that the simulation does not control,
/// such as the time of the machine, a thread, or the random order of a `HashMap`.
///
/// # Examples
/// ```
/// use ecru::sim::Simulation;
/// use std::time::Duration;
///
/// let run = || Simulation::new(7).run(|| ecru::sleep(Duration::from_secs(60)));
/// let (first, second) = (run(), run());
/// assert_eq!(first.elapsed, Duration::from_secs(60));
/// assert_eq!(first.trace_hash, second.trace_hash);
/// assert_eq!(first.result.unwrap(), Ok(()));
/// ```
#[derive(Debug)]
pub struct Report<T> {
    /// What the closure returned, or why the run failed.
    pub result: Result<T, Failure>,
    /// The seed.
    pub seed: u64,
    /// A number that differs if anything in the course of the run differs.
    pub trace_hash: u64,
    /// The virtual time that has passed.
    pub elapsed: Duration,
    /// How often a task was chosen to run.
    pub steps: u64,
    /// Which task ran in each step.
    pub trace: Trace,
    /// What the program has [noted](super::note), in the order in which it did.
    pub notes: Vec<Note>,
    /// The rest of what was recorded.
    pub(super) record: Record,
    pub(super) recorder: Option<Recorder>,
    /// The recorder with the timeline, which most reports do not need.
    pub(super) whole_recorder: OnceLock<Recorder>,
    /// Where the page of the recorder is, as the end of a sentence.
    pub(super) page: Option<String>,
}

impl<T> Report<T> {
    /// Returns what has happened to the hosts of the run, in the order of virtual time.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.record.timeline()
    }

    /// Returns the flight recorder of the run, if the simulation has [one](super::Simulation::record).
    /// Its page also draws the [timeline](Report::timeline).
    #[must_use]
    pub fn recorder(&self) -> Option<&Recorder> {
        let recorder = self.recorder.as_ref()?;
        let with_hosts = || recorder.clone().with_hosts(self.record.host_events());
        Some(self.whole_recorder.get_or_init(with_hosts))
    }

    /// Returns what the closure returned.
    ///
    /// # Panics
    /// Panics with the text of this report if the run failed. If the run itself panicked, the panic
    /// hook has reported that before, and the text has only the first line of its message.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::Simulation;
    ///
    /// assert_eq!(Simulation::new(1).run(|| 6 * 7).unwrap(), 42);
    /// ```
    #[track_caller]
    pub fn unwrap(self) -> T {
        if let Err(failure) = &self.result {
            let reported = self.record.reported.as_deref();
            panic!("{}", Text { report: &self, failure: &BelowReport { failure, reported } });
        }
        match self.result {
            Ok(value) => value,
            Err(_) => unreachable!("looked at above"),
        }
    }
}

/// The text of a report, with these words for its failure.
struct Text<'a, T> {
    report: &'a Report<T>,
    failure: &'a dyn fmt::Display,
}

/// Describes the run in one line, and its failure, the faults that it has drawn, its last events
/// and its last turns in the lines after that. If the run has panicked, `{:#}` also prints what the
/// other tasks waited for at that moment. So does `{}` if the environment variable `ECRU_SIM_TRACE`
/// is `whole`.
impl<T> fmt::Display for Report<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            Ok(_) => {
                let Report { seed, elapsed, steps, .. } = self;
                write!(f, "the simulation with seed {seed} ")?;
                write!(f, "ended after {elapsed:?} of virtual time and {steps} steps")
            }
            Err(failure) => Text { report: self, failure }.fmt(f),
        }
    }
}

impl<T> fmt::Display for Text<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Text { report, failure } = self;
        let Report { seed, elapsed, steps, record, .. } = report;
        write!(
            f,
            "the simulation with seed {seed} failed after {elapsed:?} of virtual time and {steps} steps: {failure}"
        )?;
        let waiting = record.waiting.as_ref().zip(report.result.as_ref().err());
        if let Some((waiting, failure)) = waiting
            && (f.alternate() || trace::is_wanted_whole())
            && waiting.is_of(failure)
        {
            write!(f, "{waiting}")?;
        }
        if let Some(last_turn) = &record.last_turn {
            write!(f, "\n{last_turn}")?;
        }
        if let Err(Failure::Diverged(divergence)) = &report.result {
            write!(f, "{}", legend(record, divergence.tasks()))?;
        }
        write!(f, "{}{}", Faults(record), LastEvents(record))?;
        if let Some(page) = &report.page {
            write!(f, "\nthe {page}")?;
        }
        write!(f, "{}", TracedTurns(record, &report.trace))
    }
}
