//! Why a simulation failed.

use std::{error, fmt};

use super::pilot::Divergence;
use crate::diag::TaskTree;
use crate::scope::PanicPayload;

/// Why a simulation failed. Its `Display` says what a person needs to repair the program.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// Every task waited, and time had nothing more to bring. The tree says what each task waited
    /// for, and names the holders of locks.
    ///
    /// Before that, the run has looked for 20 milliseconds for a thread outside of it that ends a
    /// wait, which would be [`Foreign`](Failure::Foreign). If a task has started a thread of its own
    /// without a name, the run looks until that thread has ended, for about half a second. A thread
    /// that comes later is taken for none.
    Deadlock(TaskTree),
    /// The program panicked. The text also names the place of the panic and its task. The report, or
    /// what was [found](super::Found), says by `{:#}` what the other tasks waited for at that moment.
    Panicked(PanicPayload),
    /// An [`invariant`](super::invariant) did not hold after a step.
    Invariant {
        /// The name of the invariant.
        name: String,
    },
    /// A thread that does not belong to the simulation ended a wait in it, cancelled one of its
    /// tasks, or spawned a task into it. When that happens is not determined by the seed. With the
    /// crate `ecru-sim-libc`, also a task that starts a thread or a process, or uses a file or a
    /// socket of the machine.
    Foreign {
        /// What was done, and by which thread.
        call: String,
    },
    /// A task kept the thread for too long without a wait of this library. It waits in a call of
    /// another library, for instance for a `std::sync::Mutex` that another task holds across a
    /// wait, or it does not stop computing. If it never gives the thread back, the process is
    /// aborted.
    Stuck {
        /// The task that had the thread.
        task: String,
        /// The tasks that were inside a wait of this library, of which one may hold what the task
        /// waited for, with the places of their waits. They are known with the crate
        /// `ecru-sim-libc`, if the task waited for a lock, a condition variable or a thread of `std`
        /// or of another crate. Otherwise there are none.
        holders: Vec<String>,
    },
    /// A task of a host that has crashed took more than 10,000 steps, and has not ended. Its waits
    /// fail with [`Cancelled`](crate::Cancelled), so it may be a loop that ignores errors.
    OutlivesCrash {
        /// The name of the host.
        host: String,
        /// The task.
        task: String,
    },
    /// The run was to repeat another one, by [`Strategy::Replay`](super::Strategy::Replay), and did
    /// something else. The program is not the same, or it is not deterministic.
    Diverged(Divergence),
    /// The run did not fail, and a second run with its seed and its trace was another one. What the
    /// program does depends on something that the seed does not decide.
    NotDeterministic,
    /// The run took more than [`max_steps`](super::Simulation::max_steps).
    OutOfSteps(TaskTree),
    /// The run was not over after [`max_time`](super::Simulation::max_time).
    OutOfTime(TaskTree),
}

