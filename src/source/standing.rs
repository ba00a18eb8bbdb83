//! Waits for which nobody is parked: those of futures and callbacks.
//!
//! # Protocol
//! ```text
//!   the owner                                        whoever ends the wait
//!   ---------------------------------------------    ------------------------------------
//!   a frame on the heap, one reference for itself,   claims the waiter under the lock of a list,
//!     one that goes with the registrations           gives, takes the node out, unlocks
//!   registers as every wait does (see `choose`)      unpark: the frame has rung; rings the bell,
//!   ..                                               and gives back the registrations' reference
//!   finish: takes the other nodes out, fetches
//!   or give_up: claims the waiter itself; if that
//!     fails it gives back what it was given
//! ```
//! - N1: registrations point to the frame, which stays until its last reference goes, and to the source's lists. So the source
//!   stays where it is until `finish` or `give_up`, which take the nodes out. If the owner is forgotten, so are its frame and its
//!   source: both are on the heap, and stay there for ever.
//! - What the giver owes has been given when it lets go of the lock under which it claimed. So the owner that takes its nodes out
//!   after a claim, which takes each of these locks, may fetch or give back without waiting for the unpark, which may be a while
//!   off: others are unparked before it, and what they run is not ours.
//! - A source that has something at a given moment (`Arms::ends_at`) has an alarm set, since nobody sleeps until then.
#![expect(unsafe_code, reason = "the registrations' reference, and nodes that stay in lines")]

use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::arms::{Arms, Entry, Pass, Won};
use super::traits::Source;
use crate::base::alarm::{Alarm, Ring};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::{ABORTED, TIMED_OUT, Waiter};
use crate::task;

/// What is told that a wait has ended.
pub(super) trait Bell: Send + Sync + 'static {
    /// Called without locks, at most once, by whoever ended the wait.
    fn ring(&self);
}

type Place = UnsafeCell<MaybeUninit<Entry>>;

struct Frame<B> {
    waiter: Waiter,
    room: SmallVec<[Place; 2]>,
    /// Places that have been used. Written by the owner.
    used: Cell<usize>,
    /// The wait has ended, and whoever ended it has said so.
    rung: AtomicBool,
    bell: B,
}

// SAFETY: N1: of what is not Sync, the nodes are guarded by the locks of their lists, and the rest is the owner's, until the last
// reference goes.
unsafe impl<B: Bell> Sync for Frame<B> {}
// SAFETY: N1: as above.
unsafe impl<B: Bell> Send for Frame<B> {}

impl<B: Bell> Frame<B> {
    /// A frame with a reference besides, which goes with the registrations.
    fn new(places: usize, bell: B) -> Arc<Frame<B>> {
        let frame = Arc::new_cyclic(|frame: &Weak<Frame<B>>| {
            let owner = NonNull::new(frame.as_ptr().cast_mut()).expect("allocated").cast();
            Frame {
                waiter: Waiter::with_owner(owner, unpark::<B>),
                room: (0..places).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
                used: Cell::new(0),
                rung: AtomicBool::new(false),
                bell,
            }
        });
        let _registrations = Arc::into_raw(Arc::clone(&frame));
        frame
    }

    /// The registrations, which are left where they are when this is dropped.
    fn arms(&self) -> ManuallyDrop<Arms<'_>> {
        // SAFETY: N1: `used` is written when the arms of this very frame are left.
        ManuallyDrop::new(unsafe { Arms::resume(&self.waiter, &self.room, self.used.get()) })
    }

    /// Takes the nodes out of their lines, but for those whose lock this thread holds while it runs a predicate. The nodes stay in their places: the
    /// thread that ended the wait may still have to unpark it.
    fn withdraw(this: &Arc<Self>) {
        let leak = Leak(this);
        this.arms().withdraw_unless_asking();
        let _ = ManuallyDrop::new(leak);
    }

    /// Takes out the nodes that [`Frame::withdraw`] has left, when their locks are released.
    fn withdraw_later(this: &Arc<Self>) {
        this.arms().each_asking(|list, index| {
            let frame = Arc::clone(this);
            let withdraw = move || {
                frame.arms().withdraw_one(index);
                // A waker may be left in it.
                task::drop_quietly(frame);
            };
            // SAFETY: L5: the lock holder's list; the frame is kept.
            unsafe { list.put_off(withdraw) };
        });
    }

    /// Ends the wait, if nobody has: true; nobody will then unpark it. The nodes are still in their lines.
    fn abort(this: &Arc<Self>) -> bool {
        let aborted = this.waiter.claim(ABORTED);
        if aborted {
            // SAFETY: N1: made in `new`; nobody else gives it back, since nobody else has claimed.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(this)) };
        }
        aborted
    }

    /// The registration through which somebody else has ended the wait; none: its time has come.
    fn won(&self) -> Option<Won<'_>> {
        self.arms().won(self.waiter.outcome())
    }
}

/// Keeps a frame in memory for ever if it cannot be withdrawn: a predicate may hold its channel's lock and wait for the lock of a channel whose
/// predicate waits for the first. Then one of the two panics.
struct Leak<'f, B>(&'f Arc<Frame<B>>);

impl<B> Drop for Leak<'_, B> {
    fn drop(&mut self) {
        let _ = ManuallyDrop::new(Arc::clone(self.0));
    }
}

/// Takes out, in the end, what is left in line until a lock is released.
struct WithdrawLater<'f, B: Bell>(&'f Arc<Frame<B>>);

