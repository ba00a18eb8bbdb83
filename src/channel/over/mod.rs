//! Over channels: moving, joining, parting, working through and spreading what goes through them.
//!
//! # Who runs
//! Nothing here starts a task that outlives a call, and nothing runs by itself. So each of these is one of three things:
//! - A *view* needs nobody to run it: it pulls when it is read. [`fn@merge`], [`fn@zip_with`] and [`fn@take`] are such, with `recv` and iteration as
//!   receivers have them; what is not pulled stays in the channels.
//! - A *call* runs in the task that calls it until there is no more to do: [`pipe`], [`partition`], [`send_all`], [`fn@fold`], [`collect`]; and
//!   [`fn@pipeline`], which has tasks of its own, all of which have ended when it returns. To have one run beside something else, spawn it
//!   in a scope; cancelling that task ends it.
//! - A *hub* is a value that several tasks use at once: [`Multiplexer`], [`Fanout`], [`Mixer`], [`PubSub`]. One of them calls its `run`, which
//!   is a call as above. What the others ask of it is told to the one that runs, before it does anything else, even while a slow
//!   reader holds it up.
//!
//! A channel with a transform, [`fn@transformed`], needs nobody either: its senders do the work.
//!
//! What a hub has for a channel without room is an offer, as that of a select's `send`: `recv` and selects take it, `try_recv` on a channel
//! without a buffer does not see it.
//!
//! # Ends
//! Calls take receivers and senders by value or by reference. A sender that was given by value is dropped when the call returns, which
//! disconnects its channel if it was the last; one that was lent stays open.
//!
//! A call whose target closes gives the value that it has in hand back, in its error. A cancelled one does too.

mod desk;
mod fanout;
mod flow;
mod fold;
mod merge;
mod mixer;
mod multiplexer;
mod parcels;
mod pipeline;
mod pub_sub;
mod take;
pub mod transform;
mod transformed;
mod zip_with;

pub use fanout::Fanout;
pub use flow::{from_iter, partition, pipe, send_all};
pub use fold::{collect, fold, try_fold};
pub use merge::{Merge, MergeIter, merge};
pub use mixer::{Mixer, SoloMode, Toggle};
pub use multiplexer::{Closed, Multiplexer};
pub use pipeline::{NoHandler, OnPanic, Pipeline, PipelineUnordered, pipeline, pipeline_unordered};
pub use pub_sub::{PubSub, Subscription};
pub use take::{Take, take};
pub use transformed::{TransformSender, transformed};
pub use zip_with::{IntoReceiver, Lockstep, ZipWith, zip_with};

/// What stands behind [`Lockstep`].
#[doc(hidden)]
pub mod lockstep {
    pub use super::zip_with::{Column, Columns, Filled, Pulled};
}
