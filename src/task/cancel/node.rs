//! The nodes of the cancellation tree.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;
use std::time::Instant;

use super::{CancelReason, Cancelled};
use crate::base::list::{Link, Pile};
use crate::base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::base::sync::{SpinGuard, SpinLock, StaticU64, epoch};
use crate::task::Header;

/// The kind of a node, for the places where the walk or a wait must distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A node that only spreads requests.
    Plain,
    /// The node of a [`HookNode`].
    Hook,
    /// The node of a [`DeadlineNode`].
    Deadline,
    /// The node of a [`ShieldNode`].
    Shield,
    /// The node of a [`SectionNode`].
    Section,
}

/// The bits of a flagged node: the reason, whether a wait has answered the request made to this
/// node, and whether the node inherited the request instead of being its origin.
const REASON: u8 = 0x0f;
const DELIVERED: u8 = 0x40;
const INHERITED: u8 = 0x80;

/// The node is in its parent's list. Written under the parent's lock.
pub(super) const LISTED: u8 = 1;
/// All nodes above it are listed, too, or its flag is set. Its flag tells everything.
pub(super) const REACHED: u8 = 2;

/// A node of the cancellation tree. See the module for the protocol.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CancelNode {
    /// The link in the parent's `children`; guarded by the parent's lock.
    pub(super) link: Link,
    /// Null at a root and at a shield. A shield that expires gets a parent at that time.
    parent: AtomicPtr<CancelNode>,
    /// Guarded by `lock`.
    children: Pile,
    /// The task to tell of a request: the one on whose stack or in whose header the node is. Null
    /// for a plain thread. Guarded by this node's own lock once other threads know the node.
    pub(super) owner: Cell<*const Header>,
    /// An epoch at which nothing above had been flagged. Written before other threads know the
    /// node.
    noted: Cell<u64>,
    /// The innermost limit at or above this node: a time limit, or a shield that expires. Null if
    /// there is none up to the next shield. Written before other tasks know the node.
    limit: Cell<*const CancelNode>,
    pub(super) lock: SpinLock<()>,
    flag: AtomicU8,
    /// `LISTED` and `REACHED`.
    pub(super) place: AtomicU8,
    kind: Kind,
    /// The number of the request, or 0 until it is first asked for.
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

    /// Records that the node is itself a limit. Called before other tasks know the node, which must
    /// not move afterwards.
    #[inline]
    pub(crate) fn become_limit(&self) {
        self.limit.set(self);
    }

    /// Records that the node is under the same limit as its parent. Called before other tasks know
    /// the node.
    #[inline]
    pub(crate) fn take_limit_of(&self, parent: &CancelNode) {
        self.limit.set(parent.limit.get());
    }

    /// Returns the innermost limit at or above this node, or null.
    #[inline]
    pub(crate) fn limit(&self) -> *const CancelNode {
        self.limit.get()
    }

    /// Returns a number that identifies the request made to this node. It is assigned when it is
    /// first asked for. Later numbers are larger, and no number is 0.
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

    /// Notes the epoch and the limit, as the module describes. Without this, the node always asks.
    ///
    /// # Safety
    /// K1: the parent is alive and does not change. No other thread knows the node yet.
    #[inline(always)]
    pub(crate) unsafe fn note(&self) {
        // SAFETY: K1, by this function's contract.
        let Some(parent) = (unsafe { self.parent().as_ref() }) else {
            // Nothing is above this node.
            return self.noted.set(epoch::now());
        };
        self.take_limit_of(parent);
        // The epoch is read before the parent's flag: see the module.
        let epoch = if parent.is_reached() { epoch::now() } else { parent.noted.get() };
        self.noted.set(if parent.cancelled().is_none() { epoch } else { epoch::NEVER });
    }

    /// Returns `true` if one look shows that neither this node nor a node above it has been asked
    /// to stop. If it returns `false`, the caller must ask.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.flag.load(Ordering::Relaxed) == 0
            && (self.is_reached() || self.noted.get() == epoch::now())
    }

    /// Returns the request, if this node is flagged.
    #[inline]
    pub(crate) fn cancelled(&self) -> Option<Cancelled> {
        let bits = self.flag.load(Ordering::Relaxed);
        if bits == 0 { None } else { CancelReason::from_bits(bits & REASON).map(Cancelled::new) }
    }

    /// Returns whether this node is the origin of its request.
    #[inline]
    pub(crate) fn is_origin(&self) -> bool {
        let bits = self.flag.load(Ordering::Relaxed);
        bits != 0 && bits & INHERITED == 0
    }

    /// Flags the node. Returns `false` if it was flagged before.
    pub(super) fn flag(&self, reason: CancelReason, inherited: bool) -> bool {
        let bits = reason as u8 | if inherited { INHERITED } else { 0 };
        // Release: a task that learns of the request by a message and then reads the flag sees it.
        self.flag.compare_exchange(0, bits, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Sets the task to tell. Called before other threads know the node.
    pub(crate) fn set_owner(&self, owner: *const Header) {
        self.owner.set(owner);
    }

    /// Returns the task on whose stack or in whose header the node is. A task of a scope may ask
    /// this of the scope's node, because that node's owner lives as long as the scope.
    pub(crate) fn owner(&self) -> *const Header {
        let _locked = self.lock.lock();
        self.owner.get()
    }

    /// Marks the node as a root. Nothing is above it, now or later, so its own flag tells
    /// everything.
    pub(crate) fn set_root(&self) {
        self.mark_reached();
    }

    /// Removes the owner, because the frame that the node stood for has ended.
    pub(crate) fn orphan(&self) {
        let _locked = self.lock.lock();
        self.owner.set(ptr::null());
    }

    /// Sets the parent. Called only while the node is not linked.
    pub(crate) fn set_parent(&self, parent: *const CancelNode) {
        self.parent.store(parent.cast_mut(), Ordering::Release);
    }

    /// Returns the time of this node's limit, if it has one.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.kind {
            Kind::Deadline => DeadlineNode::of(self).map(|limit| limit.deadline),
            Kind::Section => SectionNode::of(self).and_then(SectionNode::deadline),
            Kind::Plain | Kind::Hook | Kind::Shield => None,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub(crate) fn parent(&self) -> *const CancelNode {
        self.parent.load(Ordering::Acquire)
    }

    /// Returns whether the node's flag tells everything.
    #[inline]
    pub(crate) fn is_reached(&self) -> bool {
        // Acquire: makes a flag visible that the node inherited when it was linked.
        self.place.load(Ordering::Acquire) & REACHED != 0
    }

    /// Marks the node as reached. It and all nodes above it are linked.
    pub(super) fn mark_reached(&self) {
        self.place.fetch_or(REACHED, Ordering::Release);
    }

    /// Locks the node, and returns its list of children.
    #[inline]
    pub(super) fn lock_children(&self) -> Children<'_> {
        Children { node: self, guard: self.lock.lock() }
    }

    /// Records that a wait has answered the request made to this node, which is flagged.
    pub(crate) fn mark_delivered(&self) {
        self.flag.fetch_or(DELIVERED, Ordering::Relaxed);
    }

    /// Returns whether a wait has answered the request made to this node.
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
    /// Forgets the guard, so that the list stays locked.
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
    /// Checks the end of the node's frame: loom reports an error if an access is not ordered before
    /// this.
    pub(super) fn gone(&mut self) {
        self.flag.with_mut(|_| ());
        self.parent.with_mut(|_| ());
        self.place.with_mut(|_| ());
    }
}

