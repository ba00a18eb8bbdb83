//! The options of a spawn, and where its task starts.

use crate::coroutine::STACK_FLOOR;
use crate::task::Extra;

/// Where a new task starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// On any worker.
    Anywhere,
    /// On the spawner's worker.
    Here,
    /// On the worker that comes this many places after the spawner's.
    Beside(usize),
}

/// The options of a spawn.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) daemon: bool,
    /// The task begins even if it is cancelled before it starts.
    pub(crate) always_begins: bool,
    /// The task starts on its spawner's worker.
    pub(crate) near: bool,
    pub(crate) extra: Option<Box<Extra>>,
}

impl Options {
    pub(super) fn daemon() -> Options {
        Options { daemon: true, ..Options::default() }
    }

    /// Returns where a task starts that is not bound to its spawner's worker.
    pub(super) fn start(&self) -> Start {
        if self.near { Start::Here } else { Start::Anywhere }
    }

    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    #[track_caller]
    pub(super) fn set_stack_size(&mut self, bytes: usize) {
        assert!(
            bytes >= STACK_FLOOR,
            "a task's stack of {bytes} bytes is below the floor of {STACK_FLOOR} bytes (16 KiB); ask for more, or leave it out"
        );
        self.extra().stack_size = Some(bytes);
    }
}
