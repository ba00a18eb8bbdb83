//! Coroutines that suspend in a destructor while they panic, or that are unwound because they were
//! dropped.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use ecru::coroutine::{
    Coroutine, CoroutineState, CoroutineStatus, Generator, Yielder, generate, leaked_stacks, scoped,
};
use ecru::sync::poison::{Mutex, RwLock};

use crate::support::{
    OnDrop, alone, each_run, ms, panic_text, payload_of, quiet_panic, run_on, start_again, until,
};

type Plain = Coroutine<(), u8, ()>;

/// Returns a coroutine that suspends with 1 while it panics, and drops `held` afterwards.
fn suspends_in_its_panic<T: 'static>(held: T) -> Plain {
    Coroutine::new(move |yielder: &Yielder<(), u8>, ()| {
        let _held = held;
        let _suspends = OnDrop(|| yielder.suspend(1));
        quiet_panic("the coroutine's");
    })
}

/// Returns such a coroutine after one resumption.
fn suspended_in_its_panic() -> Plain {
    let coroutine = suspends_in_its_panic(());
    assert_eq!(coroutine.resume(()), CoroutineState::Yielded(1));
    coroutine
}

/// - given: a coroutine that suspends in a destructor while it panics, once or twice, inside
///   another coroutine or by `suspend_with`
/// - when: its resumer, or another task, waits, and resumes it
/// - then: the waits succeed; the last resumer gets the panic; a later panic poisons locks again
///
/// Its resumer waits and sends, and poisons no lock, until it gets the panic.
#[test]
fn coroutine_35_suspended_in_its_panic() {
    each_run(|| {
        let coroutine = suspended_in_its_panic();
        assert_eq!(coroutine.state(), CoroutineStatus::Suspended);
        assert_eq!((ecru::sleep(ms(1)), ecru::yield_now()), (Ok(()), Ok(())));
        let sum = ecru::scope(|s| s.spawn_local(|| ecru::yield_now().map(|()| 7)).join());
        assert_eq!(sum.unwrap(), Ok(7));
        assert_eq!(panic_text(|| coroutine.resume(())), "the coroutine's");
        assert_eq!(coroutine.state(), CoroutineStatus::Complete);
        assert!(!std::thread::panicking());
        // The resumer's own panic is still detected.
        let mutex = Mutex::new(());
        payload_of(|| {
            let _guard = mutex.lock().unwrap();
            quiet_panic("the resumer's");
        });
        assert!(mutex.is_poisoned());
    });
}

/// The function of `suspend_with` waits, and the coroutine is resumed inside another one.
#[test]
fn coroutine_35_suspended_in_its_panic_with_a_function() {
    run_on(1, || {
        let waited = Rc::new(Cell::new(None));
        let noted = Rc::clone(&waited);
        let outer = Coroutine::new(move |outer: &Yielder<(), u8>, ()| {
            let inner = Coroutine::new(move |yielder: &Yielder<(), u8>, ()| {
                let _suspends =
                    OnDrop(|| yielder.suspend_with(1, || noted.set(Some(ecru::sleep(ms(1))))));
                quiet_panic("the inner one's");
            });
            assert_eq!(inner.resume(()), CoroutineState::Yielded(1));
            assert_eq!(ecru::yield_now(), Ok(()));
            // The outer one does not panic, and is dropped like any other.
            let ended = OnDrop(|| assert_eq!(panic_text(|| inner.resume(())), "the inner one's"));
            outer.suspend(2);
            drop(ended);
        });
        assert_eq!(outer.resume(()), CoroutineState::Yielded(2));
        assert_eq!(waited.get(), Some(Ok(())));
        assert_eq!(ecru::yield_now(), Ok(()));
        let leaked = leaked_stacks();
        drop(outer);
        assert_eq!(leaked_stacks(), leaked);
        assert!(!std::thread::panicking());
    });
}

/// It is resumed in another task of its thread, where it suspends a second time.
#[test]
fn coroutine_35_suspended_in_its_panic_twice() {
    run_on(1, || {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), u8>, ()| {
            let _second = OnDrop(|| yielder.suspend(2));
            let _first = OnDrop(|| yielder.suspend(1));
            quiet_panic("the coroutine's");
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(1));
        ecru::scope(|s| {
            let other = s.spawn_local(move || {
                assert_eq!(coroutine.resume(()), CoroutineState::Yielded(2));
                assert_eq!(ecru::sleep(ms(1)), Ok(()));
                coroutine
            });
            let coroutine = other.join().unwrap();
            assert_eq!(ecru::yield_now(), Ok(()));
            assert_eq!(panic_text(|| coroutine.resume(())), "the coroutine's");
        });
        assert!(!std::thread::panicking());
    });
}

