//! The turns of a failed run, as messages list them.
//!
//! They are recorded when the run is repeated for its message, so no other run pays for them.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::legend::legend;
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
                let last = turns.len();
                write!(f, "\nthe last {last} turns, after {before} others, and how each ended")?;
            }
        }
        match record.preemptions {
            0 => f.write_str(":")?,
            1 => f.write_str(" (another task went first at one place):")?,
            places => write!(f, " (another task went first at {places} places):")?,
        }
        let tasks: Vec<String> = turns.iter().map(|turn| record.task(turn.step.task)).collect();
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

/// The last turns of a run that was not repeated, as far as its trace tells them, and a legend of
/// their tasks: after a line break. They are left out if the run is long and has a timeline, and if
/// only the root has run.
pub(super) struct TracedTurns<'r>(pub(super) &'r Record, pub(super) &'r Trace);

impl fmt::Display for TracedTurns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TracedTurns(record, trace) = *self;
        let all = trace.steps.len();
        let before = all.saturating_sub(MOST);
        let steps: Vec<Step> = trace.steps.iter().skip(before as usize).collect();
        let has_timeline = record.history.as_ref().is_some_and(|it| it.events.len() > 1);
        if trace.steps.iter().all(|step| step.task == 0) || (has_timeline && before > 0) {
            return Ok(());
        }
        match before {
            0 => f.write_str("\nturns:")?,
            _ => write!(f, "\nthe last {MOST} turns, after {before} others:")?,
        }
        let tasks: Vec<String> = steps.iter().map(|step| record.task(step.task)).collect();
        let wide = tasks.iter().map(|task| task.chars().count()).max().unwrap_or(0);
        let mut passed = 0;
        for (place, step) in steps.iter().enumerate() {
            passed += u64::from(step.passed);
            if step.cut && steps.get(place + 1).is_some_and(|next| next.task == step.task) {
                // The task just went on.
                passed += 1;
                continue;
            }
            write!(f, "\n{:<wide$}  ", tasks[place])?;
            match passed {
                0 => {}
                1 => f.write_str("passes a decision point, and ")?,
                points => write!(f, "passes {points} decision points, and ")?,
            }
            f.write_str(if step.cut { "is preempted" } else { "waits, yields or ends" })?;
            passed = 0;
        }
        let tasks: Vec<u64> = steps.iter().map(|step| step.task).collect();
        write!(f, "{}", legend(record, tasks))
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
