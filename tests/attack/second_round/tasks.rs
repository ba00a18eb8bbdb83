//! Attacks by tasks that never release their worker, on limits and shields, and by streams and
//! hooks that misbehave.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ecru::coroutine::{Generator, Yielder};
use ecru::io::CloseWrite;
use ecru::sync::poison;
use ecru::{Source, channel, source};

use super::support::{OnDrop, each_run, ms, panic_of, run_on};
use crate::common::{HOUR, PATIENCE, alone, until};

/// Repeats `op` until a sibling, which is ready from the start, has run.
#[track_caller]
fn lets_a_sibling_run(name: &str, op: impl Fn()) {
    let ran = AtomicBool::new(false);
    ecru::scope(|s| {
        s.spawn(|| ran.store(true, SeqCst));
        let start = Instant::now();
        while !ran.load(SeqCst) {
            op();
            assert!(start.elapsed() < PATIENCE / 2, "{name} lets nothing else run");
        }
    });
}

/// On one worker, a task repeats a call that never has to wait.
#[test]
fn a_call_that_need_not_wait_is_repeated_on_one_worker() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded::<u32>();
        let (sliding, _kept) = channel::sliding::<u32>(1);
        let (mutex, lock) = (ecru::sync::Mutex::new(0), ecru::sync::RwLock::new(0));
        let std_lock = poison::Mutex::new(0);
        let semaphore = ecru::sync::Semaphore::new(1);
        let (latch, notify) = (ecru::sync::Latch::new(0), ecru::sync::Notify::new());
        let one = ecru::sync::Barrier::new(1);
        let (reader, writer) = ecru::io::memory_pipe(64);
        let handle = ecru::spawn(|| 7).shared();
        let past = Instant::now();
        lets_a_sibling_run("send and recv", || {
            sender.send(1).unwrap();
            receiver.recv().unwrap();
        });
        lets_a_sibling_run("a sliding send", || sliding.send(1).unwrap());
        lets_a_sibling_run("a mutex", || *mutex.lock() += 1);
        lets_a_sibling_run("an RwLock", || {
            *lock.write() += 1;
            _ = *lock.read();
        });
        lets_a_sibling_run("std's mutex", || *std_lock.lock().unwrap() += 1);
        lets_a_sibling_run("a semaphore", || drop(semaphore.acquire().unwrap()));
        lets_a_sibling_run("a latch", || latch.wait().unwrap());
        lets_a_sibling_run("a notification", || {
            notify.notify_one();
            notify.wait().unwrap();
        });
        lets_a_sibling_run("a barrier of one", || _ = one.wait().unwrap());
        lets_a_sibling_run("a pipe", || {
            (&writer).write_all(b"x").unwrap();
            (&reader).read_exact(&mut [0]).unwrap();
        });
        lets_a_sibling_run("a join", || _ = handle.join().unwrap());
        lets_a_sibling_run("source::ready", || _ = source::ready(1).wait().unwrap());
        lets_a_sibling_run("block_on", || ecru::block_on(std::future::ready(())).unwrap());
        lets_a_sibling_run("sleep(0)", || ecru::sleep(Duration::ZERO).unwrap());
        lets_a_sibling_run("sleep_until(past)", || ecru::time::sleep_until(past).unwrap());
        lets_a_sibling_run("checkpoint", || ecru::checkpoint().unwrap());
        lets_a_sibling_run("after(0)", || _ = channel::after(Duration::ZERO).recv().unwrap());
        lets_a_sibling_run("scope and join", || {
            ecru::scope(|s| s.spawn(|| ()).join()).unwrap();
        });
        lets_a_sibling_run("select with default(0)", || {
            ecru::select! { recv(receiver) -> _ => (), default(Duration::ZERO) => () }
        });
        lets_a_sibling_run("recv_timeout(0)", || _ = receiver.recv_timeout(Duration::ZERO));
        lets_a_sibling_run("unblock", || ecru::unblock(|| ()));
        lets_a_sibling_run("timeout(0)", || {
            _ = ecru::timeout(Duration::ZERO, || ecru::sleep(HOUR));
        });
        lets_a_sibling_run("a cancelled scope", || {
            ecru::cancel_scope(|c| {
                c.cancel();
                _ = receiver.recv();
            });
        });
        lets_a_sibling_run("a shielded wait", || ecru::shield(|| latch.wait().unwrap()));
    });
}