/// - given: a destructor that runs during a panic
/// - when: it resumes a generator, waits, and keeps the generator
/// - then: the wait is refused, and a lock is poisoned; the generator can be resumed and unwound
///   like any other
///
/// A panic of the resumer itself is still detected, even if a coroutine that it resumes meanwhile
/// suspends.
#[test]
fn coroutine_36_resumed_by_a_panic() {
    each_run(|| {
        let (refused, mutex) = (Cell::new(None), Mutex::new(()));
        let left = RefCell::new(None);
        payload_of(|| {
            let _guard = mutex.lock().unwrap();
            let _resumes = OnDrop(|| {
                let mut numbers = Generator::new(|yielder| (0..3).for_each(|n| yielder.suspend(n)));
                assert_eq!(numbers.next(), Some(0));
                refused.set(Some(ecru::sleep(ms(1)).is_err()));
                left.replace(Some(numbers));
            });
            quiet_panic("the resumer's");
        });
        assert_eq!(refused.get(), Some(true), "a wait in a destructor that a panic has called");
        assert!(mutex.is_poisoned());
        // Afterwards the generator is usable like any other.
        assert_eq!(ecru::yield_now(), Ok(()));
        assert_eq!(left.borrow_mut().as_mut().and_then(Iterator::next), Some(1));
        let leaked = leaked_stacks();
        left.take();
        assert_eq!(leaked_stacks(), leaked, "it was unwound");
    });
}

/// - given: coroutines that are suspended in a destructor while they panic
/// - when: they are dropped, or forgotten
/// - then: their stacks are leaked with all values on them, and the dropped coroutines are counted;
///   other coroutines of the thread are unwound and resumed, and its tasks wait
///
/// It cannot be unwound twice at once, so its stack stays with everything on it. Everything else
/// continues.
#[test]
fn coroutine_37_dropped_in_its_panic() {
    alone("unwinding_coroutine::coroutine_37_dropped_in_its_panic", || {
        each_run(|| {
            let (leaked, dropped) = (leaked_stacks(), Rc::new(Cell::new(0)));
            let count = |n: u32| {
                let dropped = Rc::clone(&dropped);
                OnDrop(move || dropped.set(dropped.get() + n))
            };
            for n in 1..=3 {
                let coroutine = suspends_in_its_panic(count(100));
                assert_eq!(coroutine.resume(()), CoroutineState::Yielded(1));
                drop(coroutine);
                assert_eq!((leaked_stacks(), dropped.get()), (leaked + n, 0));
                assert_eq!(ecru::sleep(ms(1)), Ok(()));
            }
            // Beside them, a coroutine that does not panic is unwound as usual, and another one
            // continues as usual.
            let held = count(1);
            let mut half_read = Generator::new(move |yielder| {
                let _held = &held;
                (0..3).for_each(|n| yielder.suspend(n));
            });
            assert_eq!(half_read.next(), Some(0));
            drop(half_read);
            assert_eq!((leaked_stacks(), dropped.get()), (leaked + 3, 1));
            let coroutine = suspended_in_its_panic();
            assert_eq!(panic_text(|| coroutine.resume(())), "the coroutine's");
            assert_eq!(ecru::yield_now(), Ok(()));
        });
    });
}

/// A forgotten one does not affect its resumer's waits.
#[test]
fn coroutine_37_dropped_in_its_panic_or_forgotten() {
    alone("unwinding_coroutine::coroutine_37_dropped_in_its_panic_or_forgotten", || {
        each_run(|| {
            #[expect(clippy::mem_forget, reason = "this test is about it")]
            std::mem::forget(suspended_in_its_panic());
            assert_eq!((ecru::sleep(ms(1)), ecru::yield_now()), (Ok(()), Ok(())));
        });
    });
}

