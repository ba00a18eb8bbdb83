//! A number of permits and a queue of waiters for them. [`Semaphore`](super::Semaphore) and
//! [`Notify`](super::Notify) are built on it.
//!
//! # State
//! The word is twice the number of free permits, plus `WAITERS` if there may be waiters in the
//! queue. While that bit is set, the word changes only under the queue's lock. Sources written by
//! users put their nodes into the queue without setting the bit. They look once more after that,
//! with [`Permits::try_take`], which sets the bit for them.
//!
//! # Protocol
//! Released permits go to the first waiter in the queue, even if they are fewer than it wants. Its
//! node stores them in `reserved`. So no permits are free while there are waiters, and newcomers
//! cannot overtake. A waiter that wants many permits is not starved by waiters that want few. A
//! waiter that leaves the queue gives back what is in its node.
//!
//! | role of a node | waiter | claimed with |
//! |---|---|---|
//! | `Slot` | a wait for permits alone | `Woken`: it has all permits; `Again`: notified |
//! | `Take` | an arm of a select or race | its permit in `reserved`; if 0, it looks again |
//! | `Notify` | a source written by a user | nothing; one permit is left free for it |
//!
//! Once the permits are *closed*, waits for permits alone are refused, and `WAITERS` stays set, so
//! that every operation sees that under the queue's lock.
//!
//! A notification through the wait list grants no permit. A source written by a user can only be
//! told to look again.
#![expect(unsafe_code, reason = "registers nodes of waits")]

use std::ptr;

use super::{holder, line};
use crate::base::sync::QueueGuard;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::tag::Tag;
use crate::park::{About, Mode, Object, Outcome, Queue, Role, Wait, WaitList, What, Woken};
use crate::source::{Arms, Pass, Won};
use crate::task::{self, CancelReason, Cancelled};

const WAITERS: usize = 1;
const ONE: usize = 2;

/// In `reserved` of a node with the role `Take`: it has been admitted together with all others.
/// This is no permit that goes to another waiter if it is not wanted.
const ADMITTED: usize = usize::MAX;

/// The greatest number of permits.
pub(super) const MAX: usize = usize::MAX >> 3;

pub(super) struct Permits {
    word: AtomicUsize,
    line: WaitList,
    /// Written under the queue's lock.
    closed: AtomicBool,
    /// The name, and what has taken the permits.
    pub(super) tag: Tag,
}

/// Why permits were not taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TooFew,
    Closed,
}

/// A wait for permits of a semaphore.
// SAFETY: O1: the object is the permits, which the wait borrows.
pub(super) static A_PERMIT: What = unsafe { What::about("a permit", describe_permits) };

/// A wait for a value of a pool, which a permit stands for.
// SAFETY: O1: the object is the permits, which the wait borrows.
pub(super) static A_POOLED: What = unsafe { What::about("a value of a pool", describe_pooled) };

/// A wait for a notification, which a permit stands for.
// SAFETY: O1: the object is the permits, which the wait borrows.
pub(super) static A_NOTIFICATION: What =
    unsafe { What::about("a notification", describe_notification) };

/// # Safety
/// O1: `permits` is a [`Permits`].
unsafe fn describe_permits(permits: *const (), count: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*permits.cast::<Permits>() };
    let wanted = if count == 1 { String::new() } else { format!("{count} wanted, ") };
    let state = format!("{wanted}{} free", this.free());
    let object = holder::describe(permits, &this.tag, &state);
    let holds = this.tag.holds();
    ("a permit", About::Object(Box::new(Object { holds, ..object })))
}

/// # Safety
/// O1: as [`describe_permits`].
unsafe fn describe_pooled(permits: *const (), count: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let (_, about) = unsafe { describe_permits(permits, count) };
    ("a value of a pool", about)
}

/// # Safety
/// O1: as [`describe_permits`].
unsafe fn describe_notification(permits: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*permits.cast::<Permits>() };
    ("a notification", holder::about(permits, &this.tag, ""))
}

/// The permits while the queue's lock is held and `WAITERS` is set. Dropping it writes the number
/// of free permits back.
struct Locked<'a> {
    permits: &'a Permits,
    free: usize,
    queue: QueueGuard<'a, Queue>,
}

impl Permits {
    #[cfg(not(loom))]
    pub(super) const fn new(free: usize) -> Permits {
        Permits {
            word: AtomicUsize::new(free * ONE),
            line: WaitList::new(),
            closed: AtomicBool::new(false),
            tag: Tag::new(),
        }
    }

