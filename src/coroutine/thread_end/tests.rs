use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread;

use super::strand_all;
use crate::coroutine::{Coroutine, CoroutineState, CoroutineStatus, Yielder, scoped};

type Plain = Coroutine<(), (), ()>;

fn message<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("it should panic");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a message").to_string(),
    }
}

fn suspended_twice() -> Plain {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        yielder.suspend(());
        yielder.suspend(());
    });
    assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
    coroutine
}

/// Runs `f` on a thread with a ring of its own.
fn alone(f: impl FnOnce() + Send + 'static) {
    thread::spawn(f).join().unwrap();
}

fn is_stranded(coroutine: &Plain) -> bool {
    message(|| coroutine.resume(())).contains("while its thread ends")
}

/// The end reaches the coroutines that are still there, whichever others were dropped,
/// forgotten or taken apart before, and none that is made later.
#[test]
fn the_end_reaches_every_suspended_coroutine() {
    alone(|| {
        let mut all: Vec<_> = (0..5).map(|_| suspended_twice()).collect();
        drop(all.remove(4));
        drop(all.remove(0));
        let _ = ManuallyDrop::new(all.remove(1));
        let done = Plain::new(|_, ()| ());
        done.resume(());
        drop(done.into_stack());
        strand_all();
        for coroutine in &all {
            assert_eq!(coroutine.state(), CoroutineStatus::Suspended);
            assert!(is_stranded(coroutine));
        }
        assert_eq!(all.len(), 2);
        let late = suspended_twice();
        drop(all);
        assert_eq!(late.resume(()), CoroutineState::Yielded(()));
    });
}

/// A coroutine that another one has made is in the thread's ring, too.
#[test]
fn the_end_reaches_nested_coroutines() {
    alone(|| {
        let inner = Rc::new(Cell::new(None));
        let outer = Plain::new({
            let inner = Rc::clone(&inner);
            move |_, ()| inner.set(Some(suspended_twice()))
        });
        assert_eq!(outer.resume(()), CoroutineState::Complete(()));
        drop(outer);
        strand_all();
        assert!(is_stranded(&inner.take().unwrap()));
    });
}

/// A coroutine that runs when its thread ends can return, but not suspend.
#[test]
fn a_running_coroutine_cannot_suspend_after_the_end() {
    alone(|| {
        let coroutine = Plain::new(|yielder, ()| {
            yielder.suspend(());
            strand_all();
            assert!(message(|| yielder.suspend(())).contains("thread ends"));
            assert!(message(|| yielder.suspend_with((), || ())).contains("thread ends"));
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(()));
    });
}

/// A coroutine that starts after its thread's end can return, but not suspend.
#[test]
fn a_coroutine_that_starts_after_the_end_cannot_suspend() {
    alone(|| {
        let returns = Plain::new(|_, ()| ());
        let suspends = Plain::new(|yielder, ()| yielder.suspend(()));
        strand_all();
        assert_eq!(returns.resume(()), CoroutineState::Complete(()));
        assert!(message(|| suspends.resume(())).contains("thread ends"));
        assert_eq!(suspends.state(), CoroutineStatus::Complete);
    });
}

/// The end may come while the function of `suspend_with` runs.
#[test]
fn a_coroutine_that_is_about_to_suspend_is_stranded() {
    alone(|| {
        let coroutine = Plain::new(|yielder, ()| yielder.suspend_with((), strand_all));
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
        assert!(is_stranded(&coroutine));
    });
}

/// A coroutine that borrows ends as usual.
#[test]
fn a_scoped_coroutine_is_not_affected() {
    alone(|| {
        let dropped = Cell::new(0);
        scoped(
            |yielder: &Yielder<(), ()>, ()| {
                struct Counted<'c>(&'c Cell<u32>);
                impl Drop for Counted<'_> {
                    fn drop(&mut self) {
                        self.0.set(self.0.get() + 1);
                    }
                }
                let _counted = Counted(&dropped);
                yielder.suspend(());
                yielder.suspend(());
            },
            |coroutine| {
                coroutine.resume(());
                strand_all();
                assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
            },
        );
        assert_eq!(dropped.get(), 1);
    });
}
