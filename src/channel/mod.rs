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
//! # Over channels
//! | | |
//! |---|---|
//! | to move | [`pipe`], [`send_all`], [`from_iter`] |
//! | to join and to part | [`merge`], [`zip_with`], [`partition`] |
//! | to receive altogether | [`take`], [`fold`], [`try_fold`], [`collect`] |
//! | to work through | [`pipeline`], [`pipeline_unordered`]; on the way in, [`transformed`] |
//! | to spread | [`Multiplexer`], [`Fanout`], [`Mixer`], [`PubSub`] |
//!
//! Each of them is a view that pulls when it is read, a call that runs in its caller until there is no more to do, or a hub whose `run`
//! is such a call; none of them starts a task that outlives a call. They take receivers and senders by value or by reference: a sender
//! that is given is dropped in the end, which closes its channel if it was the last; one that is lent stays open. What is in hand when
//! a target closes, or when a call is cancelled, comes back in the error.
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
mod over;
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
#[doc(hidden)]
pub use over::lockstep as __lockstep;
pub use over::transform::{self, Transform};
pub use over::{
    Closed, Fanout, IntoReceiver, Lockstep, Merge, MergeIter, Mixer, Multiplexer, NoHandler,
    OnPanic, Pipeline, PipelineUnordered, PubSub, SoloMode, Subscription, Take, Toggle,
    TransformSender, ZipWith, collect, fold, from_iter, merge, partition, pipe, pipeline,
    pipeline_unordered, send_all, take, transformed, try_fold, zip_with,
};
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
