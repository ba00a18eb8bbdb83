//! The order of the tasks of a tree, and what can be said only when all of them are known.

use super::{TaskInfo, TaskState};
use crate::base::hash::HashMap;
use crate::diag::wait::{Holder, Wait};
use crate::task::TaskId;

/// Arranges the tasks so that each follows the task whose scope it belongs to, and tasks of one
/// scope are together.
pub(super) fn arrange(said: Vec<TaskInfo>) -> Vec<TaskInfo> {
    let mut known: Vec<TaskInfo> = Vec::with_capacity(said.len());
    let mut places: HashMap<TaskId, usize> = HashMap::default();
    for task in said {
        match places.get(&task.id()) {
            // The task was stolen between two answers, so both contain it. The later one is more
            // recent. A task without a worker has got its item, and a worker, since.
            Some(&place)
                if known[place].worker.is_none() || !matches!(task.state, TaskState::Unstarted) =>
            {
                known[place] = task;
            }
            Some(_) => {}
            None => {
                places.insert(task.id(), known.len());
                known.push(task);
            }
        }
    }
    for place in 0..known.len() {
        let Some(opening) = known[place].opening.as_ref() else { continue };
        let (parent, is_root) = (opening.parent.clone(), opening.is_root);
        let id = known[place].id();
        let at = *places.entry(parent.id).or_insert_with(|| {
            known.push(TaskInfo { is_root, ..TaskInfo::stub(parent) });
            known.len() - 1
        });
        known[at].children.push(id);
    }
    // The scopes of a task come in the order of their first tasks, whatever their addresses are.
    let mut firsts: HashMap<usize, TaskId> = HashMap::default();
    for (id, scope) in known.iter().filter_map(TaskInfo::in_scope) {
        let first = firsts.entry(scope).or_insert(id);
        *first = id.min(*first);
    }
    // Then those that have waited longest. Seconds are enough, and keep the order of the others.
    let longest_first = |task: &TaskInfo| {
        let lasted = task.waits_on().and_then(Wait::lasted);
        std::cmp::Reverse(lasted.map_or(0, |lasted| lasted.as_secs()))
    };
    let order: HashMap<TaskId, _> = known
        .iter()
        .filter_map(|task| {
            task.in_scope().map(|(id, scope)| (id, (firsts[&scope], longest_first(task))))
        })
        .collect();
    let mut arranged = Vec::with_capacity(known.len());
    let mut known: Vec<Option<TaskInfo>> = known.into_iter().map(Some).collect();
    let is_top = |task: &Option<TaskInfo>| task.as_ref().is_some_and(|task| task.opening.is_none());
    let mut due: Vec<(usize, usize)> = (0..known.len())
        .rev()
        .filter(|&place| is_top(&known[place]))
        .map(|place| (place, 0))
        .collect();
    while let Some((place, depth)) = due.pop() {
        let Some(mut task) = known[place].take() else { continue };
        task.depth = depth;
        task.children.sort_by_key(|child| order.get(child).copied());
        due.extend(task.children.iter().rev().map(|child| (places[child], depth + 1)));
        arranged.push(task);
    }
    arranged
}

/// Adds the names of tasks to the texts about the holders of what is waited for. If all workers have
/// listed their tasks, a holder that is not among them is marked. It has ended, or has begun after its
/// worker was asked, or belongs to another run.
pub(super) fn name_holders(tasks: &mut [TaskInfo], is_complete: bool) {
    let mut held = HashMap::default();
    for task in tasks.iter() {
        let holders = task.waits_on().map_or(&[][..], Wait::holders);
        held.extend(holders.iter().filter_map(Holder::task).map(|id| (id, None)));
    }
    for task in tasks.iter() {
        if let Some(text) = held.get_mut(&task.id()) {
            *text = Some(format!("task {}", task.label));
        }
    }
    let describe = |id| match held.get(&id) {
        Some(Some(text)) => text.clone(),
        _ if is_complete => format!("task {id} (not listed: it may have ended)"),
        _ => format!("task {id}"),
    };
    for task in tasks {
        if let TaskState::Waiting(wait) = &mut task.state {
            wait.describe_holders(describe);
        }
    }
}