/// Computes until it is cancelled, or for `limit`.
fn computes(limit: Duration) -> bool {
    let begun = Instant::now();
    while !ecru::is_cancelled() && begun.elapsed() < limit {
        std::hint::spin_loop();
    }
    ecru::is_cancelled()
}

/// Limits in the past and expired shields, in every nesting, around code that never waits.
#[test]
fn limits_and_shields_are_nested_around_code_that_computes() {
    each_run(|| {
        let past = Instant::now() - ms(5);
        assert!(ecru::timeout_at(past, || ecru::sleep(HOUR)).is_err());
        assert!(ecru::timeout_at(past, || ecru::timeout(HOUR, || ecru::sleep(HOUR))).is_err());
        assert!(ecru::timeout_at(past, || ecru::shield(|| ecru::sleep(ms(1)))).unwrap().is_ok());
        assert_eq!(ecru::timeout_at(past, || ecru::shield(|| computes(ms(3)))), Ok(false));
        ecru::cancel_scope(|c| {
            c.cancel();
            // The outer shield stays in force, however long the inner one lasts.
            assert!(!ecru::shield(|| ecru::shield_for(ms(1), || computes(ms(4)))));
            assert!(ecru::shield_for(Duration::ZERO, || computes(HOUR)));
            assert!(ecru::shield_for(Duration::ZERO, || ecru::sleep(HOUR)).is_err());
            assert!(!ecru::shield_for(Duration::MAX, || computes(ms(2))));
            assert!(ecru::shield(|| ecru::timeout(ms(1), || computes(HOUR))).unwrap_or(true));
        });
        fn tree(depth: u32) -> u64 {
            if depth == 0 {
                return 1;
            }
            let (a, b) = ecru::join!(tree(depth - 1), tree(depth - 1));
            a.unwrap_or(0) + b.unwrap_or(0)
        }
        assert_eq!(ecru::timeout_at(past, || tree(8)), Ok(256), "`join!` is no cancel point");
        assert!(ecru::timeout_at(past, || ecru::scope(|s| s.spawn(|| 1).join())).is_err());
        assert_eq!(ecru::timeout(HOUR, || tree(8)), Ok(256));
    });
}

/// Daemons compute and never wait. Their scopes end nevertheless, on one worker.
#[test]
fn a_daemon_computes_until_its_scope_ends() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn_daemon(|| {
                    begun.fetch_add(1, SeqCst);
                    while !ecru::is_cancelled() && ecru::checkpoint().is_ok() {
                        std::hint::spin_loop();
                    }
                });
            }
            s.spawn(|| {
                until(|| begun.load(SeqCst) == 2);
                ecru::sleep(ms(2)).unwrap();
            });
        });
        assert_eq!(begun.into_inner(), 2);
        let result = ecru::try_scope(|s| {
            s.spawn_daemon(|| {
                while ecru::checkpoint().is_ok() {}
                Err("the daemon's")
            });
            s.spawn(|| {
                ecru::sleep(ms(1)).unwrap();
                Ok(())
            });
            Ok::<_, &str>(5)
        });
        assert_eq!(result, Ok(5));
    });
}

/// A chain of three hundred tasks, each joined by the previous one, is ended by a limit that only
/// the last one can see.
#[test]
fn a_chain_of_joins_is_cut_by_a_limit() {
    fn chain(depth: u32) -> u32 {
        if depth == 0 {
            assert!(computes(HOUR));
            return 0;
        }
        ecru::scope(|s| s.spawn(|| chain(depth - 1)).join().map_or(0, |n| n + 1))
    }
    each_run(|| {
        let result = ecru::timeout(ms(5), || chain(300));
        // A join that has its value returns it.
        assert!(result.is_err() || result == Ok(300), "{result:?}");
    });
}

