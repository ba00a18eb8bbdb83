//! Cancellation: the tree of nodes through which a cancellation request spreads.
//!
//! # Words
//! - A node is *flagged* once it has been asked to stop. A flag is never taken back.
//! - A *request* is made to one node. That node is the request's *origin*. The nodes below it
//!   *inherit* the flag.
//! - A request is *delivered* when a wait (or the start of a task) answers it with [`Cancelled`].
//! - A node is *listed* while it is in its parent's list of children.
//! - A node is *reached* once it and all nodes above it, up to the next shield, are listed. Its own
//!   flag then tells everything: it is set as soon as the node or one above it is cancelled.
//!
//! # The tree
//! ```text
//!   task node (in its header) --- timeout node --- scope's group node --- task node of a child
//!                                 (on the stack)   (on the stack)         (in its header)
//! ```
//! A node's parent outlives the node: a child task ends before the scope that it belongs to, and
//! frames on a stack nest. A parent knows only those children that are listed.
//!
//! The nodes of `cancel_scope`, `on_cancel` and `try_scope` are reached from the start. A task's
//! own node, a scope's group node and a time limit's node are reached only when something needs it.
//! A task that parks reaches its own node, and with it every node above. So opening a scope,
//! spawning a task or setting a limit costs nothing here unless a task waits. (Until a limit's node
//! is reached, only its task's own worker flags it.)
//!
//! # The epoch: what a node knows before it is reached
//! The *epoch* is a number for the whole process that every request advances. When a node is made,
//! it notes an epoch at which nothing above it had been flagged. If `noted == epoch::now()`, no
//! ancestor has been cancelled.
//!
//! If the epoch has moved on, the task that asks reaches the node's parent, and the parent's flag
//! is the answer. So after a request anywhere in the process, the nodes above each open node are
//! linked once. That is what it would have cost to link them in the first place. The node itself is
//! not linked: its task goes on reading the parent's flag, without a lock, until the task waits. A
//! node that is made below a reached node notes the current epoch.
//!
//! | event | epoch |
//! |---|---|
//! | request | advances before the first flag is set, and after the last, before hooks run |
//! | shield opens | advances after its node is linked: nodes below it have new ancestors |
//! | node made below a reached node | notes the epoch, read (acquire) before the parent's flag |
//! | node made below an unreached node | copies the number that the parent has noted |
//! | node made below a flagged node | notes `NEVER`, so it always asks |
//!
//! The invariant is: *if a node has noted a number other than `NEVER`, each request to a node above
//! it advances the epoch beyond that number.*
//! - A node below a reached node: if the noted number includes the last advance of a request, that
//!   request had set its flags before. The parent's flag was then seen. Every other request
//!   advances the epoch later.
//! - A node below a node that is not reached: for a request to a node above the parent, the
//!   parent's own invariant holds. A request to the parent itself comes after the parent was made.
//!   It advances the epoch from a number that is at least the one noted.
//!
//! A request is over when its canceller has returned. If it was over before a task looks, it has
//! advanced the epoch that the task reads. So the task sees it.
//!
//! # Protocol
//! - A node's lock guards the list of its children and the links of those children. Locks are taken
//!   from the root downwards.
//! - To cancel, a canceller locks the node and flags it. It then visits the listed children in the
//!   same way, holding the locks on the path. A child cannot leave (and so cannot die) while its
//!   parent's lock is held.
//! - To link a node, a thread locks the parent. If the parent is flagged, the node inherits the
//!   flag. Otherwise the node enters the list. So a node either enters the list before the parent
//!   is flagged, and is visited, or it comes later and sees the flag. No request is lost.
//! - To reach a node, a thread links the node and then the nodes above it, one after the other, up
//!   to one that is reached. It then marks them as reached. Several threads may do this with the
//!   same nodes: the tasks of a scope reach its group node and all nodes above it, whatever stacks
//!   these lie on. A mark is correct whichever threads did the linking. The nodes stay valid,
//!   because their frames are open around the tasks that reach them (K1). The last task that could
//!   link a node ends before the node's frame unlinks it.
//! - A wait reads the flag of its innermost node, relaxed. A parked task whose nodes have been
//!   flagged gets a message. If the canceller runs on the task's own worker, the task is woken at
//!   once. See [`crate::park`].
//! - A request may be made to a node directly, linked or not. A handle flags its task's own node.
//!   The service, or a plain thread that reads the clock, flags the node of a limit that a task
//!   further down has reached. Therefore a task that becomes reachable first sets `reachable` and
//!   then reads its flag. A canceller first sets the flag and then reads `reachable`. Each side has
//!   a `SeqCst` fence between its two steps, so at least one of them sees the other. A task's nodes
//!   may have been reached by a task further down. This does not make the task reachable: the walk
//!   tells it nothing before it has set `reachable`, that is, before it may wait.
//! - A shield is a node that is not linked. No request from above reaches the nodes below it.
//! - A *limit* is the node of a time limit, or of a shield that expires. A timer of its task's
//!   worker flags or opens it. A worker that computes does not check its timers. Therefore
//!   `is_cancelled`, `checkpoint`, yields and sleeps read the clock if they are below a limit, and
//!   so does a limit that has passed when it is opened. Each node knows the innermost limit at or
//!   above it. If several limits have passed, the one with the earliest deadline is flagged,
//!   whichever task it belongs to. A shield is opened only on its own worker, because its timer may
//!   be about to open it, too.
//! - Hooks (`on_cancel`) are collected under the locks. They run after all locks have been
//!   released.
#![expect(unsafe_code, reason = "walks a tree of nodes that live on stacks")]

mod by_service;
mod node;
mod reason;
mod walk;

pub(crate) use by_service::CancelByService;
pub(crate) use node::{CancelNode, DeadlineNode, HookNode, Kind, SectionNode, ShieldNode};
pub use reason::{CancelReason, Cancelled};
pub(crate) use reason::{UNEXPLAINED, cancelled_now};
#[cfg(feature = "sim")]
pub(crate) use walk::pierce;
pub(crate) use walk::{attach, cancel, flagged_by, hang, reach, request_above, unlink};
