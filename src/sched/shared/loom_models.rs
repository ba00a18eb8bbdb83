//! Models of the inboxes and the sleep. No message stays unseen while the worker sleeps, and a
//! request to cancel reaches its task.

use loom::thread;
use std::panic::Location;
use std::ptr;

use super::{Chain, WorkerShared};
use crate::base::sync::Checked;
use crate::base::sync::atomic::Ordering;
use crate::task::cancel::{self, CancelNode, CancelReason, Kind};
use crate::task::{self, Header, Running, VTable};

const VTABLE: VTable = VTable::bare(crate::sched::notify_cancelled);

/// A task, and what a sender wrote before it sent the task.
#[repr(C)]
struct Task {
    header: Header,
    note: Checked,
}

fn leak<T>(value: T) -> &'static T {
    // `end` frees it. The threads of a model need references that live forever.
    Box::leak(Box::new(value))
}

fn end<T>(value: &'static T) {
    drop(unsafe { Box::from_raw(ptr::from_ref(value).cast_mut()) });
}

fn header() -> Header {
    Header::new(
        &VTABLE,
        ptr::null(),
        ptr::null(),
        ptr::null(),
        true,
        false,
        None,
        Location::caller(),
    )
}

struct Shared<T: 'static>(&'static T);
unsafe impl<T> Send for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0)
    }
}