    #[cfg(loom)]
    pub(super) fn new(free: usize) -> Permits {
        Permits {
            word: AtomicUsize::new(free * ONE),
            line: WaitList::new(),
            closed: AtomicBool::new(false),
            tag: Tag::new(),
        }
    }

    pub(super) fn line(&self) -> &WaitList {
        &self.line
    }

    pub(super) fn free(&self) -> usize {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Acquire: pairs with the release in [`Permits::release`].
    fn lock(&self) -> Locked<'_> {
        let queue = self.line.lock();
        let free = self.word.fetch_or(WAITERS, Ordering::Acquire) / ONE;
        Locked { permits: self, free, queue }
    }

    /// Takes the permits if they are free and nothing waits for any. Returns the word if they are
    /// not. Acquire, like [`Permits::lock`].
    #[inline(always)]
    fn take_at_once(&self, count: usize) -> Result<(), usize> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 && word / ONE >= count {
            let next = word - count * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
        Err(word)
    }

    #[inline]
    pub(super) fn try_acquire(&self, count: usize) -> Result<(), Refused> {
        match self.take_at_once(count) {
            Ok(()) => Ok(()),
            Err(word) if word & WAITERS == 0 => Err(Refused::TooFew),
            Err(_) => self.try_acquire_locked(count),
        }
    }

