//! Pools: all slabs of one stack size, and the returned stacks, last in, first out.
//!
//! Everything but the sizes is behind one lock. Workers take it once for each batch
//! ([`super::StackCache`]), bare coroutines once for each stack.
//!
//! The free list also records what is worth trimming. It is a stack itself. `low` is the smallest
//! length that it has had since the last trim, so the entries below `low` have not been used since
//! then. The memory of the entries below `clean` has already been given back:
//!
//! ```text
//!   free:  0 ........ clean ........ low ........ len
//!          given back  idle: to trim  used lately
//! ```

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::geometry::{Geometry, page_size};
use super::slab::Slab;
use super::{Stack, map};
use crate::coroutine::overflow;

/// The size of the first slab. Each further slab is twice as large, up to [`SLAB_LARGEST`].
const SLAB_FIRST: usize = if cfg!(any(miri, loom)) { 1 } else { 4 << 20 };

/// The maximal size of a slab.
const SLAB_LARGEST: usize = if cfg!(any(miri, loom)) { 1 } else { 1 << 30 };

/// The state that the handles of a pool and its stacks share.
pub(super) struct Pool {
    geometry: Geometry,
    state: Mutex<SlabState>,
}

struct SlabState {
    /// Sorted by address, so that a stack's slab is found by binary search.
    slabs: Vec<Slab>,
    /// The address of the slab that unused stacks come from.
    filling: usize,
    /// The tops of the returned stacks.
    free: Vec<Top>,
    clean: usize,
    low: usize,
    /// The number of stacks that exist outside the pool.
    out: usize,
    /// Keeps the pool alive while `out` is not 0, even if its handles are dropped.
    own: Option<Arc<Pool>>,
    next_slab: usize,
}

#[derive(Clone, Copy)]
struct Top(NonNull<u8>);

// SAFETY: C2: a top in the free list is a number that belongs to the pool.
unsafe impl Send for Top {}

/// Statistics of a [`StackPool`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackStatistics {
    /// The number of stacks in use, including those that workers keep ready.
    pub live: usize,
    /// The number of stacks that have been used and wait for reuse.
    pub idle: usize,
    /// The number of mappings that the pool holds.
    pub slabs: usize,
    /// The address space of these mappings, in bytes.
    pub mapped: usize,
}

/// A source of stacks of one size. Clones are handles to the same pool.
///
/// A stack that is dropped goes back to its pool. The stack that was returned last is handed out
/// first, because its memory is warm.
///
/// # Examples
/// ```
/// use ecru::coroutine::StackPool;
///
/// let pool = StackPool::new(32 * 1024)?;
/// let stack = pool.take()?;
/// assert_eq!(pool.statistics().live, 1);
/// drop(stack);
/// assert_eq!(pool.statistics().idle, 1);
/// pool.trim();
/// assert_eq!(pool.statistics().idle, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct StackPool {
    shared: Arc<Pool>,
}

impl StackPool {
    /// Creates a pool of stacks with at least `size` usable bytes, rounded up to whole pages.
    /// Nothing is mapped yet.
    ///
    /// # Errors
    /// Returns an error of kind `InvalidInput` if `size` is 0, below
    /// [`STACK_FLOOR`](super::STACK_FLOOR) or beyond the address space.
    pub fn new(size: usize) -> io::Result<StackPool> {
        let geometry = Geometry::new(size)?;
        overflow::install();
        let state = SlabState {
            slabs: Vec::new(),
            filling: 0,
            free: Vec::new(),
            clean: 0,
            low: 0,
            out: 0,
            own: None,
            next_slab: SLAB_FIRST,
        };
        Ok(StackPool { shared: Arc::new(Pool { geometry, state: Mutex::new(state) }) })
    }

    /// Takes the stack that was returned last, or a new one if none was returned.
    ///
    /// # Errors
    /// Returns an error of kind `OutOfMemory` if the system refuses to map or guard a stack.
    pub fn take(&self) -> io::Result<Stack> {
        let mut state = self.shared.lock();
        let Top(top) = state.take(self.shared.geometry)?;
        state.lent(1, &self.shared);
        Ok(Stack { top, pool: NonNull::from(&*self.shared) })
    }

    pub(super) fn from_shared(shared: Arc<Pool>) -> StackPool {
        StackPool { shared }
    }

    pub(super) fn downgrade(&self) -> Weak<Pool> {
        Arc::downgrade(&self.shared)
    }

