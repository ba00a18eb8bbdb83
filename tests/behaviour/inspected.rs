//! The inspect socket of a runtime.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;

use ecru::Runtime;
use ecru::sync::Mutex;

use crate::support::{Watchdog, until};

/// Returns a path at which there is no file.
fn new_path() -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, SeqCst);
    std::env::temp_dir().join(format!("ecru-{}-{number}.sock", std::process::id()))
}

fn inspected(workers: usize, path: &Path) -> Runtime {
    Runtime::builder().workers(workers).inspect(path).build().unwrap()
}

/// Sends a request and returns the answer, which must have the length that it states.
fn ask(path: &Path, request: &str) -> String {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let Some((head, body)) = answer.split_once('\n') else { panic!("{answer}") };
    match head.strip_prefix("ecru/1 ok ") {
        Some(length) => assert_eq!(length.parse(), Ok(body.len())),
        None => assert!(head.starts_with("ecru/1 error ") && body.is_empty(), "{answer}"),
    }
    answer
}

/// - given: a runtime with `inspect` whose only worker is blocked by a channel of std
/// - when: a client asks for a dump
/// - then: it is answered, and the dump names the task that blocks the worker
#[test]
fn run_120_a_blocked_worker_does_not_silence_the_socket() {
    let _watchdog = Watchdog::new();
    let path = new_path();
    let runtime = inspected(1, &path);
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|threads| {
        let path = &path;
        threads.spawn(move || {
            until(|| ask(path, "ecru/1 dump\n").contains("busy with a task 'stuck' spawned at"));
            drop(release);
        });
        runtime.run(|| {
            ecru::scope(|s| {
                s.builder().name("stuck").spawn(move || released.recv().unwrap_err());
            });
        });
    });
}

