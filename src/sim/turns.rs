//! The turns of a failed run, as messages list them.
//!
//! They are recorded when the run is repeated for its message, so no other run pays for them.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::pilot::{Plan, Record};
use super::strategy::Strategy;
use super::trace::{Step, Trace};
use crate::diag::called_at;

/// The most turns that a message lists.
const MOST: u64 = 30;

/// A turn of a task.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The virtual time.
    pub(super) at: Duration,
    pub(super) step: Step,
    /// What the task did at the end.
    pub(super) does: String,
    /// Where the task was preempted, or the last place where it waited for I/O.
    pub(super) place: Option<Arc<Backtrace>>,
}

/// Returns the plan that repeats a trace and records its last turns.
pub(super) fn recorded(trace: &Trace) -> Plan {
    let turns_from = Some(trace.steps.len().saturating_sub(MOST));
    Plan { turns_from, ..Plan::of(Strategy::Replay(trace.clone())).with_marks() }
}

/// The turns of a run, as messages show them: after a line break. They are left out if the run is
/// long and has a timeline.
pub(super) struct Turns<'r>(pub(super) &'r Record);

impl fmt::Display for Turns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turns(record) = *self;
        let (all, turns) = (record.trace.steps.len(), &record.turns);
        let has_timeline = record.history.as_ref().is_some_and(|it| it.events.len() > 1);
        if turns.is_empty() || (has_timeline && all > MOST) {
            return Ok(());
        }
        match all.saturating_sub(turns.len() as u64) {
            0 => f.write_str("\nturns, and how each ended")?,
            before => {
                write!(f, "\nthe last {MOST} turns, after {before} others, and how each ended")?;
            }
        }
        match record.preemptions {
            0 => f.write_str(":")?,
            1 => f.write_str(" (another task went first at one place):")?,
            places => write!(f, " (another task went first at {places} places):")?,
        }
        let tasks: Vec<String> = turns.iter().map(|turn| self.task(turn.step.task)).collect();
        let times: Vec<String> = turns.iter().map(|turn| format!("{:?}", turn.at)).collect();
        let wide = |texts: &[String]| texts.iter().map(|it| it.chars().count()).max().unwrap_or(0);
        let (time, task) = (wide(&times), wide(&tasks));
        for (place, turn) in turns.iter().enumerate() {
            let next = turns.get(place + 1).map(|next| next.step.task);
            if turn.step.cut && next == Some(turn.step.task) {
                // The task just went on.
                continue;
            }
            write!(f, "\n{:<time$}  {:<task$}  {}", times[place], tasks[place], turn.text())?;
        }
        Ok(())
    }
}

impl Turns<'_> {
    fn task(&self, ordinal: u64) -> String {
        match self.0.tasks.name_of(ordinal) {
            Some(name) => format!("#{ordinal} '{}'", name.escape_debug()),
            None if ordinal == 0 => String::from("#0 root"),
            None => format!("#{ordinal}"),
        }
    }
}

impl Turn {
    /// Says how the turn ended.
    fn text(&self) -> String {
        let call = self.place.as_ref().and_then(|place| called_at(place));
        if self.step.cut {
            return match call {
                Some((Some(call), place)) => {
                    format!("is preempted before `{call}`, at {place}")
                }
                Some((None, place)) => format!("is preempted at {place}"),
                None => String::from("is preempted before its next call of ecru"),
            };
        }
        match call {
            // Its wait has no place of its own.
            Some((_, place)) if !self.does.contains(", at ") => {
                format!("{}, at {place}", self.does)
            }
            _ => self.does.clone(),
        }
    }
}
