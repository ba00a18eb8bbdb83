//! Reports of a stuck program: they do not block it, and they come unrequested.

use std::io::{PipeWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use ecru::{Runtime, channel};

use crate::common::PATIENCE;
use crate::support::{
    HOUR, Watchdog, alone_with, is_child, ms, panic_text, settle, start_again, until,
};

/// Runs a test in a process with the given standard error, and ends the process if it hangs.
/// Returns the output of the test runner.
#[track_caller]
fn finish(test: &str, stderr: Stdio) -> String {
    let mut child = start_again(test).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process hangs");
        }
        thread::sleep(ms(2));
    }
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

/// Runs two tasks that wait for each other, which is detected.
fn get_stuck() {
    let runtime = Runtime::builder().workers(2).detect_deadlock(true).build().unwrap();
    let text = panic_text(|| {
        runtime.run(|| {
            let (to_left, left) = channel::bounded::<u32>(1);
            let (to_right, right) = channel::bounded::<u32>(1);
            ecru::scope(|s| {
                s.spawn(|| drop((left.recv(), to_right)));
                s.spawn(|| drop((right.recv(), to_left)));
            });
        });
    });
    assert!(text.starts_with("deadlock: "), "{text}");
}

/// - given: `detect_deadlock(true)`, and a process whose standard error is a closed pipe
/// - when: its tasks wait for each other
/// - then: `run` panics as it does without the pipe
///
/// An example is `program 2>&1 | head -3` after the third line.
#[test]
fn run_60_deadlock_with_a_closed_pipe() {
    const NAME: &str = "stuck::run_60_deadlock_with_a_closed_pipe";
    if is_child(NAME) {
        return get_stuck();
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(finish(NAME, writer.into()).contains("1 passed"));
}

/// Fills a pipe completely.
fn fill(mut writer: &PipeWriter) {
    let flags = rustix::fs::fcntl_getfl(writer).unwrap();
    rustix::fs::fcntl_setfl(writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 512]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    rustix::fs::fcntl_setfl(writer, flags).unwrap();
}

/// - given: `detect_deadlock(true)`, and a process whose standard error is a full pipe that is not
///   read
/// - when: its tasks wait for each other
/// - then: `run` panics as it does without the pipe
///
/// The test takes as long as the report is allowed to take.
#[test]
fn run_61_slow_deadlock_with_a_full_pipe() {
    const NAME: &str = "stuck::run_61_slow_deadlock_with_a_full_pipe";
    if is_child(NAME) {
        return get_stuck();
    }
    let (_reader, writer) = std::io::pipe().unwrap();
    fill(&writer);
    assert!(finish(NAME, writer.into()).contains("1 passed"));
}

/// - given: a stuck task on another worker that holds the lock of standard error
/// - when: the run is found stuck
/// - then: `run` panics as it should, and the report is printed when the lock is free
#[cfg(not(ecru_baton))] // each task would lock it on a thread of its own
#[test]
fn run_62_slow_deadlock_with_a_locked_stderr() {
    const NAME: &str = "stuck::run_62_slow_deadlock_with_a_locked_stderr";
    if is_child(NAME) {
        let text = panic_text(|| lock_and_wait(|| _ = ecru::sleep(Duration::MAX)));
        assert!(text.starts_with("deadlock: "), "{text}");
        // On a busy machine the report may be later than this.
        let is_report = |thread: std::fs::DirEntry| {
            let name = std::fs::read_to_string(thread.path().join("comm"));
            name.is_ok_and(|name| name.starts_with("ecru-report"))
        };
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
        until(|| !threads().any(is_report));
        return;
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    assert!(finish(NAME, writer.into()).contains("1 passed"));
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    // The report was printed when the lock was free.
    assert_eq!(said.matches("ecru: deadlock: every task").count(), 1, "{said}");
}

/// Runs into a deadlock while a task on the second worker holds the lock of standard error. The
/// report is made on the first worker.
#[cfg(not(ecru_baton))]
fn lock_and_wait(wait: impl Fn() + Sync) {
    let runtime = Runtime::builder()
        .workers(2)
        .placement(ecru::Placement::Spread)
        .detect_deadlock(true)
        .build()
        .unwrap();
    let first = thread::current().id();
    let meet = Barrier::new(2);
    runtime.run(|| {
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    // Each waits until the other has a thread.
                    meet.wait();
                    if thread::current().id() != first {
                        let _lock = std::io::stderr().lock();
                        wait();
                    }
                });
            }
        });
    });
}

