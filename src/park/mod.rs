//! Layer 2: waiting, the one protocol under everything in ecru that waits.
//!
//! # Words
//! - A [`Waiter`] is one wait of one task or OS thread. It lives on the stack of whoever waits.
//! - To *claim* a waiter is to decide how its wait ends: with a value, by a deadline, by a cancellation. Exactly one claim
//!   succeeds.
//! - To *unpark* it is to let its owner go on.
//! - The [`Host`] is whatever carries waits out for the current thread: a worker, or nothing, and then the thread blocks.
//!
//! # Protocol
//! ```text
//!   owner                                       somebody who has found the waiter
//!   ------------------------------------        ------------------------------------
//!   Waiter::new()          PENDING
//!   put it where it can be found
//!   park()                                      claim(outcome): PENDING -> outcome   (one CAS; the losers walk away)
//!     the host runs others, or the thread sleeps  write what the outcome promises (the winner owns the waiter's frame)
//!                                               unpark(waiter)       the last access to the waiter
//!   park() returns the outcome
//! ```
//! # Listening
//! A task whose messages come from another core *listens* before it parks: it stays on its core and looks at its own waiter for
//! a few microseconds. A claimer that finds it listening writes one word, in the cache line that it has claimed the waiter in, and
//! is done. Otherwise the way leads through the task's header, its worker's inbox and two switches, each with a cache line that travels.
//! ```text
//!   owner                                       claimer
//!   ------------------------------------        ------------------------------------
//!   signal = LISTENED_TO, then register         claim(outcome), write what the outcome promises
//!   look at the signal for a moment             tell: signal LISTENED_TO -> RAISED       (one CAS)
//!   leave: signal LISTENED_TO -> LEFT             done: the last access to the waiter
//!     done: park                                  failed: it has left. unpark its task
//!     failed: it is RAISED, go on
//! ```
//! One of the two exchanges succeeds. So the task either goes on by itself or is unparked, never both. While it listens nobody but the
//! holder of the line's lock claims its waiter: cancellations and deadlines are the business of its own worker, which the task occupies.
//!
//! # Rules
//! - S4: nobody but the winner touches a waiter after its claim, and the winner does not after `unpark`. Therefore whoever
//!   finds waiters in a list claims them under the list's lock, or takes them out of the list first; and an owner whose wait
//!   ended by a deadline or a cancellation takes its waiter out of the list, under the same lock, before its frame goes.
//! - There is exactly one `unpark` for each wait, and `park` returns only after it, also when the claim came first.
//! - Orderings: the winner's CAS is AcqRel, `unpark` releases and `park` acquires: what the winner wrote is seen by the owner.
//! - A wait with one node in one line is claimed by whoever holds the line's lock, or by the task's own worker. So who holds that lock on that
//!   worker is alone, and claims it without the CAS: see [`Waiter::claim_in_line`].
//! - Cancellation and deadlines of a *task* are claims made by the task's own worker, which is the thread that would have to
//!   run the task anyway. A canceller elsewhere raises the flag and then sends a message to that worker. So flag and parking
//!   are never looked at by two threads at once, no fence is needed on the way into a wait, and no cancellation is lost.

mod gathering;
mod host;
mod wait_list;
mod waiter;

pub use host::no_suspend;
pub use wait_list::WaitList;

pub(crate) use gathering::{Entry, Gathering, Read};
pub(crate) use host::{
    Host, enter_host, give_up_last_look, host, last_look, listens, may_suspend,
    refuse_if_no_suspend,
};
pub(crate) use wait_list::{Node, Predicate, Queue, Role, Woken};
pub(crate) use waiter::{
    ABORTED, About, CANCELLED, LOOK_AGAIN, Mode, PENDING, Purpose, TIMED_OUT, WOKEN, Waiter,
};
