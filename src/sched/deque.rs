//! The queue of unstarted tasks of one worker. Its owner works at both ends. Thieves take the
//! oldest task.
//!
//! The algorithm is Chase and Lev's "Dynamic circular work-stealing deque" (2005), with the
//! orderings that Lê, Pop, Cohen and Zappa Nardelli proved in "Correct and efficient work-stealing
//! for weak memory models" (2013). There is one addition: the owner may take the oldest task too,
//! by the same exchange on `top` as a thief, because ecru starts tasks in the order of their
//! spawning. `pop_newest` serves `join`, which starts a child at once if the child is the newest.
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `top` | each taker of the oldest, by compare-exchange | index of the oldest; only grows |
//! | `bottom` | the owner | index after the newest |
//! | `buffer` | the owner | a power of two of slots |
//!
//! A thief may still be reading a buffer that has been outgrown. So outgrown buffers are kept until
//! `shrink`, which runs while there is no thief, or until the deque is dropped.
//!
//! The pointer in a slot is not followed before its taker owns it, by the exchange on `top` or by
//! the owner's decrement of `bottom`. So tasks need no protection against being freed while a thief
//! looks at a slot.
#![expect(unsafe_code, reason = "buffers are shared with thieves by raw pointer")]

use std::cell::RefCell;
use std::mem::offset_of;
use std::ptr;

use crate::base::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};
use crate::base::sync::fence_for_loom;

const FIRST_CAPACITY: usize = if cfg!(loom) { 2 } else { 256 };

struct Buffer<T> {
    slots: Box<[AtomicPtr<T>]>,
}

impl<T> Buffer<T> {
    fn new(capacity: usize) -> Box<Buffer<T>> {
        Box::new(Buffer { slots: (0..capacity).map(|_| AtomicPtr::new(ptr::null_mut())).collect() })
    }

    #[inline]
    fn slot(&self, index: isize) -> &AtomicPtr<T> {
        let index = index.cast_unsigned() & (self.slots.len() - 1);
        // SAFETY: Q1: the capacity is a power of two, so the masked index is below it.
        unsafe { self.slots.get_unchecked(index) }
    }
}

/// See the module.
pub(super) struct Deque<T> {
    top: AtomicIsize,
    bottom: AtomicIsize,
    buffer: AtomicPtr<Buffer<T>>,
    /// Touched by the owner only.
    outgrown: RefCell<Vec<*mut Buffer<T>>>,
}

// SAFETY: Q1: `outgrown` belongs to the owner; the rest is atomic.
unsafe impl<T> Sync for Deque<T> {}
// SAFETY: Q1: the deque owns its buffers, not what the pointers in them point to.
unsafe impl<T> Send for Deque<T> {}

/// The result of an attempt to take the oldest task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Task(*const T),
    Empty,
    /// Another thread took one at the same moment.
    Lost,
}

impl<T> Deque<T> {
    /// For debuggers: the offset of the index of the oldest task.
    pub(super) const TOP: usize = offset_of!(Deque<T>, top);
    /// For debuggers: the offset of the index after the newest task.
    pub(super) const BOTTOM: usize = offset_of!(Deque<T>, bottom);
    /// For debuggers: the offset of the pointer to the buffer.
    pub(super) const BUFFER: usize = offset_of!(Deque<T>, buffer);
    /// For debuggers: the offset in a buffer of the address and the number of the slots.
    pub(super) const SLOTS: usize = offset_of!(Buffer<T>, slots);

    pub(super) fn new() -> Deque<T> {
        Deque {
            top: AtomicIsize::new(0),
            bottom: AtomicIsize::new(0),
            buffer: AtomicPtr::new(Box::into_raw(Buffer::new(FIRST_CAPACITY))),
            outgrown: RefCell::new(Vec::new()),
        }
    }

    /// Appends a task as the newest. Owner only.
    #[inline]
    pub(super) fn push(&self, task: *const T) {
        let bottom = self.bottom.load(Ordering::Relaxed);
        // Acquire: pairs with the exchanges on `top`, so that a slot is not overwritten before it
        // has been read.
        let top = self.top.load(Ordering::Acquire);
        let mut buffer = self.buffer.load(Ordering::Relaxed);
        // SAFETY: Q1: the current buffer is alive, and only the owner replaces it.
        if bottom - top >= unsafe { &*buffer }.slots.len().cast_signed() {
            buffer = self.grow(top, bottom);
        }
        // SAFETY: Q1: the current buffer is alive, and only the owner replaces it.
        unsafe { &*buffer }.slot(bottom).store(task.cast_mut(), Ordering::Relaxed);
        // Release: a thief that sees the new bottom sees the slot, and the task behind it.
        self.bottom.store(bottom + 1, Ordering::Release);
    }

