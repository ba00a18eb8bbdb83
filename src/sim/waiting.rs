//! What the other tasks of a run waited for when a task panicked.
//!
//! They are looked at when the panic has come to the end of its task, or to a scope, before that
//! scope cancels its tasks. So the panicking code holds no lock, and the others are as they were. A
//! panic that the program handles is looked at, too, because only the end of the run tells.

use std::fmt;

use super::failure::Failure;
use crate::sched;
use crate::task::PASSED_ON;

/// The most tasks that are described.
const MOST: usize = 32;

/// What the other tasks waited for.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The number of the task that has panicked, and the text of its panic.
    task: u64,
    text: String,
    tasks: Vec<String>,
    more: usize,
}

impl Waiting {
    /// Looks at the other tasks, because the running one has panicked with this text. Does nothing
    /// if `known` is about the same panic, which has come to another scope, or if the panic is only
    /// that of a scope which passes another one on.
    pub(super) fn look(known: &mut Option<Waiting>, task: u64, text: Option<&str>) {
        let text = text.unwrap_or_default();
        let is_known = |known: &Waiting| known.task == task && known.text == text;
        if text.starts_with(PASSED_ON) || known.as_ref().is_some_and(is_known) {
            return;
        }
        let (tasks, more) = sched::waiting_tasks(MOST);
        *known = Some(Waiting { task, text: String::from(text), tasks, more });
    }

    /// Returns whether a run has failed by this panic.
    pub(super) fn is_of(&self, failure: &Failure) -> bool {
        let Failure::Panicked(payload) = failure else { return false };
        let message = payload.message().unwrap_or_default();
        message == self.text || message.starts_with(PASSED_ON) && message.ends_with(&self.text)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tasks.is_empty() {
            return f.write_str("\nwhen it panicked, no other task waited");
        }
        f.write_str("\nwhen it panicked, these tasks waited:")?;
        for task in &self.tasks {
            write!(f, "\n  {task}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
