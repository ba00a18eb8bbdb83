//! Panic hooks that wait. std notes per thread that it runs the hook, and aborts the process if
//! the thread panics again meanwhile. So a wait in the hook must block the thread. If it parked the
//! task, the next panic of a task of the same worker would abort the process.
//!
//! Each case is a process of its own, because the hook belongs to the process. The process is this
//! program, which runs the test [`child`] only.
#![cfg(not(any(miri, loom, ecru_baton)))]

use std::io::{Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Output, abort};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::channel;
use ecru::coroutine::{Coroutine, Generator, Yielder};
use ecru::sync::poison;

const CASE: &str = "ECRU_TEST_CASE";

/// How many hooks have run to their ends.
static HOOKS: AtomicU32 = AtomicU32::new(0);
static LOG: poison::Mutex<u32> = poison::Mutex::new(0);
static FULL: OnceLock<channel::Sender<u32>> = OnceLock::new();

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs a case in a process of its own: a kind of wait in the hook, a number of workers, where the
/// panics happen, and whether the hook is set after the first run.
fn run(wait: &str, workers: usize, place: &str, late: bool) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CASE, format!("{wait} {workers} {place} {late}"))
        .output()
        .unwrap()
}

fn holds(wait: &str, place: &str) {
    for (workers, late) in [(1, false), (2, true)] {
        let output = run(wait, workers, place, late);
        assert!(output.status.success(), "{wait} {workers} {place} {late}: {output:?}");
    }
}

/// Waits in the hook, in one of the ways that end although no task of the worker runs.
fn wait_in_hook(wait: &str) {
    static ONCE: ecru::sync::OnceLock<u32> = ecru::sync::OnceLock::new();
    match wait {
        "sleep" => ecru::sleep(ms(2)).unwrap(),
        "unblock" => ecru::unblock(|| thread::sleep(ms(2))),
        "shield" => ecru::shield(|| ecru::sleep(ms(2)).unwrap()),
        "timeout" => {
            let slept = ecru::timeout(ms(2), || ecru::sleep(Duration::from_secs(3600)));
            assert!(slept.is_err());
        }
        "scope" => ecru::scope(|s| {
            let child = s.spawn(|| ecru::sleep(ms(1)));
            assert!(child.join().unwrap().is_ok());
        }),
        "once_lock" => _ = ONCE.get_or_init(|| ecru::sleep(ms(5)).map_or(0, |()| 1)),
        "unbounded" => {
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            assert_eq!(receiver.recv(), Ok(1));
        }
        "full" => FULL.get().unwrap().send(1).unwrap(),
        "yield" => (0..300).for_each(|_| ecru::yield_now().unwrap()),
        "budget" => (0..600).for_each(|_| *LOG.lock().unwrap() += 1),
        "select" => {
            let (_sender, receiver) = channel::bounded::<u32>(0);
            ecru::select! {
                recv(receiver) -> _ => unreachable!("nothing is sent"),
                default(ms(2)) => {}
            }
        }
        "generator" => assert_eq!(Generator::new(|y| (0..3).for_each(|n| y.suspend(n))).count(), 3),
        "socket" => {
            let listener = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let peer = thread::spawn(move || {
                let mut peer = std::net::TcpStream::connect(address).unwrap();
                let mut byte = [0];
                peer.read_exact(&mut byte).unwrap();
                peer.write_all(&byte).unwrap();
            });
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"a").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            peer.join().unwrap();
        }
        "lock" => *LOG.lock().unwrap() += 1,
        "suspend" => {}
        other => unreachable!("{other}"),
    }
    HOOKS.fetch_add(1, SeqCst);
}

/// Sleeps while it is dropped.
struct Sleeps;

impl Drop for Sleeps {
    fn drop(&mut self) {
        ecru::shield(|| ecru::sleep(ms(40)).unwrap());
    }
}

