//! The registrations of one wait for many things.
#![expect(unsafe_code, reason = "nodes in other people's lines")]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::time::Instant;

use crate::park::{ABORTED, Mode, Node, Predicate, Queue, Role, WOKEN, WaitList, Waiter};
use crate::task::{self, drop_quietly};

/// What a pass over the sources does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Counts the nodes that will be needed.
    Count,
    /// Puts in those that are to be notified. Nothing is given to them, so a source may be looked at afterwards.
    Notify,
    /// Puts in those that something may be given to.
    Take,
}

/// One node, and the list it is in.
pub(crate) struct Entry {
    node: Node,
    /// Whose lock guards the line that the node is in.
    list: *const WaitList,
    line: *const Queue,
}

/// Room for entries.
pub(crate) type Room = [UnsafeCell<MaybeUninit<Entry>>];

/// The registrations of one wait; its sources put them in. They are taken out again before it goes.
#[expect(unnameable_types, reason = "so that only the library's own sources can register")]
pub struct Arms<'a> {
    waiter: &'a Waiter,
    room: &'a Room,
    used: usize,
    pass: Pass,
    /// Nodes that there was no room for.
    wanted: usize,
    /// Something turned out to be there while it was being registered for.
    ready: bool,
    /// Predicates are asked only where the wait is.
    asks_itself: bool,
    /// There is no wait: see [`Arms::watching`].
    watches: bool,
    /// Somebody is about to give through this list, or will be once nothing else is registered: see [`Arms::wait_only_for`].
    only: Option<*const WaitList>,
    /// When a source will have something by itself.
    deadline: Option<Instant>,
    /// Whether `abandon` has been called.
    abandoned: Cell<bool>,
    /// Of every list that a node is in, and of what the nodes point to.
    _lists: PhantomData<&'a WaitList>,
}

impl fmt::Debug for Arms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arms").field("used", &self.used).finish_non_exhaustive()
    }
}

