//! Signals that other processes, or a terminal, send to this one.
//!
//! [`ctrl_c`] and [`Signal`] are [sources](crate::Source) of the signals that come:
//!
//! ```no_run
//! use ecru::Source;
//! use ecru::signal::{self, Signal, SignalKind};
//!
//! # fn main() -> std::io::Result<()> {
//! let (ctrl_c, terminate) = (signal::ctrl_c()?, Signal::new(SignalKind::terminate())?);
//! ecru::run(|| {
//!     ecru::select! {
//!         wait(&ctrl_c) -> _ => println!("interrupted"),
//!         wait(&terminate) -> _ => println!("asked to go"),
//!     }
//! });
//! # Ok(())
//! # }
//! ```
//! A run that is to be cancelled by a Ctrl-C or by SIGTERM needs neither: see
//! [`cancel_on_ctrl_c`](crate::RuntimeBuilder::cancel_on_ctrl_c) and
//! [`cancel_on_terminate`](crate::RuntimeBuilder::cancel_on_terminate).
//!
//! Nothing is installed before somebody listens, and what was there before is put back when the last listener has gone.

// # Words and protocol
// - A *listener* is a closure that is called when its signal comes, on a thread of this module's own. It is named by a guard; once
//   the guard is gone, the closure is not running and never will (Z1).
// - The *handler* runs on whichever thread the kernel chooses, between any two instructions. All it does is to note the signal in
//   atomics, to write to an eventfd, and to go on with what was installed before.
// - A listener hears one signal or, as those of `Signal` do, all that come while it is there. While there is one of these, every
//   delivery is taken; the rest is about the others.
// - A signal is *armed* by each new listener, and the first delivery takes that. A delivery that finds it not armed steps aside: it
//   puts back what was installed before and raises the signal again. So a program that does not get on with ending
//   can be ended by a second Ctrl-C.
// - Who installs a handler after ours may *pass on* to it. Then ours is not the one that is installed, never steps aside, and does not
//   answer while it is calling that very handler.
//
// ```text
//   handler                                 thread "ecru-signal"                  guard
//   take the arm (else step aside)
//   pending |= signal
//   write to the eventfd              --->  take `pending`
//   call the function that was              mark its listeners as firing          dropped: waits while it is firing,
//     installed before, if it is one        call them, without the lock             takes itself off; the last one
//                                           unmark, tell the guards                 restores the action
// ```
// The eventfd and the thread come with the first listener, and stay.

mod handler;
mod kind;
mod listen;
mod source;

pub use kind::SignalKind;
pub use source::{Signal, ctrl_c};

pub(crate) use listen::{Listening, listen};

/// The signal of a Ctrl-C.
pub(crate) const CTRL_C: i32 = libc::SIGINT;

/// What kill(1) and service managers send.
pub(crate) const TERMINATE: i32 = libc::SIGTERM;
