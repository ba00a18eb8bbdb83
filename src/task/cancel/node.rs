//! A place in the tree.

use std::cell::Cell;
use std::ptr;
use std::time::Instant;

use super::{CancelReason, Cancelled};
use crate::base::list::{Link, Pile};
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::task::Header;

/// What a node stands for, where the walk or a wait has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Spreads requests and nothing else.
    Plain,
    /// The node of a [`HookNode`].
    Hook,
    /// The node of a [`DeadlineNode`].
    Deadline,
}

/// A flagged node's bits: the reason, and whether it was asked itself or inherited the request.
const REASON: u8 = 0x0f;
const INHERITED: u8 = 0x80;

/// A place in the tree of cancellation. See the module for the protocol.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CancelNode {
    /// In the parent's `children`; guarded by the parent's lock.
    pub(super) link: Link,
    /// Null at a root and at a shield; a shield that has run out gets one late.
    parent: AtomicPtr<CancelNode>,
    pub(super) children: SpinLock<Pile>,
    /// The task on whose stack (or in whose header) the node is: whom to tell. Null: a plain thread. Guarded by this node's
    /// own lock once others know the node.
    pub(super) owner: Cell<*const Header>,
    flag: AtomicU8,
    /// Written under the parent's lock; read by the owner without it.
    pub(super) linked: AtomicBool,
    /// Whether a wait has answered this node's own request.
    delivered: AtomicBool,
    kind: Kind,
}

impl CancelNode {
    #[inline(always)]
    pub(crate) fn new(parent: *const CancelNode, owner: *const Header, kind: Kind) -> CancelNode {
        CancelNode {
            link: Link::new(),
            parent: AtomicPtr::new(parent.cast_mut()),
            children: SpinLock::new(Pile::new()),
            owner: Cell::new(owner),
            flag: AtomicU8::new(0),
            linked: AtomicBool::new(false),
            delivered: AtomicBool::new(false),
            kind,
        }
    }

    /// Whether this node has been asked to stop, and why: the one relaxed load of every wait.
    #[inline]
    pub(crate) fn cancelled(&self) -> Option<Cancelled> {
        let bits = self.flag.load(Ordering::Relaxed);
        if bits == 0 { None } else { CancelReason::from_bits(bits & REASON).map(Cancelled::new) }
    }

    /// Whether the node itself was asked, as opposed to something above it.
    #[inline]
    pub(crate) fn is_origin(&self) -> bool {
        let bits = self.flag.load(Ordering::Relaxed);
        bits != 0 && bits & INHERITED == 0
    }

    /// Flags the node; false if it already was.
    pub(super) fn flag(&self, reason: CancelReason, inherited: bool) -> bool {
        let bits = reason as u8 | if inherited { INHERITED } else { 0 };
        // Release: whoever learns of the request by a message and then reads the flag sees it.
        self.flag.compare_exchange(0, bits, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Names the task to tell. Only before anybody else knows the node.
    pub(crate) fn set_owner(&self, owner: *const Header) {
        self.owner.set(owner);
    }

    /// Forgets the task: the frame that the node stood for is gone.
    pub(crate) fn orphan(&self) {
        let _children = self.children.lock();
        self.owner.set(ptr::null());
    }

    /// Hangs the node below another one. Only while it is not linked.
    pub(crate) fn set_parent(&self, parent: *const CancelNode) {
        self.parent.store(parent.cast_mut(), Ordering::Release);
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub(crate) fn parent(&self) -> *const CancelNode {
        self.parent.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.linked.load(Ordering::Acquire)
    }

    /// Notes that a wait has answered this node's request.
    pub(crate) fn mark_delivered(&self) {
        self.delivered.store(true, Ordering::Relaxed);
    }

    /// Whether a wait has answered this node's request.
    pub(crate) fn was_delivered(&self) -> bool {
        self.delivered.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
impl CancelNode {
    /// The frame goes: loom objects if an access to the node is not ordered before this.
    pub(super) fn gone(&mut self) {
        self.flag.with_mut(|_| ());
        self.parent.with_mut(|_| ());
        // SAFETY: L1: exclusive.
        let _ = unsafe { self.linked.unsync_load() };
    }
}

// SAFETY: K1: the cells are guarded by locks, named beside them.
unsafe impl Sync for CancelNode {}
// SAFETY: K1, as above.
unsafe impl Send for CancelNode {}

/// A node that is flagged when its time is up; plain threads, whose waits nobody cancels, read the deadline off it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DeadlineNode {
    /// First, so that a pointer to the node is one to all of it.
    pub(crate) node: CancelNode,
    pub(crate) deadline: Instant,
}

impl DeadlineNode {
    #[inline(always)]
    pub(crate) fn new(
        parent: *const CancelNode,
        owner: *const Header,
        deadline: Instant,
    ) -> DeadlineNode {
        DeadlineNode { node: CancelNode::new(parent, owner, Kind::Deadline), deadline }
    }

    /// The deadline node that a node is the head of.
    pub(crate) fn of(node: &CancelNode) -> Option<&DeadlineNode> {
        if node.kind != Kind::Deadline {
            return None;
        }
        // SAFETY: K4: only `DeadlineNode::new` makes nodes of this kind, as its first field.
        Some(unsafe { &*ptr::from_ref(node).cast::<DeadlineNode>() })
    }
}

/// A node with something to run when a request arrives.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct HookNode {
    /// First, so that a pointer to the node is one to all of it.
    pub(crate) node: CancelNode,
    /// One of the states below.
    pub(crate) state: AtomicU32,
    /// Runs the hook; called once by whoever moved the state from `WAITING` to `RUNNING`, without any lock held.
    pub(crate) run: unsafe fn(*const HookNode),
    /// The next one that the same canceller has collected.
    pub(super) next: Cell<*const HookNode>,
}

impl HookNode {
    /// Not called yet.
    pub(crate) const WAITING: u32 = 0;
    /// Claimed by a canceller that will run it, or is doing so.
    pub(crate) const RUNNING: u32 = 1;
    /// Over, or given up by the frame that it belongs to.
    pub(crate) const OVER: u32 = 2;

    pub(crate) fn new(
        parent: *const CancelNode,
        owner: *const Header,
        run: unsafe fn(*const HookNode),
    ) -> HookNode {
        HookNode {
            node: CancelNode::new(parent, owner, Kind::Hook),
            state: AtomicU32::new(HookNode::WAITING),
            run,
            next: Cell::new(ptr::null()),
        }
    }
}
