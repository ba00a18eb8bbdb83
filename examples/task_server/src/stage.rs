//! The stages, which differ in how much of the work runs at once.

use std::str::FromStr;

/// Each stage adds one idea to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// One connection after the other.
    Serial,
    /// A task for each connection; a sleep blocks its whole worker, as a blocking call does.
    Client,
    /// A sleep parks only its task; CPU tasks run on threads of their own, at most forty at a time.
    Task,
    /// An answer is computed once, even if several tasks request it.
    Cache,
    /// A task for each request, and one writer for each connection: answers are sent in the order
    /// in which they are found.
    Pipelined,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 5] =
        [Stage::Serial, Stage::Client, Stage::Task, Stage::Cache, Stage::Pipelined];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Serial => "serial",
            Stage::Client => "client",
            Stage::Task => "task",
            Stage::Cache => "cache",
            Stage::Pipelined => "pipelined",
        }
    }

    /// Returns the number of workers for a serving run. Where sleeps block workers, it is that of
    /// the machine on which the original was measured. Otherwise it is the number of cores.
    pub fn workers(self) -> Option<usize> {
        (self == Stage::Client).then_some(12)
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(name: &str) -> Result<Stage, String> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
            let names = Stage::ALL.map(Stage::name).join(", ");
            format!("there is no stage {name:?}; there are {names}")
        })
    }
}
