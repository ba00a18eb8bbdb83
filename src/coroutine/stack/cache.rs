//! One worker's own stock of stacks: last in, first out, no lock, no atomic operation.

use std::io;

use super::Stack;
use super::pool::StackPool;

/// Stacks that are fetched from the pool, or brought back to it, at a time.
const BATCH: usize = 32;

/// A stock of stacks that belongs to one thread.
#[derive(Debug)]
pub(crate) struct StackCache {
    pool: StackPool,
    stacks: Vec<Stack>,
    /// More than this many go back to the pool.
    keep: usize,
    /// The smallest stock since the last trim: so many have not been used.
    low: usize,
}

impl StackCache {
    /// An empty stock that will hold up to `keep` stacks that nobody uses.
    pub(crate) fn new(pool: StackPool, keep: usize) -> StackCache {
        StackCache { pool, stacks: Vec::with_capacity(keep + BATCH), keep, low: 0 }
    }

    /// Takes the stack that was given last.
    ///
    /// # Errors
    /// `OutOfMemory` if there is none and the system refuses to map or guard more.
    #[inline]
    pub(crate) fn take(&mut self) -> io::Result<Stack> {
        match self.stacks.pop() {
            Some(stack) => {
                self.low = self.low.min(self.stacks.len());
                Ok(stack)
            }
            None => self.refill(),
        }
    }

    /// Gives a stack that nothing runs on any more.
    #[inline]
    pub(crate) fn give(&mut self, stack: Stack) {
        if !self.pool.owns(&stack) {
            return drop(stack);
        }
        if self.stacks.len() >= self.keep + BATCH {
            self.give_back(BATCH);
        }
        self.stacks.push(stack);
    }

    /// Gives back to the pool what was not used since the last call.
    pub(crate) fn trim(&mut self) {
        self.give_back(self.low.min(self.stacks.len()));
        self.low = self.stacks.len();
    }

    #[cold]
    fn refill(&mut self) -> io::Result<Stack> {
        self.pool.take_batch(BATCH, &mut self.stacks)?;
        // The pool hands out the warmest first, and this stock is used from its end.
        self.stacks.reverse();
        self.low = 0;
        Ok(self.stacks.pop().expect("a batch is not empty"))
    }

    /// Gives the coldest back.
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