impl<'a> Arms<'a> {
    pub(crate) fn new(waiter: &'a Waiter, room: &'a Room) -> Arms<'a> {
        Arms {
            waiter,
            room,
            used: 0,
            pass: Pass::Count,
            wanted: 0,
            ready: false,
            asks_itself: false,
            watches: false,
            only: None,
            deadline: None,
            abandoned: Cell::new(false),
            _lists: PhantomData,
        }
    }

    /// Registrations without a wait: they only tell whether something has changed. `waiter` has been aborted, so nothing is ever given
    /// through these nodes, and they need no unpark. A giver that comes to one of them takes it out of its line and goes on to the next;
    /// that is what [`Arms::withdraw_undisturbed`] looks for.
    pub(crate) fn watching(waiter: &'a Waiter, room: &'a Room) -> Arms<'a> {
        debug_assert_eq!(waiter.outcome(), ABORTED);
        let mut arms = Arms::new(waiter, room);
        arms.watches = true;
        arms
    }

    /// Whether these are registrations without a wait. A source that would hand over, or claim a peer, when it registers must only look on
    /// then.
    pub(crate) fn watches(&self) -> bool {
        self.watches
    }

    /// The arms of a wait with which `used` nodes were put in.
    ///
    /// # Safety
    /// N1: they were put in by arms of this waiter with this room, which were then [left](Arms::leave).
    pub(crate) unsafe fn resume(waiter: &'a Waiter, room: &'a Room, used: usize) -> Arms<'a> {
        let mut arms = Arms::new(waiter, room);
        arms.used = used;
        arms
    }

    /// Leaves the nodes where they are, for [`Arms::resume`]; returns how many they are.
    pub(crate) fn leave(self) -> usize {
        ManuallyDrop::new(self).used
    }

    /// From now on no predicate may be put in a line: nobody else may ask it.
    pub(crate) fn ask_itself(&mut self) {
        self.asks_itself = true;
    }

    pub(crate) fn asks_itself(&self) -> bool {
        self.asks_itself
    }

    pub(crate) fn begin(&mut self, pass: Pass) {
        self.pass = pass;
    }

    pub(crate) fn pass(&self) -> Pass {
        self.pass
    }

    /// How many nodes the sources asked for.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// How many nodes have been put in.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether any node has been put in.
    pub(crate) fn any(&self) -> bool {
        self.used != 0
    }

    /// Something is there already: no need to go on registering.
    pub(crate) fn set_ready(&mut self) {
        self.ready = true;
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Leaves all other lists alone from here on: somebody is making a value for a wait in this one.
    pub(crate) fn wait_only_for(&mut self, list: &WaitList) {
        self.only = Some(list);
    }

    /// Takes over what the round before found.
    pub(crate) fn set_only(&mut self, only: Option<*const WaitList>) {
        self.only = only;
    }

    /// The list that the next round is to wait in alone.
    pub(crate) fn only(&self) -> Option<*const WaitList> {
        self.only
    }

    /// Whether nothing is to be put in this list.
    pub(crate) fn leaves_alone(&self, list: &WaitList) -> bool {
        self.only.is_some_and(|only| !ptr::eq(only, list))
    }

    /// Whether a node is one of this wait's own.
    pub(crate) fn is_own(&self, node: &Node) -> bool {
        node.is_of(self.waiter)
    }

    /// The wait ends at `at` at the latest, to look again.
    pub(crate) fn ends_at(&mut self, at: Instant) {
        self.deadline = Some(self.deadline.map_or(at, |other| other.min(at)));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// In the counting pass: one node more.
    pub(crate) fn count(&mut self) {
        self.wanted += 1;
    }

    /// A node to be notified by `list`, in whichever pass this is.
    pub(crate) fn notified_by(&mut self, list: &'a WaitList) {
        self.notified(|| list);
    }

    /// The same for a list that is asked for only if a node is put in.
    pub(crate) fn notified(&mut self, list: impl FnOnce() -> &'a WaitList) {
        match self.pass {
            Pass::Count => self.wanted += 1,
            Pass::Notify if self.only.is_some() => {}
            Pass::Notify => {
                let list = list();
                let queue = list.lock();
                // SAFETY: N1: `Arms` takes the node out before the list, borrowed for as long, goes. N2: no data.
                unsafe { self.push(list, &queue, Role::Notify, ptr::null_mut(), None) };
            }
            Pass::Take => {}
        }
    }

    /// Puts a node in `queue`, which the lock of `list` guards, which the caller holds. None: there is no room, and the caller is to
    /// go on without.
    ///
    /// # Safety
    /// N1: `list` and `queue` are there for as long as `'a`. N2: `data` and `predicate` are what the list's owner takes them for, and stay.
    pub(crate) unsafe fn push(
        &mut self,
        list: &WaitList,
        queue: &Queue,
        role: Role,
        data: *mut (),
        predicate: Option<Predicate>,
    ) -> Option<&'a Node> {
        let Some(place) = self.room.get(self.used) else {
            // A source whose number of lists has grown: the next round has room.
            self.wanted += 1;
            self.ready = true;
            return None;
        };
        let arm = u32::try_from(self.used).expect("far fewer arms than that");
        let node = Node::new(self.waiter, arm, role, data).with_predicate(predicate);
        // SAFETY: N1: nobody else has this place: it has not been used yet.
        let entry = unsafe { (*place.get()).write(Entry { node, list, line: queue }) };
        let node = ptr::from_ref(&entry.node);
        self.used += 1;
        // SAFETY: N1: the room stays, and the node is taken out by `withdraw`.
        unsafe { queue.push(node) };
        // SAFETY: N1: as above; from here on it is only ever shared.
        Some(unsafe { &*node })
    }

    fn entry(&self, index: usize) -> Option<&'a Entry> {
        if index >= self.used {
            return None;
        }
        // SAFETY: N1: nobody writes to a place that has been written, until `clear`.
        let place = unsafe { &*self.room[index].get() };
        // SAFETY: N1: those below `used` have been.
        Some(unsafe { place.assume_init_ref() })
    }

    /// Gives the wait up, unless somebody has ended it already. With true nothing has been or will be given.
    pub(crate) fn abort(&self) -> bool {
        self.waiter.claim(ABORTED)
    }

    /// Takes every node out of its list.
    pub(crate) fn withdraw(&self) {
        self.withdraw_undisturbed();
    }

    /// Takes every node out of its list. Returns whether each was still there. Then no giver has come to any of them, and between the last
    /// registration and this call there was a moment at which all these lists were as their registrations found them.
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
        // SAFETY: N1: so does the line, which the lock guards.
        unsafe { &*entry.line }.remove(&entry.node);
        drop(lock);
        was_listed
    }

    /// Takes out of their lists all nodes but those for [`Arms::each_asking`].
    pub(crate) fn withdraw_unless_asking(&self) {
        for index in 0..self.used {
            if self.asking_list(index).is_none() {
                self.withdraw_one(index);
            }
        }
    }

    /// Calls `each` with the list of each node whose lock this thread holds while it runs a predicate, and with the node's index.
    pub(crate) fn each_asking(&self, mut each: impl FnMut(&WaitList, usize)) {
        for index in 0..self.used {
            if let Some(list) = self.asking_list(index) {
                each(list, index);
            }
        }
    }

    /// Whether there is such a node.
    pub(crate) fn is_asking(&self) -> bool {
        (0..self.used).any(|index| self.asking_list(index).is_some())
    }

    fn asking_list(&self, index: usize) -> Option<&WaitList> {
        let entry = self.entry(index)?;
        // SAFETY: N1: the list outlives these arms.
        Some(unsafe { &*entry.list }).filter(|list| list.is_asking())
    }

    /// The registration through which the wait ended.
    pub(crate) fn won(&self, outcome: u32) -> Option<Won<'a>> {
        let index = outcome.checked_sub(WOKEN)? as usize;
        let entry = self.entry(index)?;
        Some(Won { node: &entry.node, list: entry.list, index, by_filter: false })
    }

    /// Gives the wait up although something may have come of it already: a notification is passed on.
    pub(crate) fn abandon(&self) {
        if self.abandoned.replace(true) {
            return;
        }
        if !self.watches && !self.abort() {
            // Claimed, hence to be unparked.
            let outcome = task::while_parked(|| self.waiter.park(None, Mode::Uninterruptible));
            self.withdraw();
            if let Some(won) = self.won(outcome) {
                won.pass_on();
            }
            return;
        }
        self.withdraw();
    }

    /// Forgets the nodes, all of which have been withdrawn.
    fn clear(&mut self) {
        for place in &self.room[..self.used] {
            // SAFETY: N1: in no list any more, so nobody else looks.
            let place = unsafe { &mut *place.get() };
            // SAFETY: N1: written.
            let entry = unsafe { place.assume_init_mut() };
            // The user's, and nobody's any more.
            if let Some(payload) = entry.node.panic.take() {
                drop_quietly(payload);
            }
            // SAFETY: N1: written.
            unsafe { place.assume_init_drop() };
        }
        self.used = 0;
    }

    /// The wait has ended and every node has been withdrawn.
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
#[expect(unnameable_types, reason = "so that only the library's own sources can register")]
pub struct Won<'a> {
    node: &'a Node,
    list: *const WaitList,
    index: usize,
    /// The filter that its predicate belongs to is being asked.
    by_filter: bool,
}