#[test]
fn no_wake_is_lost_and_what_was_written_before_it_is_seen() {
    loom::model(|| {
        let shared = leak(WorkerShared::new());
        let tasks = [(); 2].map(|()| leak(Task { header: header(), note: Checked::new(0) }));
        let threads = tasks.map(|task| {
            let (task, shared) = (Shared(task), Shared(shared));
            thread::spawn(move || {
                let (task, shared) = (task.clone().0, shared.clone().0);
                task.note.set(1);
                unsafe { shared.send_woken(&raw const task.header) };
            })
        });
        let mut received = 0;
        while received < 2 {
            shared.receive_woken(|task| {
                assert_eq!(unsafe { &*task.cast::<Task>() }.note.get(), 1);
                received += 1;
            });
            if received < 2 && shared.fall_asleep(false) {
                shared.sleep(None);
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        tasks.into_iter().for_each(end);
        end(shared);
    });
}

/// Two tasks are placed at a worker in two steps. Meanwhile the worker falls asleep, and another
/// worker takes what has lain there. This thief sends the tasks back through the other inbox, so
/// that the worker has to see each of them once.
#[test]
fn a_placed_task_is_taken_once_by_its_worker_or_by_a_thief() {
    loom::model(|| {
        let shared = leak(WorkerShared::new());
        let tasks = [(); 2].map(|()| leak(Task { header: header(), note: Checked::new(0) }));
        let giver = {
            let (tasks, shared) = (tasks.map(Shared), Shared(shared));
            thread::spawn(move || {
                let (tasks, shared) = (tasks.each_ref().map(|task| task.0), shared.clone().0);
                for task in tasks {
                    task.note.set(1);
                    let mut chain = Chain::EMPTY;
                    unsafe { chain.push(&raw const task.header) };
                    unsafe { shared.send_inbound(chain) };
                }
            })
        };
        let thief = {
            let shared = Shared(shared);
            thread::spawn(move || {
                let shared = shared.clone().0;
                shared.take_inbound(|task| unsafe { shared.send_woken(task) });
            })
        };
        let mut received = 0;
        while received < 2 {
            let mut receive = |task: *const Header| {
                let task = unsafe { &*task.cast::<Task>() };
                assert_eq!(task.note.get(), 1);
                task.note.set(2);
                received += 1;
            };
            shared.receive_woken(&mut receive);
            shared.take_inbound(&mut receive);
            if received < 2 && shared.fall_asleep(false) {
                shared.sleep(None);
            }
        }
        giver.join().unwrap();
        thief.join().unwrap();
        assert!(shared.newest_inbound().is_null());
        tasks.into_iter().for_each(end);
        end(shared);
    });
}

/// Tasks that are placed together arrive together, in their order.
#[test]
fn a_chain_arrives_whole_and_in_order() {
    loom::model(|| {
        let shared = leak(WorkerShared::new());
        let tasks = [(); 3].map(|()| leak(header()));
        let giver = {
            let (tasks, shared) = (tasks.map(|task| Shared(task)), Shared(shared));
            thread::spawn(move || {
                let (tasks, shared) = (tasks.each_ref().map(|task| task.0), shared.clone().0);
                let mut chain = Chain::EMPTY;
                tasks.iter().for_each(|task| unsafe { chain.push(*task) });
                assert_eq!(chain.len(), 3);
                unsafe { shared.send_inbound(chain) };
            })
        };
        let mut received = Vec::new();
        while received.is_empty() {
            shared.take_inbound(|task| received.push(task));
            if received.is_empty() && shared.fall_asleep(false) {
                shared.sleep(None);
            }
        }
        giver.join().unwrap();
        assert_eq!(received, tasks.map(ptr::from_ref));
        tasks.into_iter().for_each(end);
        end(shared);
    });
}

#[test]
fn a_second_request_is_seen_with_the_first_message_or_sends_its_own() {
    loom::model(|| {
        let shared = leak(WorkerShared::new());
        let task = leak(header());
        task.worker.store(ptr::from_ref(shared).cast_mut().cast(), Ordering::Relaxed);
        task.reachable.store(true, Ordering::Relaxed);
        let nodes = [(); 2].map(|()| leak(CancelNode::new(ptr::null(), task, Kind::Plain)));
        let threads = nodes.map(|node| {
            let node = Shared(node);
            thread::spawn(move || {
                let node = node.clone().0;
                cancel::cancel(node, CancelReason::Explicit);
            })
        });
        // Only the second node ends this wait.
        let mut ended = false;
        while !ended {
            shared.receive_cancelled(|task| {
                ended |= nodes[1].cancelled().is_some();
                unsafe { Header::release(task) };
            });
            if !ended && shared.fall_asleep(false) {
                shared.sleep(None);
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        shared.receive_cancelled(|task| unsafe { Header::release(task) });
        nodes.into_iter().for_each(end);
        end(task);
        end(shared);
    });
}

#[test]
fn a_request_by_handle_is_seen_by_the_first_wait_or_told_to_its_worker() {
    before_the_first_wait(false, |task, _| {
        cancel::cancel(&task.node, CancelReason::Explicit);
    });
}

/// A task further down has reached the node before the node's own task has announced that it may
/// wait.
#[test]
fn a_request_through_a_node_that_was_reached_from_below_is_seen_or_told() {
    before_the_first_wait(false, |task, scope| {
        unsafe { cancel::reach(&task.node) };
        cancel::cancel(scope, CancelReason::Explicit);
    });
}

/// The service cancels a time limit's node itself, on behalf of a hook in a task further down,
/// which has reached the node.
#[test]
fn a_request_to_a_limit_that_was_reached_from_below_is_seen_or_told() {
    before_the_first_wait(true, |task, _| {
        let limit = unsafe { &*task.running().node_top() };
        unsafe { cancel::reach(limit) };
        cancel::cancel(limit, CancelReason::Deadline);
    });
}

fn before_the_first_wait(inside_a_limit: bool, request: fn(&Header, &CancelNode)) {
    loom::model(move || {
        let shared = leak(WorkerShared::new());
        let scope = leak(CancelNode::new(ptr::null(), ptr::null(), Kind::Plain));
        let task = leak(Header::new(
            &VTABLE,
            ptr::null(),
            scope,
            ptr::null(),
            true,
            false,
            None,
            Location::caller(),
        ));
        task.node.set_owner(task);
        let limit = leak(CancelNode::new(&raw const task.node, task, Kind::Plain));
        let top = if inside_a_limit { limit } else { &task.node };
        let running = leak(Running::new(top));
        task.running.set(running);
        let others = (Shared(task), Shared(scope));
        let thread = thread::spawn(move || {
            let (task, scope) = others.clone();
            request(task.0, scope.0);
        });
        // The task starts, and comes to its first wait.
        task.started.store(true, Ordering::Release);
        task.worker.store(ptr::from_ref(shared).cast_mut().cast(), Ordering::Relaxed);
        task::reach(task);
        let seen = top.cancelled().is_some();
        if !seen {
            // So the task parks, and only a message can end that.
            let mut told = false;
            while !told {
                shared.receive_cancelled(|task| {
                    told = top.cancelled().is_some();
                    unsafe { Header::release(task) };
                });
                if !told && shared.fall_asleep(false) {
                    shared.sleep(None);
                }
            }
        }
        thread.join().unwrap();
        shared.receive_cancelled(|task| unsafe { Header::release(task) });
        cancel::unlink(limit);
        cancel::unlink(&task.node);
        end(limit);
        end(task);
        end(running);
        end(scope);
        end(shared);
    });
}
