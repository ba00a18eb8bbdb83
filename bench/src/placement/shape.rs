//! The shapes, as data. Every contender reads them, and the contender in Go gets them as words of
//! its command line.
//!
//! The operations of a shape are numbered from one. An operation's number is the initial state of
//! its computation.

use std::fmt;
use std::time::Duration;

use super::spin::{STEPS_PER_MICROSECOND, spin_all};
use super::words;

/// The number of tasks in a pool, for any number of workers.
pub(super) const POOL_TASKS: u64 = 8;
/// The capacity of a channel of a pool or a pipeline.
pub(super) const CAPACITY: usize = 16;
/// The time that the tasks of a pool wait for late work.
pub(super) const LATE: Duration = Duration::from_millis(10);
/// The number of jobs in a burst of trickling work.
pub(super) const BURST: u64 = 20;
/// The pause after each burst.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// The number of stages of a pipeline.
pub(super) const STAGES: u64 = 4;
/// The number of pairs. Each pair is a sender and a receiver.
pub(super) const PAIRS: u64 = 8;
/// The number of tasks with a mailbox. The first one is hot.
pub(super) const ACTORS: usize = 64;
/// The capacity of a mailbox.
pub(super) const MAILBOX: usize = 8;
/// The number of tasks that send to the actors.
pub(super) const SENDERS: u64 = 4;
/// The number of tasks in the outermost of nested scopes.
pub(super) const OUTER: u64 = 32;
/// The number of tasks in each innermost scope.
pub(super) const INNER: u64 = 4;
/// The time that a task of an innermost scope waits before it computes.
pub(super) const NAP: Duration = Duration::from_micros(200);
/// The time that the foreign code blocks its worker.
pub(super) const FOREIGN: Duration = Duration::from_millis(200);
/// The time that a task beside the foreign code waits before it computes.
pub(super) const BESIDE_NAP: Duration = Duration::from_millis(1);
/// The number of open connections of the accept loop.
pub(super) const CONNECTIONS: u64 = 1_000;
/// The number of these connections that send requests.
pub(super) const BUSY: u64 = 100;
/// The bytes of a request. The first eight are the operation's number.
pub(super) const REQUEST: usize = 64;

/// The times at which the jobs of a pool arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Directly after the tasks were spawned.
    Early,
    /// When all tasks have waited for [`LATE`].
    Late,
    /// In bursts.
    Trickling,
}

/// The task that spawns the tasks beside foreign code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spawner {
    /// The task that calls the foreign code next, so that the spawned tasks are behind it in the
    /// queue.
    Blocker,
    /// Another task. It yields once before it spawns, so that the foreign code runs, perhaps on its
    /// own worker.
    Other,
}

/// One kind of program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Tasks that take jobs from one channel.
    Pool { jobs: u64, steps: u64, arrival: Arrival },
    /// Items that pass through four tasks, each of which computes.
    Pipeline { items: u64, steps: u64 },
    /// Pairs of tasks that only communicate, by rendezvous.
    Pairs { messages: u64 },
    /// Connections, a tenth of which send requests. Each has a task.
    Accept { requests: u64, steps: u64 },
    /// The results of a function for each item of a list.
    Map { items: u64, steps: u64 },
    /// Tasks that open scopes, one after the other, with tasks that wait and compute.
    Nested { scopes: u64, steps: u64 },
    /// Tasks that end at once.
    Short { tasks: u64 },
    /// Tasks with mailboxes. Every fourth message goes to the first of them and takes ten times as
    /// long.
    Actors { messages: u64, steps: u64 },
    /// Tasks that wait and compute, while foreign code blocks a worker.
    Blocked { tasks: u64, steps: u64, spawner: Spawner },
    /// The words of a large file, counted by a pool on a channel.
    Words,
}

use Shape::{Accept, Actors, Blocked, Map, Nested, Pairs, Pipeline, Pool, Short, Words};

impl Shape {
    /// Returns the number by which the time is divided.
    pub(super) fn operations(self) -> u64 {
        match self {
            Pool { jobs, .. } => jobs,
            Pipeline { items, .. } | Map { items, .. } => items,
            Pairs { messages } => PAIRS * messages,
            Accept { requests, .. } => requests,
            Nested { scopes, .. } => OUTER * scopes * INNER,
            Short { tasks } | Blocked { tasks, .. } => tasks,
            Actors { messages, .. } => messages,
            Words => words::CHUNKS,
        }
    }

