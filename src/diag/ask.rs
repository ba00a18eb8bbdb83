//! Asking each worker a question, which it answers in a hidden task.

use std::sync::Arc;
use std::time::Duration;

use super::dump::spawn_hidden;
use crate::base::clock;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::sched::Pool;
use crate::scope::shield;

/// How long the workers may take to begin with their answers.
const ANSWER_LIMIT: Duration = Duration::from_millis(100);

/// Returns the answer of each worker, or `None` for a worker that has not begun to answer in time.
/// Returns `None` if there is no run.
pub(super) fn ask<T: Send + 'static>(
    pool: &Arc<Pool>,
    answer: impl Fn() -> T + Clone + Send + 'static,
) -> Option<Vec<Option<T>>> {
    let ask_one = |worker| {
        let begun = Arc::new(AtomicBool::new(false));
        let (mark, answer) = (Arc::clone(&begun), answer.clone());
        let task = spawn_hidden(pool, worker, move || {
            mark.store(true, Ordering::Relaxed);
            answer()
        })?;
        Some((begun, task))
    };
    let questions: Vec<_> = (0..pool.settings.workers).map(ask_one).collect::<Option<_>>()?;
    let deadline = clock::now() + ANSWER_LIMIT;
    // A cancellation does not cut this short: its effect may be what the caller wants to see.
    let answers = shield(|| {
        let join = |(begun, task): (Arc<AtomicBool>, crate::scope::JoinHandle<'static, T>)| {
            let left = deadline.saturating_duration_since(clock::now());
            let mut joined = task.join_timeout(left);
            if joined.is_none() && begun.load(Ordering::Relaxed) {
                joined = Some(task.join());
            }
            joined?.ok()
        };
        questions.into_iter().map(join).collect()
    });
    Some(answers)
}