    /// Takes up to `count` stacks, at least one. Returns how many of them have never been used.
    /// Those are the last ones.
    pub(super) fn take_batch(&self, count: usize, stacks: &mut Vec<Stack>) -> io::Result<usize> {
        let mut state = self.shared.lock();
        let used = state.free.len();
        let mut number = count;
        let pool = NonNull::from(&*self.shared);
        for taken in 0..count {
            match state.take(self.shared.geometry) {
                Ok(Top(top)) => stacks.push(Stack { top, pool }),
                Err(_) if taken > 0 => {
                    number = taken;
                    break;
                }
                Err(error) => return Err(error),
            }
            state.lent(1, &self.shared);
        }
        Ok(number.saturating_sub(used))
    }

    /// Takes stacks of this pool back under one lock. The last of them will be reused first.
    pub(super) fn give_batch(&self, stacks: impl Iterator<Item = Stack>) {
        let tops: Vec<_> = stacks
            .map(|stack| {
                assert!(self.owns(&stack), "a stack of another pool");
                ManuallyDrop::new(stack).top
            })
            .collect();
        if !tops.is_empty() {
            // SAFETY: C1: the values owned these slots of this pool, and do not exist any more.
            unsafe { Pool::give_back(NonNull::from(&*self.shared), &tops) };
        }
    }

    /// Returns whether a stack came from this pool.
    #[inline]
    pub(super) fn owns(&self, stack: &Stack) -> bool {
        std::ptr::eq(stack.pool.as_ptr(), Arc::as_ptr(&self.shared))
    }

    /// Returns the number of usable bytes of the pool's stacks.
    #[must_use]
    pub fn stack_size(&self) -> usize {
        self.shared.geometry.usable()
    }

    /// Gives the memory of all idle stacks back to the system.
    ///
    /// Slabs without a stack in use are unmapped as a whole. Of each other idle stack, the topmost
    /// page stays, because the next use needs it anyway.
    pub fn trim(&self) {
        let mut state = self.shared.lock();
        state.low = state.free.len();
        state.trim(self.shared.geometry, usize::MAX);
    }

    /// Trims the stacks that were not used since the last call, as [`StackPool::trim`] does. Each
    /// call is limited, so that the lock is not held for long.
    pub(crate) fn trim_idle(&self) {
        /// This takes about 2 ms of system calls.
        const AT_A_TIME: usize = 2048;
        self.shared.lock().trim(self.shared.geometry, AT_A_TIME);
    }

    /// Returns the number and the memory of the pool's stacks.
    #[must_use]
    pub fn statistics(&self) -> StackStatistics {
        let state = self.shared.lock();
        let geometry = self.shared.geometry;
        StackStatistics {
            live: state.out,
            idle: state.free.len(),
            slabs: state.slabs.len(),
            mapped: state.slabs.iter().map(|slab| slab.len(geometry)).sum(),
        }
    }
}

impl fmt::Debug for StackPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackPool")
            .field("stack_size", &self.stack_size())
            .field("statistics", &self.statistics())
            .finish()
    }
}

impl Pool {
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lock(&self) -> MutexGuard<'_, SlabState> {
        // No change made under this lock panics half way, except when memory runs out.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes stacks back. The last of `tops` will be reused first.
    ///
    /// # Safety
    /// C1: the caller owned these slots, which came from this pool and are still counted as being
    /// out. It gives them up.
    pub(super) unsafe fn give_back(pool: NonNull<Pool>, tops: &[NonNull<u8>]) {
        // SAFETY: C2: the pool lives as long as a stack is out, and these stacks are.
        let this = unsafe { pool.as_ref() };
        let mut state = this.lock();
        state.free.extend(tops.iter().copied().map(Top));
        state.out -= tops.len();
        let own = if state.out == 0 { state.own.take() } else { None };
        drop(state);
        // This may be the last handle. It is dropped after the lock has been released, and `this`
        // is not used any more.
        drop(own);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let geometry = self.geometry;
        let state = self.state.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        debug_assert_eq!(state.out, 0);
        for slab in state.slabs.drain(..) {
            // SAFETY: C2: no stack is out, because `own` would otherwise keep the pool alive.
            unsafe { slab.unmap(geometry) };
        }
    }
}

impl SlabState {
    /// Counts stacks that leave the pool, and keeps the pool alive for them.
    fn lent(&mut self, count: usize, shared: &Arc<Pool>) {
        self.out += count;
        self.own.get_or_insert_with(|| Arc::clone(shared));
    }

