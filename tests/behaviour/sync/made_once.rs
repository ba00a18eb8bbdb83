//! Values that are computed or set once: `OnceLock`, `LazyLock`, `SetOnce`.

use super::{cancelled, everywhere};
use crate::support::{
    Counted, begin, each_run, forever, ms, panic_text, quiet_panic, run_on, settle, until,
};
use ecru::sync::{Latch, LazyLock, OnceLock, SetOnce};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// - given: a `OnceLock`, tasks on one and on two workers, and threads
/// - when: all want its value, whose initializer waits
/// - then: it is initialized once, and all get that value
#[test]
fn sync_39_made_once() {
    let made = AtomicUsize::new(0);
    for _ in 0..10 {
        let once = OnceLock::new();
        let made_here = AtomicUsize::new(0);
        let take = || {
            let value = once.get_or_init(|| {
                for _ in 0..3 {
                    ecru::yield_now().unwrap();
                }
                made.fetch_add(1, SeqCst);
                made_here.fetch_add(1, SeqCst)
            });
            assert_eq!(*value, 0);
        };
        thread::scope(|t| {
            t.spawn(take);
            t.spawn(|| assert_eq!(once.wait(), &0));
            run_on(2, || {
                ecru::scope(|s| {
                    for _ in 0..4 {
                        s.spawn(take);
                    }
                });
            });
        });
    }
    assert_eq!(made.load(SeqCst), 10);
    let once = OnceLock::new();
    run_on(1, || {
        ecru::scope(|s| {
            let tasks = [1, 2, 3].map(|number| {
                let once = &once;
                s.spawn(move || {
                    *once.get_or_init(|| {
                        settle();
                        number
                    })
                })
            });
            assert!(tasks.iter().all(|task| task.join().unwrap() == 1));
        });
    });
}

/// - given: a task that initializes the value while others wait
/// - when: it fails, panics, or is cancelled
/// - then: the next one initializes it
#[test]
fn sync_40_maker_fails() {
    run_on(1, || {
        let (once, gate) = (OnceLock::new(), Latch::new(1));
        ecru::scope(|s| {
            let (once, gate) = (&once, &gate);
            // Each one initializes the value, or is in the queue behind those before it.
            let failing = begin(s, move || {
                once.get_or_try_init(|| {
                    gate.wait().unwrap();
                    "no number".parse::<u32>()
                })
                .is_err()
            });
            let panicking = begin(s, move || {
                once.get_or_init(|| {
                    ecru::yield_now().unwrap();
                    quiet_panic("no number either")
                });
            });
            let cancelled = begin(s, move || once.get_or_try_init(|| Err(forever())).copied());
            let making = begin(s, move || {
                *once.get_or_init(|| {
                    ecru::yield_now().unwrap();
                    7
                })
            });
            gate.count_down();
            assert!(failing.join().unwrap());
            assert!(panicking.join().is_err());
            settle();
            assert!(!making.is_finished());
            cancelled.cancel();
            assert!(cancelled.join().unwrap().is_err());
            assert_eq!(once.wait(), &7);
            assert_eq!(making.join().unwrap(), 7);
        });
    });
    run_on(2, || {
        for _ in 0..50 {
            let (once, tries) = (OnceLock::new(), AtomicUsize::new(0));
            ecru::scope(|s| {
                for _ in 0..8 {
                    s.spawn(|| {
                        let _ = once.get_or_try_init(|| {
                            ecru::yield_now().map_err(drop)?;
                            let nth = tries.fetch_add(1, SeqCst);
                            if nth < 4 { Err(()) } else { Ok(nth) }
                        });
                    });
                }
                assert_eq!(once.wait(), &4);
            });
            assert_eq!(tries.into_inner(), 5);
        }
    });
}

/// - given: the initializer of a value
/// - when: it asks for that value
/// - then: it panics and says so, and the next task can initialize the value
#[test]
fn sync_41_maker_needs_itself() {
    let body = || {
        let once = OnceLock::new();
        let text = panic_text(|| once.get_or_init(|| *once.get_or_init(|| 1)));
        assert!(text.contains("wait for itself"), "{text}");
        let text = panic_text(|| once.get_or_init(|| *once.wait()));
        assert!(text.contains("wait for itself"), "{text}");
        assert_eq!(once.get_or_init(|| 2), &2);
    };
    body();
    each_run(body);
}