/// - given: waits that cannot be cancelled, one of them by a task that holds the lock of standard
///   error
/// - when: the run is found stuck
/// - then: the process prints it and is aborted
#[cfg(not(ecru_baton))] // each task would lock it on a thread of its own
#[test]
fn run_67_slow_last_words_with_a_locked_stderr() {
    const NAME: &str = "stuck::run_67_slow_last_words_with_a_locked_stderr";
    if is_child(NAME) {
        return lock_and_wait(|| ecru::shield(|| _ = ecru::sleep(Duration::MAX)));
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    assert!(!finish(NAME, writer.into()).contains("1 passed"));
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.contains("the process is aborted"), "{said}");
}

/// - given: `ECRU_DETECT_DEADLOCK` is `1`, `0` or empty
/// - when: a run gets stuck
/// - then: with `1` the run is ended, unless the program calls `detect_deadlock(false)`; otherwise
///   it is left alone
#[test]
fn run_63_deadlock_by_environment() {
    const NAME: &str = "stuck::run_63_deadlock_by_environment";
    let body = || {
        let build = |explicit: Option<bool>| {
            let builder = Runtime::builder().workers(1);
            match explicit {
                Some(detect) => builder.detect_deadlock(detect),
                None => builder,
            }
            .build()
            .unwrap()
        };
        // A thread ends this wait, unless the run is found to be stuck earlier.
        let hangs = |runtime: &Runtime| {
            runtime.run(|| {
                let (sender, receiver) = channel::bounded(1);
                let told = AtomicBool::new(false);
                thread::scope(|threads| {
                    threads.spawn(|| {
                        let start = Instant::now();
                        while start.elapsed() < ms(30) && !told.load(SeqCst) {
                            thread::sleep(ms(1));
                        }
                        let _ = sender.send(());
                    });
                    let received = receiver.recv();
                    told.store(true, SeqCst);
                    received.unwrap();
                });
            });
        };
        let set = std::env::var("ECRU_DETECT_DEADLOCK").is_ok_and(|value| value == "1");
        if set {
            let runtime = build(None);
            let text = panic_text(|| runtime.run(|| ecru::sleep(Duration::MAX)));
            assert!(text.starts_with("deadlock: "), "{text}");
        } else {
            hangs(&build(None));
        }
        hangs(&build(Some(false)));
    };
    for value in ["1", "0", ""] {
        let ran = alone_with(
            NAME,
            |command| _ = command.env("ECRU_DETECT_DEADLOCK", value),
            || {
                let _watchdog = Watchdog::new();
                body();
            },
        );
        if ran.is_none() {
            return;
        }
    }
}

/// Uses a much shorter wait than the default.
fn soon(command: &mut Command) {
    command.env("ECRU_TEST_STUCK_AFTER_MS", "20").env_remove("ECRU_DETECT_DEADLOCK");
}

