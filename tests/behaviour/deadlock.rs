//! Deadlock detection: `detect_deadlock`.

use std::io::{Read, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream};
use ecru::{CancelReason, JoinError, JoinHandle, Runtime, channel};

use crate::support::{Watchdog, is_child, ms, panic_text, start_again};

fn detecting(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).detect_deadlock(true).build().unwrap()
}

type Outcomes = Arc<Mutex<Vec<CancelReason>>>;

/// Two tasks that wait for each other's end.
fn embrace(outcomes: &Outcomes) {
    let handles: Arc<[OnceLock<JoinHandle<'static, ()>>; 2]> = Arc::default();
    for (own, name) in ["first", "second"].into_iter().enumerate() {
        let (of_task, outcomes) = (Arc::clone(&handles), Arc::clone(outcomes));
        let join = move || {
            let other = &of_task[1 - own];
            while other.get().is_none() {
                ecru::yield_now().unwrap();
            }
            let error = other.get().unwrap().join().unwrap_err();
            assert!(matches!(error, JoinError::CallerCancelled), "{name}: {error}");
            // This is before the lock, because a cancelled wait lets others run.
            let reason = ecru::checkpoint().unwrap_err().reason();
            outcomes.lock().unwrap().push(reason);
            // The task that is cancelled first must not end before the other is cancelled.
            // Otherwise the other's join would find the end that it waits for.
            ecru::shield(|| {
                while outcomes.lock().unwrap().len() < 2 {
                    ecru::yield_now().unwrap();
                }
            });
        };
        assert!(handles[own].set(ecru::spawn(join)).is_ok());
    }
}

/// - given: `detect_deadlock(true)`, one worker and two, and tasks that wait for each other
/// - when: the root waits for them
/// - then: the waits are cancelled, and `run` panics with `deadlock: ` and a line for each task
#[test]
fn run_27_deadlock_panics() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let outcomes = Outcomes::default();
        let text = panic_text(|| detecting(workers).run(|| embrace(&outcomes)));
        assert!(text.starts_with("deadlock: "), "{text}");
        let waiting = text.lines().filter(|line| line.contains("waits for the end of task #"));
        assert_eq!(waiting.count(), 2, "{text}");
        assert_eq!(*outcomes.lock().unwrap(), [CancelReason::Shutdown; 2]);
    }
}

/// - given: `detect_deadlock(true)` and two tasks that each wait for the other's message
/// - when: the root waits for them
/// - then: `run` panics, and the text says which task waits for a value, and where
#[test]
fn run_40_deadlock_of_channels() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let text = panic_text(|| {
            detecting(workers).run(|| {
                let (to_left, left) = channel::bounded::<u32>(1);
                let (to_right, right) = channel::bounded::<u32>(0);
                ecru::scope(|s| {
                    s.builder().name("left").spawn(|| {
                        assert!(left.recv().is_err());
                        drop(to_right);
                    });
                    s.builder().name("right").spawn(|| {
                        assert!(right.recv().is_err());
                        drop(to_left);
                    });
                });
            });
        });
        let receives = |name| {
            let line = text.lines().find(|line| line.contains(name)).unwrap_or("");
            line.contains("waits for a value from a channel of ") && line.contains("), at tests/")
        };
        assert!(receives("'left'") && receives("'right'"), "{text}");
    }
}

/// - given: `detect_deadlock(true)` in a process of its own, and tasks that wait for each other
/// - when: the root waits for them
/// - then: standard error shows what each task waits for, with stack traces
#[test]
fn run_28_deadlock_is_printed() {
    const NAME: &str = "deadlock::run_28_deadlock_is_printed";
    if is_child(NAME) {
        let text = panic_text(|| detecting(2).run(|| embrace(&Outcomes::default())));
        assert!(text.starts_with("deadlock: "));
        return;
    }
    let output = start_again(NAME).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ecru: deadlock: every task of the run waits"), "{said}");
    // The optimizer decides which functions have frames, and lines of inlined functions depend on
    // the profile.
    let place = !cfg!(debug_assertions) || said.contains("src/scope/join.rs");
    assert!(said.contains("   0: ") && place, "no stack trace: {said}");
}

/// - given: `detect_deadlock(true)` and tasks on two workers that wake each other, sleep, read a
///   socket and unblock
/// - when: they run for a while
/// - then: `run` returns
#[test]
fn run_29_deadlock_no_false_alarm() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime = Runtime::builder()
            .workers(workers)
            .placement(ecru::Placement::Spread)
            .detect_deadlock(true)
            .build()
            .unwrap();
        let rounds = AtomicUsize::new(0);
        runtime.run(|| {
            for round in 0..200 {
                ecru::scope(|s| {
                    let handles: Vec<_> = (0..3).map(|n| s.spawn(move || n)).collect();
                    for (n, handle) in handles.into_iter().enumerate() {
                        assert_eq!(handle.join().unwrap(), n);
                    }
                });
                if round % 20 == 0 {
                    ecru::unblock(|| thread::sleep(Duration::from_micros(300)));
                    ecru::sleep(Duration::from_micros(300)).unwrap();
                }
                rounds.fetch_add(1, SeqCst);
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            // The run knows nothing of this thread except the socket.
            let client = thread::spawn(move || {
                thread::sleep(ms(3));
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                thread::sleep(ms(3));
                stream.write_all(b"late").unwrap();
            });
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text, "late");
            client.join().unwrap();
        });
        assert_eq!(rounds.load(SeqCst), 200);
    }
}

/// - given: a deadlock inside a shield
/// - when: it is found
/// - then: the process prints it and is aborted
#[test]
fn run_30_deadlock_cannot_be_cancelled() {
    const NAME: &str = "deadlock::run_30_deadlock_cannot_be_cancelled";
    if is_child(NAME) {
        detecting(2).run(|| {
            ecru::scope(|s| {
                s.builder()
                    .name("shielded")
                    .spawn(|| ecru::shield(|| ecru::sleep(Duration::MAX)).unwrap());
            });
        });
        return;
    }
    let output = start_again(NAME).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{said}");
    let after = said.split("cannot be cancelled").nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(after.contains("'shielded'"), "{said}");
}

/// - given: a `Runtime` whose run panicked with `deadlock: `
/// - when: it runs again
/// - then: the next run works normally
#[test]
fn run_31_deadlock_runs_again() {
    let _watchdog = Watchdog::new();
    let runtime = detecting(2);
    for _ in 0..3 {
        let text = panic_text(|| runtime.run(|| ecru::sleep(Duration::MAX)));
        assert!(text.starts_with("deadlock: "), "{text}");
        assert_eq!(runtime.run(|| ecru::sleep(ms(1)).map(|()| 7)), Ok(7));
    }
}

/// - given: a run whose tasks all wait for a thread from outside
/// - when: the thread takes a long time
/// - then: nothing is cancelled
///
/// A thread from outside may wake a task at any time.
#[test]
fn run_32_deadlock_off_by_default() {
    let _watchdog = Watchdog::new();
    ecru::run(|| {
        let slept = ecru::cancel_scope(|c| {
            let outside = thread::spawn(move || {
                thread::sleep(ms(30));
                c.cancel();
            });
            let slept = ecru::sleep(Duration::MAX);
            outside.join().unwrap();
            slept
        });
        assert_eq!(slept.unwrap_err().reason(), CancelReason::Explicit);
    });
}
