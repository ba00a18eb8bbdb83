//! How a run differs from the one that it was to repeat.

use std::fmt;

use super::Record;
use crate::sim::trace::Step;

/// The first difference between a run and the one that it was to repeat.
///
/// Its text names the turn and the task.
///
/// # Examples
/// ```
/// use ecru::sim::{Failure, Simulation, Strategy};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// // This program is not deterministic: a second run does something else.
/// let again = AtomicBool::new(false);
/// let program = || {
///     ecru::scope(|s| {
///         s.spawn(|| {
///             if again.swap(true, Ordering::Relaxed) {
///                 let _ = ecru::yield_now();
///             }
///         });
///         let _ = ecru::yield_now();
///     });
/// };
/// let trace = Simulation::new(1).run(program).trace;
/// let report = Simulation::new(1).strategy(Strategy::Replay(trace)).run(program);
/// let Err(Failure::Diverged(divergence)) = report.result else { panic!("it was the same") };
/// println!("{divergence}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The turn, counted from 1.
    pub(super) step: u64,
    pub(super) what: Difference,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The task was to run and could not.
    NotReady { wanted: Step, ready: Vec<u64> },
    /// The task did something else in its turn.
    Other { wanted: Step, ran: Step },
    /// The run ended before this turn.
    Ended { wanted: Step },
    /// The runs took the same turns, but the hash differs after this turn.
    Hash { task: u64 },
    /// There were fewer tasks to choose from.
    Fewer { ready: usize },
}

impl Divergence {
    /// Compares the hashes that two runs had after each step. `None` if they are the same.
    pub(in crate::sim) fn between(one: &Record, other: &Record) -> Option<Divergence> {
        let both = one.marks.iter().zip(&other.marks);
        let step = both.take_while(|(one, other)| one == other).count();
        let (wanted, ran) = (one.trace.steps.iter().nth(step), other.trace.steps.iter().nth(step));
        let what = match (wanted, ran) {
            (None, None) => return None,
            (Some(wanted), Some(ran)) if wanted != ran => Difference::Other { wanted, ran },
            (Some(_), Some(ran)) if step < one.marks.len() && step < other.marks.len() => {
                Difference::Hash { task: ran.task }
            }
            (Some(_), Some(_)) => return None,
            (Some(wanted), None) => Difference::Ended { wanted },
            (None, Some(ran)) => Difference::Hash { task: ran.task },
        };
        Some(Divergence { step: step as u64 + 1, what })
    }

    /// Returns the tasks that the text names.
    pub(in crate::sim) fn tasks(&self) -> Vec<u64> {
        match &self.what {
            Difference::NotReady { wanted, ready } => [&[wanted.task], &ready[..]].concat(),
            Difference::Other { wanted, ran } => vec![wanted.task, ran.task],
            Difference::Ended { wanted } => vec![wanted.task],
            Difference::Hash { task } => vec![*task],
            Difference::Fewer { .. } => vec![],
        }
    }

    pub(in crate::sim) fn fewer(step: u64, ready: usize) -> Divergence {
        Divergence { step, what: Difference::Fewer { ready } }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run diverged at turn {}: ", self.step)?;
        match &self.what {
            Difference::NotReady { wanted, ready } => {
                write!(
                    f,
                    "task #{} ran in the recorded run, and cannot run now (ready: ",
                    wanted.task
                )?;
                for (place, task) in ready.iter().enumerate() {
                    write!(f, "{}#{task}", if place == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Difference::Other { wanted, ran } if wanted.task != ran.task => {
                write!(
                    f,
                    "task #{} ran in the recorded run, and task #{} ran now",
                    wanted.task, ran.task
                )
            }
            Difference::Other { wanted, ran } => {
                write!(f, "task #{} ", wanted.task)?;
                say_turn(f, *wanted)?;
                f.write_str(" in the recorded run, and now ")?;
                say_turn(f, *ran)
            }
            Difference::Ended { wanted } => {
                write!(f, "task #{} ran in the recorded run, and the run is over now", wanted.task)
            }
            Difference::Hash { task } => {
                write!(
                    f,
                    "task #{task} ran, and after it the virtual time or the outcome of an I/O operation was another one"
                )
            }
            Difference::Fewer { ready } => {
                write!(f, "only {ready} tasks could run, fewer than before")
            }
        }
    }
}

fn say_turn(f: &mut fmt::Formatter<'_>, step: Step) -> fmt::Result {
    let stop = if step.cut { "was preempted" } else { "waited, yielded or ended" };
    write!(f, "{stop} after {} decision points", step.passed)
}
