//! Models of requests against nodes that are linked and unlinked. No request is lost, and none
//! reaches a node that has left.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use super::super::{CancelNode, CancelReason, Kind};
use super::{cancel, hang, reach, request_above, unlink};
use crate::base::sync::Checked;
use crate::task::{Header, VTable};

const VTABLE: VTable = VTable::bare(|task| {
    // Loom reports an error if the task may be gone.
    unsafe { &*task.cast::<Task>() }.alive.add_one();
});

/// A task that counts how often it is told of a request.
#[repr(C)]
struct Task {
    header: Header,
    alive: Checked,
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
        Task { header, alive: Checked::new(0) }
    }

    /// Returns how often the task was told. The task may be freed after this.
    fn told(&self) -> u32 {
        self.alive.get_alone()
    }
}

struct Sent<T>(*const T);
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn get(&self) -> &T {
        unsafe { &*self.0 }
    }
}

/// Cancels a node in another thread while `user` works on a child of that node.
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
        let seen = unsafe { reach(&child) }.is_some();
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
        unsafe { reach(&child) };
        unlink(&child);
        task.told();
        child.gone();
    });
}

#[test]
fn a_subtree_leaves_from_the_leaves() {
    check(|root, task| {
        let mut child = Box::new(node(root, task));
        unsafe { reach(&child) };
        let mut leaf = Box::new(node(&raw const *child, task));
        let seen = unsafe { reach(&leaf) }.is_some();
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
        // A shield that has expired, with a node below it.
        let shield = Box::new(node(ptr::null(), &task));
        let leaf = Box::new(node(&raw const *shield, &task));
        assert!(unsafe { reach(&leaf) }.is_none());
        let target = Sent(&raw const *root);
        let thread = thread::spawn(move || cancel(target.get(), CancelReason::Explicit));
        unsafe { hang(&shield, &raw const *root) };
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

/// Creates the root of a run.
fn top() -> Box<CancelNode> {
    let root = Box::new(CancelNode::new(ptr::null(), ptr::null(), Kind::Plain));
    root.set_root();
    root
}

/// Creates a node that notes the epoch and is not linked.
fn noting(parent: &CancelNode, task: &Task) -> Box<CancelNode> {
    let node = Box::new(node(parent, task));
    unsafe { node.note() };
    node
}

/// Returns whether a task with this innermost node sees a request when it asks.
fn is_asked(node: &CancelNode) -> bool {
    !node.is_clear() && unsafe { request_above(node) }.is_some()
}

/// A flag that is set when a request's canceller has returned.
struct Over(Arc<AtomicBool>);

impl Over {
    fn of(request: impl FnOnce() + Send + 'static) -> (Over, thread::JoinHandle<()>) {
        let over = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&over);
        let thread = thread::spawn(move || {
            request();
            said.store(true, Ordering::Release);
        });
        (Over(over), thread)
    }

    fn cancelling(node: &CancelNode) -> (Over, thread::JoinHandle<()>) {
        let target = Sent(ptr::from_ref(node));
        Over::of(move || {
            cancel(target.get(), CancelReason::Explicit);
        })
    }

    /// Looks at the node, and asserts that a request that was over before is seen.
    fn check(&self, node: &CancelNode) {
        let over = self.0.load(Ordering::Acquire);
        assert!(is_asked(node) || !over, "a request is lost");
    }
}

/// If `above`, the request is made to the root, otherwise to the scope's node.
fn nodes_that_only_note(above: bool) {
    loom::model(move || {
        let task = Box::new(Task::new());
        let root = top();
        // The canceller knows this node before the other nodes are made.
        let scope = noting(&root, &task);
        let (over, thread) = Over::cancelling(if above { &root } else { &scope });
        let child = noting(&scope, &task);
        over.check(&child);
        // These are made below nodes that may have been reached by now.
        let late = noting(&scope, &task);
        let inner = noting(&child, &task);
        over.check(&late);
        over.check(&inner);
        thread.join().unwrap();
        for node in [&child, &late, &inner] {
            assert!(is_asked(node));
        }
        for node in [&inner, &late, &child, &scope] {
            unlink(node);
        }
    });
}

#[test]
fn a_request_further_up_is_seen_by_nodes_that_only_note() {
    nodes_that_only_note(true);
}

#[test]
fn a_request_to_a_scope_is_seen_by_nodes_that_only_note() {
    nodes_that_only_note(false);
}

#[test]
fn a_node_made_below_a_reached_one_sees_what_is_over() {
    loom::model(|| {
        let task = Box::new(Task::new());
        let root = top();
        let outer = noting(&root, &task);
        unsafe { reach(&outer) };
        let (over, thread) = Over::cancelling(&root);
        let scope = noting(&outer, &task);
        let child = noting(&scope, &task);
        over.check(&child);
        thread.join().unwrap();
        assert!(is_asked(&child));
        for node in [&child, &scope, &outer] {
            unlink(node);
        }
    });
}

/// Two tasks of one scope reach the scope's node while a request is made.
#[test]
fn two_that_reach_one_scope_are_told_or_see_the_flag() {
    // With three threads and two preemptions, this model alone takes minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.check(|| {
        let tasks = [(); 2].map(|()| Box::new(Task::new()));
        let nobody = Box::new(Task::new());
        let root = top();
        let scope = noting(&root, &nobody);
        let children = [0, 1].map(|at| noting(&scope, &tasks[at]));
        let (over, canceller) = Over::cancelling(&root);
        let other = Sent(&raw const *children[1]);
        let parks = thread::spawn(move || unsafe { reach(other.get()) }.is_some());
        let first = unsafe { reach(&children[0]) }.is_some();
        over.check(&children[0]);
        let second = parks.join().unwrap();
        canceller.join().unwrap();
        for (at, seen) in [first, second].into_iter().enumerate() {
            assert!(children[at].cancelled().is_some());
            assert!(seen || tasks[at].told() > 0, "a task that saw no flag was told");
        }
        for node in children.iter().chain([&scope]) {
            unlink(node);
        }
        let mut scope = scope;
        scope.gone();
    });
}

/// A task further down has reached the node. The node leaves with its own frame, after that task
/// has ended.
#[test]
fn a_scope_that_its_task_reached_leaves_after_it() {
    check(|root, task| {
        let mut scope = noting(root, task);
        let mut child = noting(&scope, task);
        let parks = Sent(&raw const *child);
        let thread = thread::spawn(move || {
            unsafe { reach(parks.get()) };
            unlink(parks.get());
        });
        thread.join().unwrap();
        child.gone();
        unlink(&scope);
        scope.gone();
    });
}

#[test]
fn a_shield_that_opens_is_seen_by_nodes_that_only_note() {
    loom::model(|| {
        let task = Box::new(Task::new());
        let root = top();
        cancel(&root, CancelReason::Explicit);
        let shield = noting_shield(&task);
        let child = noting(&shield, &task);
        assert!(!is_asked(&child));
        let opens = (Sent(&raw const *shield), Sent(&raw const *root));
        let (over, thread) = Over::of(move || unsafe { hang(opens.0.get(), opens.1.get()) });
        over.check(&child);
        let late = noting(&shield, &task);
        over.check(&late);
        thread.join().unwrap();
        for node in [&child, &late] {
            assert!(is_asked(node));
            unlink(node);
        }
        unlink(&shield);
    });
}

fn noting_shield(task: &Task) -> Box<CancelNode> {
    let shield = Box::new(node(ptr::null(), task));
    unsafe { shield.note() };
    shield
}
