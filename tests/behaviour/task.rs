//! Tasks as such: identity, placement, fairness, panics, task-locals, `unblock`.

use std::cell::Cell;
use std::collections::HashSet;
use std::error::Error;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ecru::net::{TcpListener, TcpStream};
use ecru::{Elapsed, JoinError};

use crate::support::{
    HOUR, OnDrop, each_run, forever, is_child, ms, panic_text, quiet_panic, run_on, settle,
    start_again, text_of, until,
};

/// Every task has a number of its own, and a name if it was given one.
#[test]
fn task_01_current() {
    each_run(|| {
        let root = ecru::task::current();
        let tasks = ecru::scope(|s| {
            let plain: Vec<_> = (0..20).map(|_| s.spawn(ecru::task::current)).collect();
            let named = s.builder().name("indexer").spawn(|| {
                let before = ecru::task::current();
                ecru::sleep(ms(1)).unwrap();
                assert_eq!(ecru::task::current(), before);
                before
            });
            assert_eq!(named.join().unwrap().name(), Some("indexer"));
            plain.iter().map(|task| task.join().unwrap()).collect::<Vec<_>>()
        });
        let mut ids: HashSet<_> = tasks.iter().map(ecru::task::Task::id).collect();
        assert!(ids.insert(root.id()));
        assert_eq!(ids.len(), 21);
        assert!(tasks.iter().all(|task| task.name().is_none()));
    });
    assert!(panic_text(ecru::task::current).contains("outside a task"));
}

/// Tasks that yield take turns.
#[test]
fn task_02_yields() {
    run_on(1, || {
        let (turns, started) = (Mutex::new(Vec::new()), AtomicU32::new(0));
        ecru::scope(|s| {
            for name in ['a', 'b'] {
                let (turns, started) = (&turns, &started);
                s.spawn(move || {
                    started.fetch_add(1, SeqCst);
                    until(|| started.load(SeqCst) == 2);
                    for _ in 0..4 {
                        turns.lock().unwrap().push(name);
                        ecru::yield_now().unwrap();
                    }
                });
            }
        });
        let turns = turns.into_inner().unwrap();
        assert_eq!(turns.len(), 8);
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    });
}

/// `yield_now` is a cancel point, and yields all the same.
#[test]
fn task_03_yield_is_a_cancel_point() {
    run_on(1, || {
        let ran = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| ran.store(true, SeqCst));
            ecru::cancel_scope(|c| {
                c.cancel();
                for _ in 0..3 {
                    assert!(ecru::yield_now().is_err());
                }
            });
            assert!(ran.load(SeqCst));
        });
    });
}

/// Tasks start in the order of spawning.
#[test]
fn task_04_first_come_first_served() {
    run_on(1, || {
        let order = Mutex::new(Vec::new());
        ecru::scope(|s| {
            for number in 0..3 {
                let order = &order;
                s.spawn(move || order.lock().unwrap().push(number));
            }
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    });
}

/// A task that has started stays where it is.
#[test]
fn task_05_keeps_its_thread() {
    thread_local! {
        static MARK: Cell<u64> = const { Cell::new(0) };
    }
    run_on(2, || {
        let next = AtomicU32::new(1);
        ecru::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    let (own, here) = (next.fetch_add(1, SeqCst), thread::current().id());
                    for round in 0..10 {
                        MARK.set(u64::from(own));
                        ecru::scope(|inner| {
                            drop(inner.spawn(|| ()).join());
                        });
                        // Nobody else has run here since `set` only if nobody yields: so set and yield apart.
                        if round % 2 == 0 {
                            ecru::yield_now().unwrap();
                        } else {
                            ecru::sleep(Duration::from_micros(100)).unwrap();
                        }
                        assert_eq!(thread::current().id(), here);
                        assert_ne!(MARK.get(), 0);
                    }
                });
            }
        });
    });
}

