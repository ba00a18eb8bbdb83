//! Lines of waiters, and the nodes by which givers find them.
//!
//! # Terms
//! - A [`Node`] is one registration of one [`Waiter`] in one line. It lives where the waiter lives.
//!   A waiter may have several nodes (a select has at least one for each arm). The first of them
//!   that is claimed decides how the wait ends, and the owner takes out the others.
//! - A [`Role`] says what the waiter waits for, and so what the winner of a claim through this node
//!   owes it.
//! - A node is *listed* while it is in a line. The line's lock guards the flag that says so, the
//!   node's links, and every other `Cell` in the node. The other fields are written before the node
//!   is put in, and do not change while it is listed.
//!
//! # Protocol
//! ```text
//!   a giver                                          the waiter's owner
//!   ---------------------------------------------    -----------------------------------------
//!   lock the line                                    lock the line, look once more, push the
//!     claim the first node that can be claimed,        node, unlock
//!     give, take it out (`Woken` remembers it)       park
//!   unlock                                           outcome = WOKEN + the number of the arm
//!   unpark the waiters that `Woken` remembers        take the other nodes out of their lines,
//!                                                      each under its lock
//! ```
//! - S4: a node is claimed under its line's lock. The owner of a listed node cannot leave its frame
//!   before it has taken that lock, so the waiter is there to be claimed. Once a node has been
//!   claimed and taken out, only the winner of the claim refers to it.
//! - No lock is held during an unpark, because an unpark may run a waker or a callback of the user.
#![expect(
    unsafe_code,
    reason = "reaches nodes on other stacks, and the list's lock guards more than the list"
)]

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::ptr::{self, NonNull};

use super::waiter::{LOOK_AGAIN, WOKEN};
use super::{Gathering, Waiter, no_suspend};
use crate::base::list::{Line, Link};
use crate::base::sync::{BiasedGuard, BiasedLock, PutOff};

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
    /// The node is no wait, but the [`Entry`](super::Entry) of a gathering, to which `data` points.
    /// It occurs only in lines in which all nodes are notified at once.
    Gather,
}

/// One registration; see the module.
#[repr(C)]
pub(crate) struct Node {
    link: Link,
    waiter: *const Waiter,
    /// The outcome that a claim through this node writes.
    outcome: u32,
    role: Role,
    listed: Cell<bool>,
    /// Whether this is the only node of its waiter, and the wait can be ended only through its line
    /// or on its task's own worker.
    only: bool,
    /// Whether the waiter listens before it parks.
    listens: bool,
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
        unsafe fn ask<T, P: Fn(&T) -> bool>(object: *const (), value: *const ()) -> bool {
            // SAFETY: N2: the object is a `P` that outlives the node.
            let accepts = unsafe { &*object.cast::<P>() };
            // SAFETY: N2: the line's values are of type `T`, and the caller owns this one.
            accepts(unsafe { &*value.cast::<T>() })
        }
        Predicate { owner, object: ptr::from_ref(accepts).cast(), accepts: ask::<T, P> }
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
    fn claim_as(&self, outcome: u32) -> bool {
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
        // SAFETY: S4, as above.
        unsafe { &*self.waiter }.is_over()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("role", &self.role).finish_non_exhaustive()
    }
}

/// The nodes of one line. They are accessed under the line's lock.
#[derive(Debug)]
pub(crate) struct Queue {
    line: Line,
}