impl fmt::Debug for Won<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Won").field("node", &self.node).finish_non_exhaustive()
    }
}

impl<'a> Won<'a> {
    /// The same for the source behind the filter that `id` is of, if it was the filter's registration.
    pub(super) fn for_filter(&self, id: *const ()) -> Option<Won<'a>> {
        let own = self.node.predicate().is_some_and(|predicate| predicate.is_of(id));
        own.then_some(Won { by_filter: true, ..*self })
    }

    /// Whether it was the registration of a filter, which this is not asked by.
    pub(crate) fn is_for_a_filter(&self) -> bool {
        self.node.predicate().is_some() && !self.by_filter
    }

    /// Whether it was in this list.
    pub(crate) fn is_of(&self, list: &WaitList) -> bool {
        ptr::eq(self.list, list)
    }

    /// Which of the nodes it is, in the order in which they were put in.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn role(&self) -> Role {
        self.node.role()
    }

    pub(crate) fn node(&self) -> &Node {
        self.node
    }

    /// What a predicate panicked with on this wait's behalf.
    pub(crate) fn panic(&self) -> Option<Box<dyn Any + Send>> {
        self.node.panic.take()
    }

    fn list(&self) -> &WaitList {
        // SAFETY: N1: the list outlives the wait.
        unsafe { &*self.list }
    }

    /// Hands a notification to the next in line.
    pub(crate) fn pass_on(&self) {
        if self.role() != Role::Notify {
            return;
        }
        let list = self.list();
        if list.is_asking() {
            let list = self.list;
            // SAFETY: L5: the list is the lock holder's.
            let notify = move || unsafe { &*list }.notify_one();
            // SAFETY: L5, as above.
            unsafe { self.list().put_off(notify) };
        } else {
            list.notify_one();
        }
    }

    /// What was there is not wanted, or is gone.
    pub(crate) fn refused(&self) {
        if self.role() == Role::Notify {
            self.list().offer_to_takers();
        }
    }
}
