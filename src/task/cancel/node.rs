//! A place in the tree.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;
use std::time::Instant;

use super::{CancelReason, Cancelled};
use crate::base::list::{Link, Pile};
use crate::base::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::base::sync::{SpinGuard, SpinLock, StaticU64, epoch};
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
    /// The node of a [`ShieldNode`].
    Shield,
}

/// A flagged node's bits: the reason, whether a wait has answered this node's own request, and whether the node was asked itself or
/// inherited the request.
const REASON: u8 = 0x0f;
const DELIVERED: u8 = 0x40;
const INHERITED: u8 = 0x80;

/// The node is in its parent's list. Written under the parent's lock.
pub(super) const LISTED: u8 = 1;
/// So are all above it, or its flag is set: the flag tells everything.
pub(super) const REACHED: u8 = 2;

/// A place in the tree of cancellation. See the module for the protocol.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CancelNode {
    /// In the parent's `children`; guarded by the parent's lock.
    pub(super) link: Link,
    /// Null at a root and at a shield; a shield that has run out gets one late.
    parent: AtomicPtr<CancelNode>,
    /// Guarded by `lock`.
    children: Pile,
    /// The task on whose stack (or in whose header) the node is: whom to tell. Null: a plain thread. Guarded by this node's
    /// own lock once others know the node.
    pub(super) owner: Cell<*const Header>,
    /// The epoch at which nothing above had been flagged. Written before anybody else knows the node.
    noted: Cell<u64>,
    /// The innermost node at or above this one that time changes: a time limit, or a shield that runs out. Null: there is none up
    /// to the next shield. Written before other tasks know the node.
    limit: Cell<*const CancelNode>,
    pub(super) lock: SpinLock<()>,
    flag: AtomicU8,
    /// `LISTED` and `REACHED`.
    pub(super) place: AtomicU8,
    kind: Kind,
    /// The number of the request, once somebody has asked for it.
    number: AtomicU32,
}

static NEXT_NUMBER: StaticU64 = StaticU64::new(1);

impl CancelNode {
    #[inline(always)]
    pub(crate) fn new(parent: *const CancelNode, owner: *const Header, kind: Kind) -> CancelNode {
        CancelNode {
            link: Link::new(),
            parent: AtomicPtr::new(parent.cast_mut()),
            children: Pile::new(),
            owner: Cell::new(owner),
            noted: Cell::new(epoch::NEVER),
            lock: SpinLock::new(()),
            flag: AtomicU8::new(0),
            place: AtomicU8::new(0),
            kind,
            limit: Cell::new(ptr::null()),
            number: AtomicU32::new(0),
        }
    }

    /// Notes that the node is itself a limit. Only before other tasks know it; it stays where it is.
    #[inline]
    pub(crate) fn become_limit(&self) {
        self.limit.set(self);
    }

    /// Notes that the node is under the same limit as its parent. Only before other tasks know it.
    #[inline]
    pub(crate) fn take_limit_of(&self, parent: &CancelNode) {
        self.limit.set(parent.limit.get());
    }

    /// The innermost node at or above this one that time changes.
    #[inline]
    pub(crate) fn limit(&self) -> *const CancelNode {
        self.limit.get()
    }

