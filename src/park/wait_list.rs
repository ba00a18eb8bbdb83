//! Waiters in line, and what it takes to be found there.
//!
//! # Words
//! - A [`Node`] is one registration of one [`Waiter`] in one line. It lives where the waiter lives. A waiter may have many (a
//!   select has one for each arm); whichever is claimed first decides how the wait ends, and the owner takes out the rest.
//! - A [`Role`] says what whoever claims the waiter through this node owes it.
//! - A node is *listed* while it is in a line; that, its links and everything else in it that is a `Cell` are guarded by the
//!   line's lock. What the lock does not guard is written before the node is put in and not changed while it is.
//!
//! # Protocol
//! ```text
//!   somebody who has something to give               the waiter's owner
//!   ---------------------------------------------    ------------------------------------
//!   lock the line                                    lock the line, look once more, push the node, unlock
//!     the first node that can be claimed: claim it,  park
//!     give, take it out (`Woken` remembers it)
//!   unlock                                           outcome = WOKEN + the number of the arm
//!   unpark those that `Woken` remembers              lock the other lines, take the other nodes out
//! ```
//! - S4: a node is claimed under its line's lock. The owner of a node that is still listed cannot leave before it has had that
//!   lock, so the waiter is there to be claimed; of one that is not, only the winner of the claim knows.
//! - No lock is held at an unpark: it may call a waker or a callback of the user's.
#![expect(
    unsafe_code,
    reason = "reaches nodes on other stacks, and the list's lock guards more than the list"
)]

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::ptr::{self, NonNull};

use super::{Gathering, LOOK_AGAIN, WOKEN, Waiter, no_suspend};
use crate::base::list::{Line, Link};
use crate::base::sync::{BiasedGuard, BiasedLock, PutOff};

/// What a node's waiter waits for, and what whoever claims it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To be told to look again.
    Notify,
    /// To be told to look again, and passed over: it may refuse what it sees, and nobody else can ask whether it will.
    Look,
    /// To be told that there is something, which it will not take: all of these are told, and nobody who would take it is passed over.
    Peek,
    /// Something that the giver keeps for it, to be fetched under the node's address.
    Take,
    /// A value, written to where `data` points, or something else that [`WOKEN`] alone says is there. To be told to look again it is
    /// claimed with [`LOOK_AGAIN`].
    Slot,
    /// A value too, from the one select whose offer this receiver has claimed: its node is reserved from the beginning. If that value does
    /// not come, the node is claimed with [`LOOK_AGAIN`]. It is never notified.
    Meet,
    /// To give a value away: it is moved out from where `data` points.
    Value,
    /// To make a value and give it away.
    Offer,
    /// Not a wait itself: the [`Entry`](super::Entry) of a gathering, which `data` points to. Only where all are notified.
    Gather,
}

/// One registration: see the module.
#[repr(C)]
pub(crate) struct Node {
    link: Link,
    waiter: *const Waiter,
    /// What the claim is made with.
    outcome: u32,
    role: Role,
    listed: Cell<bool>,
    /// The only node of its waiter, whose wait has no end but through its line or on its task's own worker.
    only: bool,
    /// The waiter listens before it parks.
    listens: bool,
    /// The number of the reservation that this node has or is held for, if any: see the channels' `reservation`.
    pub(crate) reserved: Cell<usize>,
    pub(crate) data: *mut (),
    /// Which values this one wants; none: all.
    predicate: Option<Predicate>,
    /// What the predicate panicked with, for the owner.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
}

