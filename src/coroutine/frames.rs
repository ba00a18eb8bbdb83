//! What is open in a coroutine and so keeps it from being suspended.
//!
//! A bare coroutine can be forgotten while it is suspended (`std::mem::forget`), and then the destructors of its frames never
//! run. Whatever must end before its frame does (a scope whose children borrow from it, a timeout, a shield) therefore holds
//! an [`OpenFrame`] for as long as a closure runs, and [`Yielder::suspend`](super::Yielder::suspend) panics while one that was opened
//! inside of its coroutine exists. Tasks are not concerned: they are never forgotten, and may park over open frames.
//!
//! The count is one number per logical thread: a thread, a task, a root or the scheduler. A coroutine notes how high it stood when it was
//! resumed; what was added since was opened inside of it. The comparison means something only on the coroutine's own stack: a task
//! that the coroutine has started counts from 0, whatever is open around its scope. So `suspend` asks first whether it is called
//! there (C9).

use std::marker::PhantomData;

use crate::base::local;

/// Holds the coroutine that it was made in, if any, from being suspended.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    /// It counts for the thread that it was made on.
    not_send: PhantomData<*const ()>,
}

impl OpenFrame {
    /// Opens a frame, until the value is dropped. The value must stay in the function that has made it: frames are closed in the
    /// reverse order, on the stack on which they were opened.
    #[inline]
    pub(crate) fn enter() -> OpenFrame {
        local::with(|local| local.open_frames.set(local.open_frames.get() + 1));
        OpenFrame { not_send: PhantomData }
    }
}

impl Drop for OpenFrame {
    #[inline]
    fn drop(&mut self) {
        local::with(|local| local.open_frames.set(local.open_frames.get() - 1));
    }
}

/// How many frames are open now.
#[inline]
pub(super) fn open() -> u32 {
    local::with(|local| local.open_frames.get())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::coroutine::{Coroutine, CoroutineState, Generator, Yielder};

    fn refused<R>(f: impl FnOnce() -> R) -> bool {
        let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return false };
        payload.downcast_ref::<&str>().is_some_and(|text| text.contains("close it first"))
    }

    /// A coroutine cannot suspend over a frame that it opened, and can once that is closed.
    #[test]
    fn an_open_frame_keeps_its_coroutine_from_suspending() {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), u8>, ()| {
            let frame = OpenFrame::enter();
            assert!(refused(|| yielder.suspend(1)));
            assert!(refused(|| yielder.suspend_with(1, || ())));
            drop(frame);
            yielder.suspend(2);
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(2));
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(()));
        assert_eq!(open(), 0);
    }

    /// What the resumer holds open does not concern it, nor does what opens or closes between two resumptions.
    #[test]
    fn frames_of_the_resumer_do_not_count() {
        let mut numbers = Generator::new(|yielder| (0..3).for_each(|n| yielder.suspend(n)));
        let outer = OpenFrame::enter();
        assert_eq!(numbers.next(), Some(0));
        let inner = OpenFrame::enter();
        assert_eq!(numbers.next(), Some(1));
        drop((inner, outer));
        assert_eq!(numbers.next(), Some(2));
        assert_eq!(numbers.next(), None);
    }

    /// What an inner coroutine opens and closes does not concern the outer one.
    #[test]
    fn frames_of_an_inner_coroutine_do_not_count_for_the_outer() {
        let outer = Coroutine::new(|out: &Yielder<(), ()>, ()| {
            let frame = OpenFrame::enter();
            let mut inner = Generator::new(|give| {
                give.suspend(1);
                let frame = OpenFrame::enter();
                drop(frame);
                give.suspend(2);
            });
            assert_eq!((inner.next(), inner.next()), (Some(1), Some(2)));
            assert!(refused(|| out.suspend(())));
            drop(frame);
            out.suspend(());
            assert_eq!(inner.next(), None);
            out.suspend(());
        });
        for _ in 0..2 {
            assert_eq!(outer.resume(()), CoroutineState::Yielded(()));
        }
        assert_eq!(outer.resume(()), CoroutineState::Complete(()));
        assert_eq!(open(), 0);
    }
}
