//! Stacks: guarded, contiguous memory for coroutines to run on, cheap enough to have a million of
//! them.
//!
//! # Words
//! - A **slot** is a fixed stride of address space: the guard at its low end, the usable bytes
//!   above it.
//! - A **slab** ([`slab`]) is one mapping that holds many slots. Slots are handed out in order and
//!   guarded shortly before.
//! - A **pool** ([`StackPool`]) owns the slabs of one stack size and the list of returned stacks.
//! - A **cache** ([`StackCache`]) is one worker's own stock of stacks, which it uses without a lock
//!   or an atomic operation.
//!
//! ```text
//!   slot:   low                                                         high
//!           | guard, 16 pages | usable, grows downwards  ...  | head | tint |
//!                             ^ limit                          ^ top: where frames begin
//! ```
//!
//! The **head** is [`HEAD_SIZE`] bytes at the top that frames never touch. The coroutine's control
//! block and fiber lie there, next to its first frame. The **tint** staggers the tops of
//! neighbouring slots (see `doc/decisions/0002-stack-colouring.md`).
//!
//! The memory of a stack that was never used is not touched before the stack runs, with one
//! exception: when a cache fetches a batch while demand grows, the topmost pages of the batch are
//! taken from the system at once ([`cache`]). A stack that has run stays resident until a trim
//! gives its memory back.
//!
//! # Invariants
//! - C1: a `Stack` value is the only owner of its slot. Nothing else reads or writes the slot,
//!   except the coroutine that was given that value.
//! - C2: a slab is unmapped, or its pages are given back, only for slots that no `Stack` value
//!   owns.
//! - C3: every slot is guarded before a `Stack` value for it exists. There are no unguarded stacks.

#![expect(unsafe_code, reason = "stacks are raw memory: mapped, guarded and recycled by hand")]

mod bounds;
mod cache;
mod geometry;
mod guard;
mod map;
mod pool;
pub(crate) mod registry;
mod shared;
mod slab;
mod vectored;

use std::fmt;
use std::io;
use std::ptr::NonNull;

pub use self::bounds::remaining_stack;
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) use self::bounds::{own_frames, own_stack};
pub(crate) use self::cache::StackCache;
#[cfg(any(test, not(any(ecru_baton, miri, loom))))]
pub(crate) use self::geometry::page_size;
pub use self::pool::{StackPool, StackStatistics};

/// The size of the smallest stack that is accepted, in usable bytes.
///
/// A panic that prints its backtrace needs about 16 KiB.
pub const STACK_FLOOR: usize = 16 * 1024;

/// The default size of a stack in usable bytes: 192 KiB, or 960 KiB in a debug build.
///
/// A debug build is one with `debug_assertions`. Code that is not optimized takes several times as
/// much stack. A guard of 64 KiB lies below each stack. So a stack takes 256 KiB of address space,
/// or 1 MiB in a debug build. Memory is taken page by page, as the stack is used.
pub const STACK_DEFAULT: usize =
    if cfg!(all(debug_assertions, not(miri))) { 960 * 1024 } else { 192 * 1024 };

/// The number of bytes at the top of every stack that frames never touch. The fiber of the baton
/// backend is larger.
pub(crate) const HEAD_SIZE: usize = if cfg!(any(ecru_baton, miri, loom)) { 160 } else { 128 };

/// An owned stack for a coroutine, with a guard below it.
///
/// Dropping a stack returns it to its pool for reuse.
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineState, Stack};
///
/// let stack = Stack::new(64 * 1024)?;
/// assert_eq!(stack.size(), 64 * 1024);
/// let coroutine = Coroutine::with_stack(stack, |_, n: u32| n + 1);
/// assert_eq!(coroutine.resume(1), CoroutineState::<(), u32>::Complete(2));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stack {
    top: NonNull<u8>,
    pool: NonNull<pool::Pool>,
}

// SAFETY: C1: the value is the only owner of its slot, and a pool may be used from every thread.
unsafe impl Send for Stack {}
// SAFETY: C1: a shared reference gives access only to numbers.
unsafe impl Sync for Stack {}

impl Stack {
    /// For debuggers: the offset of the address of the top.
    #[cfg(not(any(ecru_baton, miri, loom)))]
    pub(crate) const TOP: usize = std::mem::offset_of!(Stack, top);

    /// Takes a stack of at least `size` usable bytes, rounded up to whole pages.
    ///
    /// Stacks of equal size share slabs. A stack that was dropped is reused.
    ///
    /// # Errors
    /// Returns an error of kind `InvalidInput` if `size` is 0, below [`STACK_FLOOR`] or beyond the
    /// address space. Returns `OutOfMemory` if the system refuses to map or guard the stack.
    ///
    /// # Examples
    /// ```
    /// let error = ecru::coroutine::Stack::new(1000).unwrap_err();
    /// assert!(error.to_string().contains("at least 16384"));
    /// ```
    pub fn new(size: usize) -> io::Result<Stack> {
        shared::take(size)
    }

