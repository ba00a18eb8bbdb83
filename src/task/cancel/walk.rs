//! Linking and unlinking of nodes, and the walk of a request through the tree.

use std::ptr;

use super::node::{CancelNode, Children, HookNode, Kind, LISTED, REACHED};
use super::{CancelReason, Cancelled};
use crate::base::record;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{SpinLock, epoch};
use crate::task::observer::Request;
use crate::task::switch_hook::is_observed;
use crate::task::{Header, is_hooked};

/// Makes sure that requests reach the node: links it and the nodes above it that are not linked.
/// From then on, the node's flag tells everything. Returns the request, if the node is flagged.
///
/// # Safety
/// K1: the node does not move until it is [`unlink`]ed, and its parents outlive that.
pub(crate) unsafe fn reach(node: &CancelNode) -> Option<Cancelled> {
    let mut at = ptr::from_ref(node);
    // SAFETY: K1, by this function's contract.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.is_reached() {
            break;
        }
        // SAFETY: K1, by this function's contract.
        unsafe { link(node) };
        at = node.parent();
    }
    // The nodes are marked only after all of them have been linked, because a marked node's parents
    // are not asked.
    let last = at;
    at = node;
    while !ptr::eq(at, last) {
        // SAFETY: K1, by this function's contract.
        let node = unsafe { &*at };
        if !node.is_reached() {
            node.mark_reached();
        }
        at = node.parent();
    }
    node.cancelled()
}

/// Returns the request that has reached this node or a node above it, if there is one. Called when
/// the node is not [clear](CancelNode::is_clear).
///
/// # Safety
/// K1: the node's parents stay, as for [`reach`].
#[cold]
pub(crate) unsafe fn request_above(node: &CancelNode) -> Option<Cancelled> {
    let cancelled = node.cancelled();
    if cancelled.is_some() || node.is_reached() {
        return cancelled;
    }
    // The parent is reached instead of the node itself. The node's siblings profit from that, too,
    // and the node may soon be closed.
    // SAFETY: K1, by this function's contract.
    let parent = unsafe { node.parent().as_ref() };
    // SAFETY: K1, by this function's contract.
    unsafe { reach(parent.unwrap_or(node)) }
}

/// Links a node that had no parent below another node. Requests to that node then reach this one.
///
/// # Safety
/// K1: as for [`reach`].
pub(crate) unsafe fn hang(node: &CancelNode, parent: *const CancelNode) {
    // SAFETY: K1, by this function's contract.
    if let Some(parent) = unsafe { parent.as_ref() } {
        // SAFETY: K1, by this function's contract.
        unsafe { reach(parent) };
    }
    node.set_parent(parent);
    // SAFETY: K1, by this function's contract.
    unsafe { link(node) };
    // The nodes below have noted an epoch for which there was nothing above `node`. Advancing makes
    // them look again.
    epoch::advance();
}

/// Links a node below its parent, and nothing above that. Requests that reach the parent reach the
/// node from then on, and a request that has reached it before does so now. The parent may be the
/// node of a frame that has ended: what is above it is not touched.
///
/// # Safety
/// K1: the node does not move until it is [`unlink`]ed, and its parent outlives that.
pub(crate) unsafe fn attach(node: &CancelNode) {
    // SAFETY: K1, by this function's contract.
    unsafe { link(node) };
}

/// Enters the node into its parent's list. If the parent is flagged, the node inherits the flag
/// instead.
///
/// # Safety
/// K1: as for [`reach`].
#[inline]
unsafe fn link(node: &CancelNode) {
    // SAFETY: K1: the parent outlives the node.
    let Some(parent) = (unsafe { node.parent().as_ref() }) else {
        // The node is a root, or a shield that has not expired. Nothing is above it.
        return;
    };
    let children = parent.lock_children();
    if let Some(cancelled) = parent.cancelled() {
        drop(children);
        node.flag(cancelled.reason(), true);
        // Nodes below this one may have linked themselves to it before, so the request is passed on
        // to them.
        spread(node, cancelled.reason());
    } else if node.place.load(Ordering::Relaxed) & LISTED == 0 {
        // Another thread may have linked the node in the meantime, hence the test.
        // SAFETY: L3: the node is not linked, stays until it is unlinked, and the parent's lock is
        // held.
        unsafe { children.push(&raw const node.link) };
        // A store is enough: no thread marks the node before it is in the list. The exception is a
        // shield, whose parent is reached.
        let reached = if parent.is_reached() { REACHED } else { 0 };
        node.place.store(LISTED | reached, Ordering::Release);
    }
}

/// Takes the node out of its parent's list. After that, no other thread reaches the node.
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
        // SAFETY: L3: the node is in the list, and the lock is held.
        unsafe { children.remove(&raw const node.link) };
    }
    node.place.store(0, Ordering::Relaxed);
}

