//! What keeps a run from ending although its root has returned: the report of the watchdog.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::dump::{Traces, dump_with, spawn_hidden};
use super::tree::{TaskInfo, TaskTree};
use crate::base::report;
use crate::sched::Pool;

/// The greatest number of places that are printed.
const PLACES_MAX: usize = 10;

/// Reports the tasks that are left, by the places where they were spawned. A task of the run looks for
/// them, because the caller must not wait.
pub(super) fn report(pool: &Arc<Pool>, since: Duration) {
    let own = Arc::clone(pool);
    // Without a run there is nothing to be said.
    let _ = spawn_hidden(pool, 0, move || {
        if let Some(text) = describe(&dump_with(&own, Traces::None), since) {
            report::say(text);
        }
    });
}

fn describe(tree: &TaskTree, since: Duration) -> Option<String> {
    let root = tree.tasks().find(|task| task.is_root())?;
    let mut places: Vec<Vec<&TaskInfo>> = Vec::new();
    for task in tree.tasks().filter(|task| task.parent() == Some(root.id())) {
        let is_of = |place: &&mut Vec<&TaskInfo>| place[0].spawned_at() == task.spawned_at();
        match places.iter_mut().find(is_of) {
            Some(place) => place.push(task),
            None => places.push(vec![task]),
        }
    }
    // The commonest first.
    places.sort_by_key(|place| std::cmp::Reverse(place.len()));
    let count = match places.iter().map(Vec::len).sum() {
        0 => return None,
        1 => String::from("1 task"),
        count => format!("{count} tasks"),
    };
    let mut text = format!(
        "ecru: the root, run at {}, has returned {since:.1?} ago, and the run waits for {count}. Join or cancel what should \
         end before, or start it as a daemon of a scope:",
        root.spawned_at()
    );
    for place in places.iter().take(PLACES_MAX) {
        let _ = match place[..] {
            [task] => write!(text, "\n  {task}"),
            _ => write!(text, "\n  {} tasks such as {}", place.len(), place[0]),
        };
    }
    if places.len() > PLACES_MAX {
        let _ = write!(text, "\n  and those of {} more places", places.len() - PLACES_MAX);
    }
    Some(text)
}
