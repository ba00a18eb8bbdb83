//! Tasks that nothing can wake any more.
//!
//! A task is *leaked* if it is [stuck](super::stuck), where these are its needs:
//!
//! | the task waits for | needs |
//! |---|---|
//! | a lock, or a value that is being computed | each holder |
//! | the end of a task | that task |
//! | the end of its scope | each task of the scope |
//! | a value or room in a channel | one of the tasks that have or borrow a handle of the channel |
//!
//! A wait that may end by itself has no needs: one with a time limit, one of a task that has been
//! cancelled, one for the kernel. Other waits have none, because any task may end them. A daemon is
//! cancelled when its scope ends. So each need of a daemon, or of a task below one, also contains the
//! task that opened the scope.
//!
//! # Handles of channels
//! Rust does not tell what owns a value. So the [memory](super::search) of the process is searched
//! for handles of the channels in question. If one lies outside of the memory that belongs to waiting
//! tasks alone, the channel counts as reachable, and its waits have no needs. What points to a handle
//! counts as one, and so do all tasks in the scopes of its owner, which may borrow it. What is found is a
//! suspicion, because a program may hide an address. `doc/decisions/0045-leaked-tasks.md` has the
//! reasons.
//!
//! # Certainty
//! As with [cycles](super::cycles), the result is confirmed by a second look, with a second search:
//! each wait has to be the same one.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::search;
use super::stale::StaleWait;
use super::stuck::{Needs, Places};
use super::tree::{TaskInfo, TaskTree};
use super::wait::Wait;
use crate::base::hash::HashMap;
use crate::base::simulated;
use crate::park::HandleWord;
use crate::task::TaskId;

/// The greatest number of ids that are printed of the tasks that keep handles.
const IDS_MAX: usize = 5;

/// Tasks of one spawn place that nothing can wake any more, except a cancellation: see
/// [`TaskTree::leaks`].
#[derive(Clone, Debug)]
pub struct Leak {
    waits: StaleWait,
    is_suspected: bool,
    kept_by: Vec<TaskId>,
}

/// The tasks that alone have handles of a channel, as places in a tree.
#[derive(Debug, Default)]
pub(super) struct Keepers(HashMap<HandleWord, Vec<usize>>);

/// The leaked tasks that one look has found.
#[derive(Debug, Default)]
pub(super) struct FoundLeaks {
    certain: Vec<TaskId>,
    suspected: Vec<TaskId>,
}

/// Returns the leaked tasks of a tree.
pub(super) fn find(tree: &TaskTree, keepers: &Keepers) -> FoundLeaks {
    find_among(tree, keepers, |_| true)
}

/// Returns the leaked tasks among some of a tree, and takes all others for free.
fn find_among(tree: &TaskTree, keepers: &Keepers, which: impl Fn(&TaskInfo) -> bool) -> FoundLeaks {
    let stuck = |keepers: &Keepers| {
        let keepers_of = |task: &TaskInfo| keepers.0.get(&task.waits_on()?.handle()?).cloned();
        needs(tree, keepers_of, &which).stuck()
    };
    let ids = |is_leaked: &dyn Fn(usize) -> bool| {
        let tasks = tree.tasks().enumerate().filter(|(place, _)| is_leaked(*place));
        tasks.map(|(_, task)| task.id()).collect()
    };
    let certain = stuck(&Keepers::default());
    let all = if keepers.0.is_empty() { certain.clone() } else { stuck(keepers) };
    FoundLeaks {
        suspected: ids(&|place| all[place] && !certain[place]),
        certain: ids(&|place| certain[place]),
    }
}

/// Returns the needs of those tasks. `keepers` returns the tasks with handles of the channel for
/// which a task waits, if these are all.
fn needs(
    tree: &TaskTree,
    keepers: impl Fn(&TaskInfo) -> Option<Vec<usize>>,
    which: impl Fn(&TaskInfo) -> bool,
) -> Needs {
    let tasks = tree.all();
    let places = Places::new(tasks);
    let mut needs = Needs::new(tasks.len());
    // For each task, the one whose scope cancels it as it ends. A task follows its parent.
    let mut cancellers: Vec<Option<usize>> = Vec::with_capacity(tasks.len());
    for (place, task) in tasks.iter().enumerate() {
        let parent = task.parent().and_then(|id| places.of(id));
        let above = parent.and_then(|parent| cancellers.get(parent).copied().flatten());
        cancellers.push(if task.is_daemon() { parent } else { above });
        let Some(wait) = task.waits_on().filter(|wait| !wait.ending.by_itself && which(task))
        else {
            continue;
        };
        let canceller = cancellers[place].filter(|_| wait.ending.by_cancellation);
        let mut add = |members: Vec<usize>| needs.add(place, members.into_iter().chain(canceller));
        places.needed_by(task).into_iter().for_each(|one| add(vec![one]));
        if let Some(keepers) = keepers(task) {
            add(with_borrowers(tasks, keepers));
        }
    }
    needs
}

