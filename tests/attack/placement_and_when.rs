//! Attacks on `spawn_when` and on the placement of tasks.
#![expect(clippy::mem_forget, reason = "a handle that is forgotten is one of the attacks")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Receiver, RecvError, Sender};
use ecru::coroutine::{self, CoroutineState};
use ecru::source::{self, WaitList};
use ecru::{JoinError, JoinHandle, Placement, Runtime, RuntimeHandle, Source};

use crate::common::{HOUR, OnDrop, Watchdog, each_run, ms, run_on, text_of, until};

/// The attacker's own source. `try_take` calls `take`, and `waiters` calls `look`.
struct Hostile<T, L> {
    take: T,
    look: L,
    list: WaitList,
}

impl<I, T: Fn() -> Option<I>, L: Fn(&WaitList)> Source for Hostile<T, L> {
    type Item = I;

    fn try_take(&self) -> Option<I> {
        (self.take)()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        (self.look)(&self.list);
        each(&self.list);
    }
}

fn hostile<I, T: Fn() -> Option<I>, L: Fn(&WaitList)>(take: T, look: L) -> Hostile<T, L> {
    Hostile { take, look, list: WaitList::new() }
}

/// Panics without a message on standard error.
fn quiet(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet("a bomb");
        }
    }
}

#[track_caller]
fn panic_of<T>(result: Result<T, JoinError>) -> String {
    match result {
        Err(JoinError::Panicked(payload)) => payload.message().unwrap_or_default().to_owned(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it returned"),
    }
}

fn is_cancelled<T>(result: &Result<T, JoinError>) -> bool {
    matches!(result, Err(JoinError::Cancelled))
}

/// The predicate panics, and then so does the destructor of a capture of the function. The task's
/// panic is the first one.
#[test]
fn the_predicate_panics_and_then_a_destructor_does() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let bomb = Bomb;
            let picky = (&rx).filter(|_| quiet("the predicate's"));
            let task = s.spawn_when(picky, move |_| drop(bomb));
            let _ = tx.try_send(1);
            assert_eq!(panic_of(task.join()), "the predicate's");
            let bomb = Bomb;
            let cancelled = s.spawn_when(source::never::<u8>(), move |_| drop(bomb));
            cancelled.cancel();
            assert_eq!(panic_of(cancelled.join()), "a bomb");
        });
    });
}

/// A source that panics at the n-th call of `try_take` or `waiters`, and whose destructor panics
/// too.
#[test]
fn a_source_panics_at_each_of_its_calls() {
    each_run(|| {
        for nth in 0..12 {
            let calls = AtomicUsize::new(0);
            let count = || {
                if calls.fetch_add(1, SeqCst) == nth {
                    quiet("the source's");
                }
            };
            let (tx, rx) = channel::bounded::<u8>(1);
            let result = ecru::scope(|s| {
                let bomb = Bomb;
                let (count, rx) = (&count, &rx);
                let take = move || {
                    count();
                    let _bomb = &bomb;
                    rx.try_recv().ok()
                };
                let source = hostile(take, move |_| count());
                let either = source.or(rx.map(|n| n.unwrap_or(0)));
                let task = s.spawn_when(either, |n| n);
                tx.try_send(7).unwrap();
                task.join()
            });
            match result {
                Ok(n) => assert_eq!(n, 7),
                panicked => assert_eq!(panic_of(panicked), "the source's"),
            }
        }
    });
}

