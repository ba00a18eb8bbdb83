//! Pipelines, merges and hubs over the channels of [`ecru`], and guards against overload and
//! failures.
//!
//! | purpose | see |
//! |---|---|
//! | move values | [`pipe`], [`send_all`], [`from_iter`] |
//! | join and split channels | [`fn@merge`], [`fn@zip_with`], [`partition`] |
//! | receive into one value | [`fn@take`], [`fn@fold`], [`try_fold`], [`collect`] |
//! | process values | [`fn@pipeline`], [`pipeline_unordered`]; on the way into a channel, [`fn@transformed`] |
//! | distribute values | [`Multiplexer`], [`Fanout`], [`Mixer`], [`PubSub`], [`fn@broadcast`] |
//! | live with failures | [`RateLimiter`], [`CircuitBreaker`], [`supervise`](supervise()) |
//!
//! # Views, calls and hubs
//! Nothing here runs in the background, and no call starts a task that outlives it. Each item is
//! one of three things:
//! - A *view* receives when it is read: [`fn@merge`], [`fn@zip_with`] and [`fn@take`]. Values that
//!   are not read stay in their channels.
//! - A *call* runs in the calling task until its work is done: [`pipe`], [`partition`],
//!   [`send_all`], [`fn@fold`], [`collect`]. [`fn@pipeline`] is one too. It starts tasks, which
//!   have ended when it returns. To run a call beside other work, spawn a task for it. To stop it,
//!   cancel that task.
//! - A *hub* is a value that several tasks use at once: [`Multiplexer`], [`Fanout`], [`Mixer`],
//!   [`PubSub`]. One task calls `run`, which is a call in the sense above. Other tasks make
//!   requests, such as adding a subscriber. Requests are handled before any value, even while a
//!   slow reader holds up the hub.
//!
//! A [`fn@transformed`] channel needs no task: its senders do the work. Neither does a
//! [`fn@broadcast`].
//!
//! # Senders by value or by reference
//! Calls take receivers and senders by value or by reference. A sender that is passed by value is
//! dropped when the call returns. If it was the last one, its channel is disconnected. A sender
//! that is passed by reference stays open.
//!
//! If the target of a call closes, or the call is cancelled, the error holds the value that has
//! been received and not sent.
//!
//! # Examples
//! ```
//! use ecru::channel;
//!
//! ecru::run(|| {
//!     let (sender, squares) = channel::unbounded();
//!     ecru_flow::pipeline(4, |n: u32| [n * n]).run(ecru_flow::from_iter(1..=5), sender).unwrap();
//!     assert_eq!(ecru_flow::collect(squares), Ok(vec![1, 4, 9, 16, 25]));
//! });
//! ```

mod base;
mod broadcast;
mod broadcast_errors;
mod calls;
mod circuit_breaker;
mod failure_window;
mod fanout;
mod fold;
mod mailbox;
mod merge;
mod meter;
mod mixer;
mod multiplexer;
mod pending;
mod pipeline;
mod pub_sub;
mod rate_limiter;
mod supervise;
mod take;
pub mod transform;
mod transformed;
mod zip_with;

pub use broadcast::{BroadcastReceiver, BroadcastSender, SlowReceivers, broadcast, broadcast_with};
pub use broadcast_errors::{BroadcastRecvError, BroadcastTryRecvError};
pub use calls::{from_iter, partition, pipe, send_all};
pub use circuit_breaker::{CircuitBreaker, CircuitError, CircuitState};
pub use fanout::Fanout;
pub use fold::{collect, fold, try_fold};
pub use merge::{Merge, MergeIter, merge};
pub use mixer::{Mixer, SoloMode, Toggle};
pub use multiplexer::{Closed, Multiplexer};
pub use pipeline::{NoHandler, OnPanic, Pipeline, PipelineUnordered, pipeline, pipeline_unordered};
pub use pub_sub::{PubSub, TopicReceiver};
pub use rate_limiter::{RateLimited, RateLimiter};
pub use supervise::{Failure, SuperviseError, Supervisor, supervise};
pub use take::{Take, take};
pub use transform::Transform;
pub use transformed::{TransformSender, transformed};
pub use zip_with::{IntoReceiver, Lockstep, ZipWith, zip_with};

/// The private half of [`Lockstep`].
#[doc(hidden)]
pub mod lockstep {
    pub use super::zip_with::{Column, Columns, Filled, Pulled};
}

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
