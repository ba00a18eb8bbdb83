//! Signals from other processes or from a terminal.
//!
//! [`ctrl_c`] and [`Signal`] are [sources](crate::Source) of the signals that arrive:
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
//! A run that only has to be cancelled by Ctrl-C or SIGTERM needs neither: see
//! [`cancel_on_ctrl_c`](crate::RuntimeBuilder::cancel_on_ctrl_c) and
//! [`cancel_on_terminate`](crate::RuntimeBuilder::cancel_on_terminate).
//!
//! No handler is installed before there is a listener. When the last listener is dropped, the
//! previous action is restored.

// # Words and protocol
// - A *listener* is an object that the service calls when its signal has arrived. It is represented
//   by a guard. A call that is due when the guard is dropped is still made, if the object exists.
// - The *handler* runs on any thread that the kernel chooses, between any two instructions. All it
//   does is to record the signal in atomics, to write to an eventfd, and to call the function that
//   was installed before.
// - A listener gets one signal or, if it belongs to a `Signal`, all signals while it exists. As
//   long as there is one of the latter, every delivery is taken. The following applies if there is
//   none.
// - Each new listener *arms* the signal, and the first delivery disarms it. A delivery that finds
//   the signal not armed steps aside: it restores the previous action and raises the signal again.
//   So a second Ctrl-C can end a program that does not finish after the first.
// - A program that installs a handler over ours may *pass on* signals to ours. Then ours is not the
//   installed one and never steps aside. It also does nothing while it is itself calling that very
//   handler.
//
// ```text
//   handler                           the service                     guard
//   disarm (or else step aside)
//   pending |= signal
//   write to the eventfd       --->   under the lock: take `pending`, dropped: removes itself under
//   call the function that was        note the signal in its            the lock; the last one
//     installed before, if it         listeners, queue their calls      restores the action
//     is one                          then call them, without the lock
// ```
// The eventfd is created with the first listener, and stays. Each write to it is an event of its
// own, so nothing reads it. Signals are taken under the lock, so listeners note them in the order
// in which they were taken. The user's code runs only in the calls.

mod handler;
mod kind;
mod listen;
mod source;

pub use kind::SignalKind;
pub use source::{Signal, ctrl_c};

pub(crate) use listen::{Listening, listen, listen_for_all};

/// The signal that Ctrl-C sends.
pub(crate) const CTRL_C: i32 = libc::SIGINT;

/// The signal that kill(1) and service managers send.
pub(crate) const TERMINATE: i32 = libc::SIGTERM;