    #[cold]
    fn try_acquire_locked(&self, count: usize) -> Result<(), Refused> {
        let mut locked = self.lock();
        if self.is_closed() {
            Err(Refused::Closed)
        } else if locked.take(count) {
            Ok(())
        } else {
            Err(Refused::TooFew)
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Refuses waits for permits alone from now on, and ends the present ones.
    pub(super) fn close(&self) {
        let mut woken = Woken::none();
        let locked = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        // They look again, and find that the permits are closed. On the way they give back what
        // they have.
        locked.queue.look_again_if(Role::Slot, &mut woken);
        drop(locked);
    }

    /// Takes one permit, for a source whose node may be in the queue without `WAITERS` being set.
    /// If no permit is free, this sets the bit, so the next release finds the node in the queue.
    pub(super) fn try_take(&self) -> bool {
        let mut locked = self.lock();
        !self.is_closed() && locked.take(1)
    }

    /// Waits for permits. If they are closed, the wait counts as cancelled on request.
    #[inline]
    #[track_caller]
    pub(super) fn acquire(&self, count: usize, what: &'static What) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if self.take_at_once(count).is_ok() {
            return Ok(());
        }
        self.acquire_slowly(count, what)
    }

    #[cold]
    #[track_caller]
    fn acquire_slowly(&self, count: usize, what: &'static What) -> Result<(), Cancelled> {
        loop {
            let mut woken = Woken::none();
            let mut locked = self.lock();
            if self.is_closed() {
                return Err(Cancelled::new(CancelReason::Explicit));
            }
            // Permits may be free although there are waiters, because a notified source has left
            // them.
            locked.serve(&mut woken);
            let first = locked.queue.is_empty();
            // A request for zero permits never waits.
            if (first || count == 0) && locked.take(count) {
                return Ok(());
            }
            let wait = Wait {
                role: Role::Slot,
                tag: count,
                object: ptr::from_ref(self).cast(),
                detail: count,
                ..Wait::new(what, Mode::Cancellable)
            };
            let outcome = wait.registered(
                locked,
                |mut locked, node| {
                    // SAFETY: N1: `registered` keeps the node until it has been claimed or
                    // withdrawn. N2: the data is a number.
                    unsafe { locked.queue.push(node) };
                    if first {
                        node.reserved.set(std::mem::take(&mut locked.free));
                    }
                    drop(locked);
                    drop(woken);
                },
                |node| {
                    let mut woken = Woken::none();
                    let mut locked = self.lock();
                    locked.queue.remove(node);
                    locked.free += node.reserved.replace(0);
                    locked.serve(&mut woken);
                    drop(locked);
                },
            );
            match outcome {
                Outcome::Woken(_) => return Ok(()),
                Outcome::Again(()) => {}
                Outcome::Cancelled(()) | Outcome::TimedOut(()) => {
                    return Err(task::cancelled_wait());
                }
            }
        }
    }

    /// Gives back `count` permits. Release: pairs with the acquire of the next taker.
    ///
    /// # Panics
    /// Panics if there would be more than [`MAX`] permits.
    #[inline]
    #[track_caller]
    pub(super) fn release(&self, count: usize) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 {
            let next = sum(word / ONE, count) * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
        self.release_slowly(count);
    }

    #[cold]
    #[track_caller]
    fn release_slowly(&self, count: usize) {
        let mut woken = Woken::none();
        let mut locked = self.lock();
        locked.free = sum(locked.free, count);
        locked.serve(&mut woken);
        drop(locked);
    }

    /// Gives one permit to the first waiter. If there is no waiter, one permit is free afterwards,
    /// however often this is called. Release, like [`Permits::release`].
    pub(super) fn release_one_at_most(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 {
            match self.word.compare_exchange_weak(word, ONE, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
        let mut woken = Woken::none();
        let mut locked = self.lock();
        if locked.queue.is_empty() {
            locked.free = 1;
        } else {
            locked.free += 1;
            locked.serve(&mut woken);
            // All waiters in the queue were gone already.
            if locked.queue.is_empty() {
                locked.free = locked.free.min(1);
            }
        }
        drop(locked);
    }

    /// Grants each waiter in the queue what it wants. Calls `before` under the queue's lock.
    pub(super) fn admit_all(&self, before: impl FnOnce()) {
        let mut woken = Woken::none();
        let mut locked = self.lock();
        before();
        // Permits for the nodes with the role `Notify`, which can only be told to look again.
        let mut left = 0;
        while let Some(node) = locked.queue.first() {
            locked.queue.remove(node);
            if node.claim() {
                let all = if node.role() == Role::Take { ADMITTED } else { line::tag(node) };
                node.reserved.set(all);
                left += usize::from(node.role() == Role::Notify);
                woken.push(node);
            }
        }
        locked.free += left;
        drop(locked);
    }

    /// Does what a source of permits has to do in each pass of a wait.
    pub(super) fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        match arms.pass() {
            Pass::Count => arms.count(),
            Pass::Notify => {}
            Pass::Take => {
                let locked = self.lock();
                if self.is_closed() {
                    return;
                }
                if locked.queue.is_empty() && locked.free != 0 {
                    drop(locked);
                    arms.set_ready();
                    return;
                }
                let wanted = ptr::without_provenance_mut(1);
                // SAFETY: N1: the queue is borrowed for `'a`. N2: the data is a number, and there
                // is no predicate.
                unsafe { arms.push(&self.line, &locked.queue, Role::Take, wanted, None) };
            }
        }
    }

    /// Returns whether the wait that ended in this way was admitted together with all others.
    pub(super) fn was_admitted(&self, won: &Won<'_>) -> bool {
        won.is_of(&self.line) && won.node().reserved.get() == ADMITTED
    }

    /// Returns whether the wait that ended in this way has one of these permits.
    pub(super) fn finish(&self, won: &Won<'_>) -> bool {
        if !won.is_of(&self.line) {
            return false;
        }
        won.node().reserved.replace(0) != 0 || self.try_take()
    }
}

#[track_caller]
#[inline]
fn sum(free: usize, more: usize) -> usize {
    match free.checked_add(more) {
        Some(sum) if sum <= MAX => sum,
        _ => {
            panic!("too many permits for a semaphore; the maximum is `Semaphore::MAX_PERMITS`")
        }
    }
}

impl Locked<'_> {
    fn take(&mut self, count: usize) -> bool {
        let enough = self.free >= count;
        if enough {
            self.free -= count;
        }
        enough
    }

    /// Gives the free permits to the waiters in the queue.
    fn serve(&mut self, woken: &mut Woken) {
        if self.permits.is_closed() {
            return;
        }
        // Permits that stay free for notified sources, which look again.
        let mut left = 0;
        while self.free > left {
            let Some(node) = self.queue.first() else { break };
            if node.role() == Role::Notify {
                self.queue.remove(node);
                if node.claim() {
                    woken.push(node);
                    left += 1;
                }
                continue;
            }
            let has = node.reserved.get();
            let lacks = line::tag(node) - has;
            let given = lacks.min(self.free - left);
            self.free -= given;
            node.reserved.set(has + given);
            if given == lacks {
                self.queue.remove(node);
                if node.claim() {
                    woken.push(node);
                } else {
                    // The waiter is gone. An arm of a wait that took another source's item does not
                    // come back for these permits.
                    self.free += node.reserved.replace(0);
                }
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let looked_at = !self.queue.is_empty() || self.permits.is_closed();
        let waiters = if looked_at { WAITERS } else { 0 };
        self.permits.word.store((self.free * ONE) | waiters, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
