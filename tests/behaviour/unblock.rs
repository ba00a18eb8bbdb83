//! `unblock`, beyond its rows in `doc/behaviour/task.md`.

use crate::streams::{loud, pair};
use crate::support::{
    HOUR, each_run, ms, now, panic_text, quiet_panic, run_on, settle, since, until,
};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[test]
fn unblock_borrows_and_returns_what_it_borrowed() {
    each_run(|| {
        let mut words = vec![String::from("a")];
        let here = thread::current().id();
        let last: &mut String = ecru::unblock(|| {
            assert_ne!(thread::current().id(), here);
            words.push(String::from("b"));
            words.last_mut().unwrap()
        });
        last.push('c');
        assert_eq!(words, ["a", "bc"]);
    });
}

/// In optimized builds, the locals of the closure lay in the frame of the task.
#[test]
fn unblock_gives_a_closure_the_stack_of_a_thread() {
    run_on(1, || {
        ecru::scope(|s| {
            s.builder().stack_size(64 << 10).spawn(|| {
                let sum = ecru::unblock(|| {
                    let large = std::hint::black_box([1_u8; 256 << 10]);
                    large.iter().map(|byte| u32::from(*byte)).sum::<u32>()
                });
                assert_eq!(sum, 256 << 10);
            });
        });
    });
}

#[test]
fn unblock_runs_in_place_on_a_plain_thread() {
    let here = thread::current().id();
    assert_eq!(ecru::unblock(|| thread::current().id()), here);
    assert_eq!(panic_text(|| ecru::unblock(|| quiet_panic("in place"))), "in place");
    // The same inside a closure, because the pool's thread is a plain one.
    each_run(|| {
        let (outer, inner) = ecru::unblock(|| {
            let outer = thread::current().id();
            (outer, ecru::unblock(|| thread::current().id()))
        });
        assert_eq!(outer, inner);
    });
}

#[test]
fn unblock_passes_its_panic_on_and_its_thread_is_used_again() {
    each_run(|| {
        for _ in 0..20 {
            assert_eq!(panic_text(|| ecru::unblock(|| quiet_panic("blocked"))), "blocked");
        }
        assert_eq!(ecru::unblock(|| 7), 7);
    });
}

#[test]
fn unblock_leaves_the_worker_to_others() {
    run_on(1, || {
        let go = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| {
                settle();
                go.store(true, SeqCst);
            });
            ecru::unblock(|| {
                while !go.load(SeqCst) {
                    thread::yield_now();
                }
            });
        });
    });
}

#[test]
fn unblock_runs_many_at_once() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        ecru::par::map(0..50, |_| {
            ecru::unblock(|| {
                here.fetch_add(1, SeqCst);
                while here.load(SeqCst) < 50 {
                    thread::yield_now();
                }
            });
        });
    });
}

#[test]
fn unblock_of_more_than_the_pool_has_threads_gets_through() {
    each_run(|| {
        let run = AtomicUsize::new(0);
        ecru::par::map(0..2_000, |_| ecru::unblock(|| run.fetch_add(1, SeqCst)));
        assert_eq!(run.load(SeqCst), 2_000);
    });
}

#[test]
fn unblock_is_awaited_although_its_task_is_cancelled() {
    each_run(|| {
        let (inside, seen) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                ecru::unblock(|| {
                    inside.store(true, SeqCst);
                    // Only a closure that checks notices the cancellation.
                    let start = now();
                    while !ecru::is_cancelled() {
                        assert!(since(start) < Duration::from_secs(30), "never heard of it");
                        thread::yield_now();
                    }
                    assert!(ecru::checkpoint().is_err());
                    seen.store(true, SeqCst);
                    7
                })
            });
            until(|| inside.load(SeqCst));
            child.cancel();
            assert_eq!(child.join().unwrap(), 7);
            assert!(seen.load(SeqCst));
        });
    });
}

#[test]
fn unblock_hears_of_every_kind_of_cancellation() {
    fn wait_until_cancelled() {
        let start = now();
        while !ecru::is_cancelled() {
            assert!(since(start) < Duration::from_secs(30), "never heard of it");
            thread::yield_now();
        }
    }
    each_run(|| {
        // A limit around it.
        let start = now();
        let _ = ecru::timeout(ms(5), || ecru::unblock(wait_until_cancelled));
        assert!(since(start) >= ms(5));
        // A limit around the scope of its task.
        let _ = ecru::timeout(ms(5), || {
            ecru::scope(|s| drop(s.spawn(|| ecru::unblock(wait_until_cancelled))));
        });
        // A request to a scope two levels up, by a thread.
        ecru::cancel_scope(|c| {
            ecru::scope(|outer| {
                outer.spawn(|| {
                    ecru::scope(|s| drop(s.spawn(|| ecru::unblock(wait_until_cancelled))))
                });
                ecru::shield(|| ecru::sleep(ms(2)).unwrap());
                thread::spawn(move || c.cancel());
            });
        });
        // A scope's own `cancel`.
        let begun = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::unblock(|| {
                    begun.store(true, SeqCst);
                    wait_until_cancelled();
                });
            });
            until(|| begun.load(SeqCst));
            s.cancel();
        });
        // Under a shield it sees no request.
        ecru::cancel_scope(|c| {
            c.cancel();
            assert!(!ecru::shield(|| ecru::unblock(ecru::is_cancelled)));
            assert!(ecru::unblock(ecru::is_cancelled));
        });
    });
}

/// A wait on the pool's thread blocks that thread, and has its task's limits.
#[test]
fn unblock_may_wait_inside() {
    each_run(|| {
        let (client, mut server) = pair();
        let value = ecru::unblock(|| {
            ecru::sleep(ms(1)).unwrap();
            server.write_all(b"x").unwrap();
            let mut byte = [0];
            (&client).read_exact(&mut byte).unwrap();
            byte[0]
        });
        assert_eq!(value, b'x');
        let start = now();
        let result = ecru::timeout(ms(5), || ecru::unblock(|| (&client).read(&mut [0])));
        assert!(result.is_err(), "{result:?}");
        let result = ecru::timeout(ms(5), || ecru::unblock(|| ecru::sleep(HOUR)));
        assert!(result.is_err());
        assert!(since(start) < HOUR / 100);
    });
}

/// Each level's closure waits for a task that itself needs a thread of the pool.
fn nested(handle: &ecru::RuntimeHandle, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let next = handle.clone();
    ecru::unblock(|| handle.spawn(move || nested(&next, depth - 1)).unwrap().join().unwrap() + 1)
}

#[test]
fn unblock_nests_deeper_than_a_small_pool() {
    each_run(|| assert_eq!(nested(&ecru::RuntimeHandle::current(), 60), 60));
}

/// The depth exceeds the documented number of threads: closures that wait for tasks do not count.
#[test]
fn unblock_nests_deeper_than_the_largest_pool_slow() {
    let _loud = loud();
    run_on(2, || assert_eq!(nested(&ecru::RuntimeHandle::current(), 600), 600));
}

#[test]
fn unblock_of_two_runtimes_at_once() {
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 0..2 {
            let order = &order;
            scope.spawn(move || {
                run_on(2, || {
                    ecru::par::map(0..50, |_| ecru::unblock(|| order.lock().unwrap().push(n)));
                });
            });
        }
    });
    assert_eq!(order.into_inner().unwrap().len(), 100);
}
