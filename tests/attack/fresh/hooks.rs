//! Panic hooks that wait in further ways, and calls that initializers may make. Each test runs in a
//! process of its own, because the hook belongs to the process.

use std::cell::Cell;
use std::io::{Read, Write};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Once, OnceLock};
use std::thread;

use ecru::coroutine::{Coroutine, Yielder};
use ecru::sync::{Barrier, Condvar, Mutex, Notify, Semaphore, poison};
use ecru::{CancelHandle, RuntimeHandle, Source, channel};

use crate::common::{HOUR, Watchdog, alone, alone_with, ms, panic_text, run_on};

/// Sets a hook that calls `hook`, and counts its calls that have returned.
fn set_hook(hook: impl Fn() + Send + Sync + 'static) -> &'static AtomicUsize {
    let calls: &AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    panic::set_hook(Box::new(move |_| {
        hook();
        calls.fetch_add(1, SeqCst);
    }));
    calls
}

/// Spawns tasks that panic, and awaits them.
#[track_caller]
fn panics(count: usize) {
    ecru::scope(|s| {
        let tasks: Vec<_> = (0..count).map(|n| s.spawn(move || panic!("task {n}"))).collect();
        tasks.iter().for_each(|task| assert!(task.join().is_err()));
    });
}

/// A thread of the program ends each of these waits.
#[test]
fn hooks_that_wait_for_a_thread() {
    alone("fresh::hooks::hooks_that_wait_for_a_thread", || {
        let barrier = Arc::new(Barrier::new(2));
        let semaphore = Arc::new(Semaphore::new(0));
        let notify = Arc::new(Notify::new());
        let changed = Arc::new((Mutex::new(0), Condvar::new()));
        let (ask, asked) = channel::bounded::<channel::Sender<u32>>(0);
        let hook = {
            let (barrier, semaphore) = (Arc::clone(&barrier), Arc::clone(&semaphore));
            let (notify, changed) = (Arc::clone(&notify), Arc::clone(&changed));
            let ask = ask.clone();
            move || {
                let (answer, answered) = channel::bounded(0);
                ask.send(answer).unwrap();
                assert_eq!(answered.recv(), Ok(7));
                _ = barrier.wait().unwrap();
                drop(semaphore.acquire().unwrap());
                notify.wait().unwrap();
                let mut guard = changed.0.lock();
                while *guard == 0 {
                    changed.1.wait(&mut guard).unwrap();
                }
                *guard = 0;
            }
        };
        thread::spawn(move || {
            while let Ok(answer) = asked.recv() {
                answer.send(7).unwrap();
                _ = barrier.wait().unwrap();
                semaphore.add_permits(1);
                thread::sleep(ms(1));
                notify.notify_one();
                *changed.0.lock() = 1;
                changed.1.notify_all();
            }
        });
        let calls = set_hook(hook);
        for workers in [1, 2] {
            run_on(workers, || panics(5));
        }
        _ = panic::take_hook();
        assert_eq!(calls.load(SeqCst), 10);
    });
}

/// The hook uses files, sockets, processes, parallel calls and dumps.
#[test]
fn hooks_that_use_the_whole_library_slow() {
    alone("fresh::hooks::hooks_that_use_the_whole_library_slow", || {
        let calls = set_hook(|| {
            static FILES: AtomicUsize = AtomicUsize::new(0);
            let (id, number) = (std::process::id(), FILES.fetch_add(1, SeqCst));
            let file = std::env::temp_dir().join(format!("ecru-hook-{id}-{number}"));
            ecru::fs::write(&file, "reported").unwrap();
            assert_eq!(ecru::fs::read_to_string(&file).unwrap(), "reported");
            ecru::fs::remove_file(&file).unwrap();
            assert!(ecru::process::Command::new("true").status().unwrap().success());
            assert_eq!(ecru::par::map(0..5, |n| n * 2), [0, 2, 4, 6, 8]);
            drop(RuntimeHandle::current().dump().to_string());
            let (reader, mut writer) = ecru::io::pipe().unwrap();
            writer.write_all(b"x").unwrap();
            drop(writer);
            let mut text = String::new();
            (&reader).read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
            let got = ecru::select! {
                wait(ecru::source::never::<u8>()) -> _ => 0,
                wait(ecru::source::ready(1).or(ecru::source::never())) -> got => got.unwrap(),
            };
            assert_eq!(got, 1);
            assert_eq!(ecru::block_on(async { 3 }), Ok(3));
        });
        for driver in [ecru::DriverKind::Uring, ecru::DriverKind::Poll] {
            super::run_by(driver, 1, || panics(2));
            super::run_by(driver, 2, || panics(2));
        }
        _ = panic::take_hook();
        assert!(calls.load(SeqCst) >= 4);
    });
}

/// A request and a time limit reach a task whose hook waits.
#[test]
fn hooks_whose_waits_are_cancelled() {
    alone("fresh::hooks::hooks_whose_waits_are_cancelled", || {
        static HANDLE: std::sync::Mutex<Option<CancelHandle>> = std::sync::Mutex::new(None);
        let calls = set_hook(|| {
            thread::spawn(|| {
                thread::sleep(ms(2));
                if let Some(handle) = HANDLE.lock().unwrap().take() {
                    handle.cancel();
                }
            });
            assert!(ecru::sleep(HOUR).is_err());
            // What is to happen anyway can be shielded.
            assert!(ecru::shield(|| ecru::sleep(ms(1))).is_ok());
        });
        for workers in [1, 2] {
            run_on(workers, || {
                let text = panic_text(|| {
                    ecru::cancel_scope(|handle| {
                        *HANDLE.lock().unwrap() = Some(handle);
                        panic!("cancelled by a thread")
                    })
                });
                assert_eq!(text, "cancelled by a thread");
                let text = panic_text(|| ecru::timeout(ms(2), || panic!("too late")));
                assert_eq!(text, "too late");
            });
        }
        _ = panic::take_hook();
        assert_eq!(calls.load(SeqCst), 4);
    });
}

/// Hooks of several workers wait for one lock, which the hook holds while it waits.
#[test]
fn hooks_of_several_workers_share_a_lock() {
    alone("fresh::hooks::hooks_of_several_workers_share_a_lock", || {
        static LOG: poison::Mutex<Vec<usize>> = poison::Mutex::new(Vec::new());
        let calls = set_hook(|| {
            let mut log = LOG.lock().unwrap_or_else(poison::PoisonError::into_inner);
            let length = log.len();
            ecru::sleep(ms(1)).unwrap();
            log.push(length);
        });
        let _watchdog = Watchdog::new();
        let runtime =
            ecru::Runtime::builder().workers(4).placement(ecru::Placement::Spread).build().unwrap();
        runtime.run(|| panics(30));
        _ = panic::take_hook();
        assert_eq!(calls.load(SeqCst), 30);
        let log = LOG.lock().unwrap_or_else(poison::PoisonError::into_inner);
        assert_eq!(*log, (0..30).collect::<Vec<_>>());
    });
}

/// In a simulation the hook's waits take virtual time.
#[test]
fn hooks_that_wait_in_a_simulation() {
    alone("fresh::hooks::hooks_that_wait_in_a_simulation", || {
        let calls = set_hook(|| {
            if ecru::sim::is_simulated() {
                ecru::sleep(HOUR).unwrap();
                assert_eq!(ecru::unblock(|| 7), 7);
            }
        });
        for seed in 0..5 {
            let report = ecru::sim::Simulation::new(seed).max_time(100 * HOUR).run(|| panics(3));
            assert!(report.elapsed >= 3 * HOUR, "{:?}", report.elapsed);
            report.unwrap();
        }
        _ = panic::take_hook();
        assert_eq!(calls.load(SeqCst), 15);
    });
}

/// A thread answers after more than the worker's patience. It is no task of the worker, so the
/// process goes on.
#[test]
fn a_hook_that_waits_for_a_slow_thread_slow() {
    alone("fresh::hooks::a_hook_that_waits_for_a_slow_thread_slow", || {
        let (ask, asked) = channel::unbounded::<channel::Sender<u32>>();
        thread::spawn(move || {
            let answer = asked.recv().unwrap();
            thread::sleep(ms(1300));
            answer.send(7).unwrap();
        });
        let calls = set_hook(move || {
            let (answer, answered) = channel::bounded(0);
            ask.send(answer).unwrap();
            assert_eq!(answered.recv(), Ok(7));
        });
        run_on(1, || panics(1));
        _ = panic::take_hook();
        assert_eq!(calls.load(SeqCst), 1);
    });
}

/// Calls that never wait are not refused in initializers: a logger's, for instance.
#[test]
fn initializers_that_only_try() {
    static MUTEX: Mutex<u8> = Mutex::new(7);
    static SENT: OnceLock<(channel::Sender<u8>, channel::Receiver<u8>)> = OnceLock::new();
    fn tries() -> u8 {
        let (tx, rx) = SENT.get_or_init(channel::unbounded);
        tx.try_send(1).unwrap();
        assert_eq!(rx.try_recv(), Ok(1));
        assert!(rx.try_recv().is_err());
        assert!(ecru::source::ready(1).try_take().is_some());
        assert!(!ecru::is_cancelled());
        _ = ecru::time::now();
        let handle = RuntimeHandle::current();
        drop(handle.spawn(|| ()).unwrap());
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_all();
        let timer = ecru::time::Timer::new(HOUR);
        assert!(timer.try_take().is_none());
        drop(Semaphore::new(1).try_acquire().unwrap());
        let got = ecru::select! {
            recv(rx) -> got => got.is_ok(),
            default => false,
        };
        assert!(!got);
        *MUTEX.try_lock().unwrap()
    }
    thread_local! {
        static KEPT: u8 = tries();
    }
    let name = "fresh::hooks::initializers_that_only_try";
    alone_with(
        name,
        |command| _ = command.env("ECRU_CHECK", "1"),
        || {
            static LAZY: LazyLock<u8> = LazyLock::new(tries);
            for workers in [1, 2] {
                run_on(workers, || {
                    ecru::scope(|s| {
                        assert_eq!(s.spawn(|| KEPT.with(|n| *n)).join().unwrap(), 7);
                        assert_eq!(s.spawn(|| *LAZY).join().unwrap(), 7);
                    });
                    assert_eq!(KEPT.with(|n| *n), 7);
                    let cell = OnceLock::new();
                    assert_eq!(*cell.get_or_init(tries), 7);
                    Once::new().call_once(|| assert_eq!(tries(), 7));
                });
            }
        },
    );
}

/// Waits that are hidden inside an initializer: on the stacks of nested coroutines, behind function
/// pointers, in destructors and in `call_once_force`.
#[test]
fn initializers_that_hide_their_wait() {
    thread_local! {
        static ROUND: Cell<usize> = const { Cell::new(0) };
        static HIDDEN: usize = hidden();
    }
    fn hidden() -> usize {
        let waits: fn() = || _ = ecru::yield_now();
        match ROUND.get() {
            0 => {
                let outer = Coroutine::new(move |_: &Yielder<(), ()>, ()| {
                    let inner = Coroutine::new(move |_: &Yielder<(), ()>, ()| waits());
                    _ = inner.resume(());
                });
                _ = outer.resume(());
            }
            1 => {
                let boxed: Box<dyn FnOnce()> = Box::new(waits);
                boxed();
            }
            2 => drop(super::OnDrop(waits)),
            3 => _ = ecru::par::map(0..2, |_| waits()),
            4 => ecru::coroutine::scoped(
                |_: &Yielder<(), ()>, ()| waits(),
                |body| _ = body.resume(()),
            ),
            5 => _ = ecru::io::memory_pipe(1).1.write(&[1]),
            6 => _ = Barrier::new(1).wait(),
            _ => _ = ecru::fs::metadata("/"),
        }
        7
    }
    let name = "fresh::hooks::initializers_that_hide_their_wait";
    alone_with(
        name,
        |command| _ = command.env("ECRU_CHECK", "1"),
        || {
            run_on(1, || {
                for round in 0..8 {
                    // Shown if the wait is not refused.
                    println!("round {round}");
                    ROUND.set(round);
                    // An optimized build may inline the initializer, and then does not find it.
                    if cfg!(debug_assertions) {
                        let text = panic_text(|| HIDDEN.with(|n| *n));
                        let kind = "initializer of a `thread_local!`";
                        assert!(text.contains(kind), "{round}: {text}");
                    }
                    let text = panic_text(|| Once::new().call_once_force(|_| _ = hidden()));
                    assert!(
                        text.contains("initializer of a `std::sync::OnceLock`"),
                        "{round}: {text}"
                    );
                }
                // Refusals have left nothing locked.
                ROUND.set(0);
                ecru::yield_now().unwrap();
            });
        },
    );
}