    /// Returns the number of usable bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.pool().geometry().usable()
    }

    /// Returns the lowest usable address, where the guard ends.
    #[cfg(any(test, not(any(ecru_baton, miri, loom))))]
    pub(crate) fn limit(&self) -> usize {
        self.pool().geometry().limit_of(self.top.addr().get())
    }

    /// Returns the lowest address of the guard.
    #[cfg(test)]
    pub(crate) fn guard_start(&self) -> usize {
        self.limit() - self.pool().geometry().guard()
    }

    /// Returns the highest address of frames, where the first frame may begin. It is a multiple of
    /// 16, just below the head.
    #[inline]
    pub(crate) fn top(&self) -> NonNull<u8> {
        self.top
    }

    /// Returns the head: [`HEAD_SIZE`] bytes, aligned to 16, which belong to the owner of this
    /// value.
    #[inline]
    pub(crate) fn head(&self) -> NonNull<u8> {
        // Frames begin at `top` and grow downwards, so the head lies just above.
        self.top
    }

    #[inline]
    fn pool(&self) -> &pool::Pool {
        // SAFETY: C2: a pool outlives every stack that has been taken from it.
        unsafe { self.pool.as_ref() }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: C2: the pool is alive. C1: this value owned the slot, and does not exist after
        // this call.
        unsafe { pool::Pool::give_back(self.pool, &[self.top]) };
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("size", &self.size()).field("top", &self.top).finish()
    }
}

const _: () = assert!(size_of::<Stack>() <= 16);

#[cfg(test)]
mod tests {
    use super::*;

    fn write(stack: &Stack, value: u8) {
        // SAFETY: C1: the head belongs to the stack's owner.
        unsafe { stack.head().write(value) };
    }

    fn read(stack: &Stack) -> u8 {
        // SAFETY: C1: the head belongs to the stack's owner, and was written before.
        unsafe { stack.head().read() }
    }

    /// The stack that was returned last is taken first, from a cache and from its pool. The cache's
    /// stock goes back to the pool when the cache is dropped.
    #[test]
    fn last_in_first_out() {
        let pool = StackPool::new(STACK_FLOOR).unwrap();
        let mut cache = StackCache::new(pool.clone(), 4);
        let (one, two) = (cache.take().unwrap(), cache.take().unwrap());
        let (first, second) = (one.top(), two.top());
        cache.give(one);
        cache.give(two);
        assert_eq!(cache.take().unwrap().top(), second);
        assert_ne!(first, second);
        drop(cache);
        assert_eq!(pool.statistics().live, 0);
        let last = pool.take().unwrap().top();
        assert_eq!(pool.take().unwrap().top(), last);
    }

    /// A cache keeps as many stacks as it was told to keep, and returns the others.
    #[test]
    fn a_cache_gives_its_surplus_back() {
        let pool = StackPool::new(STACK_FLOOR).unwrap();
        let mut cache = StackCache::new(pool.clone(), 8);
        let stacks: Vec<_> = (0..500).map(|_| cache.take().unwrap()).collect();
        for stack in stacks {
            cache.give(stack);
        }
        assert!(pool.statistics().live <= 8 + 32, "{:?}", pool.statistics());
        cache.trim();
        cache.trim();
        assert_eq!(pool.statistics().live, 0);
    }

    /// A pool lives on while one of its stacks does.
    #[test]
    fn a_stack_outlives_the_handles_of_its_pool() {
        let pool = StackPool::new(STACK_FLOOR).unwrap();
        let stack = pool.take().unwrap();
        drop(pool);
        assert_eq!(stack.size(), STACK_FLOOR);
        write(&stack, 1);
        drop(stack);
    }

    /// Slots do not overlap, the limit is where the guard ends, and an address is found in its
    /// slot.
    #[test]
    fn slots_are_apart() {
        let pool = StackPool::new(3 * STACK_FLOOR).unwrap();
        let mut stacks: Vec<_> = (0..200).map(|_| pool.take().unwrap()).collect();
        stacks.sort_by_key(|stack| stack.top());
        for pair in stacks.windows(2) {
            assert!(pair[0].top().addr().get() + HEAD_SIZE <= pair[1].guard_start());
        }
        for stack in &stacks {
            assert_eq!(stack.top().addr().get() % 16, 0);
            let place = registry::find(stack.limit()).unwrap();
            assert_eq!((place.limit, place.usable), (stack.limit(), stack.size()));
            assert!(!place.in_guard && registry::find(stack.limit() - 1).unwrap().in_guard);
        }
    }

    /// A trim gives whole slabs back, keeps one for the next burst, and does not affect stacks in
    /// use.
    #[test]
    fn trim_gives_slabs_back() {
        let pool = StackPool::new(STACK_FLOOR).unwrap();
        let stacks: Vec<_> = (0..1000).map(|_| pool.take().unwrap()).collect();
        let kept = pool.take().unwrap();
        write(&kept, 7);
        let before = pool.statistics();
        drop(stacks);
        pool.trim_idle();
        assert_eq!(pool.statistics().idle, 1000, "used since the last trim");
        pool.trim_idle();
        let after = pool.statistics();
        assert!(after.mapped < before.mapped && after.idle < 1000, "{after:?}");
        assert_eq!(read(&kept), 7);
        drop(kept);
        pool.trim();
        assert_eq!((pool.statistics().idle, pool.statistics().slabs), (0, 1));
        let again: Vec<_> = (0..1000).map(|_| pool.take().unwrap()).collect();
        assert_eq!((again.len(), pool.statistics().live), (1000, 1000));
    }
}
