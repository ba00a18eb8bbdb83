//! What hostile but safe code might try: the worst moment, the wrong thread, the destructor that does what destructors should not.
//! Each of these once was, or could become, a hang, a double drop or a use of freed memory.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder};
use ecru::{JoinError, Runtime};

const HOUR: Duration = Duration::from_secs(3600);

fn with_workers<T>(workers: usize, root: impl FnOnce() -> T) -> T {
    Runtime::builder().workers(workers).build().unwrap().run(root)
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map_or_else(|| payload.downcast_ref::<&str>().copied().unwrap_or(""), String::as_str)
}

#[test]
fn a_local_child_that_is_joined_before_its_turn_keeps_its_place_in_the_queue() {
    with_workers(1, || {
        ecru::scope(|s| {
            let first = s.spawn_local(|| ecru::yield_now().is_ok());
            let second = s.spawn_local(|| 2);
            assert!(first.join().unwrap());
            assert_eq!(second.join().unwrap(), 2);
        });
    });
}

#[test]
fn a_task_from_a_handle_that_is_joined_before_its_turn_keeps_its_place_in_the_queue() {
    with_workers(1, || {
        let handle = ecru::Handle::current();
        let first = handle.spawn(|| ecru::yield_now().is_ok()).unwrap();
        let second = handle.spawn(|| ecru::sleep(Duration::from_millis(1)).is_ok()).unwrap();
        assert!(first.join().unwrap());
        assert!(second.join().unwrap());
    });
}

#[test]
fn a_task_that_was_dealt_out_and_panics_in_a_join_spoils_no_queue() {
    let runtime = Runtime::builder().workers(1).spread(true).build().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            let first = s.spawn(|| panic!("on purpose"));
            let second = s.spawn(|| 2);
            assert!(matches!(first.join(), Err(JoinError::Panicked(_))));
            assert_eq!(second.join().unwrap(), 2);
        });
    });
}

#[test]
fn a_scope_awaits_the_child_that_a_daemon_spawned_with_its_last_breath() {
    with_workers(2, || {
        for _ in 0..200 {
            let left = &AtomicUsize::new(0);
            let ready = &AtomicBool::new(false);
            ecru::scope(|s| {
                s.spawn_daemon(move || {
                    ready.store(true, Ordering::Release);
                    for _ in 0..8 {
                        left.fetch_add(1, Ordering::Relaxed);
                        s.spawn(move || {
                            let _ = ecru::yield_now();
                            left.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
                let since = Instant::now();
                while !ready.load(Ordering::Acquire) && since.elapsed() < Duration::from_millis(1) {
                    std::hint::spin_loop();
                }
            });
            assert_eq!(left.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn a_scope_refuses_to_spawn_in_another_run() {
    with_workers(1, || {
        let refused = ecru::scope(|s| {
            ecru::unblock(|| {
                with_workers(1, || {
                    let spawned = panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn(|| ()))));
                    let local =
                        panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn_local(|| ()))));
                    (spawned.is_err(), local.is_err())
                })
            })
        });
        assert_eq!(refused, (true, true));
    });
}

#[test]
fn a_scope_refuses_to_spawn_in_unblock_and_still_ends() {
    with_workers(1, || {
        let refused = ecru::scope(|s| {
            ecru::unblock(|| {
                panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn(|| ()))))
                    .map_err(|p| message(&*p).to_owned())
            })
        });
        assert!(refused.unwrap_err().contains("`spawn` called on a thread"));
    });
}

#[test]
fn scopes_and_runs_in_unblock() {
    with_workers(1, || {
        let scope = ecru::unblock(|| panic::catch_unwind(|| ecru::scope(|_| ())).is_err());
        assert!(scope, "a plain thread has no task to open a scope in");
        assert_eq!(
            ecru::unblock(|| ecru::run(|| ecru::scope(|s| s.spawn(|| 5).join().unwrap()))),
            5
        );
    });
}

#[test]
fn a_request_reaches_a_time_limit_inside_unblock() {
    with_workers(1, || {
        ecru::scope(|s| {
            let (begun, has_begun) = mpsc::channel();
            let child = s.spawn(move || {
                ecru::unblock(|| {
                    ecru::timeout(HOUR, || {
                        begun.send(()).unwrap();
                        let since = Instant::now();
                        while !ecru::is_cancelled() && since.elapsed() < Duration::from_secs(5) {
                            thread::yield_now();
                        }
                        ecru::is_cancelled()
                    })
                })
            });
            ecru::unblock(move || {
                // The child starts while this task waits.
                has_begun.recv().unwrap();
            });
            child.cancel();
            assert_eq!(child.join().unwrap(), Ok(true));
        });
    });
}

#[test]
fn a_result_that_waits_when_it_is_dropped_leaves_nothing_in_the_tree() {
    with_workers(1, || {
        let waited = &AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..8 {
                drop(s.spawn(move || {
                    OnDrop(move || {
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                        waited.fetch_add(1, Ordering::Relaxed);
                    })
                }));
            }
            ecru::sleep(Duration::from_millis(2)).unwrap();
            while waited.load(Ordering::Relaxed) < 8 {
                ecru::yield_now().unwrap();
            }
            // Other boxes take the places of the old ones.
            let later: Vec<_> = (0..8).map(|_| s.spawn(|| ecru::sleep(HOUR))).collect();
            ecru::yield_now().unwrap();
            s.cancel();
            assert!(
                later
                    .iter()
                    .all(|task| matches!(task.join(), Ok(Err(_)) | Err(JoinError::Cancelled)))
            );
        });
    });
}

