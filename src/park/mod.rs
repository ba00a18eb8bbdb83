//! Layer 2: waiting. Everything in ecru that waits uses the protocol of this module, through the
//! one primitive in [`wait`]. That file says how anything waits. Start there.
//!
//! # Terms
//! - A [`Waiter`] is one wait of one task or OS thread, its *owner*. It lives on the owner's stack.
//!   The waiter of a callback or a future lives in a frame on the heap.
//! - To *register* a waiter is to put it where other threads can find it, usually by a node in a
//!   [`WaitList`].
//! - To *claim* a waiter is to decide how its wait ends: with an item, by a deadline, by a
//!   cancellation. Exactly one claim succeeds. The thread that made it is the *winner*.
//! - To *unpark* a waiter is to let its owner continue.
//! - The [`Parker`] is the part of a task that this layer uses to switch away from it.
//! - The [`Host`] is the part of the scheduler that this layer calls. A worker has a host. A thread
//!   without a host blocks.
//!
//! # Protocol
//! ```text
//!   owner                                       another thread that finds the waiter
//!   ------------------------------------        --------------------------------------------
//!   make a waiter          PENDING
//!   register it
//!   park                                        claim(outcome): PENDING -> outcome, by one CAS;
//!     the worker runs other tasks,                a loser leaves the waiter alone
//!     or the thread sleeps                      write what the outcome promises; the owner's
//!                                                 frame belongs to the winner for now
//!                                               unpark(waiter): the last access to the waiter
//!   continue with the outcome
//! ```
//!
//! # States
//! | state | `claim` | accesses |
//! |---|---|---|
//! | private | `PENDING` | by the owner only |
//! | registered | `PENDING` | any thread that can find the waiter may claim it |
//! | claimed | outcome | the winner may write to the owner's frame; the owner does not leave it |
//! | over | outcome | by the owner only: the winner has called `unpark` |
//!
//! The field `claim` changes once, from `PENDING` to the outcome. Outside of this module it is an
//! [`Outcome`].
//!
//! | outcome | claimed by | meaning |
//! |---|---|---|
//! | `WOKEN` + arm | a giver or a notifier | the wait ended through the node with this number |
//! | `LOOK_AGAIN` | a notifier | nothing was given; the owner looks again |
//! | `CANCELLED` | the task's own worker | the wait was cancelled |
//! | `TIMED_OUT` | the task's own worker, the waiting thread, an alarm | the deadline has passed |
//! | `ABORTED` | the owner | the owner gave the wait up without parking |
//!
//! # Invariants
//! - S4: after a claim, only the winner uses the waiter, and it does not touch the waiter after
//!   `unpark`. So a thread that finds a waiter in a list claims it under the list's lock, or takes
//!   it out of the list first. An owner whose waiter is still in a list takes it out, under the
//!   list's lock, before it leaves the frame. A thread that holds such a lock may still attempt a
//!   claim, which then fails.
//! - A wait that is ended by a claim of another party is unparked exactly once. The owner continues
//!   only after that, even if the claim came before it parked. A claim by the owner itself needs no
//!   unpark. These are `ABORTED`, a `CANCELLED` before parking, and a `TIMED_OUT` of a thread.
//! - Orderings: the winner sees what the owner wrote before it registered, and the owner sees what
//!   the winner wrote before `unpark`. The next section says how.
//! - A task's wait with a single node in a single line is claimed only under the line's lock or by
//!   the task's own worker. A thread that is that worker and holds that lock has no rival, so it
//!   claims without a CAS: see [`Waiter::claim_in_line`].
//! - Cancellations and deadlines of a *task* are claims by the task's own worker, the same thread
//!   that would have to run the task anyway. A canceller on another thread flags a node and then
//!   sends a message to that worker. The worker tells the task's parker, and interrupts the wait if
//!   the task is parked. So the parker and the parked state are never examined by two threads at
//!   once. No fence is needed on the way into a wait, and no cancellation is lost.
//!
//! # Orderings
//! | operation | ordering | it pairs with |
//! |---|---|---|
//! | `claim`, successful | AcqRel | the registration, as the list's lock does, and `outcome` |
//! | `claim`, failed | Relaxed | nothing is read after it |
//! | `claim_in_line` on the owner's worker | Relaxed load, Release store | `outcome` |
//! | `outcome` | Acquire | the claim |
//! | `unpark` of a thread | Release, in its `Signal` | the Acquire in `Waiter::block` |
//! | `unpark` of a task from another thread | SeqCst push to its worker | that worker's Acquire |
//! | `unpark` of a task from its own worker | none | the same thread continues the task |
//! | `raise_if_heard` of a listener | AcqRel, in its `Signal` | `has_heard` and `leave` |
//! | `leave` of a listener | AcqRel, in its `Signal` | `raise_if_heard` |
//!
//! # Listening
//! A task may *listen* before it parks: its worker looks at the waiter's `Signal` for a few
//! microseconds, and does nothing else. If the wait ends in that time, the task continues at once.
//! This saves the way through the worker's inbox and two switches.
//!
//! ```text
//!   owner                                       another thread that finds the waiter
//!   ------------------------------------        --------------------------------------------
//!   become_listener()      LISTENED_TO
//!   register the waiter
//!   listen(): looks at the signal               claim(outcome), write what the outcome promises
//!     if it is raised: the wait is over         tell(waiter): LISTENED_TO -> RAISED, by one CAS
//!     after a while:                              if it succeeds: the last access to the waiter
//!       leave(): LISTENED_TO -> LEFT, by a CAS    if it fails: the listener has left, so
//!       if it succeeds: park                        unpark(waiter), as for any other task
//!       if it fails: the wait is over
//! ```
//!
//! One of the two CASes fails. So a listener either hears of the end of its wait, or is unparked,
//! but never both. The claim of a listener is always a CAS: its `home` is its task, so
//! [`Waiter::claim_in_line`] finds no worker there.

mod gathering;
mod host;
mod parker;
mod wait;
mod wait_list;
mod waiter;

pub use host::no_suspend;
pub use wait_list::WaitList;

pub(crate) use gathering::{Entry, Gathering, Read};
#[cfg(feature = "sim")]
pub(crate) use host::enter_simulation;
pub(crate) use host::{
    Host, Limits, enter_host, enter_worker, explain, explains, give_up_last_look, host,
    is_only_simulated, is_plain_thread, is_unrestricted, last_look, listens, may_listen,
    may_suspend, polling, refuse_if_no_suspend, set_limits,
};
pub(crate) use parker::{Intent, Parker, TraceSlot};
pub(crate) use wait::{
    Begun, Mode, Outcome, Patience, Single, Unattended, Wait, Waiting, begin_parked, end_parked,
    in_halves, while_parked,
};
pub(crate) use wait_list::{Node, Predicate, Queue, Role, Woken};
pub(crate) use waiter::{About, HandleWord, Object, Purpose, Waiter, What, verb};
