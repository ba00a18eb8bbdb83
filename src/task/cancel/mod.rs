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
//! their children only if these are *listed*: in the parent's list of children. A node is *reached* once it and all above it are
//! listed, up to the next shield: then its own flag tells everything.
//!
//! The nodes of `cancel_scope`, `on_cancel` and `try_scope` are reached from the start. A task's own node, the group node of a scope, and
//! the node of a time limit (which its task's own worker flags, and others only once it is reached) are so only from when somebody needs
//! it: a task that parks reaches its own node, and with it every node above. So opening a scope, spawning a task or setting a limit costs
//! nothing here unless somebody waits.
//!
//! # What a node that is not reached knows
//! It notes, when it is made, the *epoch* at which nothing above it had been flagged: a number for the whole process that moves on with
//! every request. While the epoch is the same, no request can have come. When it has moved, the node's parent is made to be reached, and its
//! flag is the answer. So after a request, wherever it was, the nodes above each open one are linked once, which is what it would have cost
//! to link them in the first place; the node itself goes on asking its parent, without a lock, until its task waits. What is made below a
//! node that is reached notes the epoch afresh.
//!
//! | event | epoch |
//! |---|---|
//! | request | moves on before the first flag is set, and after the last one, before the canceller goes on |
//! | a shield opens because its time is up | moves on after its node has been linked: what is above is new to those below |
//! | a node is made below one that is reached | it notes the epoch, read (acquire) before the parent's flag |
//! | a node is made below one that is not | it copies what that one has noted |
//! | a node is made below one that is flagged | it notes nothing, and asks |
//!
//! What has been noted is true: *each request for a node above this one moves the epoch beyond the noted number, or the number is none.* For
//! a node below one that is reached: a request whose last move the number contains has set its flags before, so the parent's flag was seen; any
//! other moves on later. For a node below one that is not: a request for a node above the parent, by what the parent has noted; a
//! request for the parent itself comes after the parent was made, and moves on from a number that is at least what was noted then. And a request
//! that was over (its canceller had returned) before somebody looks has moved the number that he reads: so it is seen.
//!
//! # Protocol
//! - The children of a node, and the links of those children, are guarded by the node's lock. Locks are taken from the root
//!   downwards.
//! - To cancel: lock the node, flag it, then visit the linked children in the same way, holding the locks on the path. A
//!   child cannot leave (and so cannot die) while its parent's lock is held.
//! - To link: lock the parent; if it is flagged, inherit; else enter the list. So a node is either in the list before the
//!   parent is flagged, and is visited, or comes after and sees the flag: no request is lost.
//! - To reach a node: link it and those above it one after the other, from below, up to one that is reached; then mark them. What is marked
//!   is so whoever did it. Several threads may do this with the same nodes: the tasks of a scope with its group node and all that is above, on
//!   whatever stacks it lies. These stay, because they are open around whoever reaches them (K1), and the last of those who could link a
//!   node ends before its frame unlinks it.
//! - A wait reads the flag of its innermost node, relaxed. A parked task whose nodes have been flagged gets a message (or, on
//!   its own worker, is woken at once): see [`crate::park`].
//! - A request may come to a task's node directly, linked or not: a handle flags the task's own, a watchdog or a plain thread that reads the
//!   clock a limit's that a task further down has reached. So a task that becomes reachable says so and then looks at its flag, and who
//!   flags looks whether it is reachable after that, with a fence (`SeqCst`) between the two on either side: one of them sees the other. That
//!   its nodes have been reached, by a task further down, does not make it reachable: the walk tells it nothing before it has said that it
//!   may wait.
//! - A shield is a node that is not linked: nothing reaches what hangs below it.
//! - A limit is the node of a time limit, or of a shield that runs out. A timer of its task's worker flags or opens it. A worker
//!   that computes does not look at its timers, so `is_cancelled`, `checkpoint`, yields and sleeps read the clock if they are below
//!   a limit. Each node knows the innermost limit at or above it. Of several that have passed, the one with the earliest deadline is
//!   flagged, whichever task it belongs to. A shield is opened on its own worker only, because its timer may be about to do
//!   the same.
//! - Hooks (`on_cancel`) are collected under the locks and run after all of them have been released.
#![expect(unsafe_code, reason = "walks a tree of nodes that live on stacks")]

mod node;
mod reason;
mod walk;

pub(crate) use node::{CancelNode, DeadlineNode, HookNode, Kind, ShieldNode};
pub use reason::{CancelReason, Cancelled};
pub(crate) use walk::{ask, cancel, flagged_by, hang, reach, unlink};