#[test]
fn what_a_run_leaves_behind_may_try_to_spawn_and_to_wait() {
    let outcome = panic::catch_unwind(|| {
        with_workers(1, || {
            ecru::spawn(|| panic!("on purpose"));
            OnDrop(|| {
                assert!(panic::catch_unwind(|| ecru::spawn(|| ())).is_err());
                let _ = ecru::sleep(Duration::from_millis(1));
            })
        })
    });
    assert_eq!(message(&*outcome.err().unwrap()), "on purpose");
}

#[test]
fn a_request_that_comes_as_the_run_ends_finds_nothing_freed() {
    for _ in 0..100 {
        ecru::cancel_scope(|c| {
            let (begun, has_begun) = mpsc::channel();
            let canceller = thread::spawn(move || {
                has_begun.recv().unwrap();
                c.cancel();
            });
            with_workers(1, || {
                let _ = ecru::sleep(Duration::from_nanos(1));
                begun.send(()).unwrap();
                let _ = ecru::yield_now();
            });
            canceller.join().unwrap();
        });
    }
    // Whoever uses the same worker's inbox next finds no stale message in it.
    assert_eq!(with_workers(1, || ecru::scope(|s| s.spawn(|| 1).join().unwrap())), 1);
}

#[test]
fn handles_outlive_their_run_and_cancel_as_it_ends() {
    for _ in 0..100 {
        let (give, take) = mpsc::channel::<ecru::JoinHandle<'static, bool>>();
        let canceller = thread::spawn(move || {
            let handle = take.recv().unwrap();
            handle.cancel();
            handle.join()
        });
        with_workers(1, || {
            give.send(ecru::spawn(|| ecru::sleep(Duration::from_micros(50)).is_ok())).unwrap();
        });
        assert!(matches!(canceller.join().unwrap(), Ok(_) | Err(JoinError::Cancelled)));
    }
}

#[test]
fn errors_and_payloads_that_panic_when_dropped_stop_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    with_workers(1, || {
        let result: Result<(), OnDrop<fn()>> = ecru::try_scope(|s| {
            for _ in 0..3 {
                s.spawn(|| Err::<(), _>(OnDrop::<fn()>(|| panic!("dropped"))));
            }
            Ok(())
        });
        let _ = std::mem::ManuallyDrop::new(result);
        ecru::scope(|s| {
            drop(s.spawn(|| Bomb));
            drop(s.spawn(|| OnDrop(|| panic::panic_any(Bomb))));
        });
        ecru::scope(|s| {
            s.cancel();
            let bomb = Bomb;
            let never = s.spawn(move || drop(bomb));
            assert!(matches!(never.join(), Err(JoinError::Panicked(_))));
        });
    });
}