/// - given: a debug build without a setting for deadlocks, one worker and two
/// - when: every task waits for a second, and a thread wakes them afterwards, twice
/// - then: one line says that the program seems to be stuck and how to learn more; the run
///   continues; a release build prints nothing
#[test]
fn run_64_notice_in_a_debug_build() {
    const NAME: &str = "stuck::run_64_notice_in_a_debug_build";
    const STDERR: &str = "ECRU_BEHAVIOUR_STDERR";
    if is_child(NAME) {
        let _watchdog = Watchdog::new();
        let said = std::env::var(STDERR).unwrap();
        let lines = || std::fs::read_to_string(&said).unwrap().lines().count();
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let before = lines();
            runtime.run(|| {
                for round in 0..2 {
                    ecru::cancel_scope(|c| {
                        thread::scope(|threads| {
                            threads.spawn(|| {
                                while cfg!(debug_assertions) && round == 0 && lines() == before {
                                    thread::sleep(ms(1));
                                }
                                // Waits for a superfluous line.
                                thread::sleep(ms(40));
                                c.cancel();
                            });
                            ecru::sleep(Duration::MAX).unwrap_err();
                        });
                    });
                }
            });
        }
        return;
    }
    let path = std::env::temp_dir().join(format!("ecru-stuck-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    let mut command = start_again(NAME);
    soon(&mut command);
    let output = command.env(STDERR, &path).stderr(file).output().unwrap();
    let said = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("ecru: ")).collect();
    assert_eq!(lines.len(), if cfg!(debug_assertions) { 2 } else { 0 }, "{said}");
    for line in lines {
        assert!(line.contains("seems to be stuck"), "{said}");
        assert!(line.contains("ECRU_DETECT_DEADLOCK=1"), "{said}");
    }
}

/// - given: a debug build
/// - when: its tasks wait for a timer, an operation or a closure of `unblock`; or the program calls
///   `detect_deadlock(false)` and waits for a thread
/// - then: no such line is printed
#[test]
fn run_65_no_false_notice() {
    const NAME: &str = "stuck::run_65_no_false_notice";
    let ran = alone_with(NAME, soon, || {
        let _watchdog = Watchdog::new();
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            runtime.run(|| {
                ecru::sleep(ms(60)).unwrap();
                ecru::unblock(|| thread::sleep(ms(60)));
                let (mut reader, mut writer) = ecru::io::pipe().unwrap();
                ecru::scope(|s| {
                    let outside = thread::spawn(move || {
                        thread::sleep(ms(60));
                        writer.write_all(b"late").unwrap();
                    });
                    s.spawn(move || {
                        let mut text = String::new();
                        reader.read_to_string(&mut text).unwrap()
                    })
                    .join()
                    .unwrap();
                    outside.join().unwrap();
                });
            });
            let quiet = Runtime::builder().workers(workers).detect_deadlock(false).build().unwrap();
            quiet.run(|| {
                ecru::cancel_scope(|c| {
                    let outside = thread::spawn(move || {
                        thread::sleep(ms(60));
                        c.cancel();
                    });
                    ecru::sleep(Duration::MAX).unwrap_err();
                    outside.join().unwrap();
                });
            });
        }
    });
    let Some(output) = ran else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("seems to be stuck"), "{said}");
}

/// - given: a cancelled task that continues to wait in a loop
/// - when: 10,000 of its waits have returned `Cancelled`
/// - then: one line on standard error names the task, where it was spawned and where it waits; it
///   is printed once, and not for a task that obeys the request
#[test]
fn cancel_60_ignored_is_named() {
    const NAME: &str = "stuck::cancel_60_ignored_is_named";
    let ran = alone_with(
        NAME,
        |_| {},
        || {
            let _watchdog = Watchdog::new();
            Runtime::builder().workers(1).build().unwrap().run(|| {
                let ended = AtomicBool::new(false);
                ecru::scope(|s| {
                    let deaf = s.builder().name("deaf").spawn(|| {
                        let (_sender, receiver) = channel::bounded::<u8>(1);
                        let mut rounds = 0;
                        while rounds < 25_000 {
                            let _ = receiver.recv();
                            rounds += 1;
                        }
                        ended.store(true, SeqCst);
                    });
                    s.builder().name("attentive").spawn(|| while ecru::sleep(HOUR).is_ok() {});
                    settle();
                    deaf.cancel();
                    deaf.join().unwrap();
                    s.cancel();
                });
                assert!(ended.load(SeqCst));
            });
        },
    );
    let Some(output) = ran else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("ecru: ")).collect();
    let [line] = lines[..] else { panic!("not one line: {said}") };
    assert!(line.contains("'deaf'") && !said.contains("attentive"), "{said}");
    let spawned = PLACES.map(|text| line.matches(text).count());
    assert_eq!(spawned, [2], "where it was spawned, and where it waits: {said}");
}

