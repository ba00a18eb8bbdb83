//! Dumps in loops and at odd places, and runs inside their own closures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ecru::coroutine::{Coroutine, Generator, Yielder};
use ecru::{Placement, Runtime, RuntimeHandle, channel};

use super::OnDrop;
use crate::common::{Watchdog, forever, ms, panic_text, quiet_panic, run_on, settle};

/// Tasks that use up their turns, parked coroutines and unwinding tasks go on beside tasks that do
/// nothing but make dumps.
#[test]
fn dumps_in_a_loop_slow() {
    for workers in [1, 2, 4] {
        run_on(workers, || {
            let (left, seen) = (AtomicUsize::new(6), AtomicUsize::new(0));
            let work = |kind: usize| {
                let _end = OnDrop(|| _ = left.fetch_sub(1, SeqCst));
                match kind % 3 {
                    0 => (0..3).for_each(|_| ecru::checkpoint().unwrap()),
                    1 => {
                        let numbers = Generator::new(|y| {
                            (0..20).for_each(|n| {
                                _ = ecru::yield_now();
                                y.suspend(n)
                            })
                        });
                        assert_eq!(numbers.count(), 20);
                    }
                    _ => {
                        let _waits = OnDrop(|| ecru::shield(|| ecru::sleep(ms(1)).unwrap()));
                        quiet_panic("while dumps are made")
                    }
                }
            };
            ecru::scope(|s| {
                let work = &work;
                let tasks: Vec<_> = (0..6).map(|kind| s.spawn(move || work(kind))).collect();
                let dumps = || {
                    while left.load(SeqCst) > 0 {
                        let tree = RuntimeHandle::current().dump();
                        assert!(
                            tree.tasks().any(|task| task.is_root())
                                || tree.left_out() > 0
                                || !tree.busy_workers().is_empty()
                        );
                        assert!(!tree.to_string().is_empty());
                        seen.fetch_add(1, SeqCst);
                    }
                };
                dumps();
                tasks.iter().for_each(|task| drop(task.join()));
            });
        });
    }
}

/// A thread makes dumps while runs begin and end, and while tasks are placed and stolen.
#[test]
fn dumps_by_a_thread_while_runs_come_and_go() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime =
            Runtime::builder().workers(workers).placement(Placement::Spread).build().unwrap();
        let (handle, over) = (runtime.handle(), AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(SeqCst) {
                    drop(handle.dump().to_string());
                }
            });
            for round in 0..40_u32 {
                let sum = runtime.run(|| {
                    ecru::par::map(0..20, |n: u32| {
                        if n.is_multiple_of(5) {
                            ecru::yield_now().unwrap();
                        }
                        n + round
                    })
                });
                assert_eq!(sum.len(), 20);
            }
            over.store(true, SeqCst);
        });
        assert!(handle.dump().is_empty());
    }
}

/// Dumps inside everything that is special.
#[test]
fn dumps_at_odd_places() {
    run_on(1, || {
        let dump = || RuntimeHandle::current().dump();
        let text = panic_text(|| ecru::no_suspend(dump));
        assert!(text.contains("no_suspend"), "{text}");
        // In a coroutine, a destructor that unwinds, a limit that has passed, and `unblock`.
        let coroutine = Coroutine::new(move |_: &Yielder<(), ()>, ()| drop(dump()));
        _ = coroutine.resume(());
        _ = catch_unwind(AssertUnwindSafe(|| {
            let _dumps = OnDrop(|| assert!(!dump().is_empty()));
            quiet_panic("with a dump")
        }));
        let late = ecru::timeout(ms(0), || dump().tasks().count());
        assert!(late.is_err() || late == Ok(1));
        let handle = RuntimeHandle::current();
        ecru::unblock(|| assert!(handle.dump().tasks().any(|task| task.is_root())));
        // By a task of another runtime, about this one.
        ecru::scope(|s| {
            let sleeps = s.builder().name("sleeps").spawn(forever);
            settle();
            let seen = ecru::unblock(|| {
                let other = Runtime::builder().workers(1).build().unwrap();
                other.run(|| {
                    handle
                        .dump()
                        .tasks()
                        .filter_map(|task| task.name().map(str::to_owned))
                        .collect::<Vec<_>>()
                })
            });
            assert_eq!(seen, ["sleeps"]);
            sleeps.cancel();
        });
        // In a predicate under a channel's lock.
        let (tx, rx) = channel::unbounded();
        let refused = AtomicUsize::new(0);
        ecru::scope(|s| {
            let filtered = s.spawn(|| {
                use ecru::Source;
                (&rx)
                    .filter(|_| {
                        refused.fetch_add(usize::from(catch_unwind(dump).is_err()), SeqCst);
                        true
                    })
                    .wait()
            });
            settle();
            tx.send(1).unwrap();
            assert_eq!(filtered.join().unwrap(), Ok(Ok(1)));
        });
    });
}

/// A run inside a closure of its own run is refused, whatever is in between, and hurts nothing.
#[test]
fn a_run_inside_its_own_run() {
    let _watchdog = Watchdog::new();
    let build = || Runtime::builder().workers(1).build().unwrap();
    let (outer, inner) = (build(), build());
    for round in 0..3 {
        outer.run(|| {
            let direct = panic_text(|| outer.run(|| ()));
            assert!(direct.contains("inside a task"), "{direct}");
            ecru::unblock(|| {
                let own = panic_text(|| outer.run(|| ()));
                assert!(own.contains("wait for itself"), "{own}");
                inner.run(|| {
                    ecru::scope(|s| {
                        let deep = s.spawn(|| {
                            ecru::unblock(|| {
                                for runtime in [&outer, &inner] {
                                    let text = panic_text(|| runtime.run(|| ()));
                                    assert!(text.contains("wait for itself"), "{text}");
                                }
                                // A new one is no cycle.
                                assert_eq!(build().run(|| ecru::unblock(|| round)), round);
                                assert_eq!(ecru::run(|| round), round);
                            });
                        });
                        deep.join().unwrap();
                    });
                });
                // The inner run is over, and so is what it was noted for.
                assert_eq!(inner.run(|| 7), 7);
            });
            // A root that panics in a run that a closure has begun.
            let text = panic_text(|| ecru::unblock(|| inner.run(|| quiet_panic("inside"))));
            assert_eq!(text, "inside");
        });
        assert_eq!(inner.run(|| outer_again(&outer)), 8);
    }
}

/// Two runtimes in the other order.
fn outer_again(outer: &Runtime) -> u32 {
    ecru::unblock(|| outer.run(|| ecru::unblock(|| 8)))
}

/// Two hundred lookups are abandoned at once. Other closures of the pool and later lookups go on.
#[test]
fn lookups_that_are_abandoned() {
    for workers in [1, 2] {
        run_on(workers, || {
            ecru::scope(|s| {
                for _ in 0..200 {
                    s.spawn(|| drop(ecru::net::TcpStream::connect("localhost:1")));
                }
                settle();
                s.cancel();
                assert_eq!(ecru::unblock(|| 7), 7);
            });
            let error = ecru::net::TcpStream::connect("localhost:1").unwrap_err();
            assert!(ecru::Cancelled::find(&error).is_none(), "{error:?}");
        });
    }
}