#[test]
fn a_hook_whose_payload_panics_when_dropped_is_over_all_the_same() {
    ecru::run(|| {
        ecru::cancel_scope(|c| {
            ecru::on_cancel(|| panic::panic_any(OnDrop(|| panic!("dropped"))), || c.cancel());
        });
    });
}

#[test]
fn hooks_may_cancel_their_own_scope_and_end_before_it() {
    ecru::run(|| {
        let calls = AtomicUsize::new(0);
        ecru::cancel_scope(|c| {
            let again = c.clone();
            let hook = || {
                again.cancel();
                calls.fetch_add(1, Ordering::Relaxed);
            };
            ecru::on_cancel(hook, || {
                c.cancel();
                c.cancel();
            });
        });
        assert_eq!(calls.into_inner(), 1);
    });
}

#[test]
fn a_join_in_a_destructor_during_unwinding_starts_nothing() {
    with_workers(1, || {
        let ran = &Cell::new(0);
        ecru::scope(|s| {
            let other = s.spawn_local(move || {
                ran.set(ran.get() + 1);
                ecru::sleep(Duration::from_millis(1))
            });
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                let _join =
                    OnDrop(|| assert!(matches!(other.join(), Err(JoinError::CallerCancelled))));
                panic!("on purpose");
            }));
            assert!(caught.is_err());
            assert!(other.join().unwrap().is_ok(), "nobody asked it to stop");
        });
        assert_eq!(ran.get(), 1);
    });
}

#[test]
fn who_yields_while_it_unwinds_stops_nobody_else() {
    with_workers(1, || {
        ecru::scope(|s| {
            let healthy = s.spawn(|| {
                (0..10).map(|_| ecru::sleep(Duration::from_micros(1))).all(|slept| slept.is_ok())
            });
            let caught = panic::catch_unwind(|| {
                let _yield = OnDrop(|| {
                    for _ in 0..10 {
                        assert!(ecru::yield_now().is_err());
                    }
                });
                panic!("on purpose");
            });
            assert!(caught.is_err());
            assert!(healthy.join().unwrap());
        });
    });
}

#[test]
fn a_scope_in_a_destructor_during_unwinding_awaits_its_children() {
    with_workers(2, || {
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let healthy =
                s.spawn(|| (0..20).all(|_| ecru::sleep(Duration::from_micros(100)).is_ok()));
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                let _scope = OnDrop(|| {
                    ecru::scope(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| {
                                ecru::sleep(Duration::from_millis(1)).unwrap();
                                ended.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
                panic!("on purpose");
            }));
            assert!(caught.is_err());
            assert!(healthy.join().unwrap());
        });
        assert_eq!(ended.into_inner(), 4);
    });
}

#[test]
fn a_lazy_map_that_changes_hands_does_not_unlock_a_coroutine() {
    with_workers(1, || {
        ecru::scope(|s| {
            let mut lazy = s.map_buffered(2, 0..4, |n| n);
            assert_eq!(lazy.next().unwrap().unwrap(), 0);
            let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                drop(lazy);
                ecru::scope(|_| {
                    panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err()
                })
            });
            assert_eq!(
                coroutine.resume(()),
                CoroutineState::Complete(true),
                "it must not suspend in a scope"
            );
        });
    });
}

#[test]
fn a_generator_whose_body_parks_its_task() {
    with_workers(1, || {
        ecru::scope(|s| {
            let other = s.spawn(|| ecru::sleep(Duration::from_micros(200)).is_ok());
            let numbers = Generator::new(|yielder| {
                for n in 0..10 {
                    ecru::sleep(Duration::from_micros(100)).unwrap();
                    yielder.suspend(n);
                    ecru::scope(|s| s.spawn(|| ()).join().unwrap());
                }
            });
            assert_eq!(numbers.sum::<i32>(), 45);
            assert!(other.join().unwrap());
        });
    });
}

