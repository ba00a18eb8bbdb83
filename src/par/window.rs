//! A bounded number of concurrent children: the caller waits for a place, and a child that ends
//! gives its place back.
#![expect(unsafe_code, reason = "wakes a waiter on another stack")]

use std::{iter, ptr};

use super::engine;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::park::{Mode, Single, Wait, What};

/// Places for children. One task takes places, and any number of children give them back.
#[derive(Debug)]
pub(super) struct Window {
    state: SpinLock<WindowState>,
    /// Whether a call has panicked. No further call begins then.
    stopped: AtomicBool,
}

#[derive(Debug)]
struct WindowState {
    free: usize,
    /// The caller's wait for a place, or null.
    waiter: AtomicPtr<Single<()>>,
}

impl Window {
    /// # Panics
    /// Panics if there are no places.
    #[track_caller]
    pub(super) fn new(places: usize) -> Window {
        engine::refuse_zero("a window of 0", places);
        Window {
            state: SpinLock::new(WindowState {
                free: places,
                waiter: AtomicPtr::new(ptr::null_mut()),
            }),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns a job for each item, which holds a place until it has ended. A place is taken before
    /// the item, so no item is taken before it can be run.
    ///
    /// After a panic of `f`, no item is taken, and a job that has not begun
    /// drops its item and returns `None`.
    pub(super) fn jobs<I: Iterator, R>(
        &self,
        mut items: I,
        f: &impl Fn(I::Item) -> R,
    ) -> impl Iterator<Item = impl FnOnce() -> Option<R>> {
        iter::from_fn(move || {
            self.enter();
            let place = Place(self);
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            let item = items.next()?;
            Some(move || {
                let _place = place;
                self.unless_stopped(|| f(item))
            })
        })
    }

    /// Calls `call`, whose panic stops the window, unless the window has been stopped before.
    fn unless_stopped<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        struct StopUnlessDone<'w> {
            window: &'w Window,
            done: bool,
        }
        impl Drop for StopUnlessDone<'_> {
            fn drop(&mut self) {
                if !self.done {
                    self.window.stopped.store(true, Ordering::Relaxed);
                }
            }
        }
        // Relaxed: a call that begins at the same time on another thread need not see the flag. One
        // that begins later on this thread does, and so does the caller, which gets the place of
        // the panicked call under the lock.
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut stop = StopUnlessDone { window: self, done: false };
        let value = call();
        stop.done = true;
        Some(value)
    }

    /// Takes a place, and waits for one if necessary. This is not a cancellation point.
    fn enter(&self) {
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
    fn leave(&self) {
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
struct Place<'w>(&'w Window);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
