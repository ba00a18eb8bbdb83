//! Waits without a parked task or thread: those of futures and callbacks.
//!
//! # Protocol
//! ```text
//!   the owner                                      the code that ends the wait
//!   -------------------------------------------    ---------------------------------------------
//!   makes a heap frame with two references: its    claims the waiter under the lock of a list,
//!     own, and that of the registrations             gives, takes the node out, unlocks
//!   registers as every wait does (see `choose`)    unpark: sets `rung`, rings the bell, releases
//!   ..                                               the registrations' reference
//!   finish: takes the other nodes out, fetches
//!   or give_up: claims the waiter itself; if
//!     that fails, passes on what it was given
//! ```
//! - N1: registrations point to the frame and to the source's lists. The frame stays until its last
//!   reference is dropped. The source stays in place until `finish` or `give_up` has taken the
//!   nodes out. If the owner is forgotten, its frame and its source are leaked, both on the heap.
//! - A giver has given everything before it releases the lock under which it claimed. After a
//!   claim, the owner takes each of these locks when it takes its nodes out. So it may then fetch
//!   the item, or pass it on, without waiting for the unpark. The unpark may come much later,
//!   because other waiters are unparked first and may run user code.
//! - If a source becomes ready at a known time (`Arms::ends_at`), an alarm is set, because no
//!   thread sleeps until then.
#![expect(unsafe_code, reason = "the registrations' reference, and nodes that stay in lines")]

use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::arms::{ArmNode, Arms, Pass, Won};
use super::traits::Source;
use crate::base::alarm::{Alarm, Ring};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::{Outcome, Unattended};
use crate::task;

/// A callback that is told that a wait has ended.
pub(super) trait Bell: Send + Sync + 'static {
    /// Rings. Called at most once, without locks, by the code that ended the wait.
    fn ring(&self);
}

type NodePlace = UnsafeCell<MaybeUninit<ArmNode>>;

struct StandingFrame<B> {
    wait: Unattended,
    /// One source is the usual case. A connection that waits for its next request is one.
    room: SmallVec<[NodePlace; 1]>,
    /// The number of places that have been used. Only the owner writes it.
    used: Cell<usize>,
    /// Whether the wait has ended and been unparked.
    rung: AtomicBool,
    bell: B,
}

// SAFETY: N1: of the fields that are not Sync, the nodes are guarded by the locks of their lists.
// The rest is accessed by the owner only, until the last reference is dropped.
unsafe impl<B: Bell> Sync for StandingFrame<B> {}
// SAFETY: N1: of the fields that are not Sync, the nodes are guarded by the locks of their lists.
// The rest is accessed by the owner only, until the last reference is dropped.
unsafe impl<B: Bell> Send for StandingFrame<B> {}

impl<B: Bell> StandingFrame<B> {
    /// Creates a frame with a second reference, which belongs to the registrations.
    fn new(places: usize, bell: B) -> Arc<StandingFrame<B>> {
        let frame = Arc::new_cyclic(|frame: &Weak<StandingFrame<B>>| {
            let owner = NonNull::new(frame.as_ptr().cast_mut()).expect("allocated").cast();
            StandingFrame {
                wait: Unattended::new(owner, unpark::<B>),
                room: (0..places).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
                used: Cell::new(0),
                rung: AtomicBool::new(false),
                bell,
            }
        });
        let _registrations = Arc::into_raw(Arc::clone(&frame));
        frame
    }