/// A source whose `try_take` suspends, spawns, cancels its scope, or waits for itself.
#[test]
fn a_source_that_does_what_it_must_not() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let suspends = hostile(|| ecru::sleep(ms(1)).ok(), |_| ());
            let text = panic_of(s.spawn_when(suspends, |()| ()).join());
            assert!(text.contains("no_suspend"), "{text}");
        });
        ecru::scope(|s| {
            let once = AtomicBool::new(true);
            let ran = &ran;
            let spawns = hostile(
                move || {
                    if once.swap(false, SeqCst) {
                        s.spawn(|| ran.fetch_add(1, SeqCst));
                        s.spawn_when(source::ready(1), |n| ran.fetch_add(n, SeqCst));
                    }
                    None::<u8>
                },
                |_| (),
            );
            let task = s.spawn_when(spawns, |_| ());
            until(|| ran.load(SeqCst) == 2);
            task.cancel();
        });
        ecru::scope(|s| {
            // The cancel request comes during the set-up of the wait, on the thread that sets it
            // up.
            let cancels = hostile(
                || {
                    s.cancel();
                    None::<u8>
                },
                |_| (),
            );
            assert!(is_cancelled(&s.spawn_when(cancels, |_| unreachable!()).join()));
        });
        let begun = ecru::scope(|s| {
            let cancels_and_gives = hostile(
                || {
                    s.cancel();
                    Some(3)
                },
                |_| (),
            );
            s.spawn_when(cancels_and_gives, |n| (n, ecru::is_cancelled())).join().unwrap()
        });
        assert_eq!(begun, (3, true));
    });
}

/// The notification comes during the registration of the wait, in each pass.
#[test]
fn a_notification_during_registration() {
    each_run(|| {
        for after in 0..4 {
            let looks = AtomicUsize::new(0);
            ecru::scope(|s| {
                let source = hostile(
                    || (looks.load(SeqCst) > after).then_some(after),
                    |list| {
                        looks.fetch_add(1, SeqCst);
                        list.notify_one();
                        list.notify_all();
                    },
                );
                let source = Arc::new(source);
                let task = s.spawn_when(Arc::clone(&source), |n| n);
                while !task.is_finished() {
                    looks.fetch_add(1, SeqCst);
                    source.list.notify_one();
                    let _ = ecru::yield_now();
                }
                assert_eq!(task.join().unwrap(), after);
            });
        }
    });
}

/// A task that waits for its own handle, the only one.
#[test]
fn a_task_that_waits_for_itself() {
    struct Own<'s>(Arc<OnceLock<JoinHandle<'s, u8>>>);

    impl Source for Own<'_> {
        type Item = Result<u8, JoinError>;

        fn try_take(&self) -> Option<Self::Item> {
            self.0.get()?.try_take()
        }

        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            self.0.get().into_iter().for_each(|own| own.waiters(each));
        }
    }

    each_run(|| {
        ecru::scope(|s| {
            let cell = Arc::default();
            let own = s.spawn_when(Own(Arc::clone(&cell)), |result| result.unwrap());
            assert!(cell.set(own).is_ok());
            drop(cell);
            s.cancel();
        });
    });
}

/// The source's destructor cancels the task, spawns, waits, drops a sender for which the next task
/// waits.
#[test]
fn a_source_whose_destructor_is_hostile() {
    struct Guarded<S, F: FnMut()>(S, OnDrop<F>);

    impl<S: Source, F: FnMut()> Source for Guarded<S, F> {
        type Item = S::Item;

        fn try_take(&self) -> Option<S::Item> {
            self.0.try_take()
        }

        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            self.0.waiters(each);
        }
    }

    each_run(|| {
        for cancels_first in [false, true] {
            let spawned = AtomicUsize::new(0);
            let (tx, rx) = channel::bounded::<u8>(1);
            let (next_tx, next_rx) = channel::bounded::<u8>(1);
            ecru::scope(|s| {
                let own: Arc<OnceLock<JoinHandle<'_, bool>>> = Arc::default();
                let (spawned, mut next_tx) = (&spawned, Some(next_tx));
                let own_too = Arc::clone(&own);
                let on_drop = OnDrop(move || {
                    drop(next_tx.take());
                    if let Some(own) = own_too.get() {
                        own.cancel();
                    }
                    s.spawn_when(source::ready(1), |n| spawned.fetch_add(n, SeqCst));
                    // The wait is refused, because the source is dropped where no wait is allowed.
                    let _ = ecru::sleep(HOUR);
                });
                let next = s.spawn_when(&next_rx, |end| end);
                let task = s.spawn_when(Guarded(&rx, on_drop), |_| ecru::is_cancelled());
                assert!(own.set(task).is_ok());
                let task = own.get().unwrap();
                if cancels_first {
                    task.cancel();
                    assert!(is_cancelled(&task.join()));
                } else {
                    tx.send(1).unwrap();
                    assert!(task.join().unwrap());
                }
                assert_eq!(next.join().unwrap(), Err(RecvError::Disconnected));
            });
            assert_eq!(spawned.load(SeqCst), 1);
        }
    });
}