/// The predicate of a condition variable panics while it holds the lock; a sibling panics while a
/// guard is held across a wait.
#[test]
fn a_predicate_panics_with_the_lock_in_hand() {
    each_run(|| {
        for limited in [false, true] {
            let (mutex, condvar) = (poison::Mutex::new(0), poison::Condvar::new());
            let text = panic_of(|| {
                let guard = mutex.lock().unwrap();
                let panics = |_: &mut i32| -> bool { panic::resume_unwind(Box::new("p")) };
                if limited {
                    drop(condvar.wait_timeout_while(guard, HOUR, panics));
                } else {
                    drop(condvar.wait_while(guard, panics));
                }
            });
            assert_eq!(text.as_deref(), Some("p"));
            assert!(matches!(mutex.try_lock(), Err(poison::TryLockError::Poisoned(_))));
            let guard = mutex.lock().unwrap_err().into_inner();
            assert!(condvar.wait_timeout(guard, ms(1)).is_err(), "a poisoned lock says so");
            mutex.clear_poison();
            assert_eq!(mutex.into_inner().unwrap(), 0);
        }
        let mutex = poison::Mutex::new(0);
        let (locked, hold) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let holder = s.spawn_local(|| {
                let _guard = mutex.lock().unwrap();
                assert!(hold.recv().is_err(), "it holds the lock until the other one is over");
            });
            ecru::yield_now().unwrap();
            assert!(s.spawn_local(|| panic::resume_unwind(Box::new("other"))).join().is_err());
            drop(locked);
            holder.join().unwrap();
        });
        assert!(!mutex.is_poisoned());
    });
}

/// A stream that reports more bytes than it has read or written.
struct Liar {
    read: usize,
    write: usize,
    reads: AtomicUsize,
}

impl Read for &Liar {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(if self.reads.fetch_add(1, SeqCst) == 0 { self.read } else { 0 })
    }
}

impl Write for &Liar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.write.min(bytes.len().saturating_add(self.write / 2)))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CloseWrite for Liar {
    fn close_write(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Streams that claim to have read or written more than there was are detected.
#[test]
fn streams_that_lie_are_copied() {
    for (read, write) in [(usize::MAX, 1), (9_000_000, 1), (5, usize::MAX), (5, 50), (5, 0)] {
        for idle in [Some(HOUR), Some(Duration::MAX), None] {
            each_run(|| {
                let liar = || Liar { read, write, reads: AtomicUsize::new(0) };
                let (a, b) = (liar(), liar());
                let mut refused = false;
                let text = panic_of(|| {
                    refused = match idle {
                        Some(idle) => ecru::io::copy_bidirectional_idle(&a, &b, idle).is_err(),
                        None => ecru::io::copy_bidirectional(&a, &b).is_err(),
                    };
                });
                assert!(text.is_some() || refused, "{read} {write} {idle:?}");
            });
        }
    }
}

/// A panic hook waits and yields, while several tasks of one worker panic.
#[test]
fn a_panic_hook_waits() {
    alone("second_round::tasks::a_panic_hook_waits", || {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        panic::set_hook(Box::new(move |_| {
            count.fetch_add(1, SeqCst);
            _ = ecru::sleep(ms(1));
            _ = ecru::yield_now();
        }));
        let failed = run_on(1, || {
            ecru::scope(|s| {
                let children: Vec<_> =
                    (0..3).map(|n| s.spawn_local(move || -> () { panic!("{n}") })).collect();
                children.iter().filter(|child| child.join().is_err()).count()
            })
        });
        _ = panic::take_hook();
        assert_eq!((failed, seen.load(SeqCst)), (3, 3));
        assert!(!std::thread::panicking());
    });
}

/// Generators are left in thread-locals of workers, and are dropped with these threads. Their
/// destructors use channels.
#[test]
fn generators_are_left_in_thread_locals_of_workers() {
    thread_local! {
        static LEFT: RefCell<Vec<Generator<u32>>> = const { RefCell::new(vec![]) };
    }
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let thread = std::thread::spawn(|| {
        run_on(2, || {
            ecru::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        let mut items = Generator::new(|yielder: &Yielder<(), u32>| {
                            let _ends = OnDrop(|| {
                                _ = ecru::sleep(Duration::ZERO);
                                let (sender, receiver) = channel::bounded(1);
                                sender.send(1).unwrap();
                                assert_eq!(receiver.recv(), Ok(1));
                                DROPPED.fetch_add(1, SeqCst);
                            });
                            yielder.suspend(1);
                        });
                        items.next();
                        LEFT.with_borrow_mut(|left| left.push(items));
                        ecru::yield_now().unwrap();
                    });
                }
            });
        });
    });
    thread.join().unwrap();
    assert_eq!(DROPPED.load(SeqCst), 4);
}