    /// Returns the registrations. They stay in their lines when the result is dropped.
    fn arms(&self) -> ManuallyDrop<Arms<'_>> {
        // SAFETY: N1: `used` is written when the arms of this frame are left.
        ManuallyDrop::new(unsafe { Arms::resume(self.wait.waiter(), &self.room, self.used.get()) })
    }

    /// Takes the nodes out of their lines, except those whose lock this thread holds while it runs
    /// a predicate. The nodes themselves stay in place, because the thread that ended the wait may
    /// still have to unpark it.
    fn withdraw(this: &Arc<Self>) {
        let leak = Leak(this);
        this.arms().withdraw_unless_asking();
        let _ = ManuallyDrop::new(leak);
    }

    /// Takes out the nodes that [`StandingFrame::withdraw`] has left, when their locks are
    /// released.
    fn withdraw_later(this: &Arc<Self>) {
        this.arms().each_asking(|list, index| {
            let frame = Arc::clone(this);
            let withdraw = move || {
                frame.arms().withdraw_one(index);
                // The frame may still hold a waker, whose drop is user code.
                task::drop_quietly(frame);
            };
            // SAFETY: L5: the list belongs to the lock holder, and the frame is kept alive.
            unsafe { list.put_off(withdraw) };
        });
    }

    /// Ends the wait, unless it has already been ended. If this returns true, the wait will not be
    /// unparked. The nodes stay in their lines.
    fn abort(this: &Arc<Self>) -> bool {
        let aborted = this.wait.waiter().abort();
        if aborted {
            // SAFETY: N1: the reference was made in `new`. Only the winner of the claim releases
            // it, which is this call.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(this)) };
        }
        aborted
    }

    /// Returns the registration through which a giver has ended the wait, or `None` if the alarm
    /// has.
    fn won(&self) -> Option<Won<'_>> {
        match self.wait.outcome() {
            Outcome::Woken(arm) => self.arms().won(arm),
            _ => None,
        }
    }
}

/// Leaks a frame that cannot be withdrawn. A predicate may hold its channel's lock and wait for the
/// lock of a channel whose predicate waits for the first lock. Then one of the two panics.
struct Leak<'f, B>(&'f Arc<StandingFrame<B>>);

impl<B> Drop for Leak<'_, B> {
    fn drop(&mut self) {
        let _ = ManuallyDrop::new(Arc::clone(self.0));
    }
}

/// A guard that takes out the nodes that [`StandingFrame::withdraw`] has left, when their locks are
/// released.
struct WithdrawLater<'f, B: Bell>(&'f Arc<StandingFrame<B>>);

impl<B: Bell> Drop for WithdrawLater<'_, B> {
    fn drop(&mut self) {
        StandingFrame::withdraw_later(self.0);
    }
}

/// Unparks the wait. Called by the winner of the claim.
///
/// # Safety
/// N1: `owner` is the reference that belongs to the registrations.
unsafe fn unpark<B: Bell>(owner: *const ()) {
    // SAFETY: N1, the caller's promise.
    let frame = unsafe { Arc::from_raw(owner.cast::<StandingFrame<B>>()) };
    // Release: a thread that reads `true` also sees what the claim brought.
    frame.rung.store(true, Ordering::Release);
    frame.bell.ring();
    // The frame may still hold a waker, whose drop is user code and must not keep the caller from
    // unparking others.
    task::drop_quietly(frame);
}

impl<B: Bell> Ring for StandingFrame<B> {
    fn ring(&self) {
        self.wait.time_out();
    }
}

impl<B> Drop for StandingFrame<B> {
    fn drop(&mut self) {
        // SAFETY: N1: the nodes have been withdrawn, and no thread has to unpark them any more.
        unsafe { Arms::resume(self.wait.waiter(), &self.room, self.used.get()) }.close();
    }
}

/// A wait that is being set up. Dropping it gives the wait up.
struct Setting<'f, B: Bell> {
    frame: &'f Arc<StandingFrame<B>>,
    arms: Option<Arms<'f>>,
}

impl<'f, B: Bell> Setting<'f, B> {
    fn new(frame: &'f Arc<StandingFrame<B>>) -> Setting<'f, B> {
        Setting { frame, arms: Some(Arms::new(frame.wait.waiter(), &frame.room)) }
    }

    fn arms(&mut self) -> &mut Arms<'f> {
        self.arms.as_mut().expect("until it is left or dropped")
    }

    /// Leaves the registrations in their lines.
    fn leave(mut self) {
        self.take();
    }

    fn take(&mut self) -> bool {
        let Some(arms) = self.arms.take() else { return false };
        self.frame.used.set(arms.leave());
        true
    }
}

impl<B: Bell> Drop for Setting<'_, B> {
    fn drop(&mut self) {
        if !self.take() {
            return;
        }
        let aborted = StandingFrame::abort(self.frame);
        StandingFrame::withdraw(self.frame);
        let _later = WithdrawLater(self.frame);
        if !aborted && let Some(won) = self.frame.won() {
            // At this stage only a notification can have arrived.
            won.pass_on();
        }
    }
}

/// A wait that has been set up. It must be consumed by `finish` or `give_up`: see N1.
pub(super) struct Standing<B> {
    frame: Arc<StandingFrame<B>>,
    _alarm: Option<Alarm>,
}

