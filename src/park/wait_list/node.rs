//! One registration of a waiter in a line, and what the giver owes it.
#![expect(unsafe_code, reason = "reaches waiters on other stacks")]

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::ptr;

use crate::base::list::Link;
use crate::park::Waiter;
use crate::park::waiter::{LOOK_AGAIN, WOKEN};

/// What a node's waiter waits for. It determines what the winner of a claim has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The waiter is told to look again.
    Notify,
    /// The waiter is told to look again, and the notifier continues with the next node. The waiter
    /// may refuse what it sees, and only the waiter can tell whether it will.
    Look,
    /// The waiter is told that there is something, which it does not take. All such waiters are
    /// told, and the notifier continues until it reaches a waiter that takes.
    Peek,
    /// The waiter gets an item that the giver stores for it. It fetches the item under the node's
    /// address.
    Take,
    /// The waiter gets a value, which the giver writes to where `data` points, or another event
    /// that [`WOKEN`] alone reports. If the waiter is only to look again, it is claimed with
    /// [`LOOK_AGAIN`].
    Slot,
    /// The waiter gets a value from the one select whose offer this receiver has claimed: its node
    /// is reserved from the beginning. If that value does not arrive, the node is claimed with
    /// [`LOOK_AGAIN`]. It is never notified.
    Meet,
    /// The waiter gives a value away. The receiver moves it out from where `data` points.
    Value,
    /// The waiter makes a value and gives it away.
    Offer,
    /// The node is no wait, but the [`Entry`](crate::park::Entry) of a gathering, to which `data`
    /// points. It occurs only in lines in which all nodes are notified at once.
    Gather,
}

/// One registration; see [`super`].
#[repr(C)]
pub(crate) struct Node {
    pub(super) link: Link,
    pub(super) waiter: *const Waiter,
    /// The outcome that a claim through this node writes.
    pub(super) outcome: u32,
    pub(super) role: Role,
    pub(super) listed: Cell<bool>,
    /// Whether this is the only node of its waiter, and the wait can be ended only through its line
    /// or on its task's own worker.
    only: bool,
    /// Whether the waiter listens before it parks.
    pub(super) listens: bool,
    /// The number of the reservation that this node has or is reserved for, or 0: see the channels'
    /// `reservation`.
    pub(crate) reserved: Cell<usize>,
    pub(crate) data: *mut (),
    /// The values that this waiter accepts, or `None` if it accepts all.
    predicate: Option<Predicate>,
    /// The payload of a panic of the predicate, for the owner.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
}

/// A waiter's filter, which the giver of a value calls.
#[derive(Clone, Copy)]
pub(crate) struct Predicate {
    /// The filter's identity: an address that no other filter has while the node exists.
    owner: *const (),
    object: *const (),
    /// The function. Its arguments are the object, and a value of the type that it examines.
    accepts: unsafe fn(*const (), *const ()) -> bool,
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl Predicate {
    /// Creates a predicate that calls `accepts` for values of type `T`.
    pub(crate) fn of<T, P: Fn(&T) -> bool + Sync>(owner: *const (), accepts: &P) -> Predicate {
        unsafe fn call<T, P: Fn(&T) -> bool>(object: *const (), value: *const ()) -> bool {
            // SAFETY: N2: the object is a `P` that outlives the node.
            let accepts = unsafe { &*object.cast::<P>() };
            // SAFETY: N2: the line's values are of type `T`, and the caller owns this one.
            accepts(unsafe { &*value.cast::<T>() })
        }
        Predicate { owner, object: ptr::from_ref(accepts).cast(), accepts: call::<T, P> }
    }

    pub(crate) fn is_of(&self, owner: *const ()) -> bool {
        ptr::eq(self.owner, owner)
    }

    /// # Safety
    /// N2: `value` is of the type that the predicate was made for.
    pub(crate) unsafe fn accepts<T>(&self, value: &T) -> bool {
        // SAFETY: N2, by the caller's promise.
        unsafe { (self.accepts)(self.object, ptr::from_ref(value).cast()) }
    }
}

impl Node {
    /// Creates a node of `waiter` that is in no line. A claim through it has the outcome [`WOKEN`]
    /// + `arm`.
    #[inline]
    pub(crate) fn new(waiter: *const Waiter, arm: u32, role: Role, data: *mut ()) -> Node {
        Node {
            link: Link::new(),
            waiter,
            outcome: WOKEN + arm,
            role,
            listed: Cell::new(false),
            only: false,
            listens: false,
            reserved: Cell::new(0),
            data,
            predicate: None,
            panic: Cell::new(None),
        }
    }

    /// Creates the only node of a waiter on which a task parks itself.
    #[inline]
    pub(crate) fn only(waiter: *const Waiter, role: Role, data: *mut ()) -> Node {
        Node { only: true, ..Node::new(waiter, 0, role, data) }
    }

    /// Sets the node's filter.
    pub(crate) fn with_predicate(mut self, predicate: Option<Predicate>) -> Node {
        self.predicate = predicate;
        self
    }

    /// Says whether the waiter listens, before the node is put in a line.
    #[inline]
    pub(crate) fn set_listens(&mut self, listens: bool) {
        self.listens = listens;
        // A listener is claimed from another core, as a rule.
        self.only &= !listens;
    }

    #[inline]
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    #[inline]
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    #[inline]
    pub(crate) fn predicate(&self) -> Option<&Predicate> {
        self.predicate.as_ref()
    }

    /// Claims the waiter through this node. Returns false if the wait has already been decided. The
    /// caller holds the line's lock.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        self.claim_as(self.outcome)
    }

    /// Claims the waiter like [`Node::claim`], but with the number of another registration. That
    /// distinguishes the ends of a wait with a single node.
    #[inline]
    pub(crate) fn claim_arm(&self, arm: u32) -> bool {
        self.claim_as(WOKEN + arm)
    }

    /// Claims the waiter so that its owner looks again. Nothing is given to it.
    pub(crate) fn claim_to_look_again(&self) -> bool {
        self.claim_as(LOOK_AGAIN)
    }

    #[inline]
    pub(super) fn claim_as(&self, outcome: u32) -> bool {
        // SAFETY: S4: the node is listed and the lock is held, so the owner cannot leave its frame.
        let waiter = unsafe { &*self.waiter };
        if self.only { waiter.claim_in_line(outcome) } else { waiter.claim(outcome) }
    }

    /// Returns whether the wait accepts any value and has no other nodes. Then a value is given by
    /// writing it to where `data` points.
    #[inline]
    pub(crate) fn takes_anything(&self) -> bool {
        self.role == Role::Slot && self.predicate.is_none() && self.reserved.get() == 0
    }

    /// Returns the number under which an item for this node's wait is stored until it is fetched.
    /// The number is even, because it is the node's address.
    #[inline]
    pub(crate) fn ticket(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns whether the node is still in the line that it was put in. The caller holds the
    /// line's lock.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.get()
    }

    /// Returns whether both nodes belong to one wait.
    pub(crate) fn is_of_same_wait(&self, other: &Node) -> bool {
        ptr::eq(self.waiter, other.waiter)
    }

    /// Returns whether the node belongs to that waiter.
    pub(crate) fn is_of(&self, waiter: *const Waiter) -> bool {
        ptr::eq(self.waiter, waiter)
    }

    /// Returns whether the wait has already been decided, so that the node is obsolete. The caller
    /// holds the line's lock.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: S4: the node is listed and the lock is held, so the owner cannot leave its frame.
        unsafe { &*self.waiter }.is_over()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("role", &self.role).finish_non_exhaustive()
    }
}
