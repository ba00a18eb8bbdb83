//! Caches: one worker's own stock of stacks, last in, first out, without a lock or an atomic
//! operation.
//!
//! An empty stock is refilled from the pool. Each refill fetches twice as many stacks as the last
//! one, up to [`BATCH`], until a trim finds that some are not needed. So a batch is never larger
//! than the number of stacks already in use, and all of it is likely to be used. Therefore the
//! topmost pages of its never-used stacks are taken from the system in one call. This saves two
//! thirds of the page faults with which the stacks would otherwise begin
//! (`doc/decisions/0004-batches-of-fresh-stacks.md`).

#![expect(unsafe_code, reason = "appends to a vector that has enough capacity")]

use std::io;
#[cfg(not(any(ecru_baton, miri, loom)))]
use std::ops::Range;

use super::pool::StackPool;
use super::{Stack, map};

/// The largest number of stacks that are fetched from the pool, or returned to it, at a time.
const BATCH: usize = 32;

/// With fewer never-used stacks than this, their pages are left to page faults.
const POPULATE_LEAST: usize = 4;

/// A stock of stacks that belongs to one thread.
#[derive(Debug)]
pub(crate) struct StackCache {
    pool: StackPool,
    stacks: Vec<Stack>,
    /// The stock may hold up to `keep + BATCH` stacks. Beyond that, a batch is returned to the
    /// pool.
    keep: usize,
    /// The smallest stock since the last trim, and so the number of stacks that were not used since
    /// then.
    low: usize,
    /// How many stacks the next refill fetches.
    batch: usize,
}

impl StackCache {
    /// Creates an empty stock that may keep `keep` unused stacks, plus up to a batch.
    pub(crate) fn new(pool: StackPool, keep: usize) -> StackCache {
        StackCache { pool, stacks: Vec::with_capacity(keep + BATCH), keep, low: 0, batch: 1 }
    }

    /// Takes the stack that was given last.
    ///
    /// # Errors
    /// Returns an error of kind `OutOfMemory` if the stock is empty and the system refuses to map
    /// or guard more stacks.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> io::Result<Stack> {
        match self.stacks.pop() {
            Some(stack) => {
                self.low = self.low.min(self.stacks.len());
                Ok(stack)
            }
            None => self.refill(),
        }
    }

    /// Puts a stack into the stock. Nothing runs on the stack any more.
    #[inline(always)]
    pub(crate) fn give(&mut self, stack: Stack) {
        let len = self.stacks.len();
        if !self.pool.owns(&stack) || len >= self.keep + BATCH {
            return self.give_otherwise(stack);
        }
        debug_assert!(len < self.stacks.capacity(), "`new` has reserved the capacity");
        // Does the same as `push`. That would be a call, and would check whether the vector must
        // grow.
        if let Some(room) = self.stacks.spare_capacity_mut().first_mut() {
            room.write(stack);
            // SAFETY: there was capacity for one more stack, and it has just been written.
            unsafe { self.stacks.set_len(len + 1) };
        }
    }

    #[cold]
    fn give_otherwise(&mut self, stack: Stack) {
        if self.pool.owns(&stack) {
            self.give_back(BATCH);
            self.stacks.push(stack);
        }
    }

    /// Calls `each` with the usable memory of each stack in the stock.
    #[cfg(not(any(ecru_baton, miri, loom)))]
    pub(crate) fn each_unused(&self, each: impl FnMut(Range<usize>)) {
        let range = |stack: &Stack| stack.limit()..stack.limit() + stack.size();
        self.stacks.iter().map(range).for_each(each);
    }

    /// Returns to the pool the stacks that were not used since the last call.
    pub(crate) fn trim(&mut self) {
        self.give_back(self.low.min(self.stacks.len()));
        self.low = self.stacks.len();
        self.batch = 1;
    }

    #[cold]
    fn refill(&mut self) -> io::Result<Stack> {
        let fresh = self.pool.take_batch(self.batch, &mut self.stacks)?;
        self.batch = (self.batch * 2).min(BATCH);
        if fresh >= POPULATE_LEAST {
            map::populate_tops(&self.stacks[self.stacks.len() - fresh..]);
        }
        // The pool hands out the warmest stack first, and this stock is used from its end.
        self.stacks.reverse();
        self.low = 0;
        Ok(self.stacks.pop().expect("a batch is not empty"))
    }

    /// Returns the `count` coldest stacks to the pool.
    #[cold]
    fn give_back(&mut self, count: usize) {
        self.low = self.low.saturating_sub(count);
        self.pool.give_batch(self.stacks.drain(..count));
    }
}

impl Drop for StackCache {
    fn drop(&mut self) {
        self.give_back(self.stacks.len());
    }
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests {
    use super::*;
    use crate::coroutine::stack::{STACK_FLOOR, page_size, vectored};

    /// Returns whether a stack's topmost page is in memory.
    fn is_resident(stack: &Stack) -> bool {
        let page = page_size();
        let top = stack.top().as_ptr();
        let mut answer = 0;
        // SAFETY: the page is mapped, and the answer is a byte.
        let result = unsafe {
            libc::mincore(top.map_addr(|top| top & !(page - 1)).cast(), page, &raw mut answer)
        };
        assert_eq!(result, 0);
        answer & 1 == 1
    }

    /// A refill leaves at most one more stack in stock than are in use, and refills start small
    /// again after a trim.
    #[test]
    fn refills_grow_with_demand() {
        let pool = StackPool::new(STACK_FLOOR).unwrap();
        let mut cache = StackCache::new(pool.clone(), 100);
        let mut stacks = Vec::new();
        for used in 0..100 {
            stacks.push(cache.take().unwrap());
            let live = pool.statistics().live;
            assert!(live <= 2 * used + 1 && live <= used + BATCH, "{live} live, {used} used");
        }
        cache.trim();
        cache.trim();
        let before = pool.statistics().live;
        stacks.push(cache.take().unwrap());
        assert_eq!(pool.statistics().live, before + 1);
    }

    /// The memory of a single stack is not touched before the stack is used. The memory of a batch
    /// is taken at once, where the system supports that.
    #[test]
    fn batches_are_populated() {
        let mut cache = StackCache::new(StackPool::new(STACK_FLOOR).unwrap(), 100);
        let mut take = || cache.take().unwrap();
        let first: Vec<_> = (0..3).map(|_| take()).collect();
        assert!(!first.iter().any(is_resident));
        let next: Vec<_> = (0..4 + 8 + 16 + 32).map(|_| take()).collect();
        assert!(next.iter().all(|stack| is_resident(stack) != vectored::is_refused()));
        // Populated stacks can be used like any others.
        for stack in first.into_iter().chain(next) {
            // SAFETY: C1: the head belongs to the stack's owner.
            unsafe { stack.head().write(7) };
            cache.give(stack);
        }
    }
}