/// The outcome of setting a wait up.
pub(super) enum SetUp<T, B> {
    /// An item was already available.
    Ready(T),
    Waits(Standing<B>),
}

/// Waits for an item of `source`. If `refuses_predicates` is true, filters are called only by the
/// owner of the wait. The bell may also be rung for an attempt that brought no item.
///
/// # Safety
/// N1: the source stays in place until the wait has been finished or given up, or forever.
pub(super) unsafe fn set_up<S: Source, B: Bell>(
    source: &S,
    refuses_predicates: bool,
    bell: impl Fn() -> B,
) -> SetUp<S::Item, B> {
    let mut wanted = None;
    let mut only = None;
    for round in 1_u32.. {
        if let Some(item) = source.try_take() {
            return SetUp::Ready(item);
        }
        let places = *wanted.get_or_insert_with(|| count(source));
        let frame = StandingFrame::new(places, bell());
        let mut setting = Setting::new(&frame);
        let arms = setting.arms();
        if refuses_predicates {
            arms.refuse_predicates();
        }
        arms.set_only(only.take());
        arms.begin(Pass::Notify);
        source.__register(arms);
        if arms.any()
            && let Some(item) = source.try_take()
        {
            return SetUp::Ready(item);
        }
        arms.begin(Pass::Take);
        if !arms.is_ready() {
            source.__register(arms);
        }
        if !arms.is_ready() || !StandingFrame::abort(&frame) {
            let frame = &frame;
            let alarm = arms.deadline().map(|due| {
                let frame = Arc::downgrade(frame);
                Alarm::set(due, frame)
            });
            setting.leave();
            return SetUp::Waits(Standing { frame: Arc::clone(frame), _alarm: alarm });
        }
        wanted = Some(places + arms.wanted());
        only = arms.only();
        setting.leave();
        StandingFrame::withdraw(&frame);
        if round.is_multiple_of(8) {
            // Another thread interferes again and again.
            std::thread::yield_now();
        }
    }
    unreachable!("a wait does not take 2^32 rounds")
}

fn count<S: Source>(source: &S) -> usize {
    Arms::counted(|arms| source.__register(arms))
}

impl<B: Bell> Standing<B> {
    pub(super) fn bell(&self) -> &B {
        &self.frame.bell
    }

    /// Returns whether the wait has ended. Acquire: it pairs with the release in [`unpark`].
    pub(super) fn has_rung(&self) -> bool {
        self.frame.rung.load(Ordering::Acquire)
    }

    /// Fetches what the wait brought, after it has ended. Returns `None` if it brought nothing;
    /// then another wait must be set up.
    ///
    /// # Panics
    /// Resumes the panic of a predicate that was called on behalf of this wait.
    pub(super) fn finish<S: Source>(self, source: &S) -> Option<S::Item> {
        debug_assert!(!self.frame.arms().is_asking(), "`refuse_in_predicate` has been called");
        StandingFrame::withdraw(&self.frame);
        let won = self.frame.won()?;
        if let Some(payload) = won.panic() {
            panic::resume_unwind(payload);
        }
        let pass_on = super::choose::PassOn(&won);
        let item = source.__finish(&won);
        let _ = std::mem::ManuallyDrop::new(pass_on);
        if item.is_none() {
            won.refused();
        }
        item
    }

    /// Must be called before [`Standing::finish`], which takes the locks of the source's lists.
    ///
    /// # Panics
    /// Panics if this thread holds one of these locks, because a predicate of that channel is
    /// polling.
    pub(super) fn refuse_in_predicate(&self) {
        self.frame.arms().each_asking(|list, _| drop(list.lock()));
    }

    /// Ends the wait. An item that it was given goes to other waits. If this thread runs a
    /// predicate of a channel in whose line the wait is, the wait leaves that line when the channel
    /// is unlocked. The source may have been dropped by then.
    pub(super) fn give_up<S: Source>(self, source: &S) {
        let aborted = StandingFrame::abort(&self.frame);
        StandingFrame::withdraw(&self.frame);
        // This guard runs after the item has been passed on below. The item is kept under the
        // address of a node, so the node must not be reused before that.
        let _later = WithdrawLater(&self.frame);
        if aborted {
            return;
        }
        if let Some(won) = self.frame.won() {
            task::drop_quietly(won.panic());
            source.__give_back(&won);
            won.pass_on();
        }
    }
}