impl<B: Bell> Drop for WithdrawLater<'_, B> {
    fn drop(&mut self) {
        Frame::withdraw_later(self.0);
    }
}

/// What whoever has claimed the waiter calls.
///
/// # Safety
/// N1: `owner` is the reference that goes with the registrations.
unsafe fn unpark<B: Bell>(owner: *const ()) {
    // SAFETY: N1, the caller's promise.
    let frame = unsafe { Arc::from_raw(owner.cast::<Frame<B>>()) };
    // Release: who sees it sees what the claim brought.
    frame.rung.store(true, Ordering::Release);
    frame.bell.ring();
    // A waker may be left in it, and whoever ended the wait has others to tell.
    task::drop_quietly(frame);
}

impl<B: Bell> Ring for Frame<B> {
    fn ring(&self) {
        if self.waiter.claim(TIMED_OUT) {
            // SAFETY: S4: claimed just now.
            unsafe { Waiter::unpark(&raw const self.waiter) };
        }
    }
}

impl<B> Drop for Frame<B> {
    fn drop(&mut self) {
        // SAFETY: N1: the nodes have been withdrawn, and nobody has them to unpark any more.
        unsafe { Arms::resume(&self.waiter, &self.room, self.used.get()) }.close();
    }
}

/// A wait that is being set up. Dropping it gives it up.
struct Setting<'f, B: Bell> {
    frame: &'f Arc<Frame<B>>,
    arms: Option<Arms<'f>>,
}

impl<'f, B: Bell> Setting<'f, B> {
    fn new(frame: &'f Arc<Frame<B>>) -> Setting<'f, B> {
        Setting { frame, arms: Some(Arms::new(&frame.waiter, &frame.room)) }
    }

    fn arms(&mut self) -> &mut Arms<'f> {
        self.arms.as_mut().expect("until it is left or dropped")
    }

    /// Leaves the registrations where they are.
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
        let aborted = Frame::abort(self.frame);
        Frame::withdraw(self.frame);
        let _later = WithdrawLater(self.frame);
        if !aborted && let Some(won) = self.frame.won() {
            // Only a notification can have come.
            won.pass_on();
        }
    }
}

/// A wait that has been set up. Not to be dropped but by `finish` or `give_up`: see N1.
pub(super) struct Standing<B> {
    frame: Arc<Frame<B>>,
    _alarm: Option<Alarm>,
}

/// What came of setting a wait up.
pub(super) enum SetUp<T, B> {
    /// There was something already.
    Ready(T),
    Waits(Standing<B>),
}

/// Waits for an item of `source`. `asks_itself`: a filter is not to be asked by others. `bell` may be rung for waits that came to
/// nothing too.
///
/// # Safety
/// N1: the source stays where it is until the wait has been finished or given up, or for ever.
pub(super) unsafe fn set_up<S: Source, B: Bell>(
    source: &S,
    asks_itself: bool,
    bell: impl Fn() -> B,
) -> SetUp<S::Item, B> {
    let mut wanted = None;
    let mut only = None;
    for round in 1_u32.. {
        if let Some(item) = source.try_take() {
            return SetUp::Ready(item);
        }
        let places = *wanted.get_or_insert_with(|| count(source));
        let frame = Frame::new(places, bell());
        let mut setting = Setting::new(&frame);
        let arms = setting.arms();
        if asks_itself {
            arms.ask_itself();
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
        if !arms.is_ready() || !Frame::abort(&frame) {
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
        Frame::withdraw(&frame);
        if round.is_multiple_of(8) {
            // Somebody else is at it at the same time, again and again.
            std::thread::yield_now();
        }
    }
    unreachable!("a thread that yields so often is alone")
}

fn count<S: Source>(source: &S) -> usize {
    let waiter = Waiter::new();
    let mut arms = Arms::new(&waiter, &[]);
    source.__register(&mut arms);
    arms.wanted()
}

impl<B: Bell> Standing<B> {
    pub(super) fn bell(&self) -> &B {
        &self.frame.bell
    }

    /// Whether the wait has ended. Acquire: pairs with the release in [`unpark`].
    pub(super) fn has_rung(&self) -> bool {
        self.frame.rung.load(Ordering::Acquire)
    }

    /// The wait has ended: fetches what it brought. None: nothing, set up another.
    ///
    /// # Panics
    /// With the panic of a predicate that was asked on this wait's behalf.
    pub(super) fn finish<S: Source>(self, source: &S) -> Option<S::Item> {
        debug_assert!(!self.frame.arms().is_asking(), "`refuse_in_predicate` has been called");
        Frame::withdraw(&self.frame);
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

    /// To be called before [`Standing::finish`], which takes the locks of the source's lists.
    ///
    /// # Panics
    /// If this thread holds one of these locks: a predicate of the channel's is polling.
    pub(super) fn refuse_in_predicate(&self) {
        self.frame.arms().each_asking(|list, _| drop(list.lock()));
    }

    /// Ends the wait; what it has brought is for others. In a predicate of a channel in whose line the wait is, it leaves that line when the channel is
    /// unlocked. The source may be gone by then.
    pub(super) fn give_up<S: Source>(self, source: &S) {
        let aborted = Frame::abort(&self.frame);
        Frame::withdraw(&self.frame);
        // After what is given back below: that is kept under the address of a node, which must not be another's by then.
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
