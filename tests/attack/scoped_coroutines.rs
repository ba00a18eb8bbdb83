//! Coroutines that borrow. None of them may live longer than the call that lends it.

use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

use ecru::coroutine::{
    Coroutine, CoroutineState, CoroutineStatus, Items, ScopedCoroutine, Yielder, generate, scoped,
};

use crate::common::{HOUR, each_run};
use crate::{OnDrop, run_on};

fn caught<T>(f: impl FnOnce() -> T) -> Box<dyn std::any::Any + Send> {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => payload,
    }
}

/// Two handles are swapped. Each handle still belongs to its own generator, which ends where it was
/// created.
#[test]
fn two_handles_are_swapped() {
    let dropped = Cell::new(0);
    let count = |from: u32| {
        let dropped = &dropped;
        move |yielder: &Yielder<(), u32>| {
            let _counted = OnDrop(|| dropped.set(dropped.get() + 1));
            (from..from + 100).for_each(|n| yielder.suspend(n));
        }
    };
    generate(count(0), |small| {
        generate(count(100), |large| {
            // Both are shortened to the same lifetime. The handles themselves cannot be exchanged,
            // see `tests/soundness`.
            let (mut small, mut large) = (small, large);
            assert_eq!((small.next(), large.next()), (Some(0), Some(100)));
            mem::swap(&mut small, &mut large);
            assert_eq!((small.next(), large.next()), (Some(101), Some(1)));
        });
        assert_eq!(dropped.get(), 1, "the inner one has ended");
    });
    assert_eq!(dropped.get(), 2);
}

/// Only a handle can be forgotten.
#[test]
#[expect(clippy::forget_non_drop, reason = "this test is about it")]
fn a_forgotten_handle_keeps_nothing_alive() {
    let (dropped, text) = (Cell::new(0), String::from("borrowed"));
    let walk = |yielder: &Yielder<(), char>| {
        let _counted = OnDrop(|| dropped.set(dropped.get() + 1));
        text.chars().for_each(|c| yielder.suspend(c));
    };
    generate(walk, |mut items| {
        assert_eq!(items.next(), Some('b'));
        mem::forget(items);
    });
    assert_eq!(dropped.get(), 1);
    scoped(
        |yielder: &Yielder<(), char>, ()| walk(yielder),
        |coroutine| {
            struct Cycle<'c>(&'c ScopedCoroutine<(), char, ()>, RefCell<Option<Rc<Cycle<'c>>>>);
            coroutine.resume(());
            let cycle = Rc::new(Cycle(coroutine, RefCell::default()));
            *cycle.1.borrow_mut() = Some(Rc::clone(&cycle));
            assert_eq!(cycle.0.state(), CoroutineStatus::Suspended);
        },
    );
    assert_eq!(dropped.get(), 2);
}

/// Three levels, each of which borrows from the one around it. Each of them panics once.
#[test]
fn nested_ones_end_in_order_whoever_panics() {
    for panicking in 0..4 {
        let order = RefCell::new(Vec::new());
        let note = |level: u32| {
            let order = &order;
            OnDrop(move || order.borrow_mut().push(level))
        };
        let may_panic = |level: u32| {
            if level == panicking {
                panic::resume_unwind(Box::new(level));
            }
        };
        let run = || {
            let _outermost = note(0);
            let first = |yielder: &Yielder<(), u32>| {
                let _first = note(1);
                yielder.suspend(1);
                may_panic(1);
                let second = |yielder: &Yielder<(), u32>| {
                    let _second = note(2);
                    yielder.suspend(2);
                    may_panic(2);
                };
                generate(second, |items| items.for_each(|item| yielder.suspend(item)));
            };
            generate(first, |mut items| {
                assert_eq!(items.next(), Some(1));
                assert_eq!(items.next(), Some(2));
                may_panic(3);
                assert_eq!(items.next(), None);
            });
        };
        let result = panic::catch_unwind(AssertUnwindSafe(run));
        assert_eq!(
            result.err().and_then(|payload| payload.downcast().ok()),
            match panicking {
                0 => None,
                level => Some(Box::new(level)),
            }
        );
        assert_eq!(*order.borrow(), if panicking == 1 { vec![1, 0] } else { vec![2, 1, 0] });
    }
}