/// Wrapped sources lose nothing: items that a withdrawn wait did not take are there for others.
#[test]
fn wrapped_sources_lose_nothing() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(2);
        let (other_tx, other_rx) = channel::bounded::<u8>(2);
        ecru::scope(|s| {
            let raced = source::race([&rx, &other_rx]);
            let wants_odd = raced.filter(|n| n % 2 == 1).map(|n| n.map(u32::from));
            let task = s.spawn_when(wants_odd, |n| n);
            tx.send(2).unwrap();
            other_tx.send(4).unwrap();
            assert!(task.join_timeout(Duration::ZERO).is_none());
            other_tx.send(5).unwrap();
            assert_eq!(other_rx.recv(), Ok(4));
            assert_eq!(task.join().unwrap(), Ok(5));
            let task = s.spawn_when((&other_rx).or(&other_rx).or(source::never()), |n| n);
            task.cancel();
            assert!(is_cancelled(&task.join()));
            other_tx.send(6).unwrap();
        });
        assert_eq!((rx.try_recv(), other_rx.try_recv()), (Ok(2), Ok(6)));
    });
}

/// Cancel requests from a hook, a timer, a callback, and a plain thread.
#[test]
fn requests_from_everywhere() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(4);
        // A hook that cancels another task.
        ecru::scope(|s| {
            let task = s.spawn_when(&rx, |_| unreachable!());
            ecru::cancel_scope(|c| ecru::on_cancel(|| task.cancel(), || c.cancel()));
            assert!(is_cancelled(&task.join()));
        });
        // A callback, and a plain thread.
        ecru::scope(|s| {
            let (go, gone) = channel::oneshot::<u8>();
            let handle = s.spawn_when(&rx, |_| unreachable!()).shared();
            let (first, second) = (handle.clone(), s.spawn_when(&rx, |_| -> u8 { unreachable!() }));
            s.spawn_when(gone, move |_| first.cancel());
            thread::scope(|threads| {
                threads.spawn(|| second.cancel());
                go.send(1).unwrap();
            });
            let _: Result<u8, _> = handle.join();
            assert!(is_cancelled(&second.join()));
        });
        // A limit that has passed before it begins.
        let _ = ecru::timeout(Duration::ZERO, || {
            ecru::scope(|s| s.spawn_when(&rx, |_| ()).join().unwrap_err());
        });
        // A shield blocks the request, and the task gets its item.
        let kept = ecru::cancel_scope(|c| {
            ecru::shield(|| {
                ecru::scope(|s| {
                    let task = s.spawn_when(&rx, |n| n.unwrap());
                    c.cancel();
                    tx.try_send(9).unwrap();
                    task.join().unwrap()
                })
            })
        });
        assert_eq!(kept, 9);
    });
}

/// A predicate spawns a task that waits for the channel that calls the predicate.
#[test]
fn a_predicate_spawns_on_its_own_channel() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let inner = Arc::new(OnceLock::new());
            let (rx, inner_too) = (&rx, Arc::clone(&inner));
            let picky = rx.filter(move |_| {
                inner_too.get_or_init(|| s.spawn_when(rx, |n| n));
                true
            });
            let outer = s.spawn_when(picky, |n| n);
            tx.send(7).unwrap();
            // The inner task is refused access to the channel, or waits for the next value. The
            // outer task is not affected in either case.
            assert_eq!(outer.join().unwrap(), Ok(7));
            tx.close();
            let inner: &JoinHandle<'_, _> = inner.get().unwrap();
            drop(inner.join());
        });
    });
}

