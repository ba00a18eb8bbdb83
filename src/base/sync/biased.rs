//! A spin lock that costs its steady user no atomic read-modify-write.
//!
//! Most channels are used by tasks of one worker for most of their lives. An atomic exchange costs 6 ns even if nobody else wants the
//! lock, more than all else that sending a value takes. So a lock that one thread has taken many times in a row becomes *biased*
//! to it: that thread then only writes that it is inside, and looks whether it still owns the bias. Whoever else comes takes the
//! bias away first, for good.
//!
//! # Protocol
//! ```text
//!   the owner                           another thread
//!   -------------------------------     -------------------------------------------
//!   inside = true                       take the flag (as in any spin lock)
//!   light fence                         owner = none
//!   owner still me?                     heavy fence
//!     yes: it has the lock              wait until not inside: it has the lock
//!     no: inside = false, and as
//!     anybody else
//!   .. inside = false (release)         .. release the flag
//! ```
//! Each writes one word and then reads the other's, so one of them must see the other's write, if between its own two steps there
//! is a full fence. The heavy fence is `membarrier(2)`, which makes every thread of the process execute one; so the owner's need
//! only hold the compiler back (Dice, Huang, Yang, "Asymmetric Dekker synchronization", 2001). Where the kernel refuses
//! `membarrier`, no lock is ever biased.
//!
//! `owner` becomes somebody only under the flag, and that once in the lock's life. Who makes itself the owner goes inside before it
//! gives the flag back, so it never has the lock both ways.
//!
//! # User code under the lock
//! A channel's predicates are user code that runs under the channel's lock. They must not take that lock again. But they may drop values whose
//! destructors would. [`BiasedGuard::asking`] lists each call of user code for as long as it runs, so that a destructor finds out whether
//! its thread holds the lock ([`BiasedLock::is_asking`]). It then leaves its work as a call in that list ([`BiasedLock::put_off`]). The lock holder
//! makes these calls when it has released the lock.
//!
//! [`put_off_until_unlocked`] does the same for work that may need any lock: it is done when the outermost of these locks has been released. So it
//! never waits for one lock while it holds another.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::thread;
use std::time::Duration;

use self::fence::{heavy_fence, light_fence};
use super::atomic::{AtomicBool, AtomicU16, Ordering};
use super::lock::Flag;
use super::{keep_away, relax};
use crate::base::{clock, local};

mod fence;

/// Guards `T` for a few instructions: see the module.
pub(crate) struct BiasedLock<T> {
    /// The thread that the lock is biased to; [`NOBODY`].
    owner: AtomicU16,
    /// The owner has the lock. Only the owner writes it.
    inside: AtomicBool,
    flag: Flag,
    /// Under the flag: who had it last, and how often in a row.
    last: Cell<u16>,
    streak: Cell<u8>,
    /// A thread that finds the lock taken leaves it alone for a while: see [`BiasedLock::for_bursts`].
    in_bursts: bool,
    value: UnsafeCell<T>,
}

/// No thread is the owner. Not [`UNNUMBERED`], so that who has no number is not taken for it.
const NOBODY: u16 = u16::MAX;
/// The number of a thread that has none, and never owns a lock.
const UNNUMBERED: u16 = 0;
/// So many times in a row make an owner.
const STEADY: u8 = 64;
/// How long a burst of steps lasts. Measured between two cores with a channel of 128. Threads on an Intel Xeon, beside
/// [kanal](https://docs.rs/kanal)'s 60 ns for a value: 103 ns with 0.4 µs, 73 with 0.7, 61 with 1.5, 68 with 2.9. Tasks on an AMD EPYC, beside Go's
/// 29 ns: 23 with 0.7 µs, 26 with 1, 31 with 1.5.
const BURST: Duration = Duration::from_nanos(1000);
/// The streak of a lock that has been biased before, or never shall be.
const NEVER: u8 = u8::MAX;

