//! A [`TaskTree`] as text.
//!
//! ```text
//! 12 tasks that are known; worker 1 does not ..  what there is
//! worker 1: the thread sleeps: use `ecru::sleep` what a busy worker does, and what to do instead
//! their stacks: ..                               how to print the stacks of busy workers
//! 2 tasks wait for each other:                   each cycle, if there is one
//!   task #3, ...
//! nothing can wake 3 tasks any more, ..:          the leaked tasks that are in no cycle
//!   task #5, ...
//! the longest waits:                             if the tree is long, or has stacks
//!   3 tasks spawned at ...
//! task #1, the root, ...                         the tree: scopes and tasks by depth
//!   scope opened at ...
//!     task #2, ...
//!     97 more that were spawned there ...        tasks of one scope that wait for the same
//! ```

use std::fmt::{self, Write};
use std::time::Duration;

use super::leak::Leak;
use super::tree::{TaskInfo, TaskState, TaskTree};
use super::wait::Wait;
use super::watchdog::how_to_print_stacks;
use crate::base::hash::HashMap;

/// Tasks at greater depths than this are not indented any further.
const INDENT_MAX: usize = 32;
/// From this number on, tasks of one scope that look the same are printed as one.
const ALIKE_MIN: usize = 4;
/// The greatest number of ids that are printed of such tasks.
const IDS_MAX: usize = 5;
/// A tree with more tasks, or with stacks, begins with its longest waits.
const SHORT_TREE: usize = 12;
/// A wait is long from this time on.
const LONG: Duration = Duration::from_secs(1);
/// The greatest number of groups of leaked tasks that are printed.
const LEAKS_MAX: usize = 10;
/// The greatest number of long waits, and of places of tasks that are left out.
const LONG_WAITS_MAX: usize = 3;
const PLACES_MAX: usize = 10;

impl fmt::Display for TaskTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no task: no run is going on");
        }
        self.fmt_summary(f)?;
        self.fmt_cycles(f)?;
        self.fmt_leaks(f)?;
        self.fmt_long_waits(f)?;
        self.fmt_tasks(f)?;
        self.fmt_left_out(f)
    }
}

