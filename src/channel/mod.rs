//! Channels, with the names and the behaviour of `crossbeam-channel`'s, plus closing.
//!
//! Tasks and plain threads may be at either end, and no runtime is needed on threads. Everything that waits is a cancel point.
//!
//! | kind | room | a send without room |
//! |---|---|---|
//! | [`bounded`]`(0)` | none | waits until its value has been received |
//! | [`bounded`]`(n)` | `n` | waits |
//! | [`unbounded`] | any number | |
//! | [`dropping`]`(n)` | `n` | is dropped |
//! | [`sliding`]`(n)` | `n` | the oldest value is dropped |
//! | [`oneshot`] | one, once | fails: it is closed |
//! | [`after`], [`at`], [`tick`], [`never`](never()) | values come by themselves, or never | |
//!
//! The crate `ecru-flow` has what is built over channels: pipelines, merges, and hubs that distribute values.
//!
//! # The end
//! A channel ends when all its senders have gone, or when one of its ends [closes](Sender::close) it: what is in it, and what those
//! who already wait to send have, is still received. It ends at once, dropping what is in it, when all its receivers have gone, or with
//! [`close_now`](Sender::close_now).
//!
//! A sender that a closure captures by reference has not gone when the closure ends: in a scope whose tasks share one, the channel stays
//! open until the scope is over, and whoever iterates over it inside waits for ever. `move` it, give each task a clone, or close it.
//!
//! # Order
//! Values of one sender arrive in the order in which it sent them. Those who wait are served in the order in which they came.

mod at_once;
mod closer;
mod core;
mod ends;
mod errors;
mod flavours;
mod halves;
mod iter;
mod meeting;
mod receiver;
mod reservation;
mod select;
mod sender;
mod source;
mod state;
mod waits;

pub use closer::Closer;
pub use errors::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
pub use flavours::{after, at, bounded, dropping, never, oneshot, sliding, tick, unbounded};
pub use iter::{IntoIter, Iter, Results, TryIter};
pub use receiver::Receiver;
#[doc(hidden)]
pub use select::expansion as __select;
pub use select::{
    ReadyTimeoutError, Select, SelectTimeoutError, SelectedOperation, TryReadyError, TrySelectError,
};
pub use select::{select, select_biased};
pub use sender::Sender;

#[cfg(all(test, loom))]
mod loom_models;