/// A filter of somebody who waits, to be asked by whoever has a value.
#[derive(Clone, Copy)]
pub(crate) struct Predicate {
    /// Whose it is: an address that no other has while the node is there.
    owner: *const (),
    object: *const (),
    /// The object, and a value of the type that it asks about.
    accepts: unsafe fn(*const (), *const ()) -> bool,
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl Predicate {
    /// What `accepts` says of values of type `T`.
    pub(crate) fn of<T, P: Fn(&T) -> bool + Sync>(owner: *const (), accepts: &P) -> Predicate {
        unsafe fn ask<T, P: Fn(&T) -> bool>(object: *const (), value: *const ()) -> bool {
            // SAFETY: N2: made of a `P` that outlives the node.
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
        // SAFETY: N2, the caller's promise.
        unsafe { (self.accepts)(self.object, ptr::from_ref(value).cast()) }
    }
}

impl Node {
    /// A node of `waiter`, in no line. `arm` is added to [`WOKEN`] in the outcome of a claim.
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

    /// The only node of a waiter that a task parks on itself.
    #[inline]
    pub(crate) fn only(waiter: *const Waiter, role: Role, data: *mut ()) -> Node {
        Node { only: true, ..Node::new(waiter, 0, role, data) }
    }

    /// The same with a filter.
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

    /// Decides that the wait ends through this node; false: it has ended otherwise. Under the line's lock.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        self.claim_as(self.outcome)
    }

    /// The same with another outcome.
    #[inline]
    pub(crate) fn claim_as(&self, outcome: u32) -> bool {
        // SAFETY: S4: the node is listed and the lock held, so its owner cannot leave.
        let waiter = unsafe { &*self.waiter };
        if self.only { waiter.claim_in_line(outcome) } else { waiter.claim(outcome) }
    }

    /// Whether the wait takes any value, and has no other arms: then it is given one by writing it to where `data` points.
    #[inline]
    pub(crate) fn takes_anything(&self) -> bool {
        self.role == Role::Slot && self.predicate.is_none() && self.reserved.get() == 0
    }

    /// What is given to this node's wait is kept under this number until it is fetched. Even: a node is a place in memory.
    #[inline]
    pub(crate) fn ticket(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Whether the node is still in the line that it was put in. Under the line's lock.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.get()
    }

    /// Whether both are registrations of one wait.
    pub(crate) fn is_of_same_wait(&self, other: &Node) -> bool {
        ptr::eq(self.waiter, other.waiter)
    }

    /// Whether this is a registration of that waiter's.
    pub(crate) fn is_of(&self, waiter: *const Waiter) -> bool {
        ptr::eq(self.waiter, waiter)
    }

    /// Whether the wait has ended some other way: the node is only in the way. Under the line's lock.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: S4, as above.
        unsafe { &*self.waiter }.outcome() != super::waiter::PENDING
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("role", &self.role).finish_non_exhaustive()
    }
}

/// The nodes of one line, under its lock.
#[derive(Debug)]
pub(crate) struct Queue {
    line: Line,
}

// SAFETY: L3: its links are followed under the lock that guards it.
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
    /// N1: the node is in no line; it and its waiter stay where they are until it has been taken out.
    #[inline]
    pub(crate) unsafe fn push(&self, node: *const Node) {
        // SAFETY: N1, the caller's promise.
        unsafe { &*node }.listed.set(true);
        // SAFETY: L3, by N1.
        unsafe { self.line.push_back(node.cast()) };
    }

    /// Takes a node out, if it is in.
    #[inline]
    pub(crate) fn remove(&self, node: &Node) {
        if node.listed.replace(false) {
            // SAFETY: L3: `listed` is written under the lock of the one line that the node is put in.
            unsafe { self.line.remove(&raw const node.link) };
        }
    }

    /// The oldest node.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Node> {
        // SAFETY: N1: listed, and the lock is held.
        unsafe { self.line.first().cast::<Node>().as_ref() }
    }

    /// Visits the nodes, oldest first, until `visit` gives something. It may take out the node that it is shown.
    #[inline]
    pub(crate) fn seek<R>(&self, mut visit: impl FnMut(&Node) -> Option<R>) -> Option<R> {
        let mut next = self.line.first().cast::<Node>();
        // SAFETY: N1: listed, and the lock is held.
        while let Some(node) = unsafe { next.as_ref() } {
            next = node.link.next().cast();
            let found = visit(node);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Takes out the oldest node, if its wait can still be decided, having decided it; those that cannot are dropped from the line.
    #[inline]
    pub(crate) fn claim_first(&self, woken: &mut Woken) -> bool {
        while let Some(node) = self.first() {
            self.remove(node);
            // The node is not listed any more, but the lock is held: the owner of a pending wait is still there.
            if node.claim() {
                woken.push(node);
                return true;
            }
        }
        false
    }

    /// Tells all to look who can be told.
    pub(crate) fn look_again(&self, woken: &mut Woken) {
        self.claim_looking(woken, true);
    }

    /// Takes out those who are to be told to look, having decided their waits: all, or the oldest. Nothing is given: a `Slot` that is said
    /// to be woken is read, and nobody has written it; so it is told otherwise. The others in the line are owed more than that, which only
    /// its owner can give: anybody may get hold of a channel's list and notify it.
    fn claim_looking(&self, woken: &mut Woken, all: bool) {
        self.seek(|node| {
            let outcome = match node.role {
                Role::Notify | Role::Take | Role::Look | Role::Peek => node.outcome,
                Role::Slot => LOOK_AGAIN,
                _ => return None,
            };
            self.remove(node);
            // The node is not listed any more, but the lock is held: the owner of a pending wait is still there.
            if !node.claim_as(outcome) {
                return None;
            }
            woken.push(node);
            (!all && !matches!(node.role, Role::Look | Role::Peek)).then_some(())
        });
    }
}

/// Those that have been claimed and are to be let go on once the lock is free. Unparks them when dropped.
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

    /// Remembers what user code under the lock has put off until the lock is free.
    #[inline]
    pub(crate) fn push_put_off(&mut self, calls: PutOff) {
        if !calls.is_empty() {
            Calls::chain(calls, self);
        }
    }
}

