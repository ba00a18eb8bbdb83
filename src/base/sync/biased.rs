//! A spin lock that costs its steady user no atomic read-modify-write.
//!
//! Most channels are used by tasks of one worker for most of their lives. An atomic exchange costs
//! 6 ns even without contention. That is more than everything else in sending a value. So a lock
//! that one thread has taken many times in a row becomes *biased* to that thread, its *owner*. To
//! take the lock, the owner only writes that it is inside, and checks that it still has the bias.
//! Any other thread first *revokes* the bias, permanently.
//!
//! # States
//! | state | `owner` | `streak` | the lock is taken by |
//! |---|---|---|---|
//! | counting | [`NOBODY`] | up to [`STEADY`] | the flag |
//! | biased | a thread's number | [`NEVER`] | owner: `inside`; others: the flag, then revoke |
//! | settled | [`NOBODY`] | [`NEVER`] | the flag |
//!
//! A lock goes from counting to biased to settled, or directly from counting to settled.
//!
//! # Protocol
//! ```text
//!   the owner                           another thread
//!   -------------------------------     -------------------------------------------
//!   inside = true                       take the flag (as in any spin lock)
//!   light fence                         owner = NOBODY
//!   owner still this thread?            heavy fence
//!     yes: it has the lock              wait until not inside: it has the lock
//!     no: inside = false, then
//!     as any other thread
//!   .. inside = false (release)         .. release the flag
//! ```
//! Each side writes one word and then reads the other's word. If a full fence lies between the two
//! steps on both sides, at least one side sees the other's write. The heavy fence is
//! `membarrier(2)`, which makes every thread of the process execute a full fence. So the owner's
//! fence must hold back only the compiler (Dice, Huang, Yang, "Asymmetric Dekker synchronization",
//! 2001). Where the kernel refuses `membarrier`, no lock is ever biased.
//!
//! | access | ordering |
//! |---|---|
//! | the flag | taken with Acquire, released with Release |
//! | `owner` | Relaxed; the fences order it |
//! | `inside = true` | Relaxed; the owner's fence orders it |
//! | `inside = false` | Release; pairs with the Acquire of the revoking thread's loop |
//!
//! `owner` is set to a thread only under the flag, and only once in the lock's life. A thread that
//! makes itself the owner sets `inside` before it releases the flag. So it never holds the lock in
//! both ways.
//!
//! # User code under the lock
//! A channel's predicates are user code that runs under the channel's lock. They must not take that
//! lock again. But they may drop values whose destructors would take it. Therefore
//! [`BiasedGuard::asking`] records each call of user code in a list while the call runs. A
//! destructor uses the list to find out whether its thread holds the lock
//! ([`BiasedLock::is_asking`]). If so, it puts its work off by adding a call to the list
//! ([`BiasedLock::put_off`]). The lock holder makes these calls after it has released the lock.
//!
//! [`put_off_until_unlocked`] does the same for work that may need any lock. That work is done
//! after the outermost of these locks has been released. So it never waits for one lock while it
//! holds another.
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

/// A lock for critical sections of a few instructions: see the module.
pub(crate) struct BiasedLock<T> {
    /// The thread that the lock is biased to, or [`NOBODY`].
    owner: AtomicU16,
    /// Set while the owner has the lock. Only the owner writes it.
    inside: AtomicBool,
    flag: Flag,
    /// Under the flag: the thread that took the lock last, and how often it did so in a row.
    last: Cell<u16>,
    streak: Cell<u8>,
    /// Makes a thread that finds the lock taken stay away for a while: see
    /// [`BiasedLock::for_bursts`].
    in_bursts: bool,
    value: UnsafeCell<T>,
}

/// The owner of a lock without an owner. It differs from [`UNNUMBERED`], so that a thread without a
/// number is not taken for the owner.
const NOBODY: u16 = u16::MAX;
/// The number of a thread without a number. Such a thread never owns a lock.
const UNNUMBERED: u16 = 0;
/// After this many times in a row, a thread becomes the owner.
const STEADY: u8 = 64;
/// How long a burst of operations lasts. Measured between two cores with a channel of capacity 128.
/// Threads on an Intel Xeon need 103 ns for a value with a burst of 0.4 µs, 73 ns with 0.7 µs, 61
/// ns with 1.5 µs, and 68 ns with 2.9 µs. [kanal](https://docs.rs/kanal) takes 60 ns. Tasks on an
/// AMD EPYC need 23 ns with 0.7 µs, 26 ns with 1 µs, and 31 ns with 1.5 µs. Go takes 29 ns.
const BURST: Duration = Duration::from_nanos(1000);
/// The streak of a lock that has been biased before, or must never be biased.
const NEVER: u8 = u8::MAX;