// SAFETY: K1: locks guard the cells. They are named beside them.
unsafe impl Sync for CancelNode {}
// SAFETY: K1: no cell belongs to a thread, and a node does not move while it is linked.
unsafe impl Send for CancelNode {}

/// The node of a time limit, flagged when its time is up. Plain threads, whose waits are not woken
/// by a request, read the deadline from it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DeadlineNode {
    /// The first field, so that a pointer to the node is also a pointer to this struct.
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

    /// Returns the `DeadlineNode` whose first field is `node`, if that is its kind.
    pub(crate) fn of(node: &CancelNode) -> Option<&DeadlineNode> {
        if node.kind != Kind::Deadline {
            return None;
        }
        // SAFETY: K4: only `DeadlineNode::new` makes nodes of this kind, as its first field.
        Some(unsafe { &*ptr::from_ref(node).cast::<DeadlineNode>() })
    }
}

/// The node of a section of code whose time limit any thread may move. It has none at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SectionNode {
    /// The first field, so that a pointer to the node is also a pointer to this struct.
    pub(crate) node: CancelNode,
    /// Whether there is a deadline. Waits below sections without a limit do not take the lock.
    is_limited: AtomicBool,
    deadline: SpinLock<Option<Instant>>,
}

impl SectionNode {
    pub(crate) fn new(parent: *const CancelNode, owner: *const Header) -> SectionNode {
        SectionNode {
            node: CancelNode::new(parent, owner, Kind::Section),
            is_limited: AtomicBool::new(false),
            deadline: SpinLock::new(None),
        }
    }