// SAFETY: L3: its links are only followed under the lock that guards it.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { line: Line::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Appends a node.
    ///
    /// # Safety
    /// N1: the node is in no line. It and its waiter stay in place until it has been taken out.
    #[inline]
    pub(crate) unsafe fn push(&self, node: *const Node) {
        // SAFETY: N1, by the caller's promise.
        unsafe { &*node }.listed.set(true);
        // SAFETY: L3, because of N1.
        unsafe { self.line.push_back(node.cast()) };
    }

    /// Takes a node out if it is in the line.
    #[inline]
    pub(crate) fn remove(&self, node: &Node) {
        if node.listed.replace(false) {
            // SAFETY: L3: `listed` is only written under the lock of the one line that the node is
            // put in.
            unsafe { self.line.remove(&raw const node.link) };
        }
    }

    /// Returns the oldest node.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Node> {
        // SAFETY: N1: the node is listed, and the lock is held.
        unsafe { self.line.first().cast::<Node>().as_ref() }
    }

    /// Visits the nodes, oldest first, until `visit` returns a result. `visit` may take out the
    /// node that it is called with.
    #[inline]
    pub(crate) fn seek<R>(&self, mut visit: impl FnMut(&Node) -> Option<R>) -> Option<R> {
        let mut next = self.line.first().cast::<Node>();
        // SAFETY: N1: the node is listed, and the lock is held.
        while let Some(node) = unsafe { next.as_ref() } {
            next = node.link.next().cast();
            let found = visit(node);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Claims the oldest node whose wait is still pending, and takes it out. Older nodes whose
    /// waits have been decided are taken out as well. Returns whether a node was claimed.
    #[inline]
    pub(crate) fn claim_first(&self, woken: &mut Woken) -> bool {
        while let Some(node) = self.first() {
            self.remove(node);
            // The node is not listed any more, but the lock is held, so the owner of a pending wait
            // has not left.
            if node.claim() {
                woken.push(node);
                return true;
            }
        }
        false
    }

    /// Claims all waiters that can be told to look again.
    pub(crate) fn look_again(&self, woken: &mut Woken) {
        self.claim_looking(woken, true);
    }

    /// Claims the waiters that can be told to look again, and takes them out. If `all` is false, it
    /// stops after the first claimed node that is neither `Look` nor `Peek`. Nothing is given. The
    /// owner of a `Slot` node that is claimed with [`WOKEN`] would read a value that was not
    /// written, so such a node is claimed with [`LOOK_AGAIN`]. Nodes with other roles are left
    /// alone. Only the line's owner can give them what they wait for, while any code with access to
    /// a channel's list may notify it.
    fn claim_looking(&self, woken: &mut Woken, all: bool) {
        self.seek(|node| {
            let outcome = match node.role {
                Role::Notify | Role::Take | Role::Look | Role::Peek => node.outcome,
                Role::Slot => LOOK_AGAIN,
                _ => return None,
            };
            self.remove(node);
            // The node is not listed any more, but the lock is held, so the owner of a pending wait
            // has not left.
            if !node.claim_as(outcome) {
                return None;
            }
            woken.push(node);
            (!all && !matches!(node.role, Role::Look | Role::Peek)).then_some(())
        });
    }
}

/// The nodes that have been claimed, and whose waiters are unparked once the lock is released.
/// Dropping this value unparks them.
#[derive(Debug)]
pub(crate) struct Woken {
    first: *const Node,
}

impl Woken {
    #[inline]
    pub(crate) const fn none() -> Woken {
        Woken { first: ptr::null() }
    }

    /// Remembers a node that the caller has claimed and taken out of its line.
    #[inline]
    pub(crate) fn push(&mut self, node: &Node) {
        debug_assert!(!node.listed.get());
        node.link.chain(self.first.cast());
        self.first = node;
    }

    /// Remembers calls that user code under the lock has put off until the lock is released.
    #[inline]
    pub(crate) fn push_put_off(&mut self, calls: PutOff) {
        if !calls.is_empty() {
            Calls::chain(calls, self);
        }
    }
}

/// Calls that are made once the lock is released. They are stored in a node, so that they fit in
/// the chain of claimed nodes.
struct Calls {
    node: Node,
    waiter: Waiter,
    calls: Cell<PutOff>,
}

impl Calls {
    #[cold]
    fn chain(calls: PutOff, woken: &mut Woken) {
        let at = Box::into_raw(Box::<Calls>::new_uninit()).cast::<Calls>();
        let owner = NonNull::new(at).expect("allocated").cast();
        let waiter = Waiter::with_owner(owner, Calls::make);
        // SAFETY: N1: the allocation is valid, so the address of its field is.
        let its_waiter = unsafe { &raw const (*at).waiter };
        let node = Node::new(its_waiter, 0, Role::Notify, ptr::null_mut());
        // SAFETY: N1: the allocation is not shared yet.
        unsafe { at.write(Calls { node, waiter, calls: Cell::new(calls) }) };
        // SAFETY: N1: it was written just now, and stays until `make`, which is called once, when
        // the chain is unparked.
        woken.push(unsafe { &(*at).node });
    }

    /// Makes the calls and frees the allocation.
    ///
    /// # Safety
    /// N1: `owner` is the allocation that `chain` made.
    unsafe fn make(owner: *const ()) {
        // SAFETY: N1, by the caller's promise.
        let this = unsafe { Box::from_raw(owner.cast_mut().cast::<Calls>()) };
        for call in this.calls.take() {
            // The lock holder may be about to wait, and may already be in a line. So the call must
            // not wait.
            no_suspend(call);
        }
    }
}

impl Drop for Woken {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: S4: this thread won the claims.
            unsafe { unpark(self.first) };
        }
    }
}

