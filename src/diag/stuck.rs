//! What tasks need, and which tasks are stuck for that reason.
//!
//! A task's wait can have several *needs*. Each need is a set of tasks, one of which has to act
//! before the wait can end: the set for a lock is its holder, and the set for a channel is all tasks
//! that have a handle of it. A task is *stuck* if all tasks of one of its needs are stuck.
//!
//! The stuck tasks are found by elimination. At first each task with a need counts as stuck. Then
//! those are taken out each of whose needs contains a task that is not stuck, until none is left to
//! be taken out.

use super::tree::TaskInfo;
use crate::base::hash::HashMap;
use crate::task::TaskId;

/// The tasks of a tree by what others may need of them.
#[derive(Debug)]
pub(super) struct Places {
    by_id: HashMap<TaskId, usize>,
    /// The tasks of each scope.
    by_scope: HashMap<usize, Vec<usize>>,
}

impl Places {
    pub(super) fn new(tasks: &[TaskInfo]) -> Places {
        let mut by_scope: HashMap<usize, Vec<usize>> = HashMap::default();
        for (place, task) in tasks.iter().enumerate() {
            if let Some((_, scope)) = task.in_scope() {
                by_scope.entry(scope).or_default().push(place);
            }
        }
        let by_id = tasks.iter().enumerate().map(|(place, task)| (task.id(), place)).collect();
        Places { by_id, by_scope }
    }

    pub(super) fn of(&self, id: TaskId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the tasks each of which has to act before the wait of this task can end: the tasks of
    /// the scope whose end it awaits, the task that it joins, the holders of a lock.
    pub(super) fn needed_by(&self, task: &TaskInfo) -> Vec<usize> {
        let Some(wait) = task.waits_on() else { return Vec::new() };
        match wait.scope() {
            Some(scope) => self.by_scope.get(&scope).cloned().unwrap_or_default(),
            None => wait.needs().iter().filter_map(|&id| self.of(id)).collect(),
        }
    }
}

/// The needs of tasks, which are known by their places.
#[derive(Debug)]
pub(super) struct Needs {
    /// The task of each need.
    owners: Vec<usize>,
    /// For each task, the needs that contain it.
    needed_in: Vec<Vec<usize>>,
}

impl Needs {
    /// Creates the needs of that many tasks, which have none yet.
    pub(super) fn new(tasks: usize) -> Needs {
        Needs { owners: Vec::new(), needed_in: vec![Vec::new(); tasks] }
    }

    /// Adds a need of a task. A need without members is never fulfilled.
    pub(super) fn add(&mut self, owner: usize, members: impl IntoIterator<Item = usize>) {
        let need = self.owners.len();
        self.owners.push(owner);
        for member in members {
            self.needed_in[member].push(need);
        }
    }

    /// Returns for each task whether it is stuck.
    pub(super) fn stuck(&self) -> Vec<bool> {
        let mut unfulfilled = vec![0; self.needed_in.len()];
        self.owners.iter().for_each(|&owner| unfulfilled[owner] += 1);
        let mut is_fulfillable = vec![false; self.owners.len()];
        let mut free: Vec<usize> =
            (0..unfulfilled.len()).filter(|&task| unfulfilled[task] == 0).collect();
        while let Some(task) = free.pop() {
            for &need in &self.needed_in[task] {
                let owner = self.owners[need];
                if !std::mem::replace(&mut is_fulfillable[need], true) {
                    unfulfilled[owner] -= 1;
                    if unfulfilled[owner] == 0 {
                        free.push(owner);
                    }
                }
            }
        }
        unfulfilled.into_iter().map(|needs| needs > 0).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Needs;

    fn stuck(tasks: usize, needs: &[(usize, &[usize])]) -> Vec<usize> {
        let mut all = Needs::new(tasks);
        needs.iter().for_each(|(owner, members)| all.add(*owner, members.iter().copied()));
        let stuck = all.stuck();
        (0..tasks).filter(|&task| stuck[task]).collect()
    }

    #[test]
    fn what_needs_a_free_task_is_free() {
        assert!(stuck(3, &[(0, &[1]), (1, &[2])]).is_empty());
        assert!(stuck(0, &[]).is_empty());
        // One need that is not fulfilled is enough.
        assert_eq!(stuck(3, &[(0, &[1]), (0, &[2]), (1, &[1])]), [0, 1]);
    }

    #[test]
    fn one_free_member_fulfils_a_need() {
        assert!(stuck(3, &[(0, &[1, 2]), (1, &[0])]).is_empty());
        assert_eq!(stuck(3, &[(0, &[1, 2]), (1, &[0]), (2, &[0])]), [0, 1, 2]);
    }

    #[test]
    fn a_cycle_and_its_dependents_are_stuck() {
        assert_eq!(stuck(5, &[(0, &[0])]), [0]);
        assert_eq!(stuck(5, &[(0, &[1]), (1, &[0]), (2, &[1]), (3, &[2, 4])]), [0, 1, 2]);
        assert_eq!(stuck(2, &[(0, &[])]), [0]);
    }
}
