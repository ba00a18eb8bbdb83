//! Tasks that wait for each other.
//!
//! A task *needs* other tasks if its wait cannot end before they act: the task that it joins, the
//! tasks of the scope whose end it awaits, the holders of a lock. A waiter for a permit needs no
//! particular task: permits may be given to other tasks, which are not known here. A waiter for a
//! shared lock that readers hold does not need them: it waits behind a writer, whose wait may end by
//! itself.
//!
//! A task is *stuck* if it needs a task that is stuck ([`stuck`](mod@super::stuck)). So each stuck task
//! needs another one of them, and following the needs leads into a cycle.
//!
//! The workers describe their tasks one after another, while the others go on. So a cycle may be
//! pieced together from waits of different moments. It is confirmed by a second look: if each wait in
//! it is still the same one, all of them have existed at the same time between the two looks.

use super::stuck::{self, Places};
use super::tree::TaskInfo;
use super::wait::Wait;
use crate::base::hash::HashMap;
use crate::task::TaskId;

/// The greatest number of cycles that are reported, and of tasks in one.
const CYCLES_MAX: usize = 10;
const LENGTH_MAX: usize = 100;

/// The tasks that one task needs, as indices.
type Needs = Vec<usize>;

/// Returns the cycles among the tasks. Each task of a cycle needs the next one, and the last one
/// needs the first.
pub(super) fn cycles(tasks: &[TaskInfo]) -> Vec<Vec<TaskId>> {
    let places = Places::new(tasks);
    let needs: Vec<Needs> = tasks.iter().map(|task| places.needed_by(task)).collect();
    let stuck = stuck(&needs);
    let found = walk(&needs, &stuck);
    found.into_iter().map(|cycle| cycle.into_iter().map(|one| tasks[one].id()).collect()).collect()
}

/// Returns those of the cycles in which each wait is the same one in both looks.
pub(super) fn confirmed(
    cycles: &[Vec<TaskId>],
    before: &[TaskInfo],
    after: &[TaskInfo],
) -> Vec<Vec<TaskId>> {
    let waits = |tasks| -> HashMap<TaskId, &Wait> {
        let tasks: &[TaskInfo] = tasks;
        tasks.iter().filter_map(|task| Some((task.id(), task.waits_on()?))).collect()
    };
    let (waited, waits) = (waits(before), waits(after));
    let after: Vec<Vec<TaskId>> = self::cycles(after);
    let is_same = |cycle: &&Vec<TaskId>| {
        let still_waits = |id: &TaskId| {
            waits.get(id).zip(waited.get(id)).is_some_and(|(after, before)| after.is_still(before))
        };
        cycle.iter().all(still_waits) && after.iter().any(|other| is_rotated(cycle, other))
    };
    cycles.iter().filter(is_same).cloned().collect()
}

/// Returns whether two cycles are the same one, from whichever task they begin.
fn is_rotated(one: &[TaskId], other: &[TaskId]) -> bool {
    let Some(place) = one.first().and_then(|first| other.iter().position(|id| id == first)) else {
        return false;
    };
    one.len() == other.len() && one.iter().eq(other[place..].iter().chain(&other[..place]))
}

/// Returns for each task whether it is stuck.
fn stuck(needs: &[Needs]) -> Vec<bool> {
    let mut all = stuck::Needs::new(needs.len());
    for (place, need) in needs.iter().enumerate() {
        need.iter().for_each(|&other| all.add(place, [other]));
    }
    all.stuck()
}

/// Follows the needs of the stuck tasks. Each task is visited once.
fn walk(needs: &[Needs], is_stuck: &[bool]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    // The number of the walk that has visited the task.
    let mut visited = vec![0; needs.len()];
    for start in 0..needs.len() {
        let mut path: Vec<usize> = Vec::new();
        let mut place = start;
        while is_stuck[place] && visited[place] == 0 {
            visited[place] = start + 1;
            path.push(place);
            let next = needs[place].iter().find(|&&other| is_stuck[other]);
            place = *next.expect("a stuck task needs a stuck one");
        }
        if !path.is_empty() && visited[place] == start + 1 {
            let first = path.iter().position(|&one| one == place).expect("visited on this walk");
            let cycle = path.split_off(first);
            if cycle.len() <= LENGTH_MAX && found.len() < CYCLES_MAX {
                found.push(cycle);
            }
        }
    }
    found
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Needs, stuck, walk};

    fn found(needs: &[Needs]) -> Vec<Vec<usize>> {
        walk(needs, &stuck(needs))
    }

    #[test]
    fn a_chain_that_ends_at_a_running_task_is_no_cycle() {
        assert!(found(&[vec![1], vec![2], vec![]]).is_empty());
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn cycles_are_found_whatever_leads_into_them() {
        assert_eq!(found(&[vec![0]]), [[0]]);
        // The first task waits for a scope with two tasks that wait for each other.
        assert_eq!(found(&[vec![1, 2], vec![2], vec![1]]), [[1, 2]]);
        // A cycle of three beside a task that can go on.
        assert_eq!(found(&[vec![], vec![2], vec![3], vec![1], vec![0]]), [[1, 2, 3]]);
        assert_eq!(found(&[vec![1], vec![0], vec![3], vec![2]]), [[0, 1], [2, 3]]);
    }
}