/// Unparks the waiters of the chain. The argument is passed by value, so that a lock's guard with
/// an empty [`Woken`] beside it can stay in registers.
///
/// # Safety
/// S4: this thread won the claim of each node in the chain, and does not touch the nodes
/// afterwards.
#[inline(never)]
unsafe fn unpark(first: *const Node) {
    // SAFETY: S4: the node is claimed, so the frame stays until it is unparked.
    let alone = unsafe { &*first }.link.next().is_null();
    let mut next = if alone { first } else { in_order(first) };
    while !next.is_null() {
        // SAFETY: S4: this thread won the claim, so the frame stays until the unpark below.
        let node = unsafe { &*next };
        next = node.link.next().cast();
        let (waiter, listens) = (node.waiter, node.listens);
        // SAFETY: S4: the waiter is claimed, is told or unparked once, and is not touched again.
        if !listens || !unsafe { Waiter::tell(waiter) } {
            // SAFETY: S4, as above: a listener that could not be told is still there.
            unsafe { Waiter::unpark(waiter) };
        }
    }
}

/// Reverses the chain, so that the waiter that was claimed first is unparked first.
fn in_order(first: *const Node) -> *const Node {
    let (mut turned, mut rest) = (ptr::null::<Node>(), first);
    while !rest.is_null() {
        // SAFETY: S4: this thread won the claim, so the frame stays until it is unparked.
        let node = unsafe { &*rest };
        rest = node.link.next().cast();
        node.link.chain(turned.cast());
        turned = node;
    }
    turned
}

/// A list of waiters, in the order of their arrival. A user-defined type needs one to be a
/// [`Source`](crate::Source).
///
/// Code that makes an item available calls [`notify_one`](WaitList::notify_one) or
/// [`notify_all`](WaitList::notify_all) *after* the item can be taken. The library adds and removes
/// the waiters. A list takes two words and allocates nothing.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::source::WaitList;
/// use std::sync::Mutex;
///
/// /// A place for one value.
/// #[derive(Default)]
/// struct Mailbox {
///     letter: Mutex<Option<String>>,
///     readers: WaitList,
/// }
///
/// impl Mailbox {
///     fn post(&self, letter: &str) {
///         *self.letter.lock().unwrap() = Some(String::from(letter));
///         self.readers.notify_one();
///     }
/// }
///
/// impl Source for Mailbox {
///     type Item = String;
///
///     fn try_take(&self) -> Option<String> {
///         self.letter.lock().unwrap().take()
///     }
///
///     fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
///         each(&self.readers);
///     }
/// }
///
/// let mailbox = Mailbox::default();
/// std::thread::scope(|s| {
///     s.spawn(|| assert_eq!(mailbox.wait().unwrap(), "dear reader"));
///     mailbox.post("dear reader");
/// });
/// ```
pub struct WaitList {
    queue: BiasedLock<Queue>,
}

