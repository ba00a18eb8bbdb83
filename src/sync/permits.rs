//! A number of permits, and a line of those who want some: under [`Semaphore`](super::Semaphore) and [`Notify`](super::Notify).
//!
//! # State
//! A word: twice the number of free permits, plus `WAITERS`: somebody may be in line. While that is set, the word changes under the
//! line's lock only. Strangers get in line by themselves; they look once more after that, with [`Permits::try_take`], which sets it
//! for them.
//!
//! # Protocol
//! Permits that come free go to the first in line, even while they are fewer than it wants: its node keeps them, in `reserved`. So
//! while anybody is in line none are free, those who come by cannot overtake, and who wants many is not starved by those who want
//! few. Who leaves the line gives back what its node has.
//!
//! | role of a node | who | claimed with |
//! |---|---|---|
//! | `Slot` | a wait for permits alone | `WOKEN`: it has them all; `LOOK_AGAIN` by a notification, which gives nothing |
//! | `Take` | an arm of a wait for one of many | its permit in `reserved`; nothing there: it is to look again |
//! | `Notify` | somebody's wrapper that knows no better | nothing; one permit is left free for it |
#![expect(unsafe_code, reason = "registers waits on this stack")]

use std::ptr;

use super::line;
use crate::base::sync::BiasedGuard;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::park::{About, LOOK_AGAIN, Mode, Node, Queue, Role, WOKEN, WaitList, Waiter, Woken};
use crate::source::{Arms, Pass, Won};
use crate::task::{self, Cancelled};

const WAITERS: usize = 1;
const ONE: usize = 2;

/// So many permits there may be.
pub(super) const MAX: usize = usize::MAX >> 3;

pub(super) struct Permits {
    word: AtomicUsize,
    line: WaitList,
}

/// The permits while the line's lock is held, and `WAITERS` set. What is free then is written back at the end.
struct Locked<'a> {
    word: &'a AtomicUsize,
    free: usize,
    queue: BiasedGuard<'a, Queue>,
}

impl Permits {
    #[cfg(not(loom))]
    pub(super) const fn new(free: usize) -> Permits {
        Permits { word: AtomicUsize::new(free * ONE), line: WaitList::new() }
    }

    #[cfg(loom)]
    pub(super) fn new(free: usize) -> Permits {
        Permits { word: AtomicUsize::new(free * ONE), line: WaitList::new() }
    }

    pub(super) fn line(&self) -> &WaitList {
        &self.line
    }

    pub(super) fn free(&self) -> usize {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Acquire: pairs with the release of whoever gave the permits back.
    fn lock(&self) -> Locked<'_> {
        let queue = self.line.lock();
        let free = self.word.fetch_or(WAITERS, Ordering::Acquire) / ONE;
        Locked { word: &self.word, free, queue }
    }

    /// Acquire, as [`Permits::lock`].
    #[inline]
    pub(super) fn try_acquire(&self, count: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 {
            if word / ONE < count {
                return false;
            }
            let next = word - count * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        self.lock().take(count)
    }

    /// [`Permits::try_acquire`] of one for whoever may be in line as a stranger: if none is free, whoever gives one back finds it there.
    pub(super) fn try_take(&self) -> bool {
        self.lock().take(1)
    }

    #[inline]
    #[track_caller]
    pub(super) fn acquire(&self, count: usize) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if self.try_acquire(count) { Ok(()) } else { self.acquire_slowly(count) }
    }

    #[cold]
    #[track_caller]
    fn acquire_slowly(&self, count: usize) -> Result<(), Cancelled> {
        loop {
            let waiter = Waiter::new();
            waiter.set_purpose("a permit or a notification", About::Nothing);
            let wanted = ptr::without_provenance_mut(count);
            let node = Node::new(&raw const waiter, 0, Role::Slot, wanted);
            let mut woken = Woken::none();
            let mut locked = self.lock();
            // Some may be free although others wait: who was notified has left them.
            locked.serve(&mut woken);
            let first = locked.queue.is_empty();
            if first && locked.take(count) {
                return Ok(());
            }
            // SAFETY: N1: this frame stays until the wait is over and the node is out of the line: who claims it takes it out, and
            // otherwise that is done below. N2: the data is a number.
            unsafe { locked.queue.push(&raw const node) };
            if first {
                node.reserved.set(std::mem::take(&mut locked.free));
            }
            drop(locked);
            drop(woken);
            let outcome = task::wait(&waiter, None, Mode::Cancellable);
            if outcome == WOKEN {
                return Ok(());
            }
            let mut woken = Woken::none();
            let mut locked = self.lock();
            locked.queue.remove(&node);
            locked.free += node.reserved.replace(0);
            locked.serve(&mut woken);
            drop(locked);
            drop(woken);
            if outcome != LOOK_AGAIN {
                return Err(task::cancelled_wait());
            }
        }
    }

    /// Release: pairs with the acquire of whoever takes them next.
    ///
    /// # Panics
    /// When there are more than [`MAX`] then.
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

    /// Gives one permit to whoever is first in line; if nobody is, there is one free afterwards, however many times this is called.
    /// Release, as [`Permits::release`].
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
            // Where nobody in line was still waiting.
            if locked.queue.is_empty() {
                locked.free = locked.free.min(1);
            }
        }
        drop(locked);
    }

    /// Lets everybody in line go on as if each had been given what it wants.
    pub(super) fn admit_all(&self) {
        let mut woken = Woken::none();
        let mut locked = self.lock();
        // For those who can be told to look only.
        let mut left = 0;
        while let Some(node) = locked.queue.first() {
            locked.queue.remove(node);
            if node.claim() {
                node.reserved.set(line::tag(node));
                left += usize::from(node.role() == Role::Notify);
                woken.push(node);
            }
        }
        locked.free += left;
        drop(locked);
    }

    /// What a source over these does in each pass of a wait.
    pub(super) fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        match arms.pass() {
            Pass::Count => arms.count(),
            Pass::Notify => {}
            Pass::Take => {
                let locked = self.lock();
                if locked.queue.is_empty() && locked.free != 0 {
                    drop(locked);
                    arms.set_ready();
                    return;
                }
                let wanted = ptr::without_provenance_mut(1);
                // SAFETY: N1: the line is borrowed for `'a`. N2: the data is a number, and there is no predicate.
                unsafe { arms.push(&self.line, &locked.queue, Role::Take, wanted, None) };
            }
        }
    }

    /// Whether the wait that ended so has a permit of these.
    pub(super) fn finish(&self, won: &Won<'_>) -> bool {
        if !won.is_of(&self.line) {
            return false;
        }
        won.node().reserved.replace(0) != 0 || self.try_take()
    }
}

#[track_caller]
fn sum(free: usize, more: usize) -> usize {
    match free.checked_add(more) {
        Some(sum) if sum <= MAX => sum,
        _ => {
            panic!("more permits than a semaphore can count; `Semaphore::MAX_PERMITS` is the most")
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

    /// Gives what is free to those in line.
    fn serve(&mut self, woken: &mut Woken) {
        // For those who were notified and will look.
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
                    // It has left: an arm of a wait that took something else does not come back for this.
                    self.free += node.reserved.replace(0);
                }
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let waiters = if self.queue.is_empty() { 0 } else { WAITERS };
        self.word.store((self.free * ONE) | waiters, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