/// - given: a `OnceLock`
/// - when: `set` during the initialization, or again; `wait`; a cancelled `wait_cancellable`
/// - then: the value is returned to the caller; the value; `Cancelled`
#[test]
fn sync_42_set_and_wait() {
    run_on(1, || {
        let (once, begun) = (&OnceLock::new(), &AtomicUsize::new(0));
        ecru::scope(|s| {
            let waiting = s.spawn(|| (*once.wait(), ecru::checkpoint().is_err()));
            let leaving = s.spawn(|| once.wait_cancellable().copied());
            settle();
            waiting.cancel();
            leaving.cancel();
            assert!(leaving.join().unwrap().is_err());
            assert!(!waiting.is_finished());
            let making = s.spawn(move || {
                *once.get_or_init(|| {
                    begun.store(1, SeqCst);
                    settle();
                    7
                })
            });
            until(|| begun.load(SeqCst) == 1);
            let setting = s.spawn(|| once.set(8));
            assert_eq!(setting.join().unwrap(), Err(8));
            assert_eq!((making.join().unwrap(), waiting.join().unwrap()), (7, (7, true)));
            assert_eq!(once.wait_cancellable(), Ok(&7));
            assert!(cancelled(|| once.wait_cancellable().is_err()));
        });
        assert_eq!((once.set(9), once.get()), (Err(9), Some(&7)));
    });
}

/// - given: a `LazyLock` that has no value yet, or has one
/// - when: `get`, `get_mut` and `force_mut` are called
/// - then: the first two never compute it, and the last does; a closure that panics leaves no value
#[test]
fn sync_47_lazy_without_making() {
    let mut lazy = LazyLock::new(|| 41);
    assert_eq!(LazyLock::get(&lazy), None);
    assert_eq!(LazyLock::get_mut(&mut lazy), None);
    *LazyLock::force_mut(&mut lazy) += 1;
    assert_eq!(LazyLock::get(&lazy), Some(&42));
    *LazyLock::get_mut(&mut lazy).unwrap() += 1;
    assert_eq!(*lazy, 43);
    let mut broken: LazyLock<u32, _> = LazyLock::new(|| quiet_panic("no value"));
    assert!(panic_text(|| *LazyLock::force_mut(&mut broken)).contains("no value"));
    assert_eq!(LazyLock::get(&broken), None);
}

/// - given: a `LazyLock` whose closure returns, or panics
/// - when: several tasks use it
/// - then: the value, computed once; a panic every time, and later panics have std's text
#[test]
fn sync_43_lazy() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<usize> = LazyLock::new(|| {
        settle();
        MADE.fetch_add(1, SeqCst) + 7
    });
    assert_eq!(format!("{LAZY:?}"), "LazyLock(<uninit>)");
    everywhere(3, || assert_eq!(*LAZY, 7));
    assert_eq!(MADE.load(SeqCst), 1);
    assert_eq!(
        format!("{:?} {:?}", LAZY, LazyLock::<u8>::default()),
        "LazyLock(7) LazyLock(<uninit>)"
    );
    each_run(|| {
        let broken: LazyLock<u32, _> = LazyLock::new(|| {
            settle();
            quiet_panic("no value")
        });
        ecru::scope(|s| {
            let tasks = [(); 3].map(|()| s.spawn(|| *LazyLock::force(&broken)));
            assert!(tasks.iter().all(|task| task.join().is_err()));
        });
        let text = panic_text(|| *broken);
        // The text is std's, with the reason.
        assert!(text.starts_with("LazyLock instance has previously been poisoned"), "{text}");
        assert!(text.contains("its closure has panicked"), "{text}");
    });
}

/// - given: tasks and threads that wait for a `SetOnce`
/// - when: it is set, and set again
/// - then: all waiters get the value, and later ones too; the second value is returned to the
///   caller
#[test]
fn sync_44_set_once() {
    let body = || {
        let set = SetOnce::new();
        let drops = AtomicUsize::new(0);
        thread::scope(|t| {
            let waiting = [(); 3].map(|()| t.spawn(|| set.wait().map(|_| ())));
            assert!(ecru::timeout(ms(1), || set.wait().is_ok()).is_err());
            assert!(set.get().is_none());
            assert!(set.set(Counted(&drops)).is_ok());
            assert!(waiting.into_iter().all(|one| one.join().unwrap() == Ok(())));
        });
        drop(set.set(Counted(&drops)).unwrap_err());
        assert_eq!(drops.load(SeqCst), 1);
        assert!(set.wait().is_ok() && set.get().is_some());
        drop(set.into_inner());
        assert_eq!(drops.load(SeqCst), 2);
        assert_eq!(format!("{:?}", SetOnce::<u8>::default()), "SetOnce(None)");
    };
    body();
    each_run(body);
}