/// Adds the tasks in the scopes of tasks, which may borrow what these have. A task is followed by those
/// below it.
fn with_borrowers(tasks: &[TaskInfo], mut of: Vec<usize>) -> Vec<usize> {
    for place in of.clone() {
        let depth = tasks[place].depth();
        let below = tasks[place + 1..].iter().take_while(|task| task.depth() > depth).count();
        of.extend(place + 1..=place + below);
    }
    of.sort_unstable();
    of.dedup();
    of
}

/// Searches the memory of the process for the handles of those channels for which tasks wait that
/// could be leaked. Whatever is in `unused` is not a handle.
pub(super) fn search_for_keepers(tree: &TaskTree, unused: Vec<Range<usize>>) -> Keepers {
    if simulated::is_simulated() {
        // A simulation detects by itself that it is stuck.
        return Keepers::default();
    }
    let long = patience();
    let is_candidate = |task: &TaskInfo| {
        let wait = task.waits_on();
        wait.is_some_and(|wait| wait.lasted().is_some_and(|lasted| lasted >= long))
    };
    let handle = |task: &TaskInfo| task.waits_on().and_then(Wait::handle);
    // At best, nothing has a handle of any channel.
    let at_best = |task: &TaskInfo| handle(task).filter(|_| is_candidate(task)).map(|_| Vec::new());
    let could_be_stuck = needs(tree, at_best, |_| true).stuck();
    let waits = tree
        .all()
        .iter()
        .zip(could_be_stuck)
        .filter(|(task, is_stuck)| *is_stuck && is_candidate(task));
    let mut words: Vec<HandleWord> = waits.filter_map(|(task, _)| handle(task)).collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        return Keepers::default();
    }
    let memory = |(place, task): (usize, &TaskInfo)| {
        let memory: &[Range<usize>; 2] = task.waits_on()?.ending.memory.as_ref()?;
        Some(memory.clone().map(|range| (range, Some(place))))
    };
    let owned = tree.all().iter().enumerate().filter_map(memory).flatten();
    let owned = owned.chain(unused.into_iter().map(|range| (range, None))).collect();
    let found = search::holders(words.clone(), owned).unwrap_or_default();
    let kept = words.into_iter().zip(found).filter_map(|(word, tasks)| Some((word, tasks?)));
    Keepers(kept.collect())
}

/// Returns how long a task must have waited for a channel before its handles are searched for.
fn patience() -> Duration {
    // This library's own tests would otherwise take seconds.
    let shortened = std::env::var("ECRU_TEST_LEAKED_AFTER_MS").ok();
    let shortened = shortened.and_then(|text| text.parse().ok());
    shortened.map_or(Duration::from_secs(1), Duration::from_millis)
}

impl FoundLeaks {
    pub(super) fn is_empty(&self) -> bool {
        self.certain.is_empty() && self.suspected.is_empty()
    }

    /// Returns whether the handles of a channel are a reason.
    pub(super) fn is_suspected(&self) -> bool {
        !self.suspected.is_empty()
    }