/// Three threads cancel at once, by handle, by scope, and from an outer scope, while a fourth
/// sends. Source and function are dropped once each, and the item is either the task's or still in
/// the channel.
#[test]
fn requests_from_three_threads_against_an_item_slow() {
    for workers in [2, 8] {
        run_on(workers, || {
            for round in 0..200 {
                let (tx, rx) = channel::bounded::<u8>(1);
                let drops = AtomicUsize::new(0);
                let begun = AtomicBool::new(false);
                ecru::cancel_scope(|c| {
                    ecru::scope(|s| {
                        let counted = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                        let counted_too = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                        let source = (&rx).map(move |n| {
                            let _counted = &counted;
                            n
                        });
                        let begun = &begun;
                        let task = s.spawn_when(source, move |n| {
                            let _counted = counted_too;
                            assert_eq!(n, Ok(7));
                            begun.store(true, SeqCst);
                        });
                        thread::scope(|threads| {
                            threads.spawn(|| task.cancel());
                            threads.spawn(|| tx.try_send(7).unwrap());
                            if round % 2 == 0 {
                                threads.spawn(|| s.cancel());
                            }
                            c.cancel();
                        });
                        drop(task);
                    });
                });
                assert_eq!(drops.load(SeqCst), 2);
                assert_eq!(rx.try_recv().is_err(), begun.load(SeqCst));
            }
        });
    }
}

/// Handles that are forgotten, joined by two tasks, shared, and sent to a plain thread.
#[test]
fn handles_of_tasks_that_wait() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<u8>();
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let count = |n: Result<u8, RecvError>| {
                ran.fetch_add(1, SeqCst);
                n.unwrap()
            };
            std::mem::forget(s.spawn_when(&rx, count));
            drop(s.spawn_when(&rx, count));
            let twice = s.spawn_when(&rx, count);
            let shared = s.spawn_when(&rx, count).shared();
            let sent = s.spawn_when(&rx, count);
            ecru::scope(|inner| {
                let joins = [(); 2].map(|()| inner.spawn(|| twice.join().is_ok()));
                let copies = [(); 2].map(|()| inner.spawn(|| shared.join().unwrap()));
                let _ = ecru::yield_now();
                (1..=5).for_each(|n| tx.send(n).unwrap());
                // A plain thread joins too, while the worker continues.
                ecru::unblock(|| {
                    thread::scope(|threads| _ = threads.spawn(|| sent.join().unwrap()).join());
                });
                assert_eq!(joins.iter().filter(|join| join.join().unwrap()).count(), 1);
                assert_eq!(copies[0].join().unwrap(), copies[1].join().unwrap());
            });
        });
        assert_eq!(ran.load(SeqCst), 5);
    });
}

/// Spawns from a destructor while the body unwinds, from a coroutine, under `no_suspend`, and from
/// a callback.
#[test]
fn spawned_from_strange_places() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        let count = |n: usize| _ = ran.fetch_add(n, SeqCst);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            ecru::scope(|s| {
                let _on_drop = OnDrop(|| {
                    s.spawn_when(source::ready(1), count);
                    s.spawn_when(source::never(), count);
                });
                quiet("the body's");
            })
        }));
        assert_eq!(text_of(&*unwound.unwrap_err()), "the body's");
        let before = ran.load(SeqCst);
        ecru::scope(|s| {
            coroutine::scoped(
                |yielder: &coroutine::Yielder<(), ()>, ()| {
                    let task = s.spawn_when(source::ready(1), count);
                    yielder.suspend(());
                    task.join().unwrap();
                },
                |coroutine| {
                    assert!(matches!(coroutine.resume(()), CoroutineState::Yielded(())));
                    assert!(matches!(coroutine.resume(()), CoroutineState::Complete(())));
                },
            );
            ecru::no_suspend(|| s.spawn_when(source::ready(1), count)).join().unwrap();
        });
        assert_eq!(ran.load(SeqCst), before + 2);
    });
}

/// Spawns on a foreign thread, and on a worker of another run, are refused, and the source and the
/// function are dropped.
#[test]
fn spawned_from_where_it_cannot_be() {
    run_on(2, || {
        let drops = AtomicUsize::new(0);
        let counted = || OnDrop(|| _ = drops.fetch_add(1, SeqCst));
        ecru::scope(|s| {
            let attempt = || {
                let (source, f) = (counted(), counted());
                let source = source::ready(1).map(move |n| {
                    let _source = &source;
                    n
                });
                catch_unwind(AssertUnwindSafe(|| drop(s.spawn_when(source, move |_| drop(f)))))
                    .is_err()
            };
            thread::scope(|threads| {
                assert!(threads.spawn(attempt).join().unwrap());
                assert!(threads.spawn(|| run_on(1, attempt)).join().unwrap());
            });
        });
        assert_eq!(drops.load(SeqCst), 4);
    });
}

