//! Coroutines that are kept in thread-locals until their thread ends.

use std::cell::RefCell;
use std::sync::Mutex;
use std::thread;

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder, leaked_stacks};

use crate::support::{OnDrop, alone, panic_text};

type Plain = Coroutine<(), (), ()>;

/// What the coroutine of `suspended_in_name` has seen.
static SEEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// A thread-local with a destructor, which the coroutines refer to.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        SEEN.lock().unwrap().push("name destroyed");
    }
}

thread_local! {
    static NAME: Name = Name("a name on the heap".to_owned());
}

/// Returns a coroutine that is suspended with a reference to `NAME`, which it uses afterwards.
fn suspended_in_name() -> Plain {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        NAME.with(|name| {
            let _uses = OnDrop(|| SEEN.lock().unwrap().push("destructor ran"));
            yielder.suspend(());
            SEEN.lock().unwrap().push("went on");
            assert_eq!(name.0, "a name on the heap");
        });
    });
    assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
    coroutine
}

/// - given: a coroutine in a thread-local that was used before the thread's first coroutine,
///   suspended inside `LocalKey::with` of another thread-local
/// - when: the thread ends, and drops or resumes the coroutine
/// - then: none of its code runs, because the other thread-local is destroyed already: its stack is
///   leaked and counted, and `resume` panics
#[test]
#[cfg(not(ecru_baton))] // coroutines have threads, and thread-locals, of their own
fn coroutine_40_kept_in_a_thread_local() {
    alone("ending_thread::coroutine_40_kept_in_a_thread_local", || {
        thread_local! {
            static KEPT: RefCell<Option<Plain>> = const { RefCell::new(None) };
        }
        let keep = || {
            KEPT.with(|kept| assert!(kept.borrow().is_none()));
            let coroutine = suspended_in_name();
            KEPT.with(|kept| *kept.borrow_mut() = Some(coroutine));
        };
        thread::spawn(keep).join().unwrap();
        assert_eq!(*SEEN.lock().unwrap(), ["name destroyed"]);
        assert_eq!(leaked_stacks(), 1);
    });
}

#[test]
#[cfg(not(ecru_baton))] // as above
fn coroutine_40_kept_in_a_thread_local_and_resumed() {
    /// Resumes at the thread's end.
    struct Resumes(RefCell<Option<Plain>>);
    impl Drop for Resumes {
        fn drop(&mut self) {
            let coroutine = self.0.take().unwrap();
            let text = panic_text(|| coroutine.resume(()));
            assert!(text.contains("while its thread ends"), "{text}");
            SEEN.lock().unwrap().push("refused");
        }
    }
    alone("ending_thread::coroutine_40_kept_in_a_thread_local_and_resumed", || {
        thread_local! {
            static KEPT: Resumes = const { Resumes(RefCell::new(None)) };
        }
        let keep = || {
            KEPT.with(|kept| assert!(kept.0.borrow().is_none()));
            let coroutine = suspended_in_name();
            KEPT.with(|kept| *kept.0.borrow_mut() = Some(coroutine));
        };
        thread::spawn(keep).join().unwrap();
        assert_eq!(*SEEN.lock().unwrap(), ["name destroyed", "refused"]);
        assert_eq!(leaked_stacks(), 1);
    });
}

/// - given: a coroutine in a thread-local that was used before the thread's first coroutine, which
///   has not been resumed
/// - when: the thread ends, and the destructor of the thread-local resumes the coroutine
/// - then: it runs, but `suspend` panics
#[test]
#[cfg(not(ecru_baton))] // as above
fn coroutine_42_started_while_the_thread_ends() {
    /// Resumes at the thread's end.
    struct Starts(RefCell<Vec<Plain>>);
    impl Drop for Starts {
        fn drop(&mut self) {
            let [returns, suspends] = self.0.take().try_into().unwrap();
            assert_eq!(Plain::resume(&returns, ()), CoroutineState::Complete(()));
            let text = panic_text(|| Plain::resume(&suspends, ()));
            assert!(text.contains("thread ends"), "{text}");
            SEEN.lock().unwrap().push("refused");
        }
    }
    alone("ending_thread::coroutine_42_started_while_the_thread_ends", || {
        thread_local! {
            static KEPT: Starts = const { Starts(RefCell::new(Vec::new())) };
        }
        let keep = || {
            KEPT.with(|kept| assert!(kept.0.borrow().is_empty()));
            let returns = Plain::new(|_, ()| SEEN.lock().unwrap().push("ran"));
            let suspends = Plain::new(|yielder, ()| yielder.suspend(()));
            KEPT.with(|kept| kept.0.borrow_mut().extend([returns, suspends]));
        };
        thread::spawn(keep).join().unwrap();
        assert_eq!(*SEEN.lock().unwrap(), ["ran", "refused"]);
        assert_eq!(leaked_stacks(), 0);
    });
}

/// - given: a thread that has used coroutines and ends
/// - when: the destructor of a thread-local makes coroutines, resumes them and drops one half-way
/// - then: they run as usual, and the dropped one is unwound
#[test]
fn coroutine_41_made_while_the_thread_ends() {
    struct Makes;
    impl Drop for Makes {
        fn drop(&mut self) {
            assert_eq!(Generator::new(|y| (0..3).for_each(|n| y.suspend(n))).sum::<u32>(), 3);
            let mut half_read = Generator::new(|yielder| {
                let _uses = OnDrop(|| SEEN.lock().unwrap().push("unwound"));
                (0..3).for_each(|n| yielder.suspend(n));
            });
            assert_eq!((half_read.next(), half_read.next()), (Some(0), Some(1)));
            drop(half_read);
            SEEN.lock().unwrap().push("made");
        }
    }
    thread_local! {
        static MAKES: Makes = const { Makes };
    }
    alone("ending_thread::coroutine_41_made_while_the_thread_ends", || {
        let body = || {
            MAKES.with(|_| ());
            assert_eq!(Generator::new(|y| (0..3).for_each(|n| y.suspend(n))).sum::<u32>(), 3);
        };
        thread::spawn(body).join().unwrap();
        assert_eq!(*SEEN.lock().unwrap(), ["unwound", "made"]);
        assert_eq!(leaked_stacks(), 0);
    });
}