    /// Returns how many times a contender calls [`hit`](super::measure::hit).
    pub(super) fn hits(self) -> u64 {
        match self {
            Pipeline { items, .. } => STAGES * items,
            _ => self.operations(),
        }
    }

    /// Returns the exclusive or of the values passed to [`hit`](super::measure::hit).
    pub(super) fn checksum(self) -> u64 {
        let numbers = || 1..=self.operations();
        match self {
            Pool { steps, .. }
            | Accept { steps, .. }
            | Map { steps, .. }
            | Nested { steps, .. }
            | Blocked { steps, .. } => spin_all(numbers(), steps),
            Pipeline { steps, .. } => spin_all(numbers(), STAGES * steps),
            Pairs { .. } | Short { .. } => spin_all(numbers(), 0),
            Actors { steps, .. } => {
                let of =
                    |hot: bool| numbers().filter(move |&number| (actor_of(number) == 0) == hot);
                spin_all(of(true), 10 * steps) ^ spin_all(of(false), steps)
            }
            Words => words::CHECKSUM,
        }
    }

    /// Returns whether std threads with channels can express this shape.
    pub(super) fn fits_threads(self) -> bool {
        matches!(self, Pool { .. } | Pipeline { .. } | Pairs { .. } | Words)
    }

    /// Returns whether rayon can express this shape.
    pub(super) fn fits_rayon(self) -> bool {
        matches!(self, Map { .. } | Short { .. } | Words)
    }
}

/// Returns the actor that gets a message.
pub(super) fn actor_of(number: u64) -> usize {
    let round = (number - 1) / SENDERS;
    match round % 4 {
        0 => 0,
        _ => 1 + number as usize * 7 % (ACTORS - 1),
    }
}

/// Returns how many steps an actor computes for a message.
pub(super) fn actor_steps(actor: usize, steps: u64) -> u64 {
    if actor == 0 { 10 * steps } else { steps }
}

/// Returns the numbers of the messages of one sender.
pub(super) fn messages_of(sender: u64, messages: u64) -> impl Iterator<Item = u64> {
    (sender + 1..=messages).step_by(SENDERS as usize)
}

/// Returns the number of a task in nested scopes.
pub(super) fn nested_number(scopes: u64, outer: u64, scope: u64, inner: u64) -> u64 {
    (outer * scopes + scope) * INNER + inner + 1
}

/// Returns the number of steps in `count` microseconds.
pub(super) const fn micros(count: u64) -> u64 {
    count * STEPS_PER_MICROSECOND
}

/// Returns whether a job is so long that an asynchronous runtime should run it on a thread of its
/// own.
pub(super) fn is_long(steps: u64) -> bool {
    steps > micros(100)
}

/// The words for the Go program.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Pool { jobs, steps, arrival } => {
                let arrival = match arrival {
                    Arrival::Early => "early",
                    Arrival::Late => "late",
                    Arrival::Trickling => "trickling",
                };
                write!(f, "pool {jobs} {steps} {arrival}")
            }
            Pipeline { items, steps } => write!(f, "pipeline {items} {steps}"),
            Pairs { messages } => write!(f, "pairs {messages} 0"),
            Accept { requests, steps } => write!(f, "accept {requests} {steps}"),
            Map { items, steps } => write!(f, "map {items} {steps}"),
            Nested { scopes, steps } => write!(f, "nested {scopes} {steps}"),
            Short { tasks } => write!(f, "short {tasks} 0"),
            Actors { messages, steps } => write!(f, "actors {messages} {steps}"),
            Blocked { tasks, steps, spawner } => {
                let spawner = if spawner == Spawner::Blocker { "blocker" } else { "other" };
                write!(f, "blocked {tasks} {steps} {spawner}")
            }
            Words => write!(f, "words {} 0 {:x}", words::CHUNKS, words::CHECKSUM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_one_sender_and_a_quarter_goes_to_the_hot_actor() {
        let mut numbers: Vec<_> =
            (0..SENDERS).flat_map(|sender| messages_of(sender, 800)).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=800));
        assert_eq!(numbers.iter().filter(|&&number| actor_of(number) == 0).count(), 200);
    }

    #[test]
    fn tasks_in_nested_scopes_are_numbered_from_one_without_a_gap() {
        let shape = Nested { scopes: 3, steps: 0 };
        let mut numbers = Vec::new();
        for outer in 0..OUTER {
            for scope in 0..3 {
                numbers.extend((0..INNER).map(|inner| nested_number(3, outer, scope, inner)));
            }
        }
        assert!(numbers.into_iter().eq(1..=shape.operations()));
    }
}
