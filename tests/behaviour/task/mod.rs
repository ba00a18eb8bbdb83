//! Tasks: identity, placement, fairness, panics, task-locals, `unblock`.

mod failures;
mod fork_join;
mod locals;
mod many;
mod on_their_own;
mod panics;
mod turns;
mod unblocking;

ecru::task_local! {
    static DEPTH: u32;
}
