//! The registrations of one wait for many sources.
#![expect(unsafe_code, reason = "puts nodes in lines that other types own")]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::time::Instant;

use crate::park::{Mode, Node, Outcome, Predicate, Queue, Role, WaitList, Waiter};
use crate::task::drop_quietly;

/// The step of a registration: each step is one pass over the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Counts the nodes that will be needed.
    Count,
    /// Registers the nodes that are only notified. Nothing is given to them, so sources may be
    /// tried afterwards.
    Notify,
    /// Registers the nodes that something may be given to.
    Take,
}

/// A node and the list that it is in.
pub(crate) struct ArmNode {
    node: Node,
    /// The list whose lock guards the line that the node is in.
    list: *const WaitList,
    line: *const Queue,
}

/// Space for entries.
pub(crate) type Room = [UnsafeCell<MaybeUninit<ArmNode>>];

/// The registrations of one wait, which its sources put in. They are taken out before the value is
/// dropped.
#[expect(unnameable_types, reason = "only the library's own sources can register")]
pub struct Arms<'a> {
    /// Null in the counting pass, which registers nothing.
    waiter: *const Waiter,
    room: &'a Room,
    used: usize,
    pass: Pass,
    /// The number of nodes that did not fit.
    wanted: usize,
    /// Whether an item became available during the registration.
    ready: bool,
    /// Whether only the waiting task may call the predicates, and no notifier.
    refuses_predicates: bool,
    /// Whether these are registrations without a wait: see [`Arms::watching`].
    watches: bool,
    /// If set, the only list that the wait registers in. A sender makes a value for a wait in this
    /// list, now or when no other registration is left: see [`Arms::wait_only_for`].
    only: Option<*const WaitList>,
    /// The earliest time at which a source becomes ready by itself.
    deadline: Option<Instant>,
    /// Whether the wait has ended, or was abandoned before it parked.
    over: Cell<bool>,
    /// The lifetime of every list that a node is in, and of the data that nodes point to.
    _lists: PhantomData<&'a WaitList>,
}

impl fmt::Debug for Arms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arms").field("used", &self.used).finish_non_exhaustive()
    }
}

