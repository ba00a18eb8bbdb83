//! Channels with the names and the behaviour of `crossbeam-channel`, and with closing.
//!
//! Either end may be used by tasks and by plain threads. On threads no runtime is needed. Every
//! call that waits is a cancellation point.
//!
//! [`Receiver::recv_many`] and [`Receiver::drain`] receive many values at once. [`Sender::reserve`]
//! waits for room before the value exists. [`Sender::disconnected`] waits until no value is wanted
//! any more. A [`WeakSender`] does not keep its channel connected.
//!
//! | kind | capacity | a send to a full channel |
//! |---|---|---|
//! | [`bounded`]`(0)` | no buffer | waits until its value has been received |
//! | [`bounded`]`(n)` | `n` | waits |
//! | [`unbounded`] | any number | |
//! | [`dropping`]`(n)` | `n` | succeeds, and its value is dropped |
//! | [`sliding`]`(n)` | `n` | succeeds, and the oldest value is dropped |
//! | [`oneshot`] | one value in all | fails, because the channel is closed |
//! | [`after`], [`at`], [`tick`], [`never`](never()) | values come from a clock, or never | |
//!
//! The crate `ecru-flow` contains what is built over channels: pipelines, merges, and hubs that
//! distribute values.
//!
//! # Disconnecting and closing
//! A channel is disconnected when all its senders have been dropped, or when one of its ends
//! [closes](Sender::close) it. Values in the channel, and those of senders that already wait, are
//! still received. When all receivers have been dropped, or by [`close_now`](Sender::close_now),
//! the channel ends at once, and the values in it are dropped.
//!
//! A sender that a closure captures by reference is not dropped when the closure ends. In a scope
//! whose tasks share such a sender, the channel stays open until the scope ends, and an iteration
//! over it inside the scope never ends. Move the sender into the closure, give each task a clone,
//! or close the channel.
//!
//! # Order
//! The values of one sender arrive in the order in which it sent them. Waiters are served in the
//! order in which they arrived.
//!
//! # Calls that do not wait
//! `try_send`, `try_recv` and `try_select` never let another task run. A task that repeats one of
//! them until it succeeds keeps its worker, and the task that it waits for may need that worker.
//! Such a loop must contain a wait, for example [`yield_now`](crate::yield_now).

mod blocking;
mod bulk;
mod clockwork;
mod closer;
mod core;
mod disconnected;
mod ends;
mod errors;
mod fast_path;
mod flavours;
mod hand_over;
mod iter;
mod meeting;
mod named;
mod permit;
mod purpose;
mod receiver;
mod reservation;
mod select;
mod sender;
mod settle;
mod source;
mod state;
mod weak;

pub use closer::Closer;
pub use disconnected::Disconnected;
pub use errors::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
pub use flavours::{after, at, bounded, dropping, never, oneshot, sliding, tick, unbounded};
pub use iter::{IntoIter, Iter, Results, TryIter};
pub use named::Named;
pub use permit::{OwnedPermit, Permit};
pub use receiver::Receiver;
#[doc(hidden)]
pub use select::expansion as __select;
pub use select::{
    ReadyTimeoutError, Select, SelectTimeoutError, SelectedOperation, TryReadyError, TrySelectError,
};
pub use select::{select, select_biased};
pub use sender::Sender;
pub use weak::WeakSender;

#[cfg(all(test, loom))]
mod loom_models;