/// Panics at a place, eight times if that is a task. Returns how often.
fn panic_at(place: &str) -> usize {
    let caught = |panics: &dyn Fn()| panic::catch_unwind(AssertUnwindSafe(panics)).is_err();
    ecru::scope(|s| match place {
        "root" => usize::from(caught(&|| panic!("root"))),
        "local" => (0..8).filter(|_| s.spawn_local(|| panic!("local")).join().is_err()).count(),
        "unblock" => {
            let panics = || caught(&|| ecru::unblock(|| panic!("unblock")));
            (0..8).filter(|_| s.spawn(panics).join().unwrap()).count()
        }
        "coroutine" => {
            let panics = || {
                let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
                    yielder.suspend(());
                    panic!("coroutine");
                });
                _ = coroutine.resume(());
                caught(&|| _ = coroutine.resume(()))
            };
            (0..8).filter(|_| s.spawn(panics).join().unwrap()).count()
        }
        "beside_unwinding" => {
            let unwinds = s.spawn(|| {
                caught(&|| {
                    let _sleeps = Sleeps;
                    panic!("unwinds slowly");
                })
            });
            while HOOKS.load(SeqCst) == 0 {
                ecru::yield_now().unwrap();
            }
            let tasks: Vec<_> = (0..8).map(|_| s.spawn(|| panic!("beside"))).collect();
            let count = tasks.iter().filter(|task| task.join().is_err()).count();
            count + usize::from(unwinds.join().unwrap())
        }
        "held" => {
            let (held, is_held) = channel::bounded(1);
            s.spawn(move || {
                let _log = LOG.lock().unwrap();
                held.send(()).unwrap();
                ecru::sleep(ms(20)).unwrap();
            });
            is_held.recv().unwrap();
            usize::from(s.spawn_local(|| panic!("the log is held")).join().is_err())
        }
        "held_by_thread" => {
            let (held, is_held) = std::sync::mpsc::channel();
            let holder = thread::spawn(move || {
                let _log = LOG.lock().unwrap();
                held.send(()).unwrap();
                thread::sleep(ms(1300));
            });
            is_held.recv().unwrap();
            let count = usize::from(s.spawn_local(|| panic!("the log is held")).join().is_err());
            holder.join().unwrap();
            count
        }
        _ => {
            let tasks: Vec<_> = (0..8).map(|_| s.spawn(|| panic!("task"))).collect();
            tasks.iter().filter(|task| task.join().is_err()).count()
        }
    })
}

/// Not a test by itself: the process of one case.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let [wait, workers, place, late] = case.split(' ').collect::<Vec<_>>()[..] else {
        unreachable!("{case}")
    };
    let wait = String::from(wait);
    // It ends with its process.
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(60));
        abort();
    });
    let (sender, receiver) = channel::bounded(1);
    FULL.set(sender).unwrap();
    thread::spawn(move || receiver.iter().for_each(|_| thread::sleep(ms(1))));
    let runtime = ecru::Runtime::builder().workers(workers.parse().unwrap()).build().unwrap();
    if late == "true" {
        runtime.run(|| ());
    }
    panic::set_hook(Box::new(move |_| wait_in_hook(&wait)));
    let count = runtime.run(|| panic_at(place));
    _ = panic::take_hook();
    assert_eq!(usize::try_from(HOOKS.load(SeqCst)), Ok(count));
    assert!(matches!(count, 1 | 8 | 9), "{count} panics");
}

/// Eight tasks panic, and the hook of each waits.
#[test]
fn each_kind_of_wait_blocks_the_thread_slow() {
    for wait in [
        "sleep",
        "unblock",
        "shield",
        "timeout",
        "scope",
        "once_lock",
        "unbounded",
        "full",
        "yield",
        "budget",
        "select",
        "generator",
        "socket",
        "lock",
    ] {
        holds(wait, "tasks");
    }
}

/// The same wait, wherever the panic happens.
#[test]
fn a_wait_in_the_hook_of_any_panic_slow() {
    for place in ["root", "local", "unblock", "coroutine", "beside_unwinding"] {
        holds("sleep", place);
    }
}

/// A task of the only worker holds the lock that the hook waits for. The process ends, and says
/// why.
#[test]
fn a_wait_that_only_a_task_of_the_worker_can_end_slow() {
    for late in [false, true] {
        let output = run("lock", 1, "held", late);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        for part in ["the panic hook of", "waits for a lock", "`try_lock`", "unbounded channel"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!cfg!(debug_assertions) || text.contains("held by"), "{text}");
    }
}

/// A thread holds the lock for longer than the worker's patience. A debug build knows the holder.
#[test]
#[cfg(debug_assertions)]
fn a_lock_that_a_thread_holds_for_long_slow() {
    holds("lock", "held_by_thread");
}