/// What waits behind a busy task is taken by an idle worker.
#[test]
fn task_06_unstarted_work_spreads() {
    run_on(2, || {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let here = thread::current().id();
            let others: Vec<_> = (0..20)
                .map(|_| {
                    s.spawn(|| {
                        ran.fetch_add(1, SeqCst);
                        thread::current().id()
                    })
                })
                .collect();
            // Never waits: this worker starts none of them.
            let start = Instant::now();
            while ran.load(SeqCst) < 20 {
                assert!(start.elapsed() < Duration::from_secs(10), "nobody takes them");
                std::hint::spin_loop();
            }
            assert!(others.iter().all(|task| task.join().unwrap() != here));
        });
    });
}

/// Tasks that are always ready do not keep a timer from ringing.
#[test]
fn task_07_ready_tasks_starve_no_timer() {
    run_on(1, || {
        let stop = AtomicBool::new(false);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                });
            }
            let before = Instant::now();
            ecru::sleep(ms(10)).unwrap();
            assert!(before.elapsed() < Duration::from_secs(5));
            stop.store(true, SeqCst);
        });
    });
}

/// Nor a socket from being read.
#[test]
fn task_08_ready_tasks_starve_no_socket() {
    run_on(1, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let stop = AtomicBool::new(false);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                });
            }
            s.spawn(|| {
                settle();
                server.write_all(b"ecru").unwrap();
            });
            let mut buffer = [0; 4];
            client.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"ecru");
            stop.store(true, SeqCst);
        });
    });
}

/// A task that is parked in the middle of unwinding does not disturb its siblings, nor they it.
#[test]
fn task_09_panics_are_its_own() {
    run_on(1, || {
        let (parked, release) = (AtomicBool::new(false), AtomicBool::new(false));
        let mutex = Mutex::new(0);
        ecru::scope(|s| {
            let unwinding = s.spawn(|| {
                let _parks = OnDrop(|| {
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            parked.store(true, SeqCst);
                            until(|| release.load(SeqCst));
                        });
                    });
                });
                quiet_panic("the first");
            });
            until(|| parked.load(SeqCst));
            let sibling = s.spawn(|| {
                *mutex.lock().unwrap() += 1;
                assert!(ecru::sleep(ms(1)).is_ok());
                let own = catch_unwind(AssertUnwindSafe(|| {
                    let _waits = OnDrop(|| _ = ecru::shield(|| ecru::sleep(ms(1))));
                    quiet_panic("the second");
                }));
                assert_eq!(text_of(&*own.unwrap_err()), "the second");
                *mutex.lock().unwrap() += 1;
                ecru::sleep(ms(1)).is_ok()
            });
            assert!(sibling.join().unwrap());
            release.store(true, SeqCst);
            let Err(JoinError::Panicked(payload)) = unwinding.join() else {
                panic!("it has not panicked")
            };
            assert_eq!(payload.message(), Some("the first"));
        });
        assert_eq!(*mutex.lock().unwrap(), 2);
        assert!(!thread::panicking());
    });
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if depth == 0 { 0 } else { recurse(depth - 1) + frame[3] }
}

/// The report of an overflow says whose stack it was.
#[test]
fn task_10_overflow_is_named() {
    const NAME: &str = "task::task_10_overflow_is_named";
    if is_child(NAME) {
        run_on(1, || {
            ecru::scope(|s| {
                let child = s.builder().name("deep thought").stack_size(64 * 1024);
                drop(child.spawn(|| recurse(1 << 40)).join());
            });
        });
        return;
    }
    let output = start_again(NAME).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("deep thought"), "{text}");
    assert!(text.contains(file!()), "{text}");
    assert!(text.contains("65536 bytes") && text.contains("stack_size("), "{text}");
}