/// Calls to be made once the lock is free, as a node like those of the waits that are to go on then.
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
        // SAFETY: N1: of a place that is there, the parts are.
        let its_waiter = unsafe { &raw const (*at).waiter };
        let node = Node::new(its_waiter, 0, Role::Notify, ptr::null_mut());
        // SAFETY: N1: nobody else has the place.
        unsafe { at.write(Calls { node, waiter, calls: Cell::new(calls) }) };
        // SAFETY: N1: written just now; it stays until `make`, which whoever unparks the chain calls once.
        woken.push(unsafe { &(*at).node });
    }

    /// # Safety
    /// N1: `owner` is where `chain` has put it.
    unsafe fn make(owner: *const ()) {
        // SAFETY: N1, the caller's promise.
        let this = unsafe { Box::from_raw(owner.cast_mut().cast::<Calls>()) };
        for call in this.calls.take() {
            // The lock holder may be about to wait, and may be in line already.
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

/// Lets the chain's owners go on. By value, so that a lock's guard with an empty [`Woken`] beside it can stay in registers.
///
/// # Safety
/// S4: this thread won the claim of each in the chain, and does not touch them afterwards.
#[inline(never)]
unsafe fn unpark(first: *const Node) {
    // SAFETY: S4: claimed, so the frame stays until it is unparked.
    let alone = unsafe { &*first }.link.next().is_null();
    let mut next = if alone { first } else { in_order(first) };
    while !next.is_null() {
        // SAFETY: S4: this thread won the claim, so the frame stays until the unpark below.
        let node = unsafe { &*next };
        next = node.link.next().cast();
        let (waiter, listens) = (node.waiter, node.listens);
        // SAFETY: S4: claimed, unparked once, not touched again.
        if !listens || !unsafe { Waiter::tell(waiter) } {
            // SAFETY: S4, as above: a listener that could not be told is still there.
            unsafe { Waiter::unpark(waiter) };
        }
    }
}

/// The chain turned round: those who were claimed first go on first.
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

/// Those who wait for something of yours, in the order in which they came: what a type of your own needs to be a
/// [`Source`](crate::Source).
///
/// Whoever makes something available calls [`notify_one`](WaitList::notify_one) or [`notify_all`](WaitList::notify_all) *after*
/// it can be taken. The library puts waiters in and takes them out; a list costs two words and allocates nothing.
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
    /// A list that nobody waits in.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> WaitList {
        WaitList { queue: BiasedLock::new(Queue::new()) }
    }

    /// A list that nobody waits in.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> WaitList {
        WaitList { queue: BiasedLock::new(Queue::new()) }
    }

    /// A list whose lock guards something that one thread may use many times in a row: see [`BiasedLock::for_bursts`].
    pub(crate) fn for_bursts() -> WaitList {
        WaitList { queue: BiasedLock::for_bursts(Queue::new()) }
    }

    /// Tells the one who has waited longest to look again. One that waits for several things and has got another meanwhile is passed
    /// over, and if it gets another before it looks here, it passes the notification on; so none is wasted while somebody waits.
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

    /// Tells everybody who waits to look again.
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

    /// Whoever was notified did not want what is there: tells those who wait to look who are usually given things instead. The others who are
    /// notified are left alone: two that both refuse would tell each other for ever.
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

    /// What everybody in the list waits for has come, for good: tells those who wait, and the gatherings that are in it. For the list's
    /// owner only.
    pub(crate) fn announce(&self) {
        let mut woken = Woken::none();
        let queue = self.lock();
        while let Some(node) = queue.first() {
            let entry = queue.line.first().cast();
            queue.remove(node);
            if node.role == Role::Gather {
                // SAFETY: G1: just taken out of the line, whose lock is held; not touched afterwards.
                unsafe { Gathering::note(node.data.cast(), entry, &mut woken) };
            } else if node.claim() {
                woken.push(node);
            }
        }
        drop(queue);
    }

    /// Takes the lock, which guards the nodes, and whatever else the list's owner says it does.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Whether this thread holds the lock, and runs a predicate under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        self.queue.is_asking()
    }

    /// Makes a call when this thread has released the lock, under which it runs a predicate. The call must not panic.
    ///
    /// # Panics
    /// If the thread does not run a predicate under the lock.
    ///
    /// # Safety
    /// L5: what `call` uses is there until the lock holder has made the call.
    pub(crate) unsafe fn put_off(&self, call: impl FnOnce()) {
        // SAFETY: L5, the caller's promise.
        unsafe { self.queue.put_off(call) };
    }

    /// The same where that is quick; none: somebody has it.
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
