//! The switch: one computation on a stack of its own, resumed and suspended.
//!
//! A [`Fiber`] is what coroutines and tasks are made of. There are two backends with the same interface:
//! - [`native`] switches stacks, by `corosensei`: about a nanosecond;
//! - `baton` gives each fiber an OS thread, of which exactly one runs at a time. Miri, loom and the thread sanitizer cannot
//!   follow a stack switch, but they can follow that. `--cfg ecru_baton` selects it. Rust's thread-locals differ there (each
//!   fiber sees its own), the library's own ([`crate::base::local`]) are lent and so stay the same.
//!
//! The interface:
//!
//! | call | meaning |
//! |---|---|
//! | `unsafe Fiber::new(stack, f)` | nothing runs yet |
//! | `resume(value)` | runs `f` until it suspends or ends; a panic of `f` goes on in the caller |
//! | `suspender.suspend(value)` | goes back to whoever resumed last |
//! | `suspender.is_here(top, size)` | whether the caller runs on the stack of the suspender's own fiber, which has these bounds |
//! | `suspender.is_unwinding(top, size)` | whether a destructor runs on that stack because of a panic; the caller runs on it, and the thread panics |
//! | `is_started()`, `is_complete()` | where it stands |
//! | `unwind()` | ends a suspended one by unwinding it from where it is suspended |
//! | `into_stack()`, `take_stack()` | the stack of a complete one |
//!
//! A fiber may be suspended from the stack of another one that it is resuming: a task that parks inside of a generator.
//! Both are then at rest, and resuming the outer one goes on inside of the inner one.
//!
//! # Invariants
//! S1 (a started stack is never freed before it has returned) starts here: dropping a started fiber unwinds it, and where that
//! is impossible (`panic = "abort"`) leaks its stack.

#![expect(unsafe_code, reason = "switches stacks")]

#[cfg(any(ecru_baton, miri, loom))]
mod baton;
#[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
mod cleanup;
#[cfg(not(any(ecru_baton, miri, loom)))]
mod native;

#[cfg(any(ecru_baton, miri, loom))]
pub(crate) use self::baton::{Fiber, Suspender};
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) use self::native::{Fiber, Suspender};

/// What [`Fiber::resume`] came back with.
#[derive(Debug)]
pub(crate) enum FiberState<Yield, Out> {
    /// It suspended with this value.
    Suspended(Yield),
    /// It returned this value.
    Complete(Out),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coroutine::stack::Stack;
    use std::cell::{Cell, RefCell};

    fn stack() -> Stack {
        Stack::new(64 * 1024).unwrap()
    }

    /// A fiber takes values in and gives values out, and ends with its result.
    #[test]
    fn values_go_both_ways() {
        // SAFETY: borrows nothing.
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

    /// The outer fiber parks from the inner one's stack, several times, while others run; the inner one goes on afterwards.
    #[test]
    fn an_outer_fiber_suspends_from_the_stack_of_an_inner_one() {
        let log = RefCell::new(Vec::new());
        let outer = |name: u32| {
            let log = &log;
            move |park: &Suspender<(), ()>, ()| {
                // SAFETY: it borrows what this frame owns, and is dropped before.
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
        // SAFETY: `log` outlives both.
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

    /// A panic goes on in the resumer with its payload, and leaves the stack usable.
    #[test]
    fn a_panic_reaches_the_resumer() {
        // SAFETY: borrows nothing.
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

    /// Dropping a suspended fiber runs the destructors of its frames; one that never ran drops its closure.
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
        // SAFETY: `count` outlives it.
        drop(unsafe { Fiber::new(stack(), body()) });
        assert_eq!(count.get(), 1);
        // SAFETY: as above.
        let mut fiber = unsafe { Fiber::new(stack(), body()) };
        assert!(matches!(fiber.resume(()), FiberState::Suspended(())));
        assert_eq!(count.get(), 1);
        drop(fiber);
        assert_eq!(count.get(), 3);
    }
}