/// In `no_suspend` nothing waits, ready or not.
#[test]
fn task_12_no_suspend() {
    each_run(|| {
        ecru::scope(|s| {
            let ended = s.spawn(|| 5);
            until(|| ended.is_finished());
            let waits: [&dyn Fn(); 7] = [
                &|| _ = ecru::sleep(Duration::ZERO),
                &|| _ = ecru::yield_now(),
                &|| _ = ecru::checkpoint(),
                &|| drop(ended.join()),
                &|| drop(ended.join_timeout(HOUR)),
                &|| ecru::scope(|_| ()),
                &|| ecru::unblock(|| ()),
            ];
            for wait in waits {
                let text = panic_text(|| ecru::no_suspend(wait));
                assert!(text.contains("no_suspend"), "{text}");
            }
            assert!(ecru::no_suspend(|| ended.is_finished()));
            assert_eq!(ended.join().unwrap(), 5);
        });
    });
}

/// `ecru::spawn` gives a handle.
#[test]
fn task_13_static_spawn() {
    each_run(|| {
        let handle = ecru::spawn(|| ecru::spawn(|| 5).join().unwrap() + 1);
        assert_eq!(handle.join().unwrap(), 6);
        let from_child = ecru::scope(|s| s.spawn(|| ecru::spawn(|| 7)).join().unwrap());
        assert_eq!(from_child.join().unwrap(), 7);
    });
}

/// A panic that nobody takes is the run's, at its end.
#[test]
fn task_14_static_panic() {
    for workers in [1, 2] {
        let ended = Arc::new(AtomicBool::new(false));
        let text = panic_text(|| {
            run_on(workers, || {
                let noted = Arc::clone(&ended);
                ecru::spawn(|| quiet_panic("nobody's"));
                ecru::spawn(move || {
                    ecru::sleep(ms(2)).unwrap();
                    noted.store(true, SeqCst);
                });
            })
        });
        assert!(text.contains("nobody's"), "{text}");
        assert!(ended.load(SeqCst));
        // Joined, it is nobody else's business.
        run_on(workers, || {
            assert!(ecru::spawn(|| quiet_panic("joined")).join().is_err());
        });
    }
}

/// Each clone of a shared handle gives the value.
#[test]
fn task_15_shared_handle() {
    each_run(|| {
        let release = AtomicBool::new(false);
        ecru::scope(|s| {
            let slow = s.builder().name("slow").spawn(|| {
                until(|| release.load(SeqCst));
                String::from("value")
            });
            let shared = slow.shared();
            assert_eq!((shared.name(), shared.is_finished()), (Some("slow"), false));
            assert!(shared.join_timeout(ms(1)).is_none());
            ecru::scope(|inner| {
                let joiners: Vec<_> = (0..5)
                    .map(|_| {
                        let shared = shared.clone();
                        inner.spawn(move || shared.join())
                    })
                    .collect();
                settle();
                let cancelled = inner.spawn(|| shared.join());
                settle();
                cancelled.cancel();
                release.store(true, SeqCst);
                for joiner in joiners {
                    assert_eq!(joiner.join().unwrap().unwrap(), "value");
                }
            });
            assert_eq!(shared.join().unwrap(), "value");
            assert_eq!(shared.join_timeout(HOUR).unwrap().unwrap(), "value");
            assert!(shared.is_finished());
        });
    });
}

/// The first joiner gets a panic's payload, later ones its message.
#[test]
fn task_16_shared_panic() {
    each_run(|| {
        ecru::scope(|s| {
            let shared = s.spawn(|| -> u8 { quiet_panic("oh dear") }).shared();
            let other = shared.clone();
            let [first, second] = [shared.join(), other.join()].map(|joined| match joined {
                Err(JoinError::Panicked(payload)) => payload,
                other => panic!("not panicked: {other:?}"),
            });
            assert_eq!(first.message(), Some("oh dear"));
            assert_eq!(second.message(), Some("oh dear"));
            assert_eq!(first.into_inner().downcast_ref(), Some(&"oh dear"));
            assert_eq!(text_of(&*second.into_inner()), "oh dear");
        });
    });
}