impl<'a> Arms<'a> {
    pub(crate) fn new(waiter: &'a Waiter, room: &'a Room) -> Arms<'a> {
        Arms::with(Some(waiter), room)
    }

    fn with(waiter: Option<&'a Waiter>, room: &'a Room) -> Arms<'a> {
        let waiter = waiter.map_or(ptr::null(), ptr::from_ref);
        Arms {
            waiter,
            room,
            used: 0,
            pass: Pass::Count,
            wanted: 0,
            ready: false,
            refuses_predicates: false,
            watches: false,
            only: None,
            deadline: None,
            over: Cell::new(false),
            _lists: PhantomData,
        }
    }

    /// Returns how many nodes `register` asks for.
    pub(crate) fn counted(register: impl FnOnce(&mut Arms<'a>)) -> usize {
        let mut arms = Arms::with(None, &[]);
        register(&mut arms);
        arms.wanted
    }

    /// Creates registrations without a wait, which only tell whether something has changed.
    /// `waiter` has been aborted, so nothing is ever given through these nodes, and they need no
    /// unpark. A giver that reaches one of them takes it out of its line and continues with the
    /// next node. [`Arms::withdraw_undisturbed`] detects this.
    pub(crate) fn watching(waiter: &'a Waiter, room: &'a Room) -> Arms<'a> {
        debug_assert!(waiter.is_over());
        let mut arms = Arms::new(waiter, room);
        arms.watches = true;
        arms
    }

    /// Returns whether these are registrations without a wait. A source that would hand something
    /// over, or claim a peer, when it registers must then only look.
    pub(crate) fn watches(&self) -> bool {
        self.watches
    }

    /// Recreates the arms of a wait for which `used` nodes were registered.
    ///
    /// # Safety
    /// N1: the nodes were registered by arms of this waiter with this room, which were then
    /// [left](Arms::leave).
    pub(crate) unsafe fn resume(waiter: &'a Waiter, room: &'a Room, used: usize) -> Arms<'a> {
        let mut arms = Arms::new(waiter, room);
        arms.used = used;
        arms
    }

    /// Leaves the nodes in their lines, for [`Arms::resume`]. Returns how many there are.
    pub(crate) fn leave(self) -> usize {
        ManuallyDrop::new(self).used
    }

    /// Forbids registering predicates from now on: only the waiting side may call them.
    pub(crate) fn refuse_predicates(&mut self) {
        self.refuses_predicates = true;
    }

    pub(crate) fn refuses_predicates(&self) -> bool {
        self.refuses_predicates
    }

    pub(crate) fn begin(&mut self, pass: Pass) {
        self.pass = pass;
    }

    pub(crate) fn pass(&self) -> Pass {
        self.pass
    }

    /// Returns how many nodes the sources asked for beyond those that fit.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Returns how many nodes have been registered.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Returns whether any node has been registered.
    pub(crate) fn any(&self) -> bool {
        self.used != 0
    }

    /// Records that an item is available, so that registration can stop.
    pub(crate) fn set_ready(&mut self) {
        self.ready = true;
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Records that a value is being made for a wait in `list`. From now on all other lists are
    /// left alone.
    pub(crate) fn wait_only_for(&mut self, list: &WaitList) {
        self.only = Some(list);
    }

    /// Takes over the list that the previous round found.
    pub(crate) fn set_only(&mut self, only: Option<*const WaitList>) {
        self.only = only;
    }

    /// Returns the only list that the next round is to wait in.
    pub(crate) fn only(&self) -> Option<*const WaitList> {
        self.only
    }

    /// Returns whether nothing is to be registered in this list.
    pub(crate) fn leaves_alone(&self, list: &WaitList) -> bool {
        self.only.is_some_and(|only| !ptr::eq(only, list))
    }

    /// Returns whether a node belongs to this wait.
    pub(crate) fn is_own(&self, node: &Node) -> bool {
        node.is_of(self.waiter)
    }

    /// Makes the wait end at `at` at the latest, to try again.
    pub(crate) fn ends_at(&mut self, at: Instant) {
        self.deadline = Some(self.deadline.map_or(at, |other| other.min(at)));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Counts one more node, in the counting pass.
    pub(crate) fn count(&mut self) {
        self.wanted += 1;
    }

    /// Registers a node that `list` notifies, or counts it, as the current pass requires.
    pub(crate) fn notified_by(&mut self, list: &'a WaitList) {
        self.notified(|| list);
    }

    /// Behaves like [`Arms::notified_by`], but asks for the list only if a node is registered.
    pub(crate) fn notified(&mut self, list: impl FnOnce() -> &'a WaitList) {
        match self.pass {
            Pass::Count => self.wanted += 1,
            Pass::Notify if self.only.is_some() => {}
            Pass::Notify => {
                let list = list();
                let queue = list.lock();
                // SAFETY: N1: `Arms` takes the node out before the list's borrow ends. N2: there is
                // no data.
                unsafe { self.push(list, &queue, Role::Notify, ptr::null_mut(), None) };
            }
            Pass::Take => {}
        }
    }

    /// Puts a node in `queue`. The lock of `list` guards `queue`, and the caller holds it. Returns
    /// `None` if no place is left; the caller then continues without the node.
    ///
    /// # Safety
    /// N1: `list` and `queue` live for `'a`. N2: `data` and `predicate` have the types that the
    /// list's owner expects, and stay valid.
    pub(crate) unsafe fn push(
        &mut self,
        list: &WaitList,
        queue: &Queue,
        role: Role,
        data: *mut (),
        predicate: Option<Predicate>,
    ) -> Option<&'a Node> {
        let Some(place) = self.room.get(self.used) else {
            // The source's number of lists has grown since the count. The next round has enough
            // places.
            self.wanted += 1;
            self.ready = true;
            return None;
        };
        let arm = u32::try_from(self.used).expect("far fewer arms than that");
        let node = Node::new(self.waiter, arm, role, data).with_predicate(predicate);
        // SAFETY: N1: this place has not been used yet, so nothing refers to it.
        let entry = unsafe { (*place.get()).write(ArmNode { node, list, line: queue }) };
        let node = ptr::from_ref(&entry.node);
        self.used += 1;
        // SAFETY: N1: the room stays in place, and `withdraw` takes the node out.
        unsafe { queue.push(node) };
        // SAFETY: N1: the room stays in place. From here on the node is only shared.
        Some(unsafe { &*node })
    }

    /// Returns the waiter, or `None` in the counting pass.
    fn waiter(&self) -> Option<&'a Waiter> {
        // SAFETY: N1: the waiter is borrowed for `'a`.
        unsafe { self.waiter.as_ref() }
    }

    fn entry(&self, index: usize) -> Option<&'a ArmNode> {
        if index >= self.used {
            return None;
        }
        // SAFETY: N1: a place that has been written is not written again until `clear`.
        let place = unsafe { &*self.room[index].get() };
        // SAFETY: N1: the places below `used` have been written.
        Some(unsafe { place.assume_init_ref() })
    }

    /// Gives the wait up, unless it has already been ended. If this returns true, nothing has been
    /// or will be given.
    pub(crate) fn abort(&self) -> bool {
        self.waiter().is_some_and(Waiter::abort)
    }

    /// Takes every node out of its list.
    pub(crate) fn withdraw(&self) {
        self.withdraw_undisturbed();
    }

    /// Takes every node out of its list. Returns whether each was still there. In that case no
    /// giver has reached any of them. So between the last registration and this call there was a
    /// moment at which all these lists were as their registrations found them.
    pub(crate) fn withdraw_undisturbed(&self) -> bool {
        let mut undisturbed = true;
        for index in 0..self.used {
            undisturbed &= self.withdraw_one(index);
        }
        undisturbed
    }

    /// Takes one node out of its list. Returns whether it was still there.
    pub(crate) fn withdraw_one(&self, index: usize) -> bool {
        let Some(entry) = self.entry(index) else { unreachable!("below `used`") };
        // SAFETY: N1: the list outlives these arms.
        let lock = unsafe { &*entry.list }.lock();
        let was_listed = entry.node.is_listed();
        // SAFETY: N1: so does the line. The lock guards it.
        unsafe { &*entry.line }.remove(&entry.node);
        drop(lock);
        was_listed
    }

    /// Takes every node out of its list, except those that [`Arms::each_asking`] visits.
    pub(crate) fn withdraw_unless_asking(&self) {
        for index in 0..self.used {
            if self.asking_list(index).is_none() {
                self.withdraw_one(index);
            }
        }
    }

    /// Calls `each` for each node whose list's lock this thread holds while it runs a predicate.
    /// The arguments are the list and the node's index.
    pub(crate) fn each_asking(&self, mut each: impl FnMut(&WaitList, usize)) {
        for index in 0..self.used {
            if let Some(list) = self.asking_list(index) {
                each(list, index);
            }
        }
    }

    /// Returns whether there is such a node.
    pub(crate) fn is_asking(&self) -> bool {
        (0..self.used).any(|index| self.asking_list(index).is_some())
    }

    fn asking_list(&self, index: usize) -> Option<&WaitList> {
        let entry = self.entry(index)?;
        // SAFETY: N1: the list outlives these arms.
        Some(unsafe { &*entry.list }).filter(|list| list.is_asking())
    }

    /// Returns the registration with this number, through which the wait ended.
    pub(crate) fn won(&self, arm: u32) -> Option<Won<'a>> {
        let index = arm as usize;
        let entry = self.entry(index)?;
        Some(Won { node: &entry.node, list: entry.list, index, by_filter: false })
    }

    /// Parks until the wait is over, and takes every node out of its list.
    #[inline(always)]
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Outcome<()> {
        let waiter = self.waiter().expect("registered");
        let outcome = waiter.park(deadline, Mode::Cancellable);
        self.over.set(true);
        self.withdraw();
        outcome
    }

    /// Gives the wait up even if it may already have been ended. A notification that arrived is
    /// passed on.
    pub(crate) fn abandon(&self) {
        if self.over.replace(true) {
            return;
        }
        // If the wait has been claimed, it will be unparked, and this waits for that.
        let ended = self.waiter().and_then(Waiter::abandon);
        self.withdraw();
        if let Some(Outcome::Woken(arm)) = ended
            && let Some(won) = self.won(arm)
        {
            won.pass_on();
        }
    }

    /// Drops the nodes, all of which have been withdrawn.
    fn clear(&mut self) {
        for place in &self.room[..self.used] {
            // SAFETY: N1: the node is in no list any more, so no other code looks at it.
            let place = unsafe { &mut *place.get() };
            // SAFETY: N1: this place has been written.
            let entry = unsafe { place.assume_init_mut() };
            // The payload is user data without an owner now.
            if let Some(payload) = entry.node.panic.take() {
                drop_quietly(payload);
            }
            // SAFETY: N1: this place has been written.
            unsafe { place.assume_init_drop() };
        }
        self.used = 0;
    }

    /// Ends the registrations after the wait has ended and every node has been withdrawn.
    pub(crate) fn close(mut self) {
        self.clear();
    }
}