#[test]
fn a_coroutine_goes_on_in_another_task_of_its_worker() {
    with_workers(1, || {
        ecru::scope(|s| {
            let coroutine = Coroutine::new(|yielder: &Yielder<(), ecru::task::TaskId>, ()| {
                yielder.suspend(ecru::task::current().id());
                ecru::sleep(Duration::from_micros(50)).unwrap();
                ecru::task::current().id()
            });
            let CoroutineState::Yielded(first) = coroutine.resume(()) else { panic!("it yields") };
            let second = s.spawn_local(move || (coroutine.resume(()), ecru::task::current().id()));
            let (state, own) = second.join().unwrap();
            assert_eq!(state, CoroutineState::Complete(own));
            assert_ne!(first, own);
        });
    });
}

#[test]
fn a_run_in_a_coroutine_cannot_be_suspended() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        with_workers(1, || {
            assert!(panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err());
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(Duration::from_micros(1)).is_ok()).join().unwrap()
            })
        })
    });
    assert_eq!(coroutine.resume(()), CoroutineState::Complete(true));
}

#[test]
fn a_run_inside_a_run_is_refused_but_not_in_unblock_or_on_a_thread() {
    ecru::run(|| {
        assert!(panic::catch_unwind(|| ecru::run(|| ())).is_err());
        let inner = Runtime::builder().workers(1).build().unwrap();
        assert!(panic::catch_unwind(AssertUnwindSafe(|| inner.run(|| ()))).is_err());
        assert_eq!(thread::scope(|t| t.spawn(|| inner.run(|| 1)).join().unwrap()), 1);
        // Ended and dropped in a task of another.
        drop(inner);
        assert!(ecru::sleep(Duration::from_micros(1)).is_ok());
    });
}

#[test]
fn a_join_from_a_plain_thread_and_from_another_run() {
    with_workers(1, || {
        let slow = || s_sleep(Duration::from_millis(1));
        let (a, b) = (ecru::spawn(slow), ecru::spawn(slow));
        let joined = ecru::unblock(|| (a.join().unwrap(), with_workers(1, || b.join().unwrap())));
        assert_eq!(joined, (true, true));
    });
}

fn s_sleep(duration: Duration) -> bool {
    ecru::sleep(duration).is_ok()
}

#[test]
fn a_child_in_the_middle_of_the_own_queue_is_joined_and_its_entry_passed_over() {
    for workers in [1, 2] {
        with_workers(workers, || {
            ecru::scope(|s| {
                let tasks: Vec<_> =
                    (0..9).map(|n| s.spawn(move || ecru::yield_now().map(|()| n))).collect();
                for n in [4, 0, 8, 3, 5, 1, 7, 2, 6] {
                    assert_eq!(tasks[n].join().unwrap(), Ok(n));
                }
            });
        });
    }
}