/// - given: `coroutine::scoped`, whose closure returns, panics or is unwound while the coroutine is
///   suspended
/// - when: the closure ends
/// - then: the coroutine is unwound before `scoped` returns; if both panic, the closure's panic is
///   resumed
#[test]
fn coroutine_28_scoped_left_suspended() {
    let dropped = Cell::new(0);
    let count = || OnDrop(|| dropped.set(dropped.get() + 1));
    let body = |yielder: &Yielder<(), ()>, ()| {
        let _counted = count();
        yielder.suspend(());
    };
    assert_eq!(scoped(body, |coroutine| coroutine.resume(())), CoroutineState::Yielded(()));
    assert_eq!(dropped.get(), 1);
    let payload = caught(|| {
        scoped(body, |coroutine| {
            coroutine.resume(());
            panic::resume_unwind(Box::new("closure"));
        })
    });
    assert_eq!((payload.downcast_ref(), dropped.get()), (Some(&"closure"), 2));
    let panics = |yielder: &Yielder<(), ()>, ()| {
        let _panics = OnDrop(|| panic::resume_unwind(Box::new("destructor")));
        // A panic in a destructor that runs during unwinding ends the process, so the body catches
        // it first.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
    };
    let payload = caught(|| scoped(panics, |coroutine| _ = coroutine.resume(())));
    assert_eq!(payload.downcast_ref(), Some(&"destructor"));
    let payload = caught(|| {
        scoped(panics, |coroutine| {
            coroutine.resume(());
            panic::resume_unwind(Box::new("closure"));
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&"closure"), "the first panic goes on");
    // An outer coroutine is dropped while it is suspended in the closure.
    let notes = Rc::new(Cell::new(0));
    let noted = Rc::clone(&notes);
    let outer = Coroutine::new(move |out: &Yielder<(), ()>, ()| {
        let body = |yielder: &Yielder<(), ()>, ()| {
            let _noted = OnDrop(|| noted.set(noted.get() + 1));
            yielder.suspend(());
        };
        scoped(body, |coroutine| {
            coroutine.resume(());
            out.suspend(());
        });
    });
    outer.resume(());
    assert_eq!(notes.get(), 0);
    drop(outer);
    assert_eq!(notes.get(), 1);
}

/// A coroutine that was never resumed drops its captures. A completed one does nothing more.
#[test]
fn scoped_ones_that_did_not_start_or_have_ended() {
    let dropped = Cell::new(0);
    let capture = OnDrop(|| dropped.set(dropped.get() + 1));
    let never = move |_: &Yielder<(), ()>, ()| drop(capture);
    assert_eq!(scoped(never, ScopedCoroutine::state), CoroutineStatus::Unstarted);
    assert_eq!(dropped.get(), 1);
    scoped(
        |_: &Yielder<(), u8>, ()| 7,
        |coroutine| {
            assert_eq!(coroutine.resume(()), CoroutineState::Complete(7));
            assert_eq!(coroutine.state(), CoroutineStatus::Complete);
            drop(caught(|| coroutine.resume(())));
        },
    );
}

/// - given: `coroutine::generate` over locals
/// - when: its items are read to the end, half, or not at all
/// - then: they come in order, then `None`; an unfinished generator is unwound before `generate`
///   returns
///
/// A panic of the function is shown, too.
#[test]
fn coroutine_30_generate() {
    let words = [String::from("a"), String::from("b"), String::from("c")];
    fn all<'w>(words: &'w [String]) -> impl Fn(&Yielder<(), &'w str>) {
        |yielder| words.iter().for_each(|word| yielder.suspend(word))
    }
    assert_eq!(generate(all(&words), |items| items.collect::<String>()), "abc");
    let two = generate(all(&words), |mut items| (items.next(), items.next()));
    assert_eq!(two, (Some("a"), Some("b")));
    generate(all(&words), |_items| ());
    generate(all(&words), |mut items| {
        assert_eq!(items.by_ref().count(), 3);
        assert_eq!((items.next(), items.next()), (None, None));
    });
    let panics = |yielder: &Yielder<(), u8>| {
        yielder.suspend(1);
        panic::resume_unwind(Box::new(2_u8));
    };
    generate(panics, |mut items: Items<'_, u8>| {
        assert_eq!(items.next(), Some(1));
        assert_eq!(caught(|| items.next()).downcast_ref(), Some(&2_u8));
        assert_eq!(items.next(), None);
    });
}

/// Tasks that are cancelled in the body, in the closure, and between the two.
#[test]
fn in_a_task_that_is_cancelled() {
    each_run(|| {
        let dropped = Cell::new(0);
        let sleeps = |yielder: &Yielder<(), bool>| {
            let _counted = OnDrop(|| dropped.set(dropped.get() + 1));
            loop {
                let slept = ecru::sleep(HOUR).is_ok();
                yielder.suspend(slept);
            }
        };
        let result = ecru::timeout(Duration::from_millis(1), || {
            generate(sleeps, |mut items| {
                assert_eq!(items.next(), Some(false));
                ecru::checkpoint()
            })
        });
        assert!(matches!(result, Err(_) | Ok(Err(_))));
        assert_eq!(dropped.get(), 1);
    });
}

