//! Linking, unlinking and the walk of a request through the tree.

use std::ptr;

use super::node::{CancelNode, HookNode, Kind};
use super::{CancelReason, Cancelled};
use crate::base::list::Pile;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{SpinGuard, SpinLock};
use crate::task::Header;

/// Enters the node into its parent's list, so that requests reach it. If the parent has been asked already, so has the node.
///
/// # Safety
/// K1: the node stays where it is until [`unlink`]ed, and its parent (and the parent's parents) outlive that.
#[inline]
pub(crate) unsafe fn link(node: &CancelNode) -> Option<Cancelled> {
    let parent = node.parent();
    // SAFETY: K1: the parent outlives the node.
    let Some(parent) = (unsafe { parent.as_ref() }) else {
        // A root: nothing could reach it from above.
        node.linked.store(true, Ordering::Release);
        return node.cancelled();
    };
    let children = parent.children.lock();
    if let Some(cancelled) = parent.cancelled() {
        drop(children);
        node.flag(cancelled.reason(), true);
        // What hangs below the node linked itself to it before: pass the request on.
        spread(node, cancelled.reason());
    } else if !node.linked.load(Ordering::Relaxed) {
        // (Several threads may want the node of a scope's daemons linked.)
        // SAFETY: L3: the node is not linked, stays until it is unlinked, and the parent's lock is held.
        unsafe { children.push(&raw const node.link) };
        node.linked.store(true, Ordering::Release);
        drop(children);
    }
    node.cancelled()
}

/// Lets every request that is flagging this very node finish: it is seen, or it sees what the caller did before.
pub(crate) fn meet(node: &CancelNode) {
    drop(node.children.lock());
}

/// Takes the node out of its parent's list. After that nobody reaches it any more.
#[inline]
pub(crate) fn unlink(node: &CancelNode) {
    if node.linked.load(Ordering::Relaxed) {
        unlink_linked(node);
    }
}

fn unlink_linked(node: &CancelNode) {
    // SAFETY: K1: the parent outlives the node.
    let Some(parent) = (unsafe { node.parent().as_ref() }) else { return };
    let children = parent.children.lock();
    // SAFETY: L3: `linked` says that it is in the list, and the lock is held.
    unsafe { children.remove(&raw const node.link) };
    node.linked.store(false, Ordering::Relaxed);
}

/// Asks the node and everything below it to stop. Returns false if it had been asked before.
pub(crate) fn cancel(node: &CancelNode, reason: CancelReason) -> bool {
    // The lock comes first: see `link`.
    let guard = node.children.lock();
    let first = node.flag(reason, false);
    if first {
        let hooks = visit(node, guard, reason);
        run_hooks(hooks);
    }
    first
}

/// Passes a request on to what hangs below a node that has been flagged already.
fn spread(node: &CancelNode, reason: CancelReason) {
    let guard = node.children.lock();
    let hooks = visit(node, guard, reason);
    run_hooks(hooks);
}

/// Visits a flagged, locked node and everything below it, depth first, holding the locks on the path from it to where it is;
/// iterative, because trees may be a million deep. Returns the hooks that it has claimed.
fn visit(root: &CancelNode, guard: SpinGuard<'_, Pile>, reason: CancelReason) -> *const HookNode {
    let mut hooks = ptr::null();
    tell(root, &mut hooks);
    let mut at: *const CancelNode = root;
    let mut child = guard.first();
    guard.keep_locked(); // Unlocked below: the guards of a path cannot be kept in a variable.
    loop {
        if child.is_null() {
            // SAFETY: K1: `at` is on the path, whose nodes' parents are locked, so that it cannot leave.
            let node = unsafe { &*at };
            let (next, parent) = (node.link.next(), node.parent());
            // SAFETY: L1: the lock was taken on the way down and its guard forgotten.
            unsafe { SpinLock::force_unlock(&node.children) };
            if ptr::eq(at, root) {
                return hooks;
            }
            at = parent;
            child = next;
            continue;
        }
        let candidate = child.cast::<CancelNode>();
        // SAFETY: K1: a linked child cannot leave while its parent is locked.
        let node = unsafe { &*candidate };
        let guard = node.children.lock();
        if node.flag(reason, true) {
            tell(node, &mut hooks);
            at = candidate;
            child = guard.first();
            guard.keep_locked();
        } else {
            // Asked earlier, and so was everything below it.
            child = node.link.next();
        }
    }
}

/// Tells the node's task, and claims its hook.
fn tell(node: &CancelNode, hooks: &mut *const HookNode) {
    // SAFETY: K2: a node is linked only while the task whose node it is lives.
    if let Some(owner) = unsafe { node.owner.get().as_ref() } {
        Header::tell_cancelled(owner);
    }
    if node.kind() == Kind::Hook {
        let hook = ptr::from_ref(node).cast::<HookNode>();
        // SAFETY: K3: a node of this kind is the first field of a `HookNode`.
        let hook_node = unsafe { &*hook };
        let claimed = hook_node.state.compare_exchange(
            HookNode::WAITING,
            HookNode::RUNNING,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if claimed.is_ok() {
            // From here on the frame of the hook waits until it is over.
            hook_node.next.set(*hooks);
            *hooks = hook;
        }
    }
}

fn run_hooks(mut hooks: *const HookNode) {
    while !hooks.is_null() {
        // SAFETY: K3: a claimed hook's frame waits until its `run` says that it is over; `next` is read before that.
        let hook = unsafe { &*hooks };
        let (next, run) = (hook.next.get(), hook.run);
        // SAFETY: K3: claimed by this thread, called once, no lock held.
        unsafe { run(hooks) };
        hooks = next;
    }
}

/// The node whose own request it was that flagged this one: the innermost origin at or above it.
///
/// # Safety
/// K1: the node and its parents are alive, as they are for whoever runs below them.
pub(crate) unsafe fn flagged_by<'a>(node: *const CancelNode) -> Option<&'a CancelNode> {
    let mut at = node;
    // SAFETY: K1, the caller's promise.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.is_origin() {
            return Some(node);
        }
        at = node.parent();
    }
    None
}

#[cfg(all(test, loom))]
mod loom_models;
