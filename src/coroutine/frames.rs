//! Open frames, which keep a coroutine from being suspended.
//!
//! A coroutine can be forgotten while it is suspended (`std::mem::forget`). The destructors of its
//! frames then never run. Some constructs are sound only if they end before their frame does: a
//! scope, whose children borrow from it, a timeout, a shield. Such a construct therefore holds an
//! [`OpenFrame`] while its closure runs. [`Yielder::suspend`](super::Yielder::suspend) panics while
//! a frame is open that was opened inside its coroutine. Tasks are not affected: they are never
//! forgotten, and may park over open frames.
//!
//! # The count
//! Open frames are counted in one number for each logical thread: an OS thread, a task, a root or
//! the scheduler. When a coroutine is resumed, it notes the current count. If the count is larger
//! at a `suspend`, frames that were opened inside the coroutine are still open. The comparison is
//! valid only on the coroutine's own stack. A task that the coroutine has started counts from 0,
//! whatever is open around its scope. So `suspend` first checks that it is called on that stack
//! (C9).

use std::marker::PhantomData;

use crate::base::local;

/// A guard that keeps the coroutine in which it was made, if any, from being suspended.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    /// The count belongs to the thread that the guard was made on.
    not_send: PhantomData<*const ()>,
}

impl OpenFrame {
    /// Opens a frame until the guard is dropped. The guard must stay in the function that made it.
    /// Frames are closed in reverse order, on the stack on which they were opened.
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

/// Returns how many frames are open now.
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

    /// A coroutine cannot suspend over a frame that it has opened. It can after closing the frame.
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

    /// Frames of the resumer do not count, even if they are opened or closed between two
    /// resumptions.
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

    /// Frames that an inner coroutine opens and closes do not count for the outer one.
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