/// Another task resumes the coroutine, and a second one tries while the coroutine is parked there.
#[test]
fn resumed_from_another_stack() {
    run_on(1, || {
        let log = RefCell::new(Vec::new());
        let body = |yielder: &Yielder<u32, u32>, first: u32| {
            let mut number = first;
            while number < 10 {
                ecru::yield_now().unwrap();
                log.borrow_mut().push(number);
                number = yielder.suspend(number);
            }
        };
        scoped(body, |coroutine| {
            ecru::scope(|s| {
                let first = s.spawn_local(|| coroutine.resume(1));
                let second = s.spawn_local(|| {
                    panic::catch_unwind(AssertUnwindSafe(|| coroutine.resume(2))).is_err()
                });
                assert!(second.join().unwrap(), "it is running");
                assert_eq!(first.join().unwrap(), CoroutineState::Yielded(1));
            });
            let other = Coroutine::new(|_: &Yielder<(), ()>, ()| ());
            other.resume(());
            assert_eq!(coroutine.resume(3), CoroutineState::Yielded(3));
        });
        assert_eq!(*log.borrow(), [1, 3]);
    });
}

/// - given: a half-read `map_buffered` whose scope was opened outside the coroutine
/// - when: the coroutine suspends
/// - then: it works, and the remaining items come after the next resumption
#[test]
fn coroutine_33_lazy_iterator() {
    run_on(1, || {
        let factor = 3;
        ecru::scope(|s| {
            let body = |yielder: &Yielder<(), u32>| {
                let lazy = s.map_buffered(2, 0..6, move |n| n * factor);
                lazy.for_each(|item| yielder.suspend(item.unwrap()));
            };
            let all = generate(body, |items| items.collect::<Vec<_>>());
            assert_eq!(all, [0, 3, 6, 9, 12, 15]);
            // The iterator is left half read. Its tasks are awaited by their scope.
            assert_eq!(
                generate(body, |mut items| (items.next(), items.next())),
                (Some(0), Some(3))
            );
        });
    });
}

/// - given: a body with captures of 64 KiB, or aligned to 64 bytes
/// - when: it is run, or dropped before it ran
/// - then: the captures arrive intact, and are dropped once
#[test]
fn coroutine_31_large_captures() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let dropped = Rc::new(Cell::new(0));
    for resumed in [true, false] {
        for size in 0..3 {
            let counted = Rc::clone(&dropped);
            let capture = OnDrop(move || counted.set(counted.get() + 1));
            let (small, middle, large, aligned) =
                ([1_u8; 900], [2_u8; 1100], [3_u8; 64 * 1024], Aligned([4; 64]));
            let sum = |bytes: &[u8]| bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>();
            let place = move |aligned: &Aligned| {
                assert_eq!(std::ptr::from_ref(aligned).addr() % 64, 0);
                sum(&aligned.0)
            };
            let coroutine: Coroutine<(), (), usize> = match size {
                0 => Coroutine::new(move |_: &Yielder<(), ()>, ()| {
                    let _capture = &capture;
                    sum(&small) + place(&aligned)
                }),
                1 => Coroutine::new(move |_: &Yielder<(), ()>, ()| {
                    let _capture = &capture;
                    sum(&middle) + place(&aligned)
                }),
                _ => Coroutine::new(move |_: &Yielder<(), ()>, ()| {
                    let _capture = &capture;
                    sum(&large) + place(&aligned)
                }),
            };
            if resumed {
                let expected = [900, 2200, 3 * 64 * 1024][size] + 256;
                assert_eq!(coroutine.resume(()), CoroutineState::Complete(expected));
            }
            drop(coroutine);
        }
    }
    assert_eq!(dropped.get(), 6);
}

/// - given: a coroutine that was never resumed, with a capture whose destructor panics
/// - when: it is dropped
/// - then: the panic reaches the caller, and each capture is dropped once
///
/// The captures may be small or boxed.
#[test]
fn coroutine_32_captures_that_panic() {
    let dropped = Rc::new(Cell::new(0));
    let capture = |panics: bool| {
        let counted = Rc::clone(&dropped);
        OnDrop(move || {
            counted.set(counted.get() + 1);
            if panics {
                panic::resume_unwind(Box::new("capture"));
            }
        })
    };
    for round in 1..4 {
        let (one, two, bytes) = (capture(true), capture(false), [0_u8; 2000]);
        let coroutine: Coroutine<(), (), ()> = if round % 2 == 0 {
            Coroutine::new(move |_: &Yielder<(), ()>, ()| drop((one, two)))
        } else {
            Coroutine::new(move |_: &Yielder<(), ()>, ()| drop((one, two, bytes)))
        };
        assert_eq!(caught(|| drop(coroutine)).downcast_ref(), Some(&"capture"));
        assert_eq!(dropped.get(), 2 * round);
        let (one, two) = (capture(true), capture(false));
        let body = move |_: &Yielder<(), ()>, ()| drop((one, two));
        let payload = caught(|| scoped(body, |coroutine| _ = coroutine.state()));
        assert_eq!(payload.downcast_ref(), Some(&"capture"));
        assert_eq!(dropped.replace(2 * round), 2 * round + 2);
    }
}
