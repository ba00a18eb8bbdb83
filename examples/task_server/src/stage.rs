//! How much happens at once.

use std::str::FromStr;

/// Each stage adds one idea to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// One connection after the other.
    Serial,
    /// A task for each connection; but a sleep holds its whole worker, as a call that blocks does.
    Client,
    /// A sleep parks its task only; CPU tasks run on threads of their own, at most forty at a time.
    Task,
    /// An answer is worked out once, however many ask for it.
    Cache,
    /// A task for each request, and one writer for each connection: answers come in the order in which they are found.
    Pipelined,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 5] =
        [Stage::Serial, Stage::Client, Stage::Task, Stage::Cache, Stage::Pipelined];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Serial => "serial",
            Stage::Client => "client",
            Stage::Task => "task",
            Stage::Cache => "cache",
            Stage::Pipelined => "pipelined",
        }
    }

    /// The workers of a run that serves: those of the machine on which the original was measured where sleeps hold them, and
    /// otherwise as many as there are cores.
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
