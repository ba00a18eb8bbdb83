//! Sections that finish what they are doing.
#![expect(unsafe_code, reason = "sets a timer on the stack")]

use std::ptr;
use std::time::Duration;

use super::deadline::TimerGuard;
use super::frame::Opened;
use crate::base::clock;
use crate::sched::{self, Timer};
use crate::task;
use crate::task::cancel::{CancelNode, Kind, ShieldNode};

/// Runs `body` so that no cancellation from outside reaches the waits in it. A request that comes meanwhile is kept: the next
/// wait after the shield sees it.
///
/// What is cancelled inside (by a `timeout` or a scope in `body`) works as ever.
///
/// # Panics
/// With the body's panic.
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

/// [`shield`], for at most `limit`: for clean-up that waits, bounded. When the time is up, a request from outside gets through,
/// one that has come meanwhile as well as one that comes later.
///
/// On a plain thread the shield lasts as long as the body.
///
/// # Panics
/// With the body's panic.
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
        // When the shield opens, it hangs itself below what is outside: requests must reach that.
        task::reach(header);
    }
    let _opened = Opened::unlinked(&shield.node.node);
    shield.node.node.become_limit();
    // SAFETY: W1: the guard cancels it before the frame goes.
    unsafe { sched::set_timer(&shield.timer, deadline) };
    let _timer = TimerGuard(&shield.timer);
    body()
}

#[repr(C)]
struct Shield {
    timer: Timer,
    node: ShieldNode,
}

/// The time is up: the node joins the tree.
unsafe fn ring(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of a shield, whose frame is still open.
    let shield = unsafe { &*timer.cast::<Shield>() };
    // SAFETY: K1: the frame is open, and what is outside it has been reached and outlives it; `Opened` unlinks it. Timers ring on
    // the worker that they were set on.
    unsafe { shield.node.open() };
}

fn owner() -> *const task::Header {
    task::current_header().map_or(ptr::null(), ptr::from_ref)
}