// SAFETY: L1: the flag or the bias gives one thread at a time access to the value. The flag guards
// the cells.
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

    /// Creates a lock for data on which two threads may each perform many operations in a row
    /// without waiting for each other. If they contend for the lock at each single operation, the
    /// cache lines that it guards move between the cores each time. This takes ten times as long as
    /// the operation. So a thread that finds the lock taken leaves it to the other thread for a
    /// burst of operations.
    pub(crate) fn for_bursts(value: T) -> BiasedLock<T> {
        BiasedLock { in_bursts: true, ..BiasedLock::new(value) }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// Panics if this thread already holds the lock as its owner, that is, if user code under the
    /// lock takes the lock again.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        self.lock_as(local::with(|local| local.thread.get()))
    }

    /// Takes the lock by the fast path. Returns `None` if the lock is not free.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<BiasedGuard<'_, T>> {
        self.lock_at_once_as(local::with(|local| local.thread.get()))
    }

    /// Takes the lock as the thread with this number.
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

    /// Takes the lock after the fast path has failed.
    #[inline(never)]
    #[track_caller]
    fn lock_slowly(&self, thread: u16) -> BiasedGuard<'_, T> {
        // The owner already holds the lock.
        assert!(self.owner.load(Ordering::Relaxed) != thread, "{REENTERED}");
        if !self.flag.try_lock() {
            self.refuse_own_code();
            self.leave_alone();
            self.lock_contended();
        }
        let biased = !self.is_settled() && self.settle(thread);
        BiasedGuard { lock: self, biased, thread: PhantomData }
    }

    /// Under the flag: returns whether the lock has no owner, and will never have one again.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.streak.get() == NEVER && self.owner.load(Ordering::Relaxed) == NOBODY
    }

    /// Under the flag: counts towards a bias, or revokes the bias of the owner. Returns `true` if
    /// this thread has become the owner. It then no longer holds the flag.
    #[inline(never)]
    fn settle(&self, thread: u16) -> bool {
        let streak = self.streak.get();
        if streak != NEVER {
            return self.count(thread, streak);
        }
        self.revoke();
        false
    }

    /// Under the flag of a lock that has never been biased. Returns `true` if the lock is now
    /// biased to this thread, which holds it as its owner.
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

    /// Panics if this thread holds the lock and runs user code under it, which takes the lock
    /// again.
    #[cold]
    #[track_caller]
    fn refuse_own_code(&self) {
        assert!(!self.is_asking(), "{REENTERED}");
    }

    /// Returns whether this thread holds the lock and runs user code under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        // SAFETY: L4: the result is only compared.
        unsafe { self.innermost() }.is_some()
    }

    /// Returns the call of user code that this thread runs under the lock.
    ///
    /// # Safety
    /// L4: the result is not used after that call has returned.
    unsafe fn innermost<'a>(&self) -> Option<&'a Asking> {
        let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
        // SAFETY: L4: the frames belong to calls that are still running.
        while let Some(asking) = unsafe { at.as_ref() } {
            if ptr::eq(asking.lock, ptr::from_ref(self).cast()) {
                return Some(asking);
            }
            at = asking.outer;
        }
        None
    }

    /// Makes `call` after this thread has released the lock, under which it runs user code. `call`
    /// must not panic.
    ///
    /// # Panics
    /// Panics if the thread does not run user code under the lock.
    ///
    /// # Safety
    /// L5: the data that `call` uses exists until the lock holder has made the call.
    pub(crate) unsafe fn put_off<'a>(&self, call: impl FnOnce() + 'a) {
        let call: Box<dyn FnOnce() + 'a> = Box::new(call);
        // SAFETY: L5, by this function's contract. Only the lifetime changes.
        let call = unsafe { mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(call) };
        // SAFETY: L4: the result is used only in this function.
        let asking = unsafe { self.innermost() };
        asking.expect("the thread runs user code under this lock").add(call);
    }

    /// Leaves the lock to the other thread for its burst. It does not look at the flag, because
    /// that would fetch the flag's cache line.
    #[cold]
    fn leave_alone(&self) {
        if self.in_bursts {
            keep_away(BURST);
        }
    }

    /// Waits for the flag. The wait is limited while user code runs under another lock of this
    /// thread: the holder of this lock may run user code that waits for that other lock.
    #[cold]
    #[track_caller]
    fn lock_contended(&self) {
        if local::with(|local| local.asking.get()).is_null() {
            return self.flag.lock_contended();
        }
        let give_up = clock::real_now() + REVOKE_LIMIT;
        let mut round = 0;
        while !self.flag.try_lock() {
            relax(round);
            round = round.saturating_add(1);
            assert!(round % 64 != 0 || clock::real_now() < give_up, "{CIRCLE}");
        }
    }

    /// Under the flag: makes this thread the owner, if the kernel supports that. The thread then
    /// holds the lock as its owner, and no longer by the flag.
    #[cold]
    fn bias(&self, thread: u16) -> bool {
        match fence::can_be_heavy() {
            Some(true) => self.streak.set(NEVER),
            Some(false) => {
                self.streak.set(NEVER);
                return false;
            }
            // The kernel has not answered yet.
            None => {
                self.streak.set(0);
                return false;
            }
        }
        // An owner that is not inside may enter. So a thread that becomes the owner while it holds
        // the lock must set `inside` at once. Otherwise user code under this lock could enter a
        // second time.
        self.inside.store(true, Ordering::Relaxed);
        self.owner.store(thread, Ordering::Relaxed);
        // Release: the next holder of the flag sees both.
        self.flag.unlock();
        true
    }

    /// Under the flag: revokes the owner's bias, and waits until the owner is not inside.
    #[cold]
    fn revoke(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        heavy_fence();
        let mut round = 0;
        // Acquire pairs with the Release of the owner when it leaves.
        while self.inside.load(Ordering::Acquire) {
            relax(round);
            round = round.saturating_add(1);
        }
    }
}

