//! A bounded number of concurrent children: the caller waits for a place, and a child that ends
//! gives its place back.
#![expect(unsafe_code, reason = "wakes a waiter on another stack")]

use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicPtr, Ordering};
use crate::park::{Mode, Single, Wait, What};
use std::ptr;

/// Places for children. One task takes places, and any number of children give them back.
#[derive(Debug)]
pub(super) struct Window {
    state: SpinLock<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// The caller's wait for a place, or null.
    waiter: AtomicPtr<Single<()>>,
}

impl Window {
    pub(super) fn new(places: usize) -> Window {
        Window {
            state: SpinLock::new(State { free: places, waiter: AtomicPtr::new(ptr::null_mut()) }),
        }
    }

    /// Takes a place, and waits for one if necessary. This is not a cancellation point.
    pub(super) fn enter(&self) {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return;
        }
        Wait::new(const { &What::new("a place in the window") }, Mode::Uninterruptible).single(
            (),
            |wait| {
                state.waiter.store(ptr::from_ref(wait).cast_mut(), Ordering::Relaxed);
                drop(state);
            },
        );
    }

    /// Gives a place back, or hands it to the waiting caller.
    pub(super) fn leave(&self) {
        let waiter = {
            let mut state = self.state.lock();
            let waiter = state.waiter.swap(ptr::null_mut(), Ordering::Relaxed).cast_const();
            if waiter.is_null() {
                state.free += 1;
            }
            waiter
        };
        if !waiter.is_null() {
            // SAFETY: S4: this thread took the wait out under the lock, so no other thread has it.
            unsafe { Single::wake(waiter) };
        }
    }
}

/// Gives a place back when dropped, also while unwinding.
#[derive(Debug)]
pub(super) struct Place<'w>(pub(super) &'w Window);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