// SAFETY: L1: the flag or the bias lets one thread at a time reach the value, and the cells are under the flag.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: L1: the lock owns its value.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: T) -> BiasedLock<T> {
        BiasedLock {
            owner: AtomicU16::new(NOBODY),
            inside: AtomicBool::new(false),
            flag: Flag::new(),
            last: Cell::new(UNNUMBERED),
            streak: Cell::new(0),
            in_bursts: false,
            value: UnsafeCell::new(value),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: T) -> BiasedLock<T> {
        BiasedLock {
            owner: AtomicU16::new(NOBODY),
            inside: AtomicBool::new(false),
            flag: Flag::new(),
            last: Cell::new(UNNUMBERED),
            streak: Cell::new(NEVER),
            in_bursts: false,
            value: UnsafeCell::new(value),
        }
    }

    /// The same lock, for what two threads may do many times in a row each without waiting for the other. When they fight for it at each
    /// single step, the cache lines that it guards travel for each, which takes ten times as long as the step. So who finds it taken
    /// leaves it to the other for a burst of steps.
    pub(crate) fn for_bursts(value: T) -> BiasedLock<T> {
        BiasedLock { in_bursts: true, ..BiasedLock::new(value) }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// When this thread holds it as its owner: user code that ran under it has come back.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        self.lock_as(local::with(|local| local.thread.get()))
    }

    /// The same, where that is quick: none if somebody has it.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<BiasedGuard<'_, T>> {
        self.lock_at_once_as(local::with(|local| local.thread.get()))
    }

    /// Takes it as the thread with that number.
    #[inline(always)]
    #[track_caller]
    fn lock_as(&self, thread: u16) -> BiasedGuard<'_, T> {
        match self.lock_at_once_as(thread) {
            Some(guard) => guard,
            None => self.lock_slowly(thread),
        }
    }

    #[inline(always)]
    fn lock_at_once_as(&self, thread: u16) -> Option<BiasedGuard<'_, T>> {
        let biased = if self.owner.load(Ordering::Relaxed) == thread {
            if self.inside.load(Ordering::Relaxed) {
                return None;
            }
            self.inside.store(true, Ordering::Relaxed);
            light_fence();
            if self.owner.load(Ordering::Relaxed) != thread {
                self.inside.store(false, Ordering::Release);
                return None;
            }
            true
        } else {
            if !self.flag.try_lock() {
                return None;
            }
            !self.is_settled() && self.settle(thread)
        };
        Some(BiasedGuard { lock: self, biased, thread: PhantomData })
    }

    /// Takes it when the first attempt has failed.
    #[inline(never)]
    #[track_caller]
    fn lock_slowly(&self, thread: u16) -> BiasedGuard<'_, T> {
        // Its owner is inside already.
        assert!(self.owner.load(Ordering::Relaxed) != thread, "{REENTERED}");
        if !self.flag.try_lock() {
            self.refuse_own_code();
            self.leave_alone();
            self.lock_contended();
        }
        let biased = !self.is_settled() && self.settle(thread);
        BiasedGuard { lock: self, biased, thread: PhantomData }
    }

    /// Under the flag: nobody owns it, and nobody will any more.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.streak.get() == NEVER && self.owner.load(Ordering::Relaxed) == NOBODY
    }

    /// Under the flag: counts towards a bias, or takes it from its owner. True: this thread has become the owner, and no longer has the
    /// flag.
    #[inline(never)]
    fn settle(&self, thread: u16) -> bool {
        let streak = self.streak.get();
        if streak != NEVER {
            return self.count(thread, streak);
        }
        self.revoke();
        false
    }

    /// Under the flag of a lock that has never been biased. True: from now on it is, and this thread has it as its owner.
    #[inline]
    fn count(&self, thread: u16, streak: u8) -> bool {
        if thread != self.last.get() || thread == UNNUMBERED {
            self.last.set(number_this_thread());
            self.streak.set(0);
            false
        } else if streak < STEADY {
            self.streak.set(streak + 1);
            false
        } else {
            self.bias(thread)
        }
    }

    /// Panics when this thread holds the lock and runs user code under it, which has come back.
    #[cold]
    #[track_caller]
    fn refuse_own_code(&self) {
        assert!(!self.is_asking(), "{REENTERED}");
    }

    /// Whether this thread holds the lock and runs user code under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        // SAFETY: L4: it is only compared.
        unsafe { self.innermost() }.is_some()
    }

    /// The call of user code that this thread runs under the lock.
    ///
    /// # Safety
    /// L4: the result is not used any more when that call has returned.
    unsafe fn innermost<'a>(&self) -> Option<&'a Asking> {
        let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
        // SAFETY: L4: the frames are those of calls that are still running.
        while let Some(asking) = unsafe { at.as_ref() } {
            if ptr::eq(asking.lock, ptr::from_ref(self).cast()) {
                return Some(asking);
            }
            at = asking.outer;
        }
        None
    }

    /// Makes a call when this thread has released the lock, under which it runs user code. It must not panic.
    ///
    /// # Panics
    /// If the thread does not run user code under the lock.
    ///
    /// # Safety
    /// L5: what `call` uses is there until the lock holder has made the call.
    pub(crate) unsafe fn put_off<'a>(&self, call: impl FnOnce() + 'a) {
        let call: Box<dyn FnOnce() + 'a> = Box::new(call);
        // SAFETY: L5, the caller's promise: only the lifetime changes.
        let call = unsafe { mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(call) };
        // SAFETY: L4: used here only.
        let asking = unsafe { self.innermost() };
        asking.expect("the thread runs user code under this lock").add(call);
    }

    /// Lets the other have its burst, without a look at the flag: a look would fetch its cache line.
    #[cold]
    fn leave_alone(&self) {
        if self.in_bursts {
            keep_away(BURST);
        }
    }

    /// Waits for the flag. Not for ever while user code runs under another lock of this thread's: the holder may run user code that
    /// waits for that one.
    #[cold]
    #[track_caller]
    fn lock_contended(&self) {
        if local::with(|local| local.asking.get()).is_null() {
            return self.flag.lock_contended();
        }
        let give_up = clock::now() + PATIENCE;
        let mut round = 0;
        while !self.flag.try_lock() {
            relax(round);
            round = round.saturating_add(1);
            assert!(round % 64 != 0 || clock::now() < give_up, "{CIRCLE}");
        }
    }

    /// Under the flag: makes this thread the owner, and lets it hold the lock as that, no longer by the flag.
    #[cold]
    fn bias(&self, thread: u16) -> bool {
        match fence::can_be_heavy() {
            Some(true) => self.streak.set(NEVER),
            Some(false) => {
                self.streak.set(NEVER);
                return false;
            }
            // The kernel is being asked.
            None => {
                self.streak.set(0);
                return false;
            }
        }
        // An owner that is not inside may come in. So whoever becomes it while it holds the lock has to be inside at once, or user
        // code under this very lock would come in a second time.
        self.inside.store(true, Ordering::Relaxed);
        self.owner.store(thread, Ordering::Relaxed);
        // Release: the next to have the flag sees both.
        self.flag.unlock();
        true
    }

    /// Under the flag: takes the bias from its owner, and waits until it is out.
    #[cold]
    fn revoke(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        heavy_fence();
        let mut round = 0;
        // Acquire: pairs with the owner's release when it leaves.
        while self.inside.load(Ordering::Acquire) {
            relax(round);
            round = round.saturating_add(1);
        }
    }
}

