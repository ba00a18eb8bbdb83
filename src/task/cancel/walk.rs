//! Linking, unlinking and the walk of a request through the tree.

use std::ptr;

use super::node::{CancelNode, Children, HookNode, Kind, LISTED, REACHED};
use super::{CancelReason, Cancelled};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{SpinLock, epoch};
use crate::task::Header;

/// Makes sure that requests reach the node: links it, and those above it that are not. From then on its flag tells everything.
///
/// # Safety
/// K1: the node stays where it is until [`unlink`]ed, and its parents outlive that.
pub(crate) unsafe fn reach(node: &CancelNode) -> Option<Cancelled> {
    let mut at = ptr::from_ref(node);
    // SAFETY: K1, the caller's promise.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.is_reached() {
            break;
        }
        // SAFETY: K1, the caller's promise.
        unsafe { link(node) };
        at = node.parent();
    }
    // Only now all of them may be marked: whoever sees a mark does not ask further up.
    let last = at;
    at = node;
    while !ptr::eq(at, last) {
        // SAFETY: K1, the caller's promise.
        let node = unsafe { &*at };
        if !node.is_reached() {
            node.mark_reached();
        }
        at = node.parent();
    }
    node.cancelled()
}

/// Whether a node that is not [clear](CancelNode::is_clear) has been asked, or one above it.
///
/// # Safety
/// K1, as [`reach`], for its parents.
#[cold]
pub(crate) unsafe fn ask(node: &CancelNode) -> Option<Cancelled> {
    let cancelled = node.cancelled();
    if cancelled.is_some() || node.is_reached() {
        return cancelled;
    }
    // The parent, and not the node itself: its siblings will want to know as well, and the node may soon be gone.
    // SAFETY: K1, the caller's promise.
    let parent = unsafe { node.parent().as_ref() };
    // SAFETY: K1, as above.
    unsafe { reach(parent.unwrap_or(node)) }
}

/// Hangs a node that had nothing above it below another one, whose requests are those of the node from then on.
///
/// # Safety
/// K1, as [`reach`].
pub(crate) unsafe fn hang(node: &CancelNode, parent: *const CancelNode) {
    // SAFETY: K1, the caller's promise.
    if let Some(parent) = unsafe { parent.as_ref() } {
        // SAFETY: K1, as above.
        unsafe { reach(parent) };
    }
    node.set_parent(parent);
    // SAFETY: K1, as above.
    unsafe { link(node) };
    // Those below have noted an epoch at which they were right: there was nothing above the node.
    epoch::advance();
}

/// Enters the node into its parent's list. If the parent has been asked already, so has the node.
///
/// # Safety
/// K1, as [`reach`].
#[inline]
unsafe fn link(node: &CancelNode) {
    // SAFETY: K1: the parent outlives the node.
    let Some(parent) = (unsafe { node.parent().as_ref() }) else {
        // A root, or a shield that has not run out: there is nothing above.
        return;
    };
    let children = parent.lock_children();
    if let Some(cancelled) = parent.cancelled() {
        drop(children);
        node.flag(cancelled.reason(), true);
        // What hangs below the node linked itself to it before: pass the request on.
        spread(node, cancelled.reason());
    } else if node.place.load(Ordering::Relaxed) & LISTED == 0 {
        // (Several threads may want it linked.)
        // SAFETY: L3: the node is not linked, stays until it is unlinked, and the parent's lock is held.
        unsafe { children.push(&raw const node.link) };
        // No exchange: nobody marks the node before it is in the list, but for a shield, whose parent is reached.
        let reached = if parent.is_reached() { REACHED } else { 0 };
        node.place.store(LISTED | reached, Ordering::Release);
    }
}

/// Takes the node out of its parent's list. After that nobody reaches it any more.
#[inline]
pub(crate) fn unlink(node: &CancelNode) {
    if node.place.load(Ordering::Relaxed) != 0 {
        unlink_linked(node);
    }
}

fn unlink_linked(node: &CancelNode) {
    // SAFETY: K1: the parent outlives the node.
    let Some(parent) = (unsafe { node.parent().as_ref() }) else { return };
    if node.place.load(Ordering::Relaxed) & LISTED != 0 {
        let children = parent.lock_children();
        // SAFETY: L3: it is in the list, and the lock is held.
        unsafe { children.remove(&raw const node.link) };
    }
    node.place.store(0, Ordering::Relaxed);
}

/// Asks the node and everything below it to stop. Returns false if it had been asked before.
pub(crate) fn cancel(node: &CancelNode, reason: CancelReason) -> bool {
    // Both moves, also for a request that comes second: the first may not have come to its last move yet.
    epoch::advance();
    // The lock comes first: see `link`.
    let guard = node.lock_children();
    let first = node.flag(reason, false);
    let hooks = if first {
        visit(node, guard, reason)
    } else {
        drop(guard);
        ptr::null()
    };
    epoch::advance();
    run_hooks(hooks);
    first
}

/// Passes a request on to what hangs below a node that has been flagged already.
fn spread(node: &CancelNode, reason: CancelReason) {
    let guard = node.lock_children();
    let hooks = visit(node, guard, reason);
    run_hooks(hooks);
}

/// Visits a flagged, locked node and everything below it, depth first, holding the locks on the path from it to where it is;
/// iterative, because trees may be a million deep. Returns the hooks that it has claimed.
fn visit(root: &CancelNode, guard: Children<'_>, reason: CancelReason) -> *const HookNode {
    let mut hooks = ptr::null();
    tell(root, &mut hooks);
    let mut at: *const CancelNode = root;
    let mut child = guard.first();
    guard.keep_locked(); // Unlocked below: the guards of a path cannot be kept in a variable.
    loop {
        if child.is_null() {
            if ptr::eq(at, root) {
                // Its own link is not looked at: the lock that guards it is its parent's, which this walk does not hold.
                // SAFETY: L1: the caller took the lock, and its guard was forgotten.
                unsafe { SpinLock::force_unlock(&root.lock) };
                return hooks;
            }
            // SAFETY: K1: `at` is on the path, whose nodes' parents are locked, so that it cannot leave.
            let node = unsafe { &*at };
            let (next, parent) = (node.link.next(), node.parent());
            // SAFETY: L1: the lock was taken on the way down and its guard forgotten.
            unsafe { SpinLock::force_unlock(&node.lock) };
            at = parent;
            child = next;
            continue;
        }
        let candidate = child.cast::<CancelNode>();
        // SAFETY: K1: a linked child cannot leave while its parent is locked.
        let node = unsafe { &*candidate };
        let guard = node.lock_children();
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
