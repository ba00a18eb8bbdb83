//! Events of the runtime: what tasks do, and what the library reports.

use std::sync::OnceLock;

use ecru::task::{
    CancelReason, Ending, ObservedTask, TaskObserver, TaskObserverTaken, set_task_observer,
};
use tracing::{debug, warn};

/// Writes the events of tasks.
#[derive(Debug)]
struct Events;

/// Returns the words for an end, as the field `how` has them.
fn word(how: Ending) -> &'static str {
    match how {
        Ending::Returned => "returned",
        Ending::Failed => "failed",
        Ending::Panicked => "panicked",
        Ending::Dropped => "dropped",
        _ => "ended",
    }
}

impl TaskObserver for Events {
    fn spawned(&self, task: ObservedTask<'_>) {
        debug!(
            target: "ecru::task",
            {
                task.id = %task.id(),
                task.name = task.name(),
                task.spawned_at = %task.spawned_at()
            },
            "task spawned"
        );
    }

    fn ended(&self, task: ObservedTask<'_>, how: Ending) {
        if how == Ending::Panicked {
            warn!(
                target: "ecru::task",
                {
                    task.id = %task.id(),
                    task.name = task.name(),
                    task.spawned_at = %task.spawned_at(),
                    how = word(how)
                },
                "task ended"
            );
        } else {
            debug!(
                target: "ecru::task",
                {
                    task.id = %task.id(),
                    task.name = task.name(),
                    how = word(how)
                },
                "task ended"
            );
        }
    }

    fn cancelled(&self, task: Option<ObservedTask<'_>>, reason: CancelReason) {
        debug!(
            target: "ecru::task",
            {
                task.id = task.map(|task| tracing::field::display(task.id())),
                task.name = task.and_then(|task| task.name()),
                reason = %reason
            },
            "cancelled"
        );
    }

    fn reported(&self, text: &str) {
        let text = text.strip_prefix("ecru: ").unwrap_or(text);
        warn!(target: "ecru::report", "{text}");
    }
}

/// Makes the runtime write events of `tracing`, from now on and for the rest of the process. It is
/// independent of [`layer`](crate::layer). Further calls do nothing.
///
/// | event | target | level | fields |
/// |---|---|---|---|
/// | `task spawned` | `ecru::task` | debug | `task.id`, `task.name`, `task.spawned_at` |
/// | `task ended` | `ecru::task` | debug; warn after a panic | `task.id`, `task.name`, `how`: `returned`, `failed`, `panicked` or `dropped` (before it began) |
/// | `cancelled` | `ecru::task` | debug | `task.id` and `task.name` of a task that waits in what is cancelled, `reason` |
/// | the message | `ecru::report` | warn | |
///
/// A task without a name has no `task.name`. The messages are those that the library writes to
/// standard error, too, among them the alarms of a watchdog and deadlocks.
///
/// The event of a spawn is in the spawner's current span, that of an end in the spans of the task,
/// and a report in none. See [`TaskObserver`] for what a subscriber may do: it must not wait. The
/// event of an end is formatted on the stack of the task, which needs room for that.
///
/// # Errors
/// Returns [`TaskObserverTaken`] if the process has another observer.
///
/// # Examples
/// ```
/// tracing_subscriber::fmt().with_env_filter("info,ecru=debug").init();
/// ecru_tracing::emit_events()?;
/// ecru::run(|| {
///     // task spawned task.id=#2 task.spawned_at=src/main.rs:5:17
///     // task ended task.id=#2 how="returned"
///     ecru::spawn(|| 6 * 7).join().unwrap();
/// });
/// # Ok::<(), ecru::task::TaskObserverTaken>(())
/// ```
pub fn emit_events() -> Result<(), TaskObserverTaken> {
    static OURS: OnceLock<bool> = OnceLock::new();
    if *OURS.get_or_init(|| set_task_observer(&Events).is_ok()) {
        return Ok(());
    }
    // This call fails again, and returns the reason.
    set_task_observer(&Events)
}
