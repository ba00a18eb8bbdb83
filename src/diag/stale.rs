//! Waits that have lasted for long, grouped.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use super::tree::{Label, TaskInfo, TaskTree};
use super::wait::Wait;
use crate::base::hash::HashMap;
use crate::task::TaskId;

/// The greatest number of tasks in a chain, and of ids that are printed of a group.
const CHAIN_MAX: usize = 16;
const IDS_MAX: usize = 5;

/// Tasks of one spawn place that have waited for the same thing at the same place for long: see
/// [`TaskTree::stale`].
#[derive(Clone, Debug)]
pub struct StaleWait {
    tasks: Vec<TaskId>,
    /// The ids and names of the first ones.
    labels: Vec<Label>,
    longest: Duration,
    /// The task that has waited longest.
    example: TaskInfo,
    /// The tasks that it waits for, each for the next one.
    chain: Vec<TaskInfo>,
}

impl TaskTree {
    /// Returns the waits that have lasted for at least `longer_than`, grouped by what is waited for,
    /// where the wait was called, and where the tasks were spawned. The group with the longest wait
    /// comes first. A wait of a scope for its tasks is left out: those tasks are the reason for it.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     let (_leaked, receiver) = ecru::channel::unbounded::<u32>();
    ///     ecru::scope(|s| {
    ///         let stuck = s.spawn(|| receiver.recv());
    ///         ecru::sleep(Duration::from_millis(10)).unwrap();
    ///         let tree = ecru::RuntimeHandle::current().dump();
    ///         for wait in tree.stale(Duration::from_millis(5)) {
    ///             println!("{wait}");
    ///         }
    ///         stuck.cancel();
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn stale(&self, longer_than: Duration) -> Vec<StaleWait> {
        let is_stale = |task: &&TaskInfo| {
            let wait = task.waits_on().filter(|wait| wait.tasks_left().is_none());
            wait.and_then(Wait::lasted).is_some_and(|lasted| lasted >= longer_than)
        };
        self.grouped(is_stale, Wait::kind)
    }

    /// Groups the waits of those tasks by their kinds and where the tasks were spawned.
    pub(super) fn grouped(
        &self,
        which: impl Fn(&&TaskInfo) -> bool,
        kind: impl Fn(&Wait) -> String,
    ) -> Vec<StaleWait> {
        let mut groups: Vec<StaleWait> = Vec::new();
        let mut places: HashMap<(String, usize), usize> = HashMap::default();
        for task in self.tasks().filter(which) {
            let Some(wait) = task.waits_on() else { continue };
            let lasted = wait.lasted().unwrap_or_default();
            let spawned_at = std::ptr::from_ref(task.spawned_at()).addr();
            let place = *places.entry((kind(wait), spawned_at)).or_insert_with(|| {
                groups.push(StaleWait {
                    tasks: Vec::new(),
                    labels: Vec::new(),
                    longest: lasted,
                    example: task.clone(),
                    chain: Vec::new(),
                });
                groups.len() - 1
            });
            let group = &mut groups[place];
            group.tasks.push(task.id());
            if group.labels.len() < IDS_MAX {
                group.labels.push(task.label().clone());
            }
            if lasted > group.longest {
                (group.longest, group.example) = (lasted, task.clone());
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.longest));
        for group in &mut groups {
            group.chain = self.chain(&group.example);
        }
        groups
    }

    /// Returns the task that a task waits for, the task that this one waits for, and so on.
    fn chain(&self, from: &TaskInfo) -> Vec<TaskInfo> {
        let mut chain: Vec<TaskInfo> = Vec::new();
        let mut last = from.id();
        let needed = |id: TaskId| {
            let needs = self.task(id)?.waits_on()?.needs();
            self.task(*needs.first()?)
        };
        while let Some(next) = needed(last).filter(|_| chain.len() < CHAIN_MAX) {
            last = next.id();
            let is_known = last == from.id() || chain.iter().any(|task| task.id() == last);
            chain.push(next.clone());
            if is_known {
                break;
            }
        }
        chain
    }
}

impl StaleWait {
    /// Returns the tasks.
    #[must_use]
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// Returns how long the longest of the waits has lasted.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns where the tasks were spawned.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.example.spawned_at()
    }

    /// Returns the wait of the task that has waited longest.
    ///
    /// # Panics
    /// Never panics.
    #[must_use]
    pub fn wait(&self) -> &Wait {
        self.example.waits_on().expect("it waits")
    }

    /// Returns the tasks at which the wait hangs: the first holds what is waited for, or is joined.
    /// If it waits, too, the next one is the task that it waits for, and so on. The last one is the
    /// one to look at. In a cycle, it is the first one again.
    #[must_use]
    pub fn chain(&self) -> &[TaskInfo] {
        &self.chain
    }
}

impl fmt::Display for StaleWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tasks.len() {
            1 => write!(f, "{}", self.example)?,
            count => {
                write!(
                    f,
                    "{count} tasks spawned at {} wait for {}",
                    self.spawned_at(),
                    self.wait()
                )?;
                f.write_str(":")?;
                for label in &self.labels {
                    write!(f, " {label}")?;
                }
                if count > IDS_MAX {
                    f.write_str(" ..")?;
                }
            }
        }
        for task in &self.chain {
            write!(f, "\n  {task}")?;
        }
        Ok(())
    }
}
