//! Cancellation: the tree of nodes through which a request to stop spreads.
//!
//! # Words
//! - A node is *flagged* once it has been asked to stop. A flag is never taken back.
//! - The node that was asked itself is the *origin*; what lies below it *inherits* the flag.
//! - A request is *delivered* when a wait (or the start of a task) answers it with [`Cancelled`].
//!
//! # The tree
//! ```text
//!   task node (in its header) --- timeout node --- scope's group node --- task node of a child
//!                                 (on the stack)   (on the stack)         (in its header)
//! ```
//! A node's parent outlives it: a child task ends before the scope it belongs to, and frames on a stack nest. Parents know
//! their children only if these are *linked*. A task's own node, and those of the time limits in it (which its own worker flags),
//! are linked when the task opens any other kind of node or parks for the first time after; so spawning a task, or setting a
//! limit, costs nothing here unless somebody waits. All other nodes are linked from the start. Until then a node asks those
//! above it. Above a linked node all are, up to the next shield.
//!
//! # Protocol
//! - The children of a node, and the links of those children, are guarded by the node's lock. Locks are taken from the root
//!   downwards.
//! - To cancel: lock the node, flag it, then visit the linked children in the same way, holding the locks on the path. A
//!   child cannot leave (and so cannot die) while its parent's lock is held.
//! - To link: lock the parent; if it is flagged, inherit; else enter the list. So a node is either in the list before the
//!   parent is flagged, and is visited, or comes after and sees the flag: no request is lost.
//! - A wait reads the flag of its innermost node, relaxed. A parked task whose nodes have been flagged gets a message (or, on
//!   its own worker, is woken at once): see [`crate::park`].
//! - A handle's request flags a task's own node directly, linked or not, under that node's lock. Therefore a task that becomes
//!   reachable takes that lock once before it looks at its flag: see [`meet`].
//! - A shield is a node that is not linked: nothing reaches what hangs below it.
//! - Hooks (`on_cancel`) are collected under the locks and run after all of them have been released.
#![expect(unsafe_code, reason = "walks a tree of nodes that live on stacks")]

mod node;
mod reason;
mod walk;

pub(crate) use node::{CancelNode, DeadlineNode, HookNode, Kind};
pub use reason::{CancelReason, Cancelled};
pub(crate) use walk::{cancel, flagged_by, link, meet, unlink};