/// - given: a borrowing coroutine that is suspended in a destructor while it panics
/// - when: the closure of `scoped` or `generate` ends
/// - then: the process is aborted, and the message says why
///
/// A coroutine that borrows must end. If it cannot, the process is aborted.
#[test]
fn coroutine_38_scoped_left_in_its_panic() {
    let name = "unwinding_coroutine::coroutine_38_scoped_left_in_its_panic";
    if crate::support::is_child(name) {
        generate(
            |yielder: &Yielder<(), u8>| {
                let _suspends = OnDrop(|| yielder.suspend(1));
                quiet_panic("the generator's");
            },
            |mut items| assert_eq!(items.next(), Some(1)),
        );
        return;
    }
    let output = start_again(name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("suspended in a destructor"), "{text}");
    assert!(text.contains("aborting"), "{text}");
}

/// - given: a suspended coroutine with a destructor that panics
/// - when: it is dropped, or the closure of `scoped` or `generate` ends
/// - then: the process is aborted, as in any unwinding
#[test]
fn coroutine_39_a_destructor_panics_while_unwound() {
    let bomb = || OnDrop(|| quiet_panic("the destructor's"));
    let body = move |yielder: &Yielder<(), u8>, ()| {
        let _bomb = bomb();
        yielder.suspend(1);
    };
    let dropped = move || {
        let coroutine = Coroutine::new(body);
        coroutine.resume(());
    };
    let scoped = move || scoped(body, |coroutine| _ = coroutine.resume(()));
    let generated = move || {
        generate(move |yielder| body(yielder, ()), |mut items| assert_eq!(items.next(), Some(1)))
    };
    let ways: [(&str, &dyn Fn()); 3] =
        [("dropped", &dropped), ("scoped", &scoped), ("generated", &generated)];
    let name = "unwinding_coroutine::coroutine_39_a_destructor_panics_while_unwound";
    for (way, end) in ways {
        if crate::support::is_child(name) {
            if std::env::var("ECRU_TEST_WAY").as_deref() == Ok(way) {
                let _ = panic_text(end);
            }
            continue;
        }
        let output = start_again(name).env("ECRU_TEST_WAY", way).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{way}: {text}");
        assert!(text.contains("panic in a destructor during cleanup"), "{way}: {text}");
    }
}

/// - given: a suspended coroutine that holds guards of `sync::poison`
/// - when: it is dropped, by code that panics or does not; its unwinding parks
/// - then: only a panic of its owner poisons the locks
///
/// A dropped coroutine is unwound, but does not panic, so it poisons no lock.
#[test]
fn sync_53_unwinding_of_a_dropped_coroutine() {
    each_run(|| {
        let locks = Arc::new((Mutex::new(1), RwLock::new(1)));
        let held = |locks: &Arc<(Mutex<i32>, RwLock<i32>)>| {
            let locks = Arc::clone(locks);
            let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                let _guards = (locks.0.lock().unwrap(), locks.1.write().unwrap());
                yielder.suspend(());
            });
            coroutine.resume(());
            coroutine
        };
        drop(held(&locks));
        assert!(!locks.0.is_poisoned() && !locks.1.is_poisoned());
        assert_eq!((*locks.0.lock().unwrap(), *locks.1.read().unwrap()), (1, 1));
        // A panic of its owner does poison.
        payload_of(|| {
            let _coroutine = held(&locks);
            quiet_panic("the owner's");
        });
        assert!(locks.0.is_poisoned() && locks.1.is_poisoned());
    });
}

/// The task that drops it parks in the middle. A sibling's guard poisons nothing at that time, and
/// does so afterwards.
#[test]
fn sync_53_unwinding_of_a_dropped_coroutine_parks() {
    run_on(1, || {
        let (held, own) = (Arc::new(Mutex::new(1)), Mutex::new(1));
        let (parked, release) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        ecru::scope(|s| {
            let child = s.spawn_local(|| {
                let (locked, parks, goes_on) =
                    (Arc::clone(&held), Arc::clone(&parked), Arc::clone(&release));
                let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                    let _guard = locked.lock().unwrap();
                    let _parks = OnDrop(|| {
                        ecru::shield(|| {
                            parks.store(true, SeqCst);
                            until(|| goes_on.load(SeqCst));
                        });
                    });
                    yielder.suspend(());
                });
                coroutine.resume(());
                drop(coroutine);
            });
            until(|| parked.load(SeqCst));
            *own.lock().unwrap() += 1;
            release.store(true, SeqCst);
            child.join().unwrap();
        });
        assert!(!own.is_poisoned() && !held.is_poisoned());
        payload_of(|| {
            let _guard = own.lock().unwrap();
            quiet_panic("afterwards");
        });
        assert!(own.is_poisoned());
    });
}