    fn take(&mut self, geometry: Geometry) -> io::Result<Top> {
        if let Some(top) = self.free.pop() {
            self.low = self.low.min(self.free.len());
            self.clean = self.clean.min(self.free.len());
            return Ok(top);
        }
        if let Some(slab) = self.filling()
            && let Some(top) = slab.take(geometry)?
        {
            return Ok(Top(top));
        }
        let mut slab = match self.slabs.iter().position(Slab::has_fresh) {
            Some(index) => self.slabs.remove(index),
            None => {
                let slab = Slab::map(geometry, self.next_slab)?;
                self.next_slab = (self.next_slab * 2).min(SLAB_LARGEST);
                slab
            }
        };
        let top = slab.take(geometry);
        self.filling = slab.start();
        let place = self.slabs.partition_point(|other| other.start() < slab.start());
        self.slabs.insert(place, slab);
        Ok(Top(top?.expect("a slab with unused slots")))
    }

    fn filling(&mut self) -> Option<&mut Slab> {
        let index = self.slabs.binary_search_by_key(&self.filling, Slab::start).ok()?;
        Some(&mut self.slabs[index])
    }

    /// Gives back the memory of the stacks between `clean` and `low`, at most `most` of them one by
    /// one.
    fn trim(&mut self, geometry: Geometry, most: usize) {
        if self.low > self.clean {
            self.trim_slabs(geometry);
            self.trim_stacks(geometry, most);
        }
        // Stacks that were returned meanwhile are candidates for the next trim.
        self.low = self.free.len();
    }

    /// Gives back the slabs all of whose used stacks are idle.
    fn trim_slabs(&mut self, geometry: Geometry) {
        let mut idle = vec![0_usize; self.slabs.len()];
        for &top in &self.free[..self.low] {
            idle[self.slab_of(top)] += 1;
        }
        let whole: Vec<bool> = self
            .slabs
            .iter()
            .zip(&idle)
            .map(|(slab, &idle)| idle > 0 && idle == slab.used())
            .collect();
        if !whole.contains(&true) {
            return;
        }
        let (mut index, mut clean, mut low) = (0, self.clean, self.low);
        let mut free = std::mem::take(&mut self.free);
        free.retain(|&top| {
            let gone = whole[self.slab_of(top)];
            clean -= usize::from(gone && index < self.clean);
            low -= usize::from(gone && index < self.low);
            index += 1;
            !gone
        });
        free.shrink_to(free.len() * 2);
        (self.free, self.clean, self.low) = (free, clean, low);
        // The first whole idle slab stays mapped, with its guards, for the next burst. Its slots
        // are then used in order again.
        let mut kept =
            self.slabs.iter().zip(&whole).any(|(slab, &whole)| !whole && slab.has_fresh());
        for (index, mut slab) in std::mem::take(&mut self.slabs).into_iter().enumerate() {
            if !whole[index] {
                self.slabs.push(slab);
            } else if !kept && slab.len(geometry) <= SLAB_KEPT {
                kept = true;
                // SAFETY: C2: all existing stacks of this slab were in the free list and have been
                // removed from it.
                unsafe { slab.reset(geometry) };
                self.slabs.push(slab);
            } else {
                // SAFETY: C2: all existing stacks of this slab were in the free list and have been
                // removed from it.
                unsafe { slab.unmap(geometry) };
            }
        }
        let largest = self.slabs.iter().map(|slab| slab.len(geometry)).max().unwrap_or(0);
        self.next_slab = (largest * 2).clamp(SLAB_FIRST, SLAB_LARGEST);
    }

    /// Gives back the memory of single idle stacks, except their topmost page.
    fn trim_stacks(&mut self, geometry: Geometry, most: usize) {
        let end = self.low.min(self.clean.saturating_add(most));
        let page = page_size();
        for Top(top) in &self.free[self.clean..end] {
            let address = top.addr().get();
            let len = geometry.usable() - page;
            let back = address - geometry.limit_of(address);
            // SAFETY: the slot extends from its limit to beyond its top.
            let limit = unsafe { top.sub(back) };
            // SAFETY: C2: no `Stack` owns a slot whose top is in the free list.
            unsafe { map::discard(limit, len) };
        }
        self.clean = end;
    }

    fn slab_of(&self, Top(top): Top) -> usize {
        self.slabs.partition_point(|slab| slab.start() <= top.addr().get()) - 1
    }
}

/// The maximal size of a whole idle slab that stays mapped.
const SLAB_KEPT: usize = 64 << 20;