/// The file name in this file's places.
const PLACES: [&str; 1] = ["stuck.rs:"];

/// Runs a test in a process of its own, in which `ECRU_LOG` is `log` and `body` runs in a run with
/// one worker. Returns the lines that tell of an `Err`, or `None` in that process.
#[track_caller]
fn errors_told(test: &str, log: &str, body: fn()) -> Option<Vec<String>> {
    let ran = alone_with(
        test,
        |command| _ = command.env("ECRU_LOG", log),
        || {
            let _watchdog = Watchdog::new();
            Runtime::builder().workers(1).build().unwrap().run(body);
        },
    );
    let said = String::from_utf8(ran?.stderr).unwrap();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("`Err`")).collect();
    Some(lines.into_iter().map(String::from).collect())
}

fn fail() -> Result<String, std::fmt::Error> {
    Err(std::fmt::Error)
}

/// - given: a debug build, or `ECRU_LOG=1`
/// - when: a handle is dropped before or after its task has returned an `Err`; other handles are
///   joined, or their tasks return another type
/// - then: one line for each such task names it, where it was spawned and the type; a release build
///   without `ECRU_LOG=1` prints none
#[test]
fn task_60_unseen_error_is_logged() {
    for log in ["1", "0"] {
        let lines = errors_told("stuck::task_60_unseen_error_is_logged", log, || {
            ecru::scope(|s| {
                drop(s.builder().name("early").spawn(fail));
                let late = s.builder().name("late").spawn(fail);
                until(|| late.is_finished());
                drop(late);
                drop(s.builder().name("future").spawn_future(async { fail() }));
                drop(s.builder().name("well").spawn(|| Ok::<_, std::fmt::Error>(())));
                drop(s.builder().name("plain").spawn(|| 7));
                s.builder().name("joined").spawn(fail).join().unwrap().unwrap_err();
            });
        });
        let Some(mut lines) = lines else { return };
        lines.sort_by_key(|line| ["'early'", "'late'"].map(|name| !line.contains(name)));
        let speaks = log == "1" || cfg!(debug_assertions);
        assert_eq!(lines.len(), if speaks { 3 } else { 0 }, "{lines:?}");
        for (line, name) in lines.iter().zip(["'early'", "'late'", "'future'"]) {
            assert!(line.contains(name) && line.contains("stuck.rs:"), "{line}");
            assert!(line.contains("core::fmt::Error"), "{line}");
        }
    }
}

