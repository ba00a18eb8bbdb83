//! What the director of a simulated run says about a turn of a task, and what it is told.

/// What a task may do in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextTurn {
    /// The task's place among those that can run.
    pub(crate) index: usize,
    /// How many decision points the task may pass before it gives the thread back.
    pub(crate) budget: u32,
    /// Whether the task is cancelled before its turn, as by its handle.
    pub(crate) cancel: bool,
    /// Whether the director wants to know if the turn ends with the task, and may have it cancelled
    /// after the turn.
    pub(crate) watch: bool,
}

/// Why a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The budget is used up. The task is about to act.
    Cut,
    /// The task lets the others run.
    Yielded,
    /// The task waits. If it was not watched, it may have ended.
    Waits,
    /// The task, which was watched, has ended.
    Ended,
}

/// What is done after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next turn.
    GoOn,
    /// The task, which was watched and has not ended, is cancelled as by its handle. Then comes the
    /// next turn.
    Cancel,
    /// The run ends.
    End,
}
