//! Asking each worker a question, which it answers in a hidden task.

use std::sync::Arc;
use std::time::Duration;

use super::dump::spawn_hidden;
use crate::base::clock;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::sched::Pool;
use crate::scope::{JoinHandle, shield};

/// How long the workers may take to begin with their answers.
const ANSWER_LIMIT: Duration = Duration::from_millis(100);
/// How long a worker that has begun may go on without any progress. While it answers, it may run
/// other tasks, and one of these may block it.
const STALL_LIMIT: Duration = Duration::from_secs(1);

/// Any number that a count of progress does not reach.
const GIVEN_UP: u32 = u32::MAX;

struct Question<T> {
    /// 0 until the worker begins. It then grows while the worker makes its answer. [`GIVEN_UP`] if
    /// nothing waits for the answer any more: a worker that was busy may find many such questions.
    progress: Arc<AtomicU32>,
    task: JoinHandle<'static, Option<T>>,
}

/// Returns the answer of each worker, or `None` for a worker that has not begun to answer in time, or
/// has stopped. `answer` is called with the worker's number and a count of its progress, which it
/// increases at times. Returns `None` if there is no run.
pub(super) fn ask<T: Send + 'static>(
    pool: &Arc<Pool>,
    answer: impl Fn(usize, &AtomicU32) -> T + Clone + Send + 'static,
) -> Option<Vec<Option<T>>> {
    let ask_one = |worker| {
        let progress = Arc::new(AtomicU32::new(0));
        let (own, answer) = (Arc::clone(&progress), answer.clone());
        let task = spawn_hidden(pool, worker, move || {
            let is_wanted =
                own.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            is_wanted.then(|| answer(worker, &own))
        })?;
        Some(Question { progress, task })
    };
    let questions: Vec<_> = (0..pool.settings.workers).map(ask_one).collect::<Option<_>>()?;
    let deadline = clock::now() + ANSWER_LIMIT;
    // A cancellation does not cut this short, because its effect may be what the caller wants to
    // see.
    let answers = shield(|| {
        let join = |question: Question<T>| {
            let left = deadline.saturating_duration_since(clock::now());
            let mut joined = question.task.join_timeout(left);
            let mut seen = 0;
            while joined.is_none() {
                let progress = question.progress.load(Ordering::Relaxed);
                if progress == seen {
                    let _ = question.progress.compare_exchange(
                        0,
                        GIVEN_UP,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    break;
                }
                seen = progress;
                joined = question.task.join_timeout(STALL_LIMIT);
            }
            joined?.ok()?
        };
        questions.into_iter().map(join).collect()
    });
    Some(answers)
}
