//! The time limits around the running code.
#![expect(unsafe_code, reason = "follows the pointers of cancel nodes")]

use std::cell::OnceCell;
use std::ptr;
use std::time::Instant;

use super::cancel::{self, CancelNode, CancelReason, DeadlineNode, ShieldNode};
use super::current::{current_header, current_node, reach};
use super::header::Header;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;
use crate::park::Limits;

/// The limits of a plain thread's waits: the deadlines of the frames around them.
pub(super) static LIMITS: Limits = Limits {
    nearest: || nearest_deadline().map(|(at, node)| (at, node.cast())),
    expire: |node| {
        // SAFETY: K1, by the contract of `Limits::expire`.
        cancel::cancel(unsafe { &*node.cast::<CancelNode>() }, CancelReason::Deadline);
    },
};

/// Returns the time of the nearest limit around the running code, or `None` if there is none.
///
/// Limits are those of [`timeout`](crate::timeout), [`timeout_at`](crate::timeout_at),
/// [`try_timeout`](crate::try_timeout) and
/// [`CancelHandle::set_deadline`](crate::CancelHandle::set_deadline), around this code or around the
/// scope that this task belongs to. A limit outside of a [`shield`](crate::shield) does not count.
/// The time may have passed already.
///
/// It is for code that passes its limit on, such as a request to another machine.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// assert_eq!(ecru::task::deadline(), None);
/// let deadline = ecru::time::now() + Duration::from_secs(3600);
/// ecru::timeout_at(deadline, || {
///     assert_eq!(ecru::task::deadline(), Some(deadline));
///     ecru::shield(|| assert_eq!(ecru::task::deadline(), None));
/// })
/// .unwrap();
/// ```
#[must_use]
pub fn deadline() -> Option<Instant> {
    nearest_deadline().map(|(at, _)| at)
}

/// Returns the earliest deadline of the frames around the running code, up to the next shield, and
/// its node.
fn nearest_deadline() -> Option<(Instant, *const CancelNode)> {
    nearest(CancelNode::deadline)
}

/// Does the same for those deadlines that do not move.
pub(crate) fn nearest_fixed_deadline() -> Option<(Instant, *const CancelNode)> {
    nearest(|node| DeadlineNode::of(node).map(|limit| limit.deadline))
}

fn nearest(
    deadline: impl Fn(&CancelNode) -> Option<Instant>,
) -> Option<(Instant, *const CancelNode)> {
    let mut nearest: Option<(Instant, *const CancelNode)> = None;
    for_each_limit(|node| {
        if let Some(at) = deadline(node)
            && nearest.is_none_or(|(other, _)| at <= other)
        {
            nearest = Some((at, node));
        }
    });
    nearest
}

/// Calls `each` with the limits of the running code, the innermost one first.
#[inline]
fn for_each_limit(mut each: impl FnMut(&CancelNode)) {
    let mut at = current_node();
    // SAFETY: K1: the frames around the running code are open, and so are those above them.
    while let Some(node) = unsafe { at.as_ref() } {
        // SAFETY: K1: the frames around the running code are open. The limit is the node itself or
        // above it.
        let Some(limit) = (unsafe { node.limit().as_ref() }) else { return };
        each(limit);
        at = limit.parent();
    }
}

/// Makes expired limits of the running code take effect although no timer has rung. A plain thread
/// has no timers, and a worker that computes does not check its own. Reads the clock only below a
/// limit.
#[inline]
pub(crate) fn expire_limits() {
    // SAFETY: K1: the innermost node outlives the code that runs below it.
    if let Some(node) = unsafe { current_node().as_ref() }
        && !node.limit().is_null()
    {
        note_expired_limits();
    }
}

/// Returns whether a task at or above the running one belongs to the same worker.
fn is_beside(running: &Header, above: *const Header) -> bool {
    // SAFETY: K1: a task's ancestors outlive it.
    let above = unsafe { above.as_ref() };
    // Both tasks have started, so neither changes its worker.
    above.is_some_and(|above| {
        ptr::eq(above.worker.load(Ordering::Relaxed), running.worker.load(Ordering::Relaxed))
    })
}

#[inline(never)]
pub(crate) fn note_expired_limits() {
    // Sections whose limit may be set later are among the limits. The clock is not read for them.
    let clock = OnceCell::new();
    let now = || *clock.get_or_init(clock::now);
    let header = current_header();
    for_each_limit(|node| {
        if let Some(shield) = ShieldNode::of(node)
            && shield.deadline <= now()
            && header.is_some_and(|header| is_beside(header, shield.task))
        {
            // SAFETY: K1: `shield_for` has reached the nodes outside, and its frame is open. This
            // is the task's own worker.
            unsafe { shield.open() };
        }
    });
    let Some((deadline, node)) = nearest_deadline() else { return };
    if deadline > now() {
        return;
    }
    if let Some(header) = header {
        // The nodes between the limit and this task must be linked. Otherwise this task would not
        // see the flag.
        reach(header);
    }
    // SAFETY: K1: the limit's frame is open.
    cancel::cancel(unsafe { &*node }, CancelReason::Deadline);
}