    /// A number for the request that this node got, to tell it from others: given out when somebody first asks, and growing. Never 0.
    pub(crate) fn request_number(&self) -> u32 {
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let fresh = (NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) as u32).max(1);
        match self.number.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(other) => other,
        }
    }

    /// Notes what the node may know while it is not reached: see the module. Without this it asks.
    ///
    /// # Safety
    /// K1: the parent is there. Nobody else knows the node yet, and its parent stays the one that it has.
    #[inline(always)]
    pub(crate) unsafe fn note(&self) {
        // SAFETY: K1, the caller's promise.
        let Some(parent) = (unsafe { self.parent().as_ref() }) else {
            // There is nothing above.
            return self.noted.set(epoch::now());
        };
        self.take_limit_of(parent);
        // The epoch comes first: see the module.
        let epoch = if parent.is_reached() { epoch::now() } else { parent.noted.get() };
        self.noted.set(if parent.cancelled().is_none() { epoch } else { epoch::NEVER });
    }

    /// Whether neither this node nor one above has been asked, for all that can be seen at a glance. If not, ask.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.flag.load(Ordering::Relaxed) == 0
            && (self.is_reached() || self.noted.get() == epoch::now())
    }

    /// Whether this node has been asked to stop, and why.
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

    /// The task on whose stack (or in whose header) the node is. For a scope's node, whoever knows a task of the scope may ask:
    /// the owner is there for as long as the scope.
    pub(crate) fn owner(&self) -> *const Header {
        let _locked = self.lock.lock();
        self.owner.get()
    }

    /// Nothing is above this node, nor ever will be: nobody need ask further.
    pub(crate) fn set_root(&self) {
        self.mark_reached();
    }

    /// Forgets the task: the frame that the node stood for is gone.
    pub(crate) fn orphan(&self) {
        let _locked = self.lock.lock();
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

    /// Whether the node's flag tells everything.
    #[inline]
    pub(crate) fn is_reached(&self) -> bool {
        // Acquire: the flag that a link has inherited comes with it.
        self.place.load(Ordering::Acquire) & REACHED != 0
    }

    /// The node and all above it are linked.
    pub(super) fn mark_reached(&self) {
        self.place.fetch_or(REACHED, Ordering::Release);
    }

    /// Locks the list of children.
    #[inline]
    pub(super) fn lock_children(&self) -> Children<'_> {
        Children { node: self, guard: self.lock.lock() }
    }

    /// Notes that a wait has answered the request that this flagged node got.
    pub(crate) fn mark_delivered(&self) {
        self.flag.fetch_or(DELIVERED, Ordering::Relaxed);
    }

    /// Whether a wait has answered this node's request.
    pub(crate) fn was_delivered(&self) -> bool {
        self.flag.load(Ordering::Relaxed) & DELIVERED != 0
    }
}

/// A locked list of children.
pub(super) struct Children<'n> {
    node: &'n CancelNode,
    guard: SpinGuard<'n, ()>,
}

impl Children<'_> {
    /// Leaves the list locked.
    #[inline]
    pub(super) fn keep_locked(self) {
        self.guard.keep_locked();
    }
}

impl Deref for Children<'_> {
    type Target = Pile;

    #[inline]
    fn deref(&self) -> &Pile {
        &self.node.children
    }
}

#[cfg(all(test, loom))]
impl CancelNode {
    /// The frame goes: loom objects if an access to the node is not ordered before this.
    pub(super) fn gone(&mut self) {
        self.flag.with_mut(|_| ());
        self.parent.with_mut(|_| ());
        self.place.with_mut(|_| ());
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

/// A shield that runs out.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ShieldNode {
    /// First, so that a pointer to the node is one to all of it.
    pub(crate) node: CancelNode,
    pub(crate) deadline: Instant,
    /// What the shield keeps off: the innermost node around it.
    outside: *const CancelNode,
    /// The task that opened it; null: a plain thread.
    pub(crate) task: *const Header,
}

impl ShieldNode {
    pub(crate) fn new(
        outside: *const CancelNode,
        task: *const Header,
        deadline: Instant,
    ) -> ShieldNode {
        let node = CancelNode::new(ptr::null(), task, Kind::Shield);
        ShieldNode { node, deadline, outside, task }
    }

    /// The shield that a node is the head of.
    pub(crate) fn of(node: &CancelNode) -> Option<&ShieldNode> {
        if node.kind != Kind::Shield {
            return None;
        }
        // SAFETY: K4: only `ShieldNode::new` makes nodes of this kind, as its first field.
        Some(unsafe { &*ptr::from_ref(node).cast::<ShieldNode>() })
    }

    /// The time is up: requests from outside get through from now on. Does nothing the second time.
    ///
    /// # Safety
    /// K1: what is outside is reached and outlives the node. Called on the task's own worker.
    pub(crate) unsafe fn open(&self) {
        if self.node.parent().is_null() {
            // SAFETY: K1, the caller's promise.
            unsafe { super::hang(&self.node, self.outside) };
        }
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