/// How long user code under a lock waits for another lock. All else that runs under one takes less than a microsecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// What such a lock says that does not come free.
const CIRCLE: &str = "a predicate used a channel whose own predicate uses a channel that waits for this one; look at the value only, and decide by that";

/// What a lock says that is taken by code which runs under it.
const REENTERED: &str =
    "a predicate used the channel that is asking it; look at the value only, and decide by that";

/// Gives this thread a number, if there are any left.
#[cold]
fn number_this_thread() -> u16 {
    use super::StaticU64;
    static NEXT: StaticU64 = StaticU64::new(1);
    const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;
    local::with(|local| {
        // Once they are spent, the threads that go without come here with every lock, and are not to fight for the counter.
        if local.thread.get() == UNNUMBERED && NEXT.load(RELAXED) < u64::from(NOBODY) {
            let number = NEXT.fetch_add(1, RELAXED);
            let number = u16::try_from(number).ok().filter(|number| *number != NOBODY);
            local.thread.set(number.unwrap_or(UNNUMBERED));
        }
        local.thread.get()
    })
}

/// What is to be done when a lock has been released.
pub(crate) type PutOff = Vec<Box<dyn FnOnce()>>;

/// Whether this thread runs user code under any of these locks.
#[inline]
pub(crate) fn is_asking_anything() -> bool {
    !local::with(|local| local.asking.get()).is_null()
}

/// Makes a call when this thread has released every lock under which it runs user code. The call must not panic.
///
/// # Panics
/// If the thread does not run user code under a lock.
pub(crate) fn put_off_until_unlocked(call: impl FnOnce() + 'static) {
    let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
    let mut outermost = None;
    // SAFETY: L4: the frames are those of calls that are still running.
    while let Some(asking) = unsafe { at.as_ref() } {
        outermost = Some(asking);
        at = asking.outer;
    }
    outermost.expect("the thread runs user code under a lock").add(Box::new(call));
}

/// A call of user code under a lock.
struct Asking {
    lock: *const (),
    outer: *const Asking,
    /// For the lock holder, when it has released the lock.
    put_off: Cell<PutOff>,
}

impl Asking {
    #[cold]
    fn add(&self, call: Box<dyn FnOnce()>) {
        let mut calls = self.put_off.take();
        calls.push(call);
        self.put_off.set(calls);
    }
}

impl<T> BiasedGuard<'_, T> {
    /// Runs user code under the lock. If the code takes this very lock, that panics. Returns what the caller is to do when it has released the
    /// lock.
    pub(crate) fn asking<R>(&self, code: impl FnOnce() -> R) -> (thread::Result<R>, PutOff) {
        struct Leave(*const Asking);
        impl Drop for Leave {
            fn drop(&mut self) {
                local::with(|local| local.asking.set(self.0.cast()));
            }
        }
        let outer = local::with(|local| local.asking.get()).cast();
        let lock = ptr::from_ref(self.lock).cast();
        let asking = Asking { lock, outer, put_off: Cell::new(PutOff::new()) };
        let leave = Leave(outer);
        local::with(|local| local.asking.set((&raw const asking).cast()));
        let result = panic::catch_unwind(AssertUnwindSafe(code));
        drop(leave);
        (result, asking.put_off.into_inner())
    }
}

/// The right to touch what a [`BiasedLock`] guards.
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    biased: bool,
    /// Only the owner may say that it is out, so a guard stays on its thread.
    thread: PhantomData<*const ()>,
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: L1: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: L1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.biased {
            // Release: whoever takes the bias away sees what was done.
            self.lock.inside.store(false, Ordering::Release);
        } else {
            self.lock.flag.unlock();
        }
    }
}

impl<T> fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BiasedLock")
    }
}

impl<T> fmt::Debug for BiasedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BiasedGuard")
    }
}

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(all(test, not(any(loom, miri, ecru_baton)), target_os = "linux"))]
mod tests;