/// - given: a debug build, or `ECRU_LOG=1`
/// - when: handles are dropped whose tasks return an `Err`: several tasks of one place; tasks that
///   have been cancelled; children of a `try_scope`; losers of `first_ok`; daemons
/// - then: a debug build reports the first task of the one place, and no other; with `ECRU_LOG=1`
///   all tasks of that place are reported, and those that were cancelled, except by `first_ok`
#[test]
fn task_74_unseen_errors_that_are_expected_are_not_reported() {
    use std::fmt::Error;

    for log in ["1", "0"] {
        let test = "stuck::task_74_unseen_errors_that_are_expected_are_not_reported";
        let lines = errors_told(test, log, || {
            ecru::scope(|s| {
                for number in 0..3 {
                    drop(s.builder().name(format!("same {number}")).spawn(fail));
                }
            });
            // Both children wait, one with a stack and one without.
            let waiting = ecru::sync::Latch::new(2);
            ecru::scope(|s| {
                drop(s.builder().name("cancelled").spawn(|| {
                    waiting.count_down();
                    ecru::sleep(HOUR)
                }));
                let (arrived, mut polled) = (&waiting, false);
                let answer = std::future::poll_fn(move |_| {
                    if !std::mem::replace(&mut polled, true) {
                        arrived.count_down();
                    }
                    if ecru::is_cancelled() { Poll::Ready(fail()) } else { Poll::Pending }
                });
                drop(s.builder().name("cancelled future").spawn_future(answer));
                waiting.wait().unwrap();
                s.cancel();
            });
            // This child computes, and looks only after the request.
            ecru::scope(|s| {
                let child = s.builder().name("cancelled at last").spawn(|| {
                    until(ecru::is_cancelled);
                    fail()
                });
                ecru::yield_now().unwrap();
                child.cancel();
                drop(child);
            });
            let failed = ecru::try_scope(|s| {
                for _ in 0..2 {
                    drop(s.builder().name("tried").spawn(fail));
                }
                Ok(())
            });
            assert_eq!(failed, Err(Error));
            ecru::scope(|s| {
                let won = s.builder().name("won").spawn(|| Ok(1));
                let lost = s.builder().name("lost").spawn(|| Ok(ecru::sleep(HOUR).map(|()| 2)?));
                assert_eq!(ecru::first_ok::<_, ecru::JoinError, _>([won, lost]).unwrap(), 1);
                s.builder().name("daemon").spawn_daemon(fail);
            });
        });
        let Some(lines) = lines else { return };
        let count = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
        let is_all = log == "1";
        let is_first = is_all || cfg!(debug_assertions);
        assert_eq!(count("'same "), if is_all { 3 } else { usize::from(is_first) }, "{lines:?}");
        assert_eq!(count("'cancelled"), if is_all { 3 } else { 0 }, "{lines:?}");
        let rest = lines.len() - count("'same ") - count("'cancelled");
        assert_eq!(rest, 0, "{lines:?}");
    }
}

async fn fetch() -> u32 {
    unreachable!("nothing runs it")
}

/// - given: a debug build, or `ECRU_LOG=1`
/// - when: the future of an `async fn` or block is the result of a task, and is dropped with the
///   handle, or by a daemon; other futures are run
/// - then: one line for each such task names it, and says what to call instead
#[test]
fn task_73_unseen_future_is_reported() {
    let ran = alone_with(
        "stuck::task_73_unseen_future_is_reported",
        |command| _ = command.env("ECRU_LOG", "1"),
        || {
            let _watchdog = Watchdog::new();
            Runtime::builder().workers(1).build().unwrap().run(|| {
                ecru::scope(|s| {
                    s.builder().name("function").spawn(fetch);
                    s.builder().name("block").spawn(|| async { 1 });
                    s.builder().name("boxed").spawn(|| {
                        Box::pin(fetch()) as std::pin::Pin<Box<dyn Future<Output = u32> + Send>>
                    });
                    s.builder().name("daemon").spawn_daemon(fetch);
                    s.spawn_daemon(fetch);
                    s.builder().name("run").spawn_future(async { 1 });
                    let kept = s.builder().name("kept").spawn(|| async { 2 });
                    assert_eq!(ecru::block_on(kept.join().unwrap()), Ok(2));
                });
            });
        },
    );
    let Some(output) = ran else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<_> = said.lines().filter(|line| line.contains("nothing has run")).collect();
    lines.sort_by_key(|line| {
        ["'function'", "'block'", "'boxed'", "'daemon'"].map(|name| !line.contains(name))
    });
    assert_eq!(lines.len(), 5, "{said}");
    for (line, name) in
        lines.iter().zip(["'function'", "'block'", "'boxed'", "'daemon'", "stuck.rs:"])
    {
        assert!(line.contains(name) && line.contains("`spawn_future`"), "{said}");
    }
}