    #[cold]
    fn grow(&self, top: isize, bottom: isize) -> *mut Buffer<T> {
        let old = self.buffer.load(Ordering::Relaxed);
        // SAFETY: Q1: the current buffer is alive.
        let old_buffer = unsafe { &*old };
        let new = Buffer::new(old_buffer.slots.len() * 2);
        for index in top..bottom {
            let task = old_buffer.slot(index).load(Ordering::Relaxed);
            new.slot(index).store(task, Ordering::Relaxed);
        }
        let new = Box::into_raw(new);
        // Release: a thief that sees the buffer sees its slots.
        self.buffer.store(new, Ordering::Release);
        self.outgrown.borrow_mut().push(old);
        new
    }

    /// Frees outgrown buffers, and the current one if it is large and empty. Owner only, while no
    /// thread is stealing.
    pub(super) fn shrink(&self) {
        for buffer in self.outgrown.borrow_mut().drain(..) {
            // SAFETY: Q1: each buffer came from a box. Only a thief could still be reading it, and
            // there is none.
            drop(unsafe { Box::from_raw(buffer) });
        }
        let current = self.buffer.load(Ordering::Relaxed);
        let (top, bottom) = self.span();
        // SAFETY: Q1: the current buffer is alive.
        if top == bottom && unsafe { &*current }.slots.len() > FIRST_CAPACITY {
            // Release: as in `grow`.
            self.buffer.store(Box::into_raw(Buffer::new(FIRST_CAPACITY)), Ordering::Release);
            // SAFETY: Q1: the current buffer is alive.
            drop(unsafe { Box::from_raw(current) });
        }
    }

    /// Returns the newest task without taking it, or null if there is none. Owner only.
    #[inline]
    pub(super) fn newest(&self) -> *const T {
        let bottom = self.bottom.load(Ordering::Relaxed);
        if bottom - self.top.load(Ordering::Relaxed) <= 0 {
            return ptr::null();
        }
        // SAFETY: Q1: the current buffer is alive.
        unsafe { &*self.buffer.load(Ordering::Relaxed) }.slot(bottom - 1).load(Ordering::Relaxed)
    }

    /// Returns the oldest task without taking it, or null if there is none. Owner only.
    #[inline]
    pub(super) fn oldest(&self) -> *const T {
        let top = self.top.load(Ordering::Relaxed);
        if top >= self.bottom.load(Ordering::Relaxed) {
            return ptr::null();
        }
        // SAFETY: Q1: the current buffer is alive.
        unsafe { &*self.buffer.load(Ordering::Relaxed) }.slot(top).load(Ordering::Relaxed)
    }

    /// Takes the newest task. Returns null if there is none, or if a thief was faster. Owner only.
    #[inline]
    pub(super) fn pop_newest(&self) -> *const T {
        let bottom = self.bottom.load(Ordering::Relaxed) - 1;
        if self.top.load(Ordering::Relaxed) >= bottom {
            // The only task is the oldest as well. The old end needs one exchange where this end
            // needs two.
            return self.pop_oldest();
        }
        let buffer = self.buffer.load(Ordering::Relaxed);
        // This store and the load after it must not be reordered, nor a thief's two loads.
        // Otherwise both could take the last task. All four accesses are SeqCst, which costs half
        // as much on x86-64 as the papers' relaxed accesses and fence.
        self.bottom.store(bottom, Ordering::SeqCst);
        fence_for_loom();
        let top = self.top.load(Ordering::SeqCst);
        if top > bottom {
            self.bottom.store(bottom + 1, Ordering::Relaxed);
            return ptr::null();
        }
        // SAFETY: Q1: the current buffer is alive.
        let mut task = unsafe { &*buffer }.slot(bottom).load(Ordering::Relaxed);
        if top == bottom {
            // The last task: thieves may want it too.
            if self.top.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_err()
            {
                task = ptr::null_mut();
            }
            self.bottom.store(bottom + 1, Ordering::Relaxed);
        }
        task
    }