/// How long user code under a lock may wait for another lock. Everything else that runs under a
/// lock takes less than a microsecond.
const REVOKE_LIMIT: Duration = Duration::from_secs(1);

/// The panic message for a lock that does not become free, because predicates wait for each other's
/// locks.
const CIRCLE: &str = "a predicate used a channel whose own predicate uses a channel that waits for this one; look at the value only, and decide by that";

/// The panic message for a lock that is taken by user code which runs under it.
const REENTERED: &str =
    "a predicate used the channel that is asking it; look at the value only, and decide by that";

/// Gives this thread a number, if any are left.
#[cold]
fn number_this_thread() -> u16 {
    use super::StaticU64;
    static NEXT: StaticU64 = StaticU64::new(1);
    const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;
    local::with(|local| {
        // When all numbers are used, threads without one call this at each lock. They must not
        // contend for the counter.
        if local.thread.get() == UNNUMBERED && NEXT.load(RELAXED) < u64::from(NOBODY) {
            let number = NEXT.fetch_add(1, RELAXED);
            let number = u16::try_from(number).ok().filter(|number| *number != NOBODY);
            local.thread.set(number.unwrap_or(UNNUMBERED));
        }
        local.thread.get()
    })
}

/// Calls to make after a lock has been released.
pub(crate) type PutOff = Vec<Box<dyn FnOnce()>>;

/// Returns whether this thread runs user code under any of these locks.
#[inline]
pub(crate) fn is_asking_anything() -> bool {
    !local::with(|local| local.asking.get()).is_null()
}

/// Makes `call` after this thread has released every lock under which it runs user code. `call`
/// must not panic.
///
/// # Panics
/// Panics if the thread does not run user code under a lock.
pub(crate) fn put_off_until_unlocked(call: impl FnOnce() + 'static) {
    let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
    let mut outermost = None;
    // SAFETY: L4: the frames belong to calls that are still running.
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
    /// The calls that the lock holder makes after it has released the lock.
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
    /// Runs user code under the lock. If the code takes this lock, that panics. Returns the code's
    /// result, and the calls that the caller must make after it has released the lock.
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

/// A guard that gives access to the value of a [`BiasedLock`].
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    biased: bool,
    /// Keeps the guard on its thread, because only the owner may clear `inside`.
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
            // Release: a thread that revokes the bias sees everything done under the lock.
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