    /// Returns the `SectionNode` whose first field is `node`, if that is its kind.
    fn of(node: &CancelNode) -> Option<&SectionNode> {
        if node.kind != Kind::Section {
            return None;
        }
        // SAFETY: K4: only `SectionNode::new` makes nodes of this kind, as its first field.
        Some(unsafe { &*ptr::from_ref(node).cast::<SectionNode>() })
    }

    /// Returns the limit. A thread that has not seen it yet is told by the limit's alarm.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_limited.load(Ordering::Relaxed) { *self.deadline.lock() } else { None }
    }

    pub(crate) fn set_deadline(&self, deadline: Option<Instant>) {
        let mut locked = self.deadline.lock();
        *locked = deadline;
        self.is_limited.store(deadline.is_some(), Ordering::Relaxed);
    }
}

/// The node of a shield that expires.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ShieldNode {
    /// The first field, so that a pointer to the node is also a pointer to this struct.
    pub(crate) node: CancelNode,
    pub(crate) deadline: Instant,
    /// The innermost node outside of the shield, from which it keeps requests away.
    outside: *const CancelNode,
    /// The task that opened the shield, or null for a plain thread.
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

    /// Returns the `ShieldNode` whose first field is `node`, if that is its kind.
    pub(crate) fn of(node: &CancelNode) -> Option<&ShieldNode> {
        if node.kind != Kind::Shield {
            return None;
        }
        // SAFETY: K4: only `ShieldNode::new` makes nodes of this kind, as its first field.
        Some(unsafe { &*ptr::from_ref(node).cast::<ShieldNode>() })
    }

    /// Opens the shield, because its time is up: requests from outside get through from now on. A
    /// second call does nothing.
    ///
    /// # Safety
    /// K1: the nodes outside are reached and outlive this node. Called on the task's own worker.
    pub(crate) unsafe fn open(&self) {
        if self.node.parent().is_null() {
            // SAFETY: K1, by this function's contract.
            unsafe { super::hang(&self.node, self.outside) };
        }
    }
}

/// The node of a hook that runs when a request arrives.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct HookNode {
    /// The first field, so that a pointer to the node is also a pointer to this struct.
    pub(crate) node: CancelNode,
    /// One of the states below.
    pub(crate) state: AtomicU32,
    /// Runs the hook. The thread that moved the state from `WAITING` to `RUNNING` calls this once,
    /// without holding a lock.
    pub(crate) run: unsafe fn(*const HookNode),
    /// The next hook in the list that one canceller has collected.
    pub(super) next: Cell<*const HookNode>,
}

impl HookNode {
    /// The hook has not been claimed.
    pub(crate) const WAITING: u32 = 0;
    /// A canceller has claimed the hook and runs it, or is about to.
    pub(crate) const RUNNING: u32 = 1;
    /// The hook has run, or its frame has given it up.
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