impl WaitList {
    /// Creates an empty list.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> WaitList {
        WaitList { queue: BiasedLock::new(Queue::new()) }
    }

    /// Creates an empty list.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> WaitList {
        WaitList { queue: BiasedLock::new(Queue::new()) }
    }

    /// Creates a list whose lock guards data that one thread may use many times in a row: see
    /// [`BiasedLock::for_bursts`].
    pub(crate) fn for_bursts() -> WaitList {
        WaitList { queue: BiasedLock::for_bursts(Queue::new()) }
    }

    /// Tells the waiter that has waited longest to look again. A waiter for several sources that
    /// has already received an item elsewhere is skipped. If it receives one elsewhere before it
    /// looks here, it passes the notification on. So no notification is lost while there is a
    /// waiter.
    ///
    /// # Examples
    /// ```
    /// let nobody = ecru::source::WaitList::new();
    /// nobody.notify_one();
    /// ```
    pub fn notify_one(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.claim_looking(&mut woken, false);
        drop(queue);
    }

    /// Tells all waiters to look again.
    ///
    /// # Examples
    /// ```
    /// let nobody = ecru::source::WaitList::new();
    /// nobody.notify_all();
    /// ```
    pub fn notify_all(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.claim_looking(&mut woken, true);
        drop(queue);
    }

    /// Called when a notified waiter has refused the item. Wakes the waiters registered as `Take`
    /// and `Slot`, so that they look again. Waiters registered as `Notify` are left alone, because
    /// two that both refuse would notify each other forever.
    pub(crate) fn offer_to_takers(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        queue.seek(|node| -> Option<()> {
            let outcome = match node.role {
                Role::Take => node.outcome,
                Role::Slot => LOOK_AGAIN,
                _ => return None,
            };
            queue.remove(node);
            if node.claim_as(outcome) {
                woken.push(node);
            }
            None
        });
        drop(queue);
    }

    /// Announces that the event that all waiters in the list wait for has happened for good. Wakes
    /// all waiters, and notes the entries of gatherings. Only the list's owner calls it.
    #[inline(never)]
    pub(crate) fn announce(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        while let Some(node) = queue.first() {
            let entry = queue.line.first().cast();
            queue.remove(node);
            if node.role == Role::Gather {
                // SAFETY: G1: the entry was just taken out of the line, whose lock is held, and is
                // not touched afterwards.
                unsafe { Gathering::note(node.data.cast(), entry, &mut woken) };
            } else if node.claim() {
                woken.push(node);
            }
        }
        drop(queue);
    }

    /// Takes the lock. It guards the nodes, and whatever else the list's owner defines.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Returns whether this thread holds the lock and runs a predicate under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        self.queue.is_asking()
    }

    /// Makes `call` after this thread has released the lock, under which it runs a predicate.
    /// `call` must not panic.
    ///
    /// # Panics
    /// Panics if the thread does not run a predicate under the lock.
    ///
    /// # Safety
    /// L5: the data that `call` uses stays valid until the lock holder has made the call.
    pub(crate) unsafe fn put_off(&self, call: impl FnOnce()) {
        // SAFETY: L5, by the caller's promise.
        unsafe { self.queue.put_off(call) };
    }

    /// Takes the lock if that is quick. Returns `None` if another thread holds it.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<BiasedGuard<'_, Queue>> {
        self.queue.lock_at_once()
    }
}

impl Default for WaitList {
    fn default() -> WaitList {
        WaitList::new()
    }
}

impl fmt::Debug for WaitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitList").finish_non_exhaustive()
    }
}
