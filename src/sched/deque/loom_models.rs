//! Models of the owner at both ends against thieves. Each task is a cell that its taker writes to.

use loom::thread;
use std::sync::Arc;

use super::{Deque, Taken};
use crate::base::sync::Checked;

type Task = Checked;

fn task() -> *const Task {
    let task = Box::new(Task::new(0));
    task.set(0);
    Box::into_raw(task)
}

/// Records that the caller has taken the task.
fn take(task: *const Task) -> usize {
    if task.is_null() {
        return 0;
    }
    unsafe { &*task }.add_one();
    1
}

fn steal(deque: &Deque<Task>) -> usize {
    match deque.steal() {
        Taken::Task(task) => take(task),
        Taken::Empty | Taken::Lost => 0,
    }
}

fn drain(deque: &Deque<Task>) -> usize {
    let mut taken = 0;
    loop {
        match take(deque.pop_oldest()) {
            0 => return taken,
            one => taken += one,
        }
    }
}

/// Runs the owner's `work` after `before` pushes, against `thieves` that steal once each. Checks
/// that each task is taken exactly once.
fn check(before: usize, thieves: usize, work: fn(&Deque<Task>) -> (Vec<*const Task>, usize)) {
    loom::model(move || {
        let deque = Arc::new(Deque::new());
        let mut tasks: Vec<*const Task> = (0..before).map(|_| task()).collect();
        tasks.iter().for_each(|task| deque.push(*task));
        let threads: Vec<_> = (0..thieves)
            .map(|_| {
                let deque = Arc::clone(&deque);
                thread::spawn(move || steal(&deque))
            })
            .collect();
        let (more, mut taken) = work(&deque);
        tasks.extend(more);
        taken += drain(&deque);
        taken += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>();
        assert_eq!(taken, tasks.len());
        for task in tasks {
            let task = unsafe { Box::from_raw(task.cast_mut()) };
            assert_eq!(task.get(), 1);
        }
    });
}

#[test]
fn the_last_one_from_the_new_end() {
    check(1, 1, |deque| (vec![], take(deque.pop_newest())));
}

#[test]
fn the_last_one_with_two_thieves() {
    check(1, 2, |deque| (vec![], take(deque.pop_newest())));
}

#[test]
fn the_last_one_from_the_old_end() {
    check(1, 1, |deque| (vec![], take(deque.pop_oldest())));
}

#[test]
fn two_tasks_both_ends_and_two_thieves() {
    check(2, 2, |deque| (vec![], take(deque.pop_newest()) + take(deque.pop_oldest())));
}

#[test]
fn a_push_is_seen_whole() {
    check(0, 1, |deque| {
        let new = task();
        deque.push(new);
        (vec![new], take(deque.pop_newest()))
    });
}

#[test]
fn growth_under_a_thief() {
    check(2, 1, |deque| {
        let new = [task(), task()];
        new.iter().for_each(|task| deque.push(*task));
        (new.to_vec(), take(deque.pop_newest()))
    });
}

#[test]
fn a_slot_is_not_used_again_before_it_was_read() {
    check(1, 1, |deque| {
        let taken = take(deque.pop_oldest());
        let new = [task(), task()];
        new.iter().for_each(|task| deque.push(*task));
        (new.to_vec(), taken)
    });
}