#[test]
fn results_are_dropped_once_whatever_becomes_of_the_handle() {
    let dropped = Arc::new(AtomicUsize::new(0));
    with_workers(2, || {
        let count = || {
            let dropped = Arc::clone(&dropped);
            OnDrop(move || {
                dropped.fetch_add(1, Ordering::Relaxed);
            })
        };
        for round in 0..100 {
            ecru::scope(|s| {
                let value = count();
                let handle = s.spawn(move || value);
                match round % 4 {
                    0 => drop(handle),
                    1 => drop(handle.join()),
                    2 => {
                        s.spawn(move || drop(handle));
                    }
                    _ => {
                        let _ = handle.join_timeout(Duration::ZERO);
                    }
                }
            });
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}

#[test]
fn a_shield_that_runs_out_lets_the_request_through_to_what_hangs_below() {
    with_workers(2, || {
        ecru::cancel_scope(|c| {
            c.cancel();
            let children = ecru::shield_for(Duration::from_millis(2), || {
                ecru::scope(|s| {
                    let children: Vec<_> = (0..4)
                        .map(|_| s.spawn(|| ecru::timeout(HOUR, || ecru::sleep(HOUR))))
                        .collect();
                    ecru::shield(|| {
                        children.iter().map(|child| child.join().unwrap()).collect::<Vec<_>>()
                    })
                })
            });
            assert!(children.iter().all(|child| matches!(child, Ok(Err(_)))));
        });
    });
}

#[test]
fn two_requests_from_elsewhere_and_none_is_lost() {
    with_workers(2, || {
        for _ in 0..500 {
            ecru::scope(|s| {
                let (give, take) = mpsc::channel();
                let waiting = s.spawn(move || {
                    ecru::cancel_scope(|outer| {
                        ecru::shield(|| {
                            ecru::cancel_scope(|inner| {
                                give.send((outer, inner)).unwrap();
                                ecru::sleep(HOUR)
                            })
                        })
                    })
                });
                ecru::unblock(move || {
                    let (outer, inner) = take.recv().unwrap();
                    outer.cancel();
                    inner.cancel();
                });
                assert!(waiting.join().unwrap().is_err());
            });
        }
    });
}

#[test]
fn handles_cancel_tasks_as_they_start() {
    with_workers(2, || {
        for _ in 0..500 {
            ecru::scope(|s| {
                let tasks: Vec<_> =
                    (0..4).map(|_| s.spawn(|| ecru::sleep(HOUR).is_err())).collect();
                ecru::unblock(|| tasks.iter().for_each(|task| task.cancel()));
                for task in &tasks {
                    assert!(matches!(task.join(), Ok(true) | Err(JoinError::Cancelled)));
                }
            });
        }
    });
}

#[test]
fn the_last_handle_of_a_child_is_dropped_by_its_sibling_under_load() {
    with_workers(2, || {
        let kept = &Mutex::new(Vec::new());
        ecru::scope(|s| {
            for n in 0..200 {
                let child = s.spawn(move || vec![n; 4]);
                kept.lock().unwrap().push(child.is_finished());
                s.spawn(move || drop(child));
            }
        });
        assert_eq!(kept.lock().unwrap().len(), 200);
    });
}

#[cfg(not(ecru_baton))]
/// Spins, without a wait that the library would notice, until the flag is up; how long that took.
fn spin_until(flag: &AtomicBool) -> Duration {
    let begin = Instant::now();
    while !flag.load(Ordering::Acquire) && begin.elapsed() < Duration::from_secs(3) {
        std::hint::spin_loop();
        if begin.elapsed() > Duration::from_micros(50) {
            thread::yield_now();
        }
    }
    begin.elapsed()
}

#[cfg(not(ecru_baton))]
/// A spawn wakes the first worker that sleeps, to see whether the child needs one. `delay` later that worker is given other work,
/// and the spawner is busy, too. Returns how long the child waited for the other one that sleeps.
fn summon_a_worker_that_gets_other_work(delay: Duration) -> Duration {
    with_workers(3, || {
        let (started, ran, go) =
            (&AtomicUsize::new(0), &AtomicBool::new(false), &AtomicBool::new(false));
        ecru::scope(|s| {
            let start = |_| {
                s.spawn(move || {
                    let second = thread::current().name().is_some_and(|name| name.ends_with("-2"));
                    started.fetch_add(if second { 0x10 } else { 1 }, Ordering::AcqRel);
                    // One on each of the other two workers.
                    while started.load(Ordering::Acquire) != 0x11 {
                        thread::yield_now();
                    }
                    assert!(ecru::sleep(HOUR).is_err());
                    spin_until(ran);
                })
            };
            let tasks = [0, 1].map(start);
            while started.load(Ordering::Acquire) != 0x11 {
                thread::yield_now();
            }
            // Until these workers sleep for good.
            thread::sleep(Duration::from_millis(15));
            thread::scope(|threads| {
                threads.spawn(|| {
                    spin_until(go);
                    let begin = Instant::now();
                    while begin.elapsed() < delay {}
                    tasks[0].cancel();
                });
                thread::sleep(Duration::from_millis(1));
                go.store(true, Ordering::Release);
                s.spawn(move || ran.store(true, Ordering::Release));
                let took = spin_until(ran);
                tasks[1].cancel();
                took
            })
        })
    })
}

/// Not on the baton: it tells the workers apart by the names of their threads, and there tasks have threads of their own.
#[cfg(not(ecru_baton))]
#[test]
fn a_summons_that_finds_a_worker_busy_goes_to_the_next() {
    for attempt in 0..12 {
        let took = summon_a_worker_that_gets_other_work(Duration::from_nanos(attempt * 500));
        assert!(took < Duration::from_millis(500), "the child waited for {took:?}");
    }
}