/// An item that comes from another run, on whose worker the wait ends.
#[test]
fn an_item_from_another_run() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<usize>();
        thread::scope(|threads| {
            ecru::scope(|s| {
                let home = thread::current().id();
                let tasks: Vec<_> = (0..20).map(|_| s.spawn_when(&rx, |n| n.unwrap())).collect();
                let tx = &tx;
                threads.spawn(move || {
                    run_on(2, || {
                        assert_ne!(thread::current().id(), home);
                        (0..20).for_each(|n| tx.send(n).unwrap());
                    });
                });
                assert_eq!(tasks.iter().map(|task| task.join().unwrap()).sum::<usize>(), 190);
            });
        });
    });
}

/// A run in which only tasks of `spawn_when` wait is stuck, and is reported.
#[test]
fn a_run_that_is_stuck_with_them_is_reported() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).detect_deadlock(true).build().unwrap();
        let stuck = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                let (_tx, rx) = channel::bounded::<u8>(1);
                ecru::scope(|s| {
                    (0..10).for_each(|_| drop(s.spawn_when(&rx, |_| ())));
                    // Two tasks that wait for each other.
                    let first = s.spawn_when(source::never::<u8>(), |_| ());
                    s.spawn_when(first, |_| ());
                });
            });
        }));
        let payload = stuck.unwrap_err();
        assert!(text_of(&*payload).starts_with("deadlock"), "{}", text_of(&*payload));
    }
}

/// A dump while tasks wait for items, and while their items come.
#[test]
fn a_dump_disturbs_none_of_them() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<usize>();
        let sum = AtomicUsize::new(0);
        ecru::scope(|s| {
            (0..50)
                .for_each(|_| drop(s.spawn_when(&rx, |n| _ = sum.fetch_add(n.unwrap(), SeqCst))));
            for n in 0..50 {
                tx.send(n).unwrap();
                if n % 10 == 0 {
                    assert!(!RuntimeHandle::current().dump().is_empty());
                }
            }
        });
        assert_eq!(sum.load(SeqCst), 50 * 49 / 2);
    });
}

/// Many tasks wait on one channel, which is closed while they are cancelled.
#[test]
fn a_channel_is_closed_against_a_request() {
    run_on(2, || {
        for _ in 0..10 {
            let (tx, rx) = channel::bounded::<u8>(1);
            let (ended, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                for _ in 0..200 {
                    let counted = OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
                    let ended = &ended;
                    s.spawn_when(&rx, move |end| {
                        let _counted = counted;
                        assert_eq!(end, Err(RecvError::Disconnected));
                        ended.fetch_add(1, SeqCst);
                    });
                }
                thread::scope(|threads| {
                    threads.spawn(|| tx.close());
                    s.cancel();
                });
            });
            assert_eq!(dropped.load(SeqCst), 200);
            assert!(ended.load(SeqCst) <= 200);
        }
    });
}

/// Each task spawns its successor. No queue or memory grows, and the last task ends the scope.
#[test]
fn each_task_spawns_its_successor() {
    fn next<'scope>(
        s: &'scope ecru::Scope<'scope, '_>,
        rx: &'scope Receiver<usize>,
        sum: &'scope AtomicUsize,
    ) {
        s.spawn_when(rx, move |n| {
            if let Ok(n) = n {
                sum.fetch_add(n, SeqCst);
                next(s, rx, sum);
            }
        });
    }

    each_run(|| {
        let (tx, rx) = channel::bounded::<usize>(3);
        let sum = AtomicUsize::new(0);
        ecru::scope(|s| {
            next(s, &rx, &sum);
            (0..300).for_each(|n| tx.send(n).unwrap());
            drop(tx);
        });
        assert_eq!(sum.load(SeqCst), 300 * 299 / 2);
    });
}

fn runtime(workers: usize, placement: Placement) -> Runtime {
    Runtime::builder().workers(workers).placement(placement).build().unwrap()
}

const ALL: [Placement; 3] = [Placement::Auto, Placement::Together, Placement::Spread];

