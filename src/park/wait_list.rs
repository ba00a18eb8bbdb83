//! Lines of waiters, and the nodes by which givers find them.
//!
//! # Terms
//! - A [`Node`] is one registration of one [`Waiter`](super::Waiter) in one line. It lives where
//!   the waiter lives. A waiter may have several nodes (a select has at least one for each arm).
//!   The first of them that is claimed decides how the wait ends, and the owner takes out the
//!   others.
//! - A [`Role`] says what the waiter waits for, and so what the winner of a claim through this node
//!   owes it.
//! - A node is *listed* while it is in a line. The line's lock guards the flag that says so, the
//!   node's links, and every other `Cell` in the node. The other fields are written before the node
//!   is put in, and do not change while it is listed.
//!
//! # Protocol
//! ```text
//!   a giver                                          the waiter's owner
//!   ---------------------------------------------    -----------------------------------------
//!   lock the line                                    lock the line, look once more, push the
//!     claim the first node that can be claimed,        node, unlock
//!     give, take it out (`Woken` remembers it)       park
//!   unlock                                           outcome = WOKEN + the number of the arm
//!   unpark the waiters that `Woken` remembers        take the other nodes out of their lines,
//!                                                      each under its lock
//! ```
//! - S4: a node is claimed under its line's lock. The owner of a listed node cannot leave its frame
//!   before it has taken that lock, so the waiter is there to be claimed. Once a node has been
//!   claimed and taken out, only the winner of the claim refers to it.
//! - No lock is held during an unpark, because an unpark may run a waker or a callback of the user.
#![expect(unsafe_code, reason = "the list's lock guards more than the list")]

mod node;
mod queue;
mod woken;

use std::fmt;

use super::Gathering;
use super::waiter::LOOK_AGAIN;
use crate::base::sync::{QueueGuard, QueueLock};

pub(crate) use self::node::{Node, Predicate, Role};
pub(crate) use self::queue::Queue;
pub(crate) use self::woken::Woken;

/// A list of waiters, in the order of their arrival. A user-defined type needs one to be a
/// [`Source`](crate::Source).
///
/// Code that makes an item available calls [`notify_one`](WaitList::notify_one) or
/// [`notify_all`](WaitList::notify_all) *after* the item can be taken. The library adds and removes
/// the waiters. A list takes two words and allocates nothing.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::source::WaitList;
/// use std::sync::Mutex;
///
/// /// A place for one value.
/// #[derive(Default)]
/// struct Mailbox {
///     letter: Mutex<Option<String>>,
///     readers: WaitList,
/// }
///
/// impl Mailbox {
///     fn post(&self, letter: &str) {
///         *self.letter.lock().unwrap() = Some(String::from(letter));
///         self.readers.notify_one();
///     }
/// }
///
/// impl Source for Mailbox {
///     type Item = String;
///
///     fn try_take(&self) -> Option<String> {
///         self.letter.lock().unwrap().take()
///     }
///
///     fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
///         each(&self.readers);
///     }
/// }
///
/// let mailbox = Mailbox::default();
/// std::thread::scope(|s| {
///     s.spawn(|| assert_eq!(mailbox.wait().unwrap(), "dear reader"));
///     mailbox.post("dear reader");
/// });
/// ```
pub struct WaitList {
    queue: QueueLock<Queue>,
}

impl WaitList {
    /// Creates an empty list.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> WaitList {
        WaitList { queue: QueueLock::new(Queue::new()) }
    }

    /// Creates an empty list.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> WaitList {
        WaitList { queue: QueueLock::new(Queue::new()) }
    }

    /// Creates a list whose lock guards data that one thread may use many times in a row: see
    /// [`QueueLock::for_bursts`].
    pub(crate) fn for_bursts() -> WaitList {
        WaitList { queue: QueueLock::for_bursts(Queue::new()) }
    }

    /// Tells the waiter that has waited longest to look again. A waiter for several sources that
    /// has already received an item elsewhere is skipped. If it receives one elsewhere before it
    /// looks here, it passes the notification on. So no notification is lost while there is a
    /// waiter.
    ///
    /// # Examples
    /// ```
    /// let nobody = ecru::source::WaitList::new();
    /// nobody.notify_one();
    /// ```
    pub fn notify_one(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.claim_looking(&mut woken, false);
        drop(queue);
    }

    /// Tells all waiters to look again.
    ///
    /// # Examples
    /// ```
    /// let nobody = ecru::source::WaitList::new();
    /// nobody.notify_all();
    /// ```
    pub fn notify_all(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.claim_looking(&mut woken, true);
        drop(queue);
    }

    /// Called when a notified waiter has refused the item. Wakes the waiters registered as `Take`
    /// and `Slot`, so that they look again. Waiters registered as `Notify` are left alone, because
    /// two that both refuse would notify each other forever.
    pub(crate) fn offer_to_takers(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.seek(|node| -> Option<()> {
            let outcome = match node.role {
                Role::Take => node.outcome,
                Role::Slot => LOOK_AGAIN,
                _ => return None,
            };
            queue.remove(node);
            if node.claim_as(outcome) {
                woken.push(node);
            }
            None
        });
        drop(queue);
    }

    /// Announces that the event that all waiters in the list wait for has happened for good. Wakes
    /// all waiters, and notes the entries of gatherings. Only the list's owner calls it.
    #[inline(never)]
    pub(crate) fn announce(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        while let Some(node) = queue.first() {
            let entry = queue.line.first().cast();
            queue.remove(node);
            if node.role == Role::Gather {
                // SAFETY: G1: the entry was just taken out of the line, whose lock is held, and is
                // not touched afterwards.
                unsafe { Gathering::note(node.data.cast(), entry, &mut woken) };
            } else if node.claim() {
                woken.push(node);
            }
        }
        drop(queue);
    }

    /// Takes the lock. It guards the nodes, and whatever else the list's owner defines.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> QueueGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Returns whether this thread holds the lock and runs a predicate under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        self.queue.is_asking()
    }

    /// Makes `call` after this thread has released the lock, under which it runs a predicate.
    /// `call` must not panic.
    ///
    /// # Panics
    /// Panics if the thread does not run a predicate under the lock.
    ///
    /// # Safety
    /// L5: the data that `call` uses stays valid until the lock holder has made the call.
    pub(crate) unsafe fn put_off(&self, call: impl FnOnce()) {
        // SAFETY: L5, by the caller's promise.
        unsafe { self.queue.put_off(call) };
    }

    /// Takes the lock if that is quick. Returns `None` if another thread holds it.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<QueueGuard<'_, Queue>> {
        self.queue.lock_at_once()
    }
}

impl Default for WaitList {
    fn default() -> WaitList {
        WaitList::new()
    }
}

impl fmt::Debug for WaitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitList").finish_non_exhaustive()
    }
}
