//! How many operations of futures may be ready in one poll.
//!
//! A future whose operations are always ready would not end its poll. Its worker would ring no
//! timers meanwhile, not even the one that is to cancel it. So each poll has a budget. When it is
//! used up, the operations of this library are pending until the poll ends, and they have called
//! the waker. The idea is that of tokio's cooperative scheduling.
//!
//! A task with a stack may wait in a poll of its `block_on`. Other tasks of the thread run then, so
//! the budget is that of one task. A coroutine that is suspended in a poll of its `block_on` leaves its
//! budget to the task that has resumed it, until the poll goes on. Polls by `block_on` and
//! `spawn_future` begin with their own, so only a poll by hand would notice, and a switch between
//! coroutines is too short for one more access to a thread-local.

use std::ptr;
use std::task::{Context, Poll};

use crate::base::local;

/// The operations of one poll.
const BUDGET: u32 = 128;

/// Runs `poll`, which polls a future of the running task, or of this thread.
pub(crate) fn in_poll<T>(poll: impl FnOnce() -> T) -> T {
    let _budget = Budget::begin();
    poll()
}

/// What `local.polls` was before the poll, which is restored even if the poll panics.
struct Budget {
    outer: u32,
    outer_task: *const (),
}

impl Budget {
    fn begin() -> Budget {
        local::with(|local| Budget {
            // 1 stands for a budget that is used up, and 0 for none.
            outer: local.polls.replace(BUDGET + 1),
            outer_task: local.polling.replace(local.task.get()),
        })
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        local::with(|local| {
            // The budget of another task must not outlast its poll.
            let is_own = ptr::eq(self.outer_task, local.task.get());
            local.polls.set(if is_own { self.outer } else { 0 });
            local.polling.set(self.outer_task);
        });
    }
}

/// Called by an operation that may be ready. If the budget of the poll is used up, calls the waker
/// and returns `Pending`.
#[inline]
pub(crate) fn poll_budget(context: &Context<'_>) -> Poll<()> {
    let is_spent = local::with(|local| {
        local.polls.get() == 1 && ptr::eq(local.polling.get(), local.task.get())
    });
    if is_spent {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// Counts operations that were ready.
#[inline]
pub(crate) fn spend_poll_budget(operations: u32) {
    local::with(|local| {
        let left = local.polls.get();
        if left > 1 && ptr::eq(local.polling.get(), local.task.get()) {
            local.polls.set(left.saturating_sub(operations).max(1));
        }
    });
}