/// Errors go to other threads and into `io::Error`, and can be found there.
#[test]
fn task_17_errors_travel() {
    fn travels<E: Error + Send + Sync + 'static + Into<io::Error>>(error: E, says: &str) {
        let text = error.to_string();
        assert!(text.contains(says), "{text}");
        let error = thread::spawn(move || -> io::Error { error.into() }).join().unwrap();
        assert!(error.get_ref().unwrap().downcast_ref::<E>().is_some(), "{text}");
        assert!(error.to_string().contains(says), "{error}");
    }
    each_run(|| {
        ecru::scope(|s| {
            let panicked = s.spawn(|| quiet_panic("oh dear")).join().unwrap_err();
            travels(panicked, "panicked: oh dear");
            let child = s.spawn(|| ());
            child.join().unwrap();
            travels(child.join().unwrap_err(), "taken before");
        });
        travels(JoinError::Cancelled, "before it began");
        travels(JoinError::Failed, "failed");
        travels(JoinError::Empty, "no task");
        travels(JoinError::CallerCancelled, "waiting");
        travels::<Elapsed>(ecru::timeout(ms(0), forever).unwrap_err(), "time limit");
        // Where the caller was cancelled, that is what the error is made into.
        ecru::cancel_scope(|c| {
            c.cancel();
            let error = io::Error::from(JoinError::CallerCancelled);
            assert!(ecru::Cancelled::find(&error).is_some());
        });
    });
}

ecru::task_local! {
    static DEPTH: u32;
}

/// A child sees what was bound where its scope was opened.
#[test]
fn task_18_local_in_a_child() {
    each_run(|| {
        assert_eq!(DEPTH.try_with(|_| ()), None);
        DEPTH.scope(1, || {
            ecru::scope(|s| {
                let outside = DEPTH.scope(2, || s.spawn(|| DEPTH.get()));
                assert_eq!(outside.join().unwrap(), 1);
                let deeper = s.spawn(|| {
                    DEPTH.scope(3, || {
                        ecru::yield_now().unwrap();
                        ecru::scope(|inner| inner.spawn(|| DEPTH.get()).join().unwrap())
                    })
                });
                assert_eq!((deeper.join().unwrap(), DEPTH.get()), (3, 1));
            });
        });
    });
}

/// A task of the run sees what was bound around the run.
#[test]
fn task_19_local_in_the_run() {
    DEPTH.scope(1, || {
        each_run(|| {
            let seen = DEPTH.scope(2, || ecru::spawn(|| DEPTH.get()));
            assert_eq!(seen.join().unwrap(), 1);
        });
    });
    each_run(|| {
        let seen = DEPTH.scope(2, || ecru::spawn(|| DEPTH.try_with(|depth| *depth)));
        assert_eq!(seen.join().unwrap(), None);
    });
}

/// When a binding's body ends, the outer value is back.
#[test]
fn task_20_local_is_given_back() {
    each_run(|| {
        DEPTH.scope(1, || {
            assert_eq!(DEPTH.scope(2, || DEPTH.get()), 2);
            assert_eq!(DEPTH.get(), 1);
            assert_eq!(panic_text(|| DEPTH.scope(3, || quiet_panic("out"))), "out");
            assert_eq!(DEPTH.get(), 1);
        });
        assert!(panic_text(|| DEPTH.get()).contains("no value is bound"));
    });
}

/// `unblock` borrows, and its worker goes on.
#[test]
fn task_21_unblock_borrows() {
    run_on(1, || {
        let mut words = vec!["undyed"];
        let meanwhile = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| meanwhile.store(true, SeqCst));
            let here = thread::current().id();
            let there = ecru::unblock(|| {
                words.push("cloth");
                while !meanwhile.load(SeqCst) {
                    thread::yield_now();
                }
                thread::current().id()
            });
            assert_ne!(there, here);
        });
        assert_eq!(words, ["undyed", "cloth"]);
    });
}

/// A cancelled task's `unblock` runs to its end.
#[test]
fn task_22_unblock_is_no_cancel_point() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_eq!(ecru::unblock(|| 5), 5);
        });
        ecru::cancel_scope(|c| {
            let value = ecru::unblock(|| {
                c.cancel();
                thread::sleep(ms(1));
                5
            });
            assert_eq!(value, 5);
        });
    });
}