/// - given: a runtime with `inspect`, before, during and after a run
/// - when: clients send requests
/// - then: each command is answered as the protocol says, and the socket has the mode 0600; it is
///   removed with the runtime
#[test]
fn run_121_the_commands_of_the_socket() {
    let _watchdog = Watchdog::new();
    let path = new_path();
    let runtime = inspected(2, &path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(ask(&path, "ecru/1 dump\n").contains("no task: no run is going on"));
    runtime.run(|| {
        ecru::scope(|s| {
            s.builder().name("waits").spawn(crate::support::forever);
            let ask = |request: &str| ecru::unblock(|| ask(&path, request));
            until(|| ask("ecru/1 tasks\n").contains(r#""name":"waits","#));
            until(|| ask("ecru/1 dump\n").contains("'waits', spawned at"));
            let json = ask("ecru/1 dump json\n");
            assert!(json.contains("{\"version\":1,\"tasks\":[") && json.contains("\"stack\":["));
            let tasks = ask("ecru/1 tasks\n");
            assert!(!tasks.contains("\"stack\":["), "{tasks}");
            let before = tasks.split(",\"name\":\"waits\"").next().unwrap();
            let id = before.rsplit("\"id\":").next().unwrap();
            let stack = ask(&format!("ecru/1 stack {id}\n"));
            assert!(stack.contains("'waits'") && stack.contains("   0: "), "{stack}");
            assert!(ask("ecru/1 help\n").contains("dump [json]"));
            assert!(ask("ecru/1 about\n").contains(r#""name":"ecru","workers":2"#));
            assert!(ask("ecru/1 paint\n").contains("there is no command \"paint\""));
            assert!(ask("dump\n").contains("does not begin with `ecru/1 `"));
            s.cancel();
        });
    });
    drop(runtime);
    assert!(!path.exists());
}

/// - given: a runtime with `inspect`, in any build, and a task that waits for a lock
/// - when: a client asks for a dump
/// - then: it names the holder of the lock, and where it was acquired
#[test]
fn run_122_holders_are_named_where_a_runtime_is_inspected() {
    let _watchdog = Watchdog::new();
    let path = new_path();
    let (lock, line) = (Mutex::new(()).named("ledger"), AtomicU32::new(0));
    inspected(2, &path).run(|| {
        ecru::scope(|s| {
            let task = s.builder().name("holder").spawn(|| {
                line.store(line!() + 1, SeqCst);
                let _held = lock.lock();
                crate::support::forever()
            });
            until(|| line.load(SeqCst) != 0 && lock.try_lock().is_err());
            s.spawn(|| drop(lock.lock()));
            let held = format!("since {}:{}:", file!(), line.load(SeqCst));
            let dump = || ecru::unblock(|| ask(&path, "ecru/1 dump\n"));
            until(|| dump().lines().any(|line| line.contains("'ledger'") && line.contains(&held)));
            task.cancel();
        });
    });
}

/// - given: a task that blocks its worker between two turns of the task that makes the worker's
///   answer, or before or after that
/// - when: a thread makes dumps
/// - then: each dump ends while the worker is blocked
#[test]
fn run_125_a_worker_blocks_while_it_answers_slow() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for turns in 0..6 {
        let (handle, asked, over) =
            (runtime.handle(), AtomicBool::new(false), AtomicBool::new(false));
        let (asked, over, (release, released)) = (&asked, &over, mpsc::channel::<()>());
        thread::scope(|threads| {
            threads.spawn(move || {
                while !asked.load(SeqCst) {
                    let tree = handle.dump();
                    if tree.tasks().any(|task| task.name() == Some("blocks")) {
                        asked.store(true, SeqCst);
                    }
                }
                drop(handle.dump().to_string());
                over.store(true, SeqCst);
                drop(release);
            });
            runtime.run(|| {
                ecru::scope(|s| {
                    s.builder().name("blocks").spawn(move || {
                        while !asked.load(SeqCst) {
                            ecru::yield_now().unwrap();
                        }
                        for _ in 0..turns {
                            ecru::yield_now().unwrap();
                        }
                        released.recv().unwrap_err();
                        assert!(over.load(SeqCst), "the dump did not wait for this task");
                    });
                });
            });
        });
    }
}

/// - given: a runtime with `inspect` and two workers, which has run, in a process that forks
/// - when: the child drops its copy of the runtime
/// - then: that returns, and the socket of the parent is still there and is answered
#[test]
#[expect(unsafe_code, reason = "forks")]
fn run_133_a_forked_child_leaves_the_socket_alone() {
    crate::support::alone("inspected::run_133_a_forked_child_leaves_the_socket_alone", || {
        let _watchdog = Watchdog::new();
        let path = new_path();
        let runtime = inspected(2, &path);
        runtime.run(|| ecru::scope(|s| s.spawn(|| ()).join().unwrap()));
        // SAFETY: the child has this thread only. It ends by `_exit`, or by the alarm.
        match unsafe { libc::fork() } {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: the signal ends this process.
                unsafe { libc::alarm(60) };
                drop(runtime);
                // SAFETY: nothing is left to be done here.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = -1;
                // SAFETY: the status is a valid place.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
                assert!(ask(&path, "ecru/1 about\n").contains("\"workers\":2"));
                runtime.run(|| {
                    let asked = ecru::unblock(|| ask(&path, "ecru/1 dump\n"));
                    assert!(asked.contains("the root, run at"), "{asked}");
                });
                drop(runtime);
                assert!(!path.exists());
            }
        }
    });
}

/// - given: a socket whose file any user may open, and a client of another user
/// - when: the client sends a request
/// - then: it gets no answer; a client of the own user does
#[test]
#[expect(unsafe_code, reason = "changes the user of a thread")]
fn run_137_clients_of_other_users_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let _watchdog = Watchdog::new();
    let path = new_path();
    let runtime = inspected(1, &path);
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&path, all).unwrap();
    let other = thread::spawn({
        let path = path.clone();
        move || {
            // SAFETY: without libc's wrapper, this changes the user of this thread alone, which ends.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            assert_eq!(changed, 0, "{}", std::io::Error::last_os_error());
            let mut client = UnixStream::connect(path).unwrap();
            let _ = client.write_all(b"ecru/1 about\n");
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer);
            answer
        }
    });
    assert!(other.join().unwrap().is_empty());
    assert!(ask(&path, "ecru/1 about\n").contains("\"protocol\":1"));
    drop(runtime);
}

/// - given: clients that send nothing, too much, or go away, and one that asks again and again
/// - when: a program works meanwhile
/// - then: each proper request is answered, and the program ends as usual
#[test]
fn run_123_hostile_clients() {
    let _watchdog = Watchdog::new();
    let path = new_path();
    let runtime = inspected(2, &path);
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            let silent: Vec<_> = (0..30).map(|_| UnixStream::connect(&path).unwrap()).collect();
            let mut endless = UnixStream::connect(&path).unwrap();
            let _ = endless.write_all(&vec![b'x'; 100_000]);
            let mut gone = UnixStream::connect(&path).unwrap();
            gone.write_all(b"ecru/1 dump\n").unwrap();
            drop(gone);
            for _ in 0..10 {
                assert!(ask(&path, "ecru/1 dump\n").starts_with("ecru/1 ok "));
            }
            drop(silent);
            over.store(true, SeqCst);
        });
        let rounds = runtime.run(|| {
            let mut rounds = 0;
            until(|| {
                let (sender, receiver) = ecru::channel::bounded(1);
                let sum: u32 = ecru::scope(|s| {
                    s.spawn(move || (0..10).for_each(|n| sender.send(n).unwrap()));
                    receiver.iter().sum()
                });
                assert_eq!(sum, 45);
                rounds += 1;
                over.load(SeqCst)
            });
            rounds
        });
        assert!(rounds > 0);
    });
}