impl TaskTree {
    fn fmt_summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_complete = self.busy_workers().is_empty();
        match self.tasks().count() {
            1 => f.write_str(if is_complete { "1 task" } else { "1 task that is known" })?,
            count if is_complete => write!(f, "{count} tasks")?,
            count => write!(f, "{count} tasks that are known")?,
        }
        let (started, unstarted, unlisted) = self.left_out_parts();
        if started > 0 {
            write!(f, ", and {started} more that are not listed")?;
        }
        if unstarted > 0 {
            write!(f, ", and {unstarted} more that have not begun")?;
        }
        if unlisted > 0 {
            write!(f, ", and {unlisted} more that wait for their items (spawn_when)")?;
        }
        for &worker in self.busy_workers() {
            write!(f, "; worker {worker} does not answer, because it is busy")?;
            if let Some(task) = self.busy_task(worker) {
                write!(f, " with {task}")?;
            }
        }
        for (worker, advice) in self.busy_workers().iter().zip(self.advice()) {
            write!(f, "\nworker {worker}: {advice}")?;
        }
        if !self.busy_workers().is_empty() {
            write!(f, "\ntheir stacks: {}", how_to_print_stacks())?;
        }
        Ok(())
    }

    fn fmt_cycles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cycle in self.cycles() {
            match cycle.len() {
                1 => f.write_str("\n1 task waits for itself:")?,
                count => write!(f, "\n{count} tasks wait for each other:")?,
            }
            for task in cycle.iter().filter_map(|id| self.task(*id)) {
                let begun = if task.is_root() { "the root, run" } else { "spawned" };
                write!(f, "\n  task {}, {begun} at {}, needs ", task.label(), task.spawned_at())?;
                if let Some(wait) = task.waits_on() {
                    write!(f, "{wait}")?;
                }
            }
        }
        Ok(())
    }

    fn fmt_leaks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for is_suspected in [false, true] {
            let leaks =
                self.leaks_beside_cycles().filter(|leak| leak.is_suspected() == is_suspected);
            let count: usize = leaks.clone().map(|leak| leak.waits().tasks().len()).sum();
            let tasks = if count == 1 { "task" } else { "tasks" };
            match (count, is_suspected) {
                (0, _) => continue,
                (_, false) => write!(
                    f,
                    "\nleaked: nothing can wake {count} {tasks} any more, except a cancellation:"
                )?,
                (_, true) => write!(
                    f,
                    "\nsuspected leak: as far as the memory shows, nothing can wake {count} {tasks} any more, except a \
                     cancellation:"
                )?,
            }
            for leak in leaks.clone().take(LEAKS_MAX) {
                for line in leak.to_string().lines() {
                    write!(f, "\n  {line}")?;
                }
            }
            let more = leaks.count().saturating_sub(LEAKS_MAX);
            if more > 0 {
                write!(f, "\n  and those of {more} more places")?;
            }
        }
        Ok(())
    }

    /// Returns the leaks that are printed: a cycle has been printed, and a scope waits for tasks that
    /// are printed.
    fn leaks_beside_cycles(&self) -> impl Iterator<Item = &Leak> + Clone {
        self.leaks().iter().filter(|leak| {
            let is_in_cycle = |id| self.cycles().iter().flatten().any(|one| *one == id);
            leak.waits().wait().tasks_left().is_none()
                && !leak.waits().tasks().iter().all(|id| is_in_cycle(*id))
        })
    }

    fn fmt_long_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tasks().count() <= SHORT_TREE && !f.alternate() {
            return Ok(());
        }
        let mut waits = self.stale(LONG);
        // A sleep ends by itself, and the cycles and the leaks have been printed.
        let in_cycles = self.cycles().iter().flatten();
        let leaked = self.leaks().iter().flat_map(|leak| leak.waits().tasks());
        let printed: HashMap<_, ()> = in_cycles.chain(leaked).map(|id| (*id, ())).collect();
        waits.retain(|wait| {
            wait.wait().deadline().is_none()
                && !wait.tasks().iter().all(|id| printed.contains_key(id))
        });
        if !waits.is_empty() {
            f.write_str("\nthe longest waits:")?;
        }
        for wait in waits.iter().take(LONG_WAITS_MAX) {
            for line in wait.to_string().lines() {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }

    fn fmt_tasks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alike = self.alike(f.alternate());
        let mut scopes: Vec<Option<usize>> = Vec::new();
        for (place, task) in self.tasks().enumerate() {
            let group = alike.get(&place);
            if group.is_some_and(|group| group[0] != place) {
                continue;
            }
            let indent = 4 * task.depth().min(INDENT_MAX);
            // While the lines are printed, at most one scope is open at each depth.
            scopes.resize(task.depth() + 1, None);
            if let (Some((_, scope)), Some(at)) = (task.in_scope(), task.scope_opened_at())
                && scopes[task.depth()].replace(scope) != Some(scope)
            {
                write!(f, "\n{:1$}scope opened at {at}", "", indent - 2)?;
            }
            write!(f, "\n{:indent$}{task}", "")?;
            if let Some(trace) = task.stack_trace().filter(|_| f.alternate()) {
                for line in trace.to_string().lines() {
                    write!(f, "\n{:indent$}{line}", "")?;
                }
            }
            if let Some(group) = group {
                let more = group.len() - 1;
                write!(f, "\n{:indent$}and {more} more that look the same:", "")?;
                for task in group[1..].iter().take(IDS_MAX).map(|&place| self.at_place(place)) {
                    write!(f, " {}", task.id())?;
                }
                f.write_str(if more > IDS_MAX { " .." } else { "" })?;
            }
        }
        Ok(())
    }

    /// Returns the groups of tasks that are printed as one, for the place of each of their tasks.
    fn alike(&self, with_stacks: bool) -> HashMap<usize, std::rc::Rc<Vec<usize>>> {
        let mut groups: HashMap<String, Vec<usize>> = HashMap::default();
        let mut order = Vec::new();
        for (place, task) in self.tasks().enumerate() {
            if let Some(key) = key(task, with_stacks) {
                let group = groups.entry(key.clone()).or_default();
                if group.is_empty() {
                    order.push(key);
                }
                group.push(place);
            }
        }
        let mut alike = HashMap::default();
        for key in order {
            let group = groups.remove(&key).unwrap_or_default();
            if group.len() >= ALIKE_MIN {
                let group = std::rc::Rc::new(group);
                alike.extend(group.iter().map(|&place| (place, std::rc::Rc::clone(&group))));
            }
        }
        alike
    }

    fn fmt_left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.left_out_places();
        for place in places.iter().take(PLACES_MAX) {
            write!(f, "\nnot listed: {place}")?;
        }
        if places.len() > PLACES_MAX {
            write!(f, "\nnot listed: tasks of {} more places", places.len() - PLACES_MAX)?;
        }
        Ok(())
    }
}

/// Returns a text that is equal for tasks that are printed as one. `None` for a task that is always
/// printed: one with children, and one that has asked for the dump.
fn key(task: &TaskInfo, with_stacks: bool) -> Option<String> {
    let (_, scope) = task.in_scope()?;
    if !task.children().is_empty() {
        return None;
    }
    let state = match task.state() {
        TaskState::Waiting(wait) => Wait::kind(wait),
        TaskState::Ready => String::from("ready"),
        TaskState::Unstarted => String::from("unstarted"),
        TaskState::Running | TaskState::Unknown => return None,
    };
    let mut key = format!("{scope} {} {state} ", task.spawned_at());
    // `worker-1` and `worker-2` have the same kind of name.
    key.extend(task.name().unwrap_or_default().chars().filter(|letter| !letter.is_ascii_digit()));
    #[cfg(feature = "sim")]
    let _ = write!(key, " {:?}", task.host());
    if let Some(trace) = task.stack_trace().filter(|_| with_stacks) {
        let _ = write!(key, " {trace}");
    }
    Some(key)
}