/// A panic of the closure is the task's.
#[test]
fn task_23_unblock_panics() {
    each_run(|| {
        assert_eq!(panic_text(|| ecru::unblock(|| quiet_panic("elsewhere"))), "elsewhere");
        assert_eq!(ecru::spawn_blocking(|| 5), 5);
    });
}

/// The closure is still the task's: its cancellation, its locals.
#[test]
fn task_24_unblock_keeps_the_task() {
    each_run(|| {
        DEPTH.scope(4, || {
            let seen = ecru::cancel_scope(|c| {
                let before = ecru::unblock(ecru::is_cancelled);
                c.cancel();
                (before, ecru::unblock(|| (ecru::is_cancelled(), DEPTH.get())))
            });
            assert_eq!(seen, (false, (true, 4)));
        });
        // The next closure on that thread is another task's.
        assert_eq!(ecru::unblock(|| (ecru::is_cancelled(), DEPTH.try_with(|_| ()))), (false, None));
    });
}

/// On a plain thread the closure runs in place.
#[test]
fn task_25_unblock_on_a_thread() {
    let here = thread::current().id();
    assert_eq!(ecru::unblock(|| thread::current().id()), here);
}

/// Closures that wait for a task that needs one more thread get it.
#[test]
fn task_26_unblock_grows_slow() {
    /// One more than the pool has threads as a rule.
    const CLOSURES: usize = 513;
    run_on(1, || {
        let waiting = AtomicUsize::new(0);
        ecru::scope(|s| {
            let last = s.spawn(|| {
                until(|| waiting.load(SeqCst) >= 512);
                ecru::unblock(|| 5)
            });
            ecru::scope(|inner| {
                for _ in 0..CLOSURES {
                    inner.spawn(|| {
                        ecru::unblock(|| {
                            waiting.fetch_add(1, SeqCst);
                            while !last.is_finished() {
                                assert!(ecru::sleep(ms(5)).is_ok());
                            }
                        });
                    });
                }
            });
            assert_eq!(last.join().unwrap(), 5);
        });
    });
}

/// How much of this process is in memory.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// A task that has not started is a small box.
#[test]
fn task_27_million_unstarted_slow() {
    const NAME: &str = "task::task_27_million_unstarted_slow";
    const TASKS: usize = 1_000_000;
    if !is_child(NAME) {
        let output = start_again(NAME).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("bytes each"), "{text}");
        return;
    }
    run_on(1, || {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let before = resident_bytes();
            for _ in 0..TASKS {
                s.spawn(|| ran.fetch_add(1, SeqCst));
            }
            assert_eq!(ran.load(SeqCst), 0);
            let each = (resident_bytes() - before) / TASKS;
            assert!(each < 300, "{each} bytes for each");
            eprintln!("{each} bytes each");
        });
        assert_eq!(ran.load(SeqCst), TASKS);
    });
}

/// A fan-out that is joined goes depth first: its stacks are few.
#[test]
fn task_28_recursion_goes_deep_first_slow() {
    fn tree(levels: u32, live: &AtomicUsize, most: &AtomicUsize) -> u32 {
        if levels == 0 {
            return 1;
        }
        most.fetch_max(live.fetch_add(1, SeqCst) + 1, SeqCst);
        let leaves = ecru::scope(|s| {
            let left = s.spawn(|| tree(levels - 1, live, most));
            let right = s.spawn(|| tree(levels - 1, live, most));
            left.join().unwrap() + right.join().unwrap()
        });
        live.fetch_sub(1, SeqCst);
        leaves
    }
    let (live, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    assert_eq!(run_on(1, || tree(20, &live, &most)), 1 << 20);
    assert!(most.load(SeqCst) < 60, "{} stacks at once", most.load(SeqCst));
}

/// Nothing of the sort that a barrier of the standard library blocks: two tasks on two workers.
#[test]
fn task_06_unstarted_work_spreads_past_a_blocked_worker() {
    run_on(2, || {
        let meet = Barrier::new(2);
        ecru::scope(|s| {
            s.spawn(|| meet.wait());
            meet.wait();
        });
    });
}
