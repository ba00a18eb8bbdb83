//! The ready tasks of a worker: started tasks that can go on, and unstarted tasks that may start
//! only here. The queue is first in, first out, and is linked through the tasks' headers.
#![expect(unsafe_code, reason = "links headers of tasks")]

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

use crate::base::sync::atomic::Ordering;
use crate::task::Header;

#[derive(Debug)]
pub(super) struct ReadyQueue {
    first: Cell<*const Header>,
    last: Cell<*const Header>,
}

impl ReadyQueue {
    /// For debuggers: the offset of the pointer to the first task.
    pub(super) const FIRST: usize = offset_of!(ReadyQueue, first);

    pub(super) const fn new() -> ReadyQueue {
        ReadyQueue { first: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// Returns whether this task was appended last, and is still in the queue.
    #[cfg(feature = "sim")]
    pub(super) fn ends_with(&self, task: *const Header) -> bool {
        self.last.get() == task
    }

    /// Appends a task.
    /// # Safety
    /// T1: the task is in no queue, belongs to this worker, and lives until it has been run.
    #[inline]
    pub(super) unsafe fn push(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        unsafe { &(*task).next }.store(ptr::null_mut(), Ordering::Relaxed);
        let last = self.last.replace(task);
        if last.is_null() {
            self.first.set(task);
        } else {
            // SAFETY: T1: a queued task lives.
            unsafe { &(*last).next }.store(task.cast_mut(), Ordering::Relaxed);
        }
    }

    /// Calls `each` for every task in the queue, oldest first. `each` must neither add nor take
    /// tasks.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Header)) {
        // SAFETY: T1: a queued task lives.
        let mut task = unsafe { self.first.get().as_ref() };
        while let Some(header) = task {
            each(header);
            // SAFETY: T1: a queued task lives.
            task = unsafe { header.next.load(Ordering::Relaxed).cast_const().as_ref() };
        }
    }

    /// Takes a certain task out of the queue. Returns whether it was there.
    #[cold]
    pub(super) fn take(&self, task: *const Header) -> bool {
        let (others, mut found) = (ReadyQueue::new(), false);
        loop {
            let next = self.pop();
            if next.is_null() {
                break;
            }
            if next == task {
                found = true;
            } else {
                // SAFETY: T1: it was in this queue just now.
                unsafe { others.push(next) };
            }
        }
        self.first.set(others.first.get());
        self.last.set(others.last.get());
        found
    }

    #[inline]
    pub(super) fn pop(&self) -> *const Header {
        let first = self.first.get();
        if !first.is_null() {
            // SAFETY: T1: a queued task lives.
            let next = unsafe { &(*first).next }.load(Ordering::Relaxed);
            self.first.set(next);
            if next.is_null() {
                self.last.set(ptr::null());
            }
        }
        first
    }
}
