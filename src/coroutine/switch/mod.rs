//! The switch between stacks: a computation on a stack of its own, which is resumed and suspended.
//!
//! Coroutines and tasks are made of [`Fiber`]s. There are two backends with the same interface:
//! - [`native`] switches stacks, by `corosensei`. A switch takes about a nanosecond.
//! - `baton` gives each fiber an OS thread, of which exactly one runs at a time. Miri, loom and
//!   the thread sanitizer cannot follow a stack switch, but they can follow threads. This backend
//!   is selected by `--cfg ecru_baton`. Rust's thread-locals differ there, because each fiber sees
//!   its own. The library's own thread-locals ([`crate::base::local`]) are lent to the fibers and
//!   stay the same.
//!
//! The interface:
//!
//! | call | meaning |
//! |---|---|
//! | `unsafe Fiber::new(stack, f)` | creates a fiber; nothing runs yet |
//! | `resume(value)` | runs `f` until it suspends or ends; propagates a panic of `f` |
//! | `suspender.suspend(value)` | switches back to the most recent resumer |
//! | `suspender.is_here(top, size)` | whether the caller runs on the fiber's own stack |
//! | `suspender.is_unwinding(top, size)` | whether a panic is unwinding that stack |
//! | `is_started()`, `is_complete()` | the fiber's state |
//! | `unwind()` | ends a suspended fiber by unwinding it |
//! | `into_stack()`, `take_stack()` | the stack of a complete fiber |
//!
//! `top` and `size` are the bounds of the fiber's own stack. `is_unwinding` is called on that
//! stack, while the thread panics.
//!
//! A fiber may be suspended from the stack of another fiber that it has resumed, as when a task
//! parks inside a generator. Both are then suspended. Resuming the outer fiber continues inside the
//! inner one.
//!
//! # Invariants
//! S1 (a started stack is never freed before it has returned) is established here. Dropping a
//! started fiber unwinds it. Where that is impossible (`panic = "abort"`), its stack is leaked.

#![expect(unsafe_code, reason = "switches stacks")]

#[cfg(any(ecru_baton, miri, loom))]
mod baton;
#[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
pub(super) mod cleanup;
#[cfg(not(any(ecru_baton, miri, loom)))]
mod native;

#[cfg(any(ecru_baton, miri, loom))]
pub(crate) use self::baton::{Fiber, Suspender};
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) use self::native::{Fiber, Suspender};

/// The result of [`Fiber::resume`].
#[derive(Debug)]
pub(crate) enum FiberState<Yield, Out> {
    /// The fiber suspended with this value.
    Suspended(Yield),
    /// The fiber returned this value.
    Complete(Out),
}

/// The offsets in a fiber that debuggers need. There are none in the backend of threads.
#[cfg(any(ecru_baton, miri, loom))]
impl<In, Yield, Out> Fiber<In, Yield, Out> {
    pub(crate) const TOP: Option<usize> = None;

    pub(crate) fn stack_pointers() -> Option<(usize, usize)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coroutine::stack::Stack;
    use std::cell::{Cell, RefCell};

    fn stack() -> Stack {
        Stack::new(64 * 1024).unwrap()
    }

    /// A fiber takes values in, passes values out, and ends with its result.
    #[test]
    fn values_go_both_ways() {
        // SAFETY: the closure borrows nothing.
        let mut fiber = unsafe {
            Fiber::new(stack(), |out: &Suspender<u32, u32>, first| {
                let second = out.suspend(first + 1);
                let third = out.suspend(second * 10);
                (first, second, third)
            })
        };
        assert!(!fiber.is_started());
        assert!(matches!(fiber.resume(1), FiberState::Suspended(2)));
        assert!(fiber.is_started());
        assert!(matches!(fiber.resume(2), FiberState::Suspended(20)));
        assert!(!fiber.is_complete());
        assert!(matches!(fiber.resume(3), FiberState::Complete((1, 2, 3))));
        assert!(fiber.is_complete());
        assert_eq!(fiber.into_stack().size(), 64 * 1024);
    }

    /// The outer fiber suspends from the inner one's stack several times, while other fibers run.
    /// The inner fiber goes on afterwards.
    #[test]
    fn an_outer_fiber_suspends_from_the_stack_of_an_inner_one() {
        let log = RefCell::new(Vec::new());
        let outer = |name: u32| {
            let log = &log;
            move |park: &Suspender<(), ()>, ()| {
                // SAFETY: the inner fiber borrows from this frame, and is dropped before the frame
                // ends.
                let mut inner = unsafe {
                    Fiber::new(stack(), |give: &Suspender<(), u32>, ()| {
                        for step in 0..3 {
                            log.borrow_mut().push((name, step));
                            park.suspend(());
                            give.suspend(step);
                        }
                    })
                };
                let mut sum = 0;
                while let FiberState::Suspended(step) = inner.resume(()) {
                    sum += step;
                    park.suspend(());
                }
                sum
            }
        };
        // SAFETY: `log` outlives both fibers.
        let mut fibers =
            [unsafe { Fiber::new(stack(), outer(1)) }, unsafe { Fiber::new(stack(), outer(2)) }];
        let mut sums = Vec::new();
        while sums.len() < 2 {
            for fiber in &mut fibers {
                if let FiberState::Complete(sum) = fiber.resume(()) {
                    sums.push(sum);
                }
            }
        }
        assert_eq!(sums, [3, 3]);
        assert_eq!(log.into_inner(), [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
    }

    /// A panic reaches the resumer with its payload, and leaves the stack usable.
    #[test]
    fn a_panic_reaches_the_resumer() {
        // SAFETY: the closure borrows nothing.
        let mut fiber = unsafe {
            Fiber::new(stack(), |_: &Suspender<(), ()>, ()| {
                std::panic::resume_unwind(Box::new(7_u8))
            })
        };
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: FiberState<(), ()> = fiber.resume(());
        }));
        assert_eq!(payload.unwrap_err().downcast_ref(), Some(&7_u8));
        assert!(fiber.is_complete());
        drop(fiber.into_stack());
    }

    /// Dropping a suspended fiber runs the destructors of its frames. Dropping an unstarted fiber
    /// drops its closure.
    #[test]
    fn dropping_unwinds() {
        struct Count<'c>(&'c Cell<u32>);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let count = &Cell::new(0);
        let body = || {
            let guard = Count(count);
            move |out: &Suspender<(), ()>, ()| {
                let _guard = guard;
                let _another = Count(count);
                out.suspend(());
            }
        };
        // SAFETY: `count` outlives the fiber.
        drop(unsafe { Fiber::new(stack(), body()) });
        assert_eq!(count.get(), 1);
        // SAFETY: `count` outlives the fiber.
        let mut fiber = unsafe { Fiber::new(stack(), body()) };
        assert!(matches!(fiber.resume(()), FiberState::Suspended(())));
        assert_eq!(count.get(), 1);
        drop(fiber);
        assert_eq!(count.get(), 3);
    }
}