/// How many turns a task may take after its host has crashed.
pub(super) const LAST_STEPS: u32 = 10_000;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Deadlock(tree) => {
                write!(
                    f,
                    "deadlock: each task waits, no timer is set, and nothing is under way that could end a wait, unless a \
                     thread outside of the simulation is slow\n{tree}"
                )
            }
            Failure::Panicked(payload) => {
                match payload.message() {
                    Some(message) => write!(f, "panicked: {message}")?,
                    None => f.write_str("panicked with a payload that is not a string")?,
                }
                payload.origin().map_or(Ok(()), |origin| write!(f, "\nthrown {origin}"))
            }
            Failure::Invariant { name } => write!(f, "the invariant '{name}' does not hold"),
            Failure::Foreign { call } => write!(
                f,
                "{call}; a simulation is deterministic only if nothing from outside of it takes part: use ecru's call of the \
                 same name, and in place of a thread a task or `ecru::unblock`"
            ),
            Failure::Stuck { task, holders } if holders.is_empty() => write!(
                f,
                "stuck: {task} kept the thread and made no call of ecru that waits; it may hold or wait for a lock of std \
                 across a wait, wait for a thread or a channel of std, or loop"
            ),
            Failure::Stuck { task, holders } => {
                write!(
                    f,
                    "stuck: {task} waits for a lock, a condition variable or a thread that is not ecru's, and keeps the thread; \
                     a task that holds a lock of std across a wait of ecru cannot go on: use ecru's lock of the same name. "
                )?;
                match &holders[..] {
                    [holder] => write!(f, "It may be held by {holder}"),
                    holders => {
                        f.write_str("It may be held by one of these:")?;
                        holders.iter().try_for_each(|holder| write!(f, "\n  {holder}"))
                    }
                }
            }
            Failure::OutlivesCrash { host, task } => write!(
                f,
                "{task} has not ended {} steps after the crash of its host '{host}'; its waits fail with `Cancelled`: let it \
                 return when a wait fails",
                LAST_STEPS
            ),
            Failure::Diverged(divergence) => write!(
                f,
                "{divergence}; the program has changed since the trace was recorded, or depends on something that is not \
                 simulated: record a new trace"
            ),
            Failure::NotDeterministic => f.write_str(
                "the program is not deterministic: a second run with the same seed and trace was another one",
            ),
            Failure::OutOfSteps(tree) => write!(
                f,
                "out of steps: the run is not over after `max_steps`; a task may loop for ever\n{tree}"
            ),
            Failure::OutOfTime(tree) => write!(
                f,
                "out of time: the run is not over after `max_time`, and something is due only later\n{tree}"
            ),
        }
    }
}

impl error::Error for Failure {}

/// A failure in a message that stands below the report of a panic, which the panic hook has
/// printed. If it is that panic, its message is not repeated.
pub(super) struct BelowReport<'a> {
    pub(super) failure: &'a Failure,
    /// The message in that report, if there is one.
    pub(super) reported: Option<&'a str>,
}

impl fmt::Display for BelowReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BelowReport { failure, reported } = *self;
        let Failure::Panicked(payload) = failure else { return write!(f, "{failure}") };
        // Another run may have failed at the same place with other values.
        let Some(message) = payload.message().filter(|message| reported == Some(*message)) else {
            return write!(f, "{failure}");
        };
        f.write_str("panicked")?;
        if let Some(origin) = payload.origin() {
            write!(f, " {origin}")?;
        }
        let first = message.lines().next().unwrap_or_default();
        f.write_str(if first.is_empty() { "" } else { ": " })?;
        f.write_str(first)?;
        let dots = if message.trim_end() == first { "" } else { " .." };
        write!(f, "{dots} (reported above)")
    }
}

impl Failure {
    /// Returns the number of the task that has panicked, if it is known.
    pub(super) fn task(&self) -> Option<u64> {
        let Failure::Panicked(payload) = self else { return None };
        let (_, rest) = payload.origin()?.split_once("task #")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BelowReport, Failure};
    use crate::scope::PanicPayload;

    fn below(message: &'static str, origin: Option<&str>, reported: Option<&str>) -> String {
        let payload = PanicPayload::thrown(Box::new(message), origin.map(String::from));
        BelowReport { failure: &Failure::Panicked(payload), reported }.to_string()
    }

    #[test]
    fn a_message_that_was_reported_is_not_repeated() {
        let text = "assertion `left == right` failed\n  left: 1\n right: 2";
        assert_eq!(
            below(text, Some("at a.rs:1:2, in task #3"), Some(text)),
            "panicked at a.rs:1:2, in task #3: assertion `left == right` failed .. (reported above)"
        );
        assert_eq!(below("short\n", None, Some("short\n")), "panicked: short (reported above)");
        assert_eq!(below("", None, Some("")), "panicked (reported above)");
    }

    #[test]
    fn a_message_that_was_not_reported_is_whole() {
        let whole = "panicked: one\ntwo\nthrown in task #3";
        let origin = Some("in task #3");
        assert_eq!(below("one\ntwo", origin, None), whole);
        assert_eq!(below("one\ntwo", origin, Some("one\nthree")), whole);
        let other = BelowReport { failure: &Failure::NotDeterministic, reported: Some("one") };
        assert_eq!(other.to_string(), Failure::NotDeterministic.to_string());
    }
}
