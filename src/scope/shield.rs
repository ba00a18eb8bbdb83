//! Sections of code that cancellation from outside does not reach.
#![expect(unsafe_code, reason = "sets a timer on the stack")]

use std::ptr;
use std::time::Duration;

use super::deadline::TimerGuard;
use super::frame::Opened;
use crate::base::clock;
use crate::sched::{self, Timer};
use crate::task;
use crate::task::cancel::{CancelNode, Kind, ShieldNode};

/// Runs `body` so that no cancellation from outside reaches the waits in it. A request that arrives
/// meanwhile is kept, and the next wait after the shield sees it.
///
/// Cancellation that originates inside `body`, such as from a `timeout` or a scope, works as usual.
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::cancel_scope(|c| {
///         c.cancel();
///         let inside = ecru::shield(|| ecru::sleep(Duration::from_millis(1)));
///         assert!(inside.is_ok());
///         assert!(ecru::checkpoint().is_err());
///     });
/// });
/// ```
#[doc(alias = "uninterruptible")]
pub fn shield<T>(body: impl FnOnce() -> T) -> T {
    let node = CancelNode::new(ptr::null(), owner(), Kind::Plain);
    let _opened = Opened::unlinked(&node);
    body()
}

/// Runs `body` under a [`shield`] that lasts for at most `limit`. This bounds clean-up that waits.
/// When the time is up, requests from outside get through, including those that have arrived
/// meanwhile.
///
/// On a plain thread, the shield lasts as long as `body`.
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::cancel_scope(|c| {
///         c.cancel();
///         let said_goodbye = ecru::shield_for(Duration::from_millis(2), || ecru::sleep(Duration::from_secs(3600)));
///         assert!(said_goodbye.is_err());
///     });
/// });
/// ```
pub fn shield_for<T>(limit: Duration, body: impl FnOnce() -> T) -> T {
    let Some(deadline) = clock::now().checked_add(limit) else { return shield(body) };
    let shield = Shield {
        timer: Timer::new(ring),
        node: ShieldNode::new(task::current_node(), owner(), deadline),
    };
    if let Some(header) = task::current_header() {
        // When the shield expires, its node is linked below the nodes outside. Requests must then
        // reach those.
        task::reach(header);
    }
    let _opened = Opened::unlinked(&shield.node.node);
    shield.node.node.become_limit();
    // SAFETY: W1: the guard cancels the timer before the frame ends.
    unsafe { sched::set_timer(&shield.timer, deadline) };
    let _timer = TimerGuard(&shield.timer);
    body()
}

#[repr(C)]
struct Shield {
    timer: Timer,
    node: ShieldNode,
}

/// Called when the time is up. Links the shield's node into the tree.
unsafe fn ring(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of a shield, whose frame is still open.
    let shield = unsafe { &*timer.cast::<Shield>() };
    // SAFETY: K1: the frame is open. The nodes outside are reached and outlive it, and `Opened`
    // unlinks the node. A timer rings on the worker that it was set on.
    unsafe { shield.node.open() };
}

fn owner() -> *const task::Header {
    task::current_header().map_or(ptr::null(), ptr::from_ref)
}