impl Drop for Arms<'_> {
    fn drop(&mut self) {
        if self.used != 0 {
            // A source panicked.
            self.abandon();
            self.clear();
        }
    }
}

/// The registration through which a wait ended.
#[derive(Clone, Copy)]
#[expect(unnameable_types, reason = "only the library's own sources can register")]
pub struct Won<'a> {
    node: &'a Node,
    list: *const WaitList,
    index: usize,
    /// Whether the filter that owns the node's predicate is being finished.
    by_filter: bool,
}

impl fmt::Debug for Won<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Won").field("node", &self.node).finish_non_exhaustive()
    }
}

impl<'a> Won<'a> {
    /// Returns the registration for the source behind the filter with this id, if it is that
    /// filter's registration.
    pub(super) fn for_filter(&self, id: *const ()) -> Option<Won<'a>> {
        let own = self.node.predicate().is_some_and(|predicate| predicate.is_of(id));
        own.then_some(Won { by_filter: true, ..*self })
    }

    /// Returns whether this is the registration of a filter, and that filter is not the one being
    /// finished.
    pub(crate) fn is_for_a_filter(&self) -> bool {
        self.node.predicate().is_some() && !self.by_filter
    }

    /// Returns whether the registration was in this list.
    pub(crate) fn is_of(&self, list: &WaitList) -> bool {
        ptr::eq(self.list, list)
    }

    /// Returns the index of the node, in the order of registration.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn role(&self) -> Role {
        self.node.role()
    }

    pub(crate) fn node(&self) -> &Node {
        self.node
    }

    /// Takes the payload of a panic of a predicate that was called on behalf of this wait.
    pub(crate) fn panic(&self) -> Option<Box<dyn Any + Send>> {
        self.node.panic.take()
    }

    fn list(&self) -> &WaitList {
        // SAFETY: N1: the list outlives the wait.
        unsafe { &*self.list }
    }

    /// Passes a notification on to the next waiter in the line.
    pub(crate) fn pass_on(&self) {
        if self.role() != Role::Notify {
            return;
        }
        let list = self.list();
        if list.is_asking() {
            let list = self.list;
            // SAFETY: L5: the list belongs to the lock holder.
            let notify = move || unsafe { &*list }.notify_one();
            // SAFETY: L5: the list belongs to the lock holder.
            unsafe { self.list().put_off(notify) };
        } else {
            list.notify_one();
        }
    }

    /// Handles a notification whose item was refused or is already taken.
    pub(crate) fn refused(&self) {
        if self.role() == Role::Notify {
            self.list().offer_to_takers();
        }
    }
}