/// Tasks in an inbox are cancelled, joined and dropped before they start.
#[test]
fn requests_reach_tasks_in_an_inbox() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        for workers in [1, 3] {
            let dropped = AtomicUsize::new(0);
            runtime(workers, placement).run(|| {
                ecru::scope(|s| {
                    let tasks: Vec<_> = (0..60)
                        .map(|_| {
                            let counted = OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
                            s.spawn(move || drop(counted))
                        })
                        .collect();
                    for (n, task) in tasks.into_iter().enumerate() {
                        match n % 4 {
                            0 => drop(task),
                            1 => task.cancel(),
                            2 => {
                                task.cancel();
                                let _ = task.join();
                            }
                            _ => task.join().unwrap(),
                        }
                    }
                    s.cancel();
                });
            });
            assert_eq!(dropped.load(SeqCst), 60);
        }
    }
}

/// A worker whose thread is blocked has all the tasks, and idle workers take them.
#[test]
fn tasks_are_not_stranded_behind_a_blocked_thread() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(3, placement).run(|| {
            let (tell, told) = mpsc::channel();
            ecru::scope(|s| {
                for n in 0..30_u32 {
                    let tell = tell.clone();
                    s.spawn(move || tell.send(n).unwrap());
                }
                // This blocks the thread, and not only the task.
                let sum: u32 = (0..30).map(|_| told.recv().unwrap()).sum();
                assert_eq!(sum, 435);
            });
        });
    }
}

/// A started task never moves, and neither do its thread-locals and its `Rc`s.
#[cfg(not(ecru_baton))] // there each task has a thread of its own
#[test]
fn a_started_task_stays() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(8, placement).run(|| {
            ecru::scope(|s| {
                for n in 0..64 {
                    s.spawn(move || {
                        let (home, kept) = (thread::current().id(), Rc::new(n));
                        for _ in 0..5 {
                            let _copy = Rc::clone(&kept);
                            if n % 2 == 0 {
                                ecru::yield_now().unwrap();
                            } else {
                                ecru::sleep(Duration::from_micros(50)).unwrap();
                            }
                            assert_eq!(thread::current().id(), home);
                        }
                        assert_eq!(Rc::strong_count(&kept), 1);
                    });
                }
            });
        });
    }
}

/// `near` and `spawn_local` start tasks where they are spawned, with every placement.
#[cfg(not(ecru_baton))] // there each task has a thread of its own
#[test]
fn near_is_near_in_every_placement() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(4, placement).run(|| {
            ecru::scope(|outer| {
                for _ in 0..8 {
                    outer.spawn(|| {
                        let home = thread::current().id();
                        ecru::scope(|s| {
                            for _ in 0..8 {
                                let is_here = move || assert_eq!(thread::current().id(), home);
                                s.builder().near().spawn(is_here);
                                let not_send = Rc::new(());
                                s.spawn_local(move || {
                                    is_here();
                                    drop(not_send);
                                });
                            }
                        });
                    });
                }
            });
        });
    }
}

/// Short runs on a runtime with many workers, one after another. Each ends without a task left in
/// an inbox.
#[test]
fn short_runs_on_many_workers() {
    let _watchdog = Watchdog::new();
    for placement in [Placement::Auto, Placement::Spread] {
        let runtime = runtime(64, placement);
        let handle = runtime.handle();
        for _ in 0..10 {
            let count = Arc::new(AtomicUsize::new(0));
            runtime.run(|| {
                for _ in 0..100 {
                    let count = Arc::clone(&count);
                    ecru::spawn(move || _ = count.fetch_add(1, SeqCst));
                }
            });
            assert_eq!(count.load(SeqCst), 100);
            assert_eq!(Arc::strong_count(&count), 1);
            assert!(handle.spawn(|| ()).is_err());
        }
    }
}

