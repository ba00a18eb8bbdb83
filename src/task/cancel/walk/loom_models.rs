//! Requests against the comings and goings of nodes: none is lost, and none reaches what has left.

use loom::cell::UnsafeCell;
use loom::thread;
use std::panic::Location;
use std::ptr;

use super::super::{CancelNode, CancelReason, Kind};
use super::{cancel, link, unlink};
use crate::task::{Header, VTable};

const VTABLE: VTable = VTable {
    run: |_| unreachable!(),
    refuse: |_, _| unreachable!(),
    take: |_, _| unreachable!(),
    take_panic: |_| None,
    discard: |_| {},
    free: |_| {},
    panicked: |_| {},
    ended: |_, _| {},
    tell: |task| {
        // Loom objects if the task may be gone.
        unsafe { &*task.cast::<Task>() }.alive.with_mut(|told| unsafe { *told += 1 });
    },
};

/// A task that notices who talks to it.
#[repr(C)]
struct Task {
    header: Header,
    alive: UnsafeCell<u32>,
}

impl Task {
    fn new() -> Task {
        let header = Header::new(
            &VTABLE,
            ptr::null(),
            ptr::null(),
            ptr::null(),
            true,
            false,
            None,
            Location::caller(),
        );
        Task { header, alive: UnsafeCell::new(0) }
    }

    /// How often it was told; it may go after this.
    fn told(&self) -> u32 {
        self.alive.with_mut(|told| unsafe { *told })
    }
}

struct Sent<T>(*const T);
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn get(&self) -> &T {
        unsafe { &*self.0 }
    }
}

/// `user` works on a child of the node that another thread cancels.
fn check(user: fn(&CancelNode, &Task)) {
    loom::model(move || {
        let task = Box::new(Task::new());
        let root = Box::new(CancelNode::new(ptr::null(), ptr::null(), Kind::Plain));
        let target = Sent(&raw const *root);
        let thread = thread::spawn(move || cancel(target.get(), CancelReason::Explicit));
        user(&root, &task);
        assert!(thread.join().unwrap());
        task.told();
    });
}

fn node(parent: *const CancelNode, task: &Task) -> CancelNode {
    CancelNode::new(parent, &task.header, Kind::Plain)
}

#[test]
fn a_node_that_links_is_told_or_sees_the_flag() {
    loom::model(|| {
        let task = Box::new(Task::new());
        let root = Box::new(CancelNode::new(ptr::null(), ptr::null(), Kind::Plain));
        let child = Box::new(node(&raw const *root, &task));
        let target = Sent(&raw const *root);
        let thread = thread::spawn(move || cancel(target.get(), CancelReason::Explicit));
        let seen = unsafe { link(&child) }.is_some();
        thread.join().unwrap();
        assert!(child.cancelled().is_some());
        assert!(seen || task.told() == 1, "a task that saw no flag was told");
        unlink(&child);
    });
}

#[test]
fn nobody_talks_to_a_node_that_has_left() {
    check(|root, task| {
        let mut child = Box::new(node(root, task));
        unsafe { link(&child) };
        unlink(&child);
        task.told();
        child.gone();
    });
}

#[test]
fn a_subtree_leaves_from_the_leaves() {
    check(|root, task| {
        let mut child = Box::new(node(root, task));
        unsafe { link(&child) };
        let mut leaf = Box::new(node(&raw const *child, task));
        let seen = unsafe { link(&leaf) }.is_some();
        assert!(!seen || leaf.cancelled().is_some());
        unlink(&leaf);
        leaf.gone();
        unlink(&child);
        child.gone();
        task.told();
    });
}

#[test]
fn what_hangs_below_a_late_link_gets_the_request_too() {
    loom::model(|| {
        let task = Box::new(Task::new());
        let root = Box::new(CancelNode::new(ptr::null(), ptr::null(), Kind::Plain));
        // A shield with something below it, which has run out.
        let shield = Box::new(node(ptr::null(), &task));
        let leaf = Box::new(node(&raw const *shield, &task));
        assert!(unsafe { link(&leaf) }.is_none());
        let target = Sent(&raw const *root);
        let thread = thread::spawn(move || cancel(target.get(), CancelReason::Explicit));
        shield.set_parent(&raw const *root);
        unsafe { link(&shield) };
        thread.join().unwrap();
        assert!(shield.cancelled().is_some());
        assert!(leaf.cancelled().is_some());
        unlink(&leaf);
        unlink(&shield);
    });
}

#[test]
fn nobody_talks_to_the_task_of_an_orphan() {
    loom::model(|| {
        let task = Box::new(Task::new());
        let handle = Box::new(node(ptr::null(), &task));
        let target = Sent(&raw const *handle);
        let thread = thread::spawn(move || cancel(target.get(), CancelReason::Explicit));
        handle.orphan();
        task.told();
        thread.join().unwrap();
        assert!(handle.cancelled().is_some());
    });
}