    /// Returns those leaked tasks whose waits are the same ones in a tree that was made afterwards,
    /// and that are leaked there, too.
    pub(super) fn confirmed(
        &self,
        before: &TaskTree,
        after: &TaskTree,
        keepers: &Keepers,
    ) -> Vec<Leak> {
        let known: HashMap<TaskId, &TaskInfo> =
            before.tasks().map(|task| (task.id(), task)).collect();
        let leaked: HashMap<TaskId, ()> =
            self.certain.iter().chain(&self.suspected).map(|&id| (id, ())).collect();
        let still = find_among(after, keepers, |task| {
            let before = known.get(&task.id()).and_then(|before| before.waits_on());
            let is_still = |before| task.waits_on().is_some_and(|wait| wait.is_still(before));
            leaked.contains_key(&task.id()) && before.is_some_and(is_still)
        });
        let leaks = |ids: &[TaskId], is_suspected: bool| -> Vec<Leak> {
            let ids: HashMap<TaskId, ()> = ids.iter().map(|&id| (id, ())).collect();
            // Those of one place are one group, whatever their objects are.
            let kind = |wait: &Wait| format!("{} {:?}", wait.what(), wait.at());
            let groups = before.grouped(|task| ids.contains_key(&task.id()), kind);
            let keepers_of = |id: &TaskId| keepers.0.get(&known.get(id)?.waits_on()?.handle()?);
            let kept_by = |waits: &StaleWait| {
                let places = waits.tasks().iter().filter_map(keepers_of).flatten();
                let mut ids: Vec<TaskId> =
                    places.map(|&place| after.at_place(place).id()).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            };
            let leak = |waits: StaleWait| Leak { kept_by: kept_by(&waits), waits, is_suspected };
            groups.into_iter().map(leak).collect()
        };
        let mut all = leaks(&still.certain, false);
        all.extend(leaks(&still.suspected, true));
        all
    }
}

impl TaskTree {
    /// Returns the tasks that nothing can wake any more, except a cancellation, grouped by what is
    /// waited for, where the wait was called, and where the tasks were spawned. The certain ones come
    /// first, and among these the group with the longest wait.
    ///
    /// A task is leaked if it waits without a time limit for a lock that a leaked task holds, for the
    /// end of a leaked task, or for the end of a scope with a leaked task. So the tasks of a
    /// [cycle](TaskTree::cycles) are leaked, and with them all tasks that wait for them. In a
    /// simulation, which detects by itself that it is stuck, there are none.
    ///
    /// A tree of [`RuntimeHandle::find_leaks`](crate::RuntimeHandle::find_leaks), of the command
    /// `ecru dump`, or of a signal also has waits for channels, if only leaked tasks have handles of
    /// the channel. These are [suspected](Leak::is_suspected).
    ///
    /// # Limits
    /// Whatever could be a handle of the channel counts as one, so a leak of a channel may be missed:
    /// - if a handle is on the heap, in a `Vec` for example, even if only leaked tasks can reach it;
    /// - if what a moved or dropped handle has left lies in memory that was freed, on the stack of a
    ///   task that can go on, or in unused bytes of an object that was moved to the heap later, such
    ///   as another channel;
    /// - if either lies on the stack of a task that has opened a scope, while any task in that scope
    ///   can go on, because that task may borrow the handle. So a channel that the root task makes,
    ///   and whose handles it moves into tasks, is usually missed as long as one task of the run can
    ///   go on. A channel that is made in the task that uses it is usually found.
    ///
    /// Waits in a `select!`, for permits and for conditions are never leaked. A task that waits for
    /// long is among the [stale](TaskTree::stale) ones in any case.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let handle = ecru::RuntimeHandle::current();
    ///     assert!(handle.dump().leaks().is_empty());
    /// });
    /// ```
    #[must_use]
    pub fn leaks(&self) -> &[Leak] {
        self.found_leaks()
    }
}

impl Leak {
    /// Returns the waits of the tasks.
    #[must_use]
    pub fn waits(&self) -> &StaleWait {
        &self.waits
    }

    /// Returns whether the leak is only suspected. All handles of the channel that were found in the
    /// memory of the process belong to leaked tasks. A program that hides the address of a handle, or
    /// keeps it only in memory that it shares with other processes, can still wake the task.
    #[must_use]
    pub fn is_suspected(&self) -> bool {
        self.is_suspected
    }

    /// Returns the tasks that have handles of the channel that is waited for: senders, receivers, or
    /// what is left of those on their stacks. Empty if the task does not wait for a channel.
    #[must_use]
    pub fn kept_by(&self) -> &[TaskId] {
        &self.kept_by
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.waits)?;
        if self.kept_by.is_empty() {
            return Ok(());
        }
        f.write_str("\n  all handles that were found are in the memory of")?;
        for id in self.kept_by.iter().take(IDS_MAX) {
            write!(f, " {id}")?;
        }
        f.write_str(if self.kept_by.len() > IDS_MAX { " .." } else { "" })
    }
}