    /// Takes the oldest task. Returns null if there is none. Owner only.
    #[inline]
    pub(super) fn pop_oldest(&self) -> *const T {
        loop {
            let top = self.top.load(Ordering::Relaxed);
            if top >= self.bottom.load(Ordering::Relaxed) {
                return ptr::null();
            }
            // SAFETY: Q1: the current buffer is alive.
            let task =
                unsafe { &*self.buffer.load(Ordering::Relaxed) }.slot(top).load(Ordering::Relaxed);
            if self.top.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                return task;
            }
        }
    }

    /// Takes the oldest task. Called on any thread.
    pub(super) fn steal(&self) -> Taken<T> {
        let top = self.top.load(Ordering::SeqCst);
        fence_for_loom();
        let bottom = self.bottom.load(Ordering::SeqCst);
        if top >= bottom {
            return Taken::Empty;
        }
        // SAFETY: Q1: an outgrown buffer stays while a thief may read it.
        let task =
            unsafe { &*self.buffer.load(Ordering::Acquire) }.slot(top).load(Ordering::Relaxed);
        match self.top.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Taken::Task(task),
            Err(_) => Taken::Lost,
        }
    }

    /// Returns the number of tasks, which may be out of date at once. Called on any thread.
    pub(super) fn len(&self) -> usize {
        let (oldest, next) = self.span();
        usize::try_from(next - oldest).unwrap_or(0)
    }

    /// Returns the indices of the oldest task and of the next one to be pushed, which may be out of
    /// date at once. Called on any thread.
    pub(super) fn span(&self) -> (isize, isize) {
        (self.top.load(Ordering::Relaxed), self.bottom.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Deque<T> {
    fn drop(&mut self) {
        let current = self.buffer.load(Ordering::Relaxed);
        for buffer in self.outgrown.borrow_mut().drain(..).chain([current]) {
            // SAFETY: Q1: each buffer came from a box, and no thread uses the deque any more.
            drop(unsafe { Box::from_raw(buffer) });
        }
    }
}

impl<T> std::fmt::Debug for Deque<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deque").field("span", &self.span()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Deque, Taken};
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    fn number(n: usize) -> *const u8 {
        ptr::without_provenance(n)
    }

    #[test]
    fn the_owner_works_at_both_ends_across_growth() {
        let deque: Deque<u8> = Deque::new();
        for n in 1..=1000 {
            deque.push(number(n));
        }
        assert_eq!(deque.newest(), number(1000));
        assert_eq!(deque.pop_newest(), number(1000));
        assert_eq!(deque.pop_oldest(), number(1));
        assert_eq!(deque.steal(), Taken::Task(number(2)));
        for n in 3..=999 {
            assert_eq!(deque.pop_oldest(), number(n));
        }
        assert!(deque.pop_oldest().is_null());
        assert!(deque.pop_newest().is_null());
        assert_eq!(deque.steal(), Taken::Empty);
        deque.shrink();
        assert!(deque.outgrown.borrow().is_empty());
        deque.push(number(7));
        deque.shrink();
        assert_eq!(deque.pop_oldest(), number(7));
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_an_owner_and_two_thieves() {
        const ITEMS: usize = 20_000;
        let deque: Deque<u8> = Deque::new();
        let seen: Vec<AtomicUsize> = (0..=ITEMS).map(|_| AtomicUsize::new(0)).collect();
        let done = AtomicBool::new(false);
        let note = |task: *const u8| {
            seen[task.addr()].fetch_add(1, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        if let Taken::Task(task) = deque.steal() {
                            note(task);
                        }
                    }
                });
            }
            for n in 1..=ITEMS {
                deque.push(number(n));
                let taken = match n % 3 {
                    0 => deque.pop_newest(),
                    1 => deque.pop_oldest(),
                    _ => ptr::null(),
                };
                if !taken.is_null() {
                    note(taken);
                }
            }
            loop {
                let taken = deque.pop_newest();
                if taken.is_null() {
                    break;
                }
                note(taken);
            }
            done.store(true, Ordering::Release);
        });
        assert!(seen[1..].iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

#[cfg(all(test, loom))]
mod loom_models;