/// Cancels the node and everything below it. Returns `false` if the node was flagged before.
pub(crate) fn cancel(node: &CancelNode, reason: CancelReason) -> bool {
    // Both advances are also made for a second request, because the first request may not have made
    // its last advance yet.
    epoch::advance();
    // The lock is taken before the flag is set: see `link`.
    let guard = node.lock_children();
    let first = node.flag(reason, false);
    let mut request = None;
    let hooks = if first {
        if is_hooked() || is_observed() {
            request = record_request(node, reason);
        }
        visit(node, guard, reason)
    } else {
        drop(guard);
        ptr::null()
    };
    epoch::advance();
    run_hooks(hooks);
    if let Some(request) = request {
        request.tell();
    }
    first
}

/// Tells the recorder of a request. Returns what the observer is to be told later, because the node
/// is locked.
#[cold]
fn record_request(node: &CancelNode, reason: CancelReason) -> Option<Request> {
    // SAFETY: K2: a task's node is linked only while the task lives, and the caller holds the node's
    // lock.
    let owner = unsafe { node.owner.get().as_ref() };
    record::with(|ring| ring.cancel(owner.map_or(0, Header::id), reason.text()));
    Request::new(owner, reason)
}

/// Cancels the innermost shield around the code below a node, unless a request has reached the code
/// already, or is about to. Does nothing for code without a shield, above which is only the root of
/// the run.
///
/// # Safety
/// K1: the node and its parents are alive, and this is the thread of the node's task, which does
/// not run or is the caller.
#[cfg(feature = "sim")]
pub(crate) unsafe fn pierce(node: *const CancelNode, root: &CancelNode, reason: CancelReason) {
    let (mut at, mut outermost) = (node, ptr::null::<CancelNode>());
    // SAFETY: K1, by this function's contract.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.cancelled().is_some() {
            return;
        }
        (outermost, at) = (at, node.parent());
    }
    // SAFETY: K1, by this function's contract.
    if let Some(shield) = unsafe { outermost.as_ref() }
        && !ptr::eq(shield, root)
    {
        cancel(shield, reason);
    }
}

/// Passes a request on to the nodes below a node that is already flagged.
fn spread(node: &CancelNode, reason: CancelReason) {
    let guard = node.lock_children();
    let hooks = visit(node, guard, reason);
    run_hooks(hooks);
}

/// Visits a flagged, locked node and everything below it, depth first. The walk holds the locks on
/// the path from `root` to the current node. It is iterative, because trees may be a million levels
/// deep. Returns the hooks that it has claimed.
fn visit(root: &CancelNode, guard: Children<'_>, reason: CancelReason) -> *const HookNode {
    let mut hooks = ptr::null();
    notify(root, &mut hooks);
    let mut at: *const CancelNode = root;
    let mut child = guard.first();
    guard.keep_locked(); // Unlocked below: the guards of a path cannot be kept in a variable.
    loop {
        if child.is_null() {
            if ptr::eq(at, root) {
                // The link of `root` is not read: its parent's lock guards it, and this walk does
                // not hold that.
                // SAFETY: L1: the caller took the lock, and its guard was forgotten.
                unsafe { SpinLock::force_unlock(&root.lock) };
                return hooks;
            }
            // SAFETY: K1: `at` is on the path. The parents of nodes on the path are locked, so `at`
            // cannot leave.
            let node = unsafe { &*at };
            let (next, parent) = (node.link.next(), node.parent());
            // SAFETY: L1: the lock was taken on the way down, and its guard was forgotten.
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
            notify(node, &mut hooks);
            at = candidate;
            child = guard.first();
            guard.keep_locked();
        } else {
            // The node was flagged earlier, and so was everything below it.
            child = node.link.next();
        }
    }
}

/// Tells the node's task of the request, and claims the node's hook.
fn notify(node: &CancelNode, hooks: &mut *const HookNode) {
    // SAFETY: K2: a task's node is linked only while the task lives.
    if let Some(owner) = unsafe { node.owner.get().as_ref() } {
        Header::notify_cancelled(owner);
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
            // From here on the hook's frame waits until the hook is over.
            hook_node.next.set(*hooks);
            *hooks = hook;
        }
    }
}

fn run_hooks(mut hooks: *const HookNode) {
    while !hooks.is_null() {
        // SAFETY: K3: the frame of a claimed hook waits until `run` has set the state to OVER.
        // `next` is read before that.
        let hook = unsafe { &*hooks };
        let (next, run) = (hook.next.get(), hook.run);
        // SAFETY: K3: this thread has claimed the hook, calls it once, and holds no lock.
        unsafe { run(hooks) };
        hooks = next;
    }
}

/// Returns the node whose request flagged this one: the innermost origin at or above it.
///
/// # Safety
/// K1: the node and its parents are alive, as they are for code that runs below them.
pub(crate) unsafe fn flagged_by<'a>(node: *const CancelNode) -> Option<&'a CancelNode> {
    let mut at = node;
    // SAFETY: K1, by this function's contract.
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