/// Tasks spawned from outside at the end of a run. Each is refused, or has ended when the run has.
#[test]
fn spawned_from_outside_at_the_end_of_a_run() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        for _ in 0..20 {
            let runtime = runtime(2, placement);
            let handle = runtime.handle();
            let (taken, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            thread::scope(|threads| {
                let (begin, begun) = mpsc::channel();
                threads.spawn({
                    let (taken, ended) = (&taken, &ended);
                    move || {
                        begun.recv().unwrap();
                        // The loop is bounded, because the run continues while one of these tasks
                        // has not ended.
                        for _ in 0..200 {
                            let ended = Arc::clone(ended);
                            match handle.spawn(move || _ = ended.fetch_add(1, SeqCst)) {
                                Ok(_) => _ = taken.fetch_add(1, SeqCst),
                                Err(_) => break,
                            }
                        }
                    }
                });
                runtime.run(|| begin.send(()).unwrap());
            });
            assert_eq!(taken.load(SeqCst), ended.load(SeqCst));
        }
    }
}

/// A task that spawns itself for ever. Timers and limits still work.
#[test]
fn a_task_that_spawns_itself_for_ever() {
    fn again<'scope>(s: &'scope ecru::Scope<'scope, '_>, stop: &'scope AtomicBool) {
        if !stop.load(SeqCst) {
            s.spawn(move || again(s, stop));
        }
    }

    let _watchdog = Watchdog::new();
    for placement in ALL {
        for workers in [1, 2] {
            let stop = AtomicBool::new(false);
            runtime(workers, placement).run(|| {
                ecru::scope(|s| {
                    again(s, &stop);
                    ecru::sleep(ms(2)).unwrap();
                    stop.store(true, SeqCst);
                });
            });
        }
    }
}

/// One worker starts tasks in the order of their spawning, and in the order of their items.
#[test]
fn one_worker_keeps_the_order() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(1, placement).run(|| {
            let order = Mutex::new(Vec::new());
            let (tx, rx) = channel::unbounded::<usize>();
            ecru::scope(|s| {
                for n in 0..100 {
                    let order = &order;
                    s.spawn(move || order.lock().unwrap().push(n));
                    s.spawn_when(&rx, |n| order.lock().unwrap().push(n.unwrap()));
                }
                (100..200).for_each(|n| tx.send(n).unwrap());
            });
            assert_eq!(order.into_inner().unwrap(), Vec::from_iter(0..200));
        });
    }
}

/// Runs on several threads, each with tasks that wait for items of the next run. No run takes a
/// task of another.
#[test]
fn runs_side_by_side_keep_their_tasks() {
    let _watchdog = Watchdog::new();
    let ends: Vec<(Sender<usize>, Receiver<usize>)> =
        (0..4).map(|_| channel::unbounded()).collect();
    thread::scope(|threads| {
        for n in 0..4 {
            let (rx, tx) = (&ends[n].1, &ends[(n + 1) % 4].0);
            threads.spawn(move || {
                runtime(2, Placement::Auto).run(|| {
                    ecru::scope(|s| {
                        let run = std::ptr::from_ref(s).addr();
                        for _ in 0..50 {
                            s.spawn_when(rx, move |from| {
                                assert_eq!(from.unwrap(), (n + 3) % 4);
                                // A child of this run's scope would be refused on the worker of any
                                // other run.
                                s.spawn(move || assert_eq!(std::ptr::from_ref(s).addr(), run));
                            });
                        }
                        (0..50).for_each(|_| tx.send(n).unwrap());
                    });
                });
            });
        }
    });
}

/// A dump lists tasks that are in an inbox, and they begin afterwards.
#[test]
fn a_dump_shows_tasks_in_an_inbox() {
    let _watchdog = Watchdog::new();
    runtime(1, Placement::Spread).run(|| {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            (0..10).for_each(|_| drop(s.spawn(|| ran.fetch_add(1, SeqCst))));
            let dump = RuntimeHandle::current().dump();
            // Those that begin meanwhile may be counted twice.
            assert!(dump.tasks().count() + ran.load(SeqCst) >= 11);
        });
        assert_eq!(ran.load(SeqCst), 10);
    });
}

/// While the channel is locked for a predicate, the predicate cancels the scope, and with it a task
/// that waits on the same channel.
#[test]
fn a_predicate_cancels_a_wait_for_its_own_channel() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let picky = (&rx).filter(|_| {
                s.cancel();
                false
            });
            let task = s.spawn_when(picky, |_| ());
            tx.send(1).unwrap();
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        });
        assert_eq!(rx.try_recv(), Ok(1));
    });
}
