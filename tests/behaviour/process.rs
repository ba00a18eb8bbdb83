//! Child processes: `process`.
#![expect(unsafe_code, reason = "runs closures between fork and exec")]

use crate::streams::assert_cancelled;
use crate::support::{alone, begin, each_run, everywhere, ms, run_on, until, without_descriptors};
use ecru::Source;
use ecru::process::{Child, Command, Stdio};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Instant;

fn shell(program: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", program]);
    command
}

/// Returns a child that runs until its input ends, and then exits with 7.
fn patient() -> Child {
    shell("read line; exit 7").stdin(Stdio::piped()).spawn().unwrap()
}

fn exists(id: u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

/// - given: a program that ends with 7
/// - when: `status` is called
/// - then: the code is 7, in tasks and on plain threads
#[test]
fn process_01_status() {
    everywhere(|_| {
        let status = shell("exit 7").status().unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(Command::new("true").status().unwrap().success());
    });
}

/// - given: a program that writes to both streams
/// - when: `output` is called
/// - then: it returns both outputs and the status; the program's input was empty
#[test]
fn process_02_output() {
    everywhere(|_| {
        let mut command = shell("cat; echo out; echo err >&2; exit 3");
        for _ in 0..2 {
            let output = command.output().unwrap();
            assert_eq!(output.stdout, b"out\n");
            assert_eq!(output.stderr, b"err\n");
            assert_eq!(output.status.code(), Some(3));
        }
        // Only `output` creates the pipes.
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert!(child.stdout.is_none() && child.stderr.is_none() && child.stdin.is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// - given: a program that writes 1 MB to each stream, alternately
/// - when: `output` is called
/// - then: it returns every byte, and neither side waits for ever
///
/// Reading one pipe to its end before the other would never return.
#[test]
fn process_03_large_output() {
    const PROGRAM: &str = "i=0; while [ $i -lt 16 ]; do head -c 65536 /dev/zero; \
                           head -c 65536 /dev/zero | tr '\\0' e >&2; i=$((i+1)); done";
    everywhere(|_| {
        let output = shell(PROGRAM).output().unwrap();
        assert_eq!(output.stdout.len(), 1 << 20);
        assert_eq!(output.stderr.len(), 1 << 20);
        assert!(output.stdout.iter().all(|byte| *byte == 0));
        assert!(output.stderr.iter().all(|byte| *byte == b'e'));
        assert!(output.status.success());
    });
}

/// - given: `cat` with piped streams
/// - when: it is written to and read from
/// - then: the same bytes come back, and it ends when its input is dropped
#[test]
fn process_04_piped() {
    everywhere(|side| {
        let mut cat =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let bytes: Vec<u8> = (0..300_000).map(crate::streams::byte_at).collect();
        let (_, back) = side.both(
            || {
                (&stdin).write_all(&bytes[..1000]).unwrap();
                stdin.write_all(&bytes[1000..]).unwrap();
                drop(stdin);
            },
            || {
                let mut back = vec![0; 1000];
                (&stdout).read_exact(&mut back).unwrap();
                stdout.read_to_end(&mut back).unwrap();
                back
            },
        );
        assert!(back == bytes);
        assert!(cat.wait().unwrap().success());
    });
}

/// - given: one worker, and a child that waits for input from a second task
/// - when: the first task waits for the child
/// - then: the second task runs meanwhile
#[test]
fn process_05_wait_parks() {
    run_on(1, || {
        let mut child = patient();
        let stdin = child.stdin.take().unwrap();
        let exit = child.exit();
        ecru::scope(|s| {
            let waits = begin(s, || child.wait().unwrap());
            assert!(!waits.is_finished() && exit.try_take().is_none());
            drop(stdin);
            assert_eq!(waits.join().unwrap().code(), Some(7));
        });
    });
}

/// - given: `cat` whose input has not been taken
/// - when: `wait` is called
/// - then: it ends
#[test]
fn process_06_wait_closes_stdin() {
    everywhere(|_| {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(cat.wait().unwrap().success());
        let cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        (&mut cat.stdin.as_ref().unwrap()).write_all(b"meow").unwrap();
        assert_eq!(cat.wait_with_output().unwrap().stdout, b"meow");
    });
}

/// - given: a child that has ended
/// - when: `wait` and `try_wait` are called repeatedly
/// - then: they return the same status; `kill` then succeeds and does nothing
#[test]
fn process_07_wait_is_repeatable() {
    everywhere(|_| {
        let mut child = patient();
        for _ in 0..2 {
            assert_eq!(child.wait().unwrap().code(), Some(7));
            assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
            child.kill().unwrap();
        }
    });
}

/// - given: a running child
/// - when: `try_wait` is called
/// - then: it returns `None`, and the child's input stays open
#[test]
fn process_08_try_wait() {
    everywhere(|_| {
        let mut child = patient();
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(child.id() > 1 && exists(child.id()));
        child.stdin.take().unwrap().write_all(b"word\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}

/// - given: a running child
/// - when: `kill` is called, then `wait`
/// - then: the status says that signal 9 ended it
#[test]
fn process_09_killed() {
    everywhere(|_| {
        let mut child = patient();
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.signal(), status.code()), (Some(9), None));
    });
}

/// - given: a running child
/// - when: a `timeout` around `wait` expires
/// - then: `Elapsed`; the child runs on, and a later `wait` returns its status
#[test]
fn process_10_timeout_leaves_the_child() {
    everywhere(|_| {
        let mut child = patient();
        let stdin = child.stdin.take().unwrap();
        let start = Instant::now();
        assert!(ecru::timeout(ms(3), || child.wait()).is_err());
        assert!(start.elapsed() >= ms(3));
        assert_eq!(child.try_wait().unwrap(), None);
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}

/// - given: a task that waits for a child
/// - when: it is cancelled
/// - then: a cancellation as an `io::Error`, and the child runs on
#[test]
fn process_11_cancelled_wait() {
    each_run(|| {
        let mut child = patient();
        let stdin = child.stdin.take().unwrap();
        ecru::scope(|s| {
            let exit = child.exit();
            let by_wait = begin(s, || child.wait().map_err(|error| assert_cancelled(&error)));
            let by_exit = begin(s, move || exit.wait().map(drop));
            by_wait.cancel();
            by_exit.cancel();
            assert!(by_wait.join().unwrap().is_err());
            assert!(by_exit.join().unwrap().is_err());
        });
        assert_eq!(child.try_wait().unwrap(), None);
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}

/// - given: the name of a program that does not exist
/// - when: `spawn` is called
/// - then: `NotFound`, with std's own text
#[test]
fn process_12_no_such_program() {
    everywhere(|_| {
        let ours = Command::new("ecru-no-such-program").spawn().unwrap_err();
        let std = std::process::Command::new("ecru-no-such-program").spawn().unwrap_err();
        assert_eq!(ours.kind(), ErrorKind::NotFound);
        assert_eq!(ours.to_string(), std.to_string());
        assert!(Command::new("ecru-no-such-program").output().is_err());
    });
}

/// - given: a program file that is open for writing
/// - when: `spawn` is called
/// - then: `ExecutableFileBusy`
#[test]
fn process_13_busy_program() {
    let path = std::env::temp_dir().join(format!("ecru-busy-{}", std::process::id()));
    std::fs::copy("/bin/true", &path).unwrap();
    let open = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    everywhere(|_| {
        let error = Command::new(&path).spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExecutableFileBusy, "{error}");
    });
    drop(open);
    std::fs::remove_file(&path).unwrap();
}

/// - given: a child that closes its input
/// - when: it is written to
/// - then: `BrokenPipe`, and no signal ends the parent
#[test]
fn process_14_early_end_of_stdin() {
    everywhere(|_| {
        let mut child = shell("exec <&-; echo closed; read line <&1; exit 0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "closed\n");
        let error = child.stdin.take().unwrap().write_all(&[0; 100_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// - given: a child
/// - when: its `Child` is dropped while it runs, and then it ends
/// - then: the system's process table no longer has it
#[test]
fn process_15_no_zombies() {
    everywhere(|_| {
        let mut child = patient();
        let (id, stdin) = (child.id(), child.stdin.take().unwrap());
        drop(child);
        assert!(exists(id));
        drop(stdin);
        until(|| !exists(id));
        // A child that ends before it is dropped.
        let child = Command::new("true").spawn().unwrap();
        let id = child.id();
        drop(child);
        until(|| !exists(id));
    });
}

/// - given: `kill_on_drop(true)`
/// - when: the `Child` is dropped
/// - then: the process is killed and reaped
#[test]
fn process_16_kill_on_drop() {
    everywhere(|_| {
        let child = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
        let (id, exit) = (child.id(), child.exit());
        drop(child);
        assert_eq!(exit.wait().unwrap().unwrap().signal(), Some(9));
        until(|| !exists(id));
    });
}

/// - given: a running child
/// - when: a `select!` waits for its `exit()` and a receiver
/// - then: the arm of the first is taken; every wait for the status returns it, repeatedly
#[test]
fn process_17_exit_is_a_source() {
    everywhere(|side| {
        let mut child = patient();
        let stdin = child.stdin.take().unwrap();
        let (sender, receiver) = ecru::channel::bounded(1);
        let exit = child.exit();
        assert!(exit.try_take().is_none());
        sender.send("word").unwrap();
        ecru::select! {
            recv(receiver) -> word => assert_eq!(word, Ok("word")),
            wait(&exit) -> status => panic!("it runs: {status:?}"),
        }
        ecru::select! {
            wait(&exit) -> status => panic!("it runs: {status:?}"),
            default(ms(1)) => {}
        }
        let (_, code) = side.both(
            || {
                side.pause();
                drop(stdin);
            },
            || {
                ecru::select! {
                    recv(receiver) -> word => panic!("{word:?}"),
                    wait(&exit) -> status => status.unwrap().unwrap().code(),
                }
            },
        );
        assert_eq!(code, Some(7));
        assert_eq!(exit.try_take().unwrap().unwrap().code(), Some(7));
        assert_eq!(exit.clone().wait().unwrap().unwrap().code(), Some(7));
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}

/// - given: an `Exit` whose `Child` has been dropped
/// - when: the process ends
/// - then: the `Exit` returns the status
#[test]
fn process_18_exit_outlives_the_child() {
    everywhere(|_| {
        let mut child = patient();
        let (exit, stdin) = (child.exit(), child.stdin.take().unwrap());
        drop(child);
        drop(stdin);
        assert_eq!(exit.wait().unwrap().unwrap().code(), Some(7));
    });
}

/// - given: an `Exit`
/// - when: `on_ready` and `to_future` are called
/// - then: both get the status
#[test]
fn process_19_exit_as_callback_and_future() {
    everywhere(|_| {
        let mut child = patient();
        let (tell, told) = mpsc::channel();
        let subscription =
            child.exit().on_ready(move |status| tell.send(status.unwrap().code()).unwrap());
        let future = child.exit().to_future();
        assert!(told.try_recv().is_err());
        drop(child.stdin.take());
        assert_eq!(ecru::block_on(future).unwrap().unwrap().code(), Some(7));
        assert_eq!(told.recv().unwrap(), Some(7));
        drop(subscription);
    });
}

/// - given: `arg0`, `process_group`, `pre_exec`, `current_dir`, `env`
/// - when: the program is started
/// - then: they act as std's
#[test]
fn process_20_unix_settings() {
    everywhere(|_| {
        let mut command = Command::new("/bin/sh");
        command.arg0("undyed").args(["-c", "echo $0 $COLOUR $PWD; ps -o pgid= -p $$"]);
        command.env("COLOUR", "ecru").current_dir("/").process_group(0);
        assert_eq!(command.get_program(), "/bin/sh");
        assert_eq!(command.get_args().count(), 2);
        assert_eq!(command.get_envs().count(), 1);
        assert_eq!(command.get_current_dir(), Some(std::path::Path::new("/")));
        let mask = || {
            // SAFETY: the mask is the child's own.
            unsafe { libc::umask(0o27) };
            Ok(())
        };
        // SAFETY: setting a mask is async-signal-safe.
        unsafe { command.pre_exec(mask) };
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let mut lines = output.lines();
        assert_eq!(lines.next(), Some("undyed ecru /"));
        if let Some(group) = lines.next() {
            assert_eq!(group.trim(), id.to_string());
        }
        let mut masked = shell("umask");
        // SAFETY: as above.
        unsafe { masked.pre_exec(mask) };
        assert_eq!(masked.output().unwrap().stdout, b"0027\n");
        // SAFETY: it only returns an error.
        unsafe { masked.pre_exec(|| Err(std::io::Error::from_raw_os_error(libc::EPERM))) };
        assert_eq!(masked.spawn().unwrap_err().kind(), ErrorKind::PermissionDenied);
    });
}

/// - given: 32 children on one worker
/// - when: all are waited for
/// - then: it takes about as long as one of them
#[test]
fn process_21_many_at_once_slow() {
    run_on(1, || {
        let begun = AtomicUsize::new(0);
        ecru::scope(|s| {
            let (all, inputs): (Vec<_>, Vec<_>) = (0..32)
                .map(|_| {
                    let mut child = patient();
                    let input = child.stdin.take().unwrap();
                    let begun = &begun;
                    let waits = s.spawn(move || {
                        begun.fetch_add(1, SeqCst);
                        child.wait()
                    });
                    (waits, input)
                })
                .unzip();
            // None ends before all are waited for, and the last one ends first.
            until(|| begun.load(SeqCst) == 32);
            for (one, input) in all.into_iter().zip(inputs).rev() {
                drop(input);
                assert_eq!(one.join().unwrap().unwrap().code(), Some(7));
            }
        });
    });
}

/// - given: the output of one child
/// - when: it is passed to another child as its input
/// - then: the other child reads all of it: the pipe is in blocking mode again
#[test]
fn process_22_chained() {
    everywhere(|_| {
        let mut first =
            shell("sleep 0.01; echo one; echo two").stdout(Stdio::piped()).spawn().unwrap();
        let second =
            Command::new("wc").arg("-l").stdin(first.stdout.take().unwrap()).output().unwrap();
        assert_eq!(String::from_utf8(second.stdout).unwrap().trim(), "2");
        assert!(first.wait().unwrap().success());
        // And a pipe of ecru's, one end of which this process keeps.
        let (mut reader, writer) = ecru::io::pipe().unwrap();
        let kept = writer.try_clone().unwrap();
        let mut child = shell("echo out; echo err >&2")
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        (&kept).write_all(b"ours\n").unwrap();
        drop(kept);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "out\nerr\nours\n");
    });
}

/// - given: `kill_on_drop(true)` and a running program
/// - when: a `timeout` around `output` expires
/// - then: `Elapsed`, and the program has been killed
#[test]
fn process_23_cancelled_output_kills() {
    everywhere(|_| {
        let path = std::env::temp_dir().join(format!("ecru-output-{}", std::process::id()));
        let mut command = shell(&format!("echo $$ > {}; exec sleep 60", path.display()));
        let id = || std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        let mut limit = ms(20);
        let id: u32 = loop {
            assert!(ecru::timeout(limit, || command.kill_on_drop(true).output()).is_err());
            match id() {
                Some(id) => break id,
                // It was killed before it had begun.
                None => limit *= 2,
            }
        };
        until(|| !exists(id));
        std::fs::remove_file(&path).unwrap();
    });
}

/// - given: `detect_deadlock(true)`
/// - when: the only task selects over an `Exit`
/// - then: the run does not count as stuck
#[test]
fn process_24_deadlock_is_none() {
    let runtime = ecru::Runtime::builder().workers(1).detect_deadlock(true).build().unwrap();
    runtime.run(|| {
        let child = Command::new("sleep").arg("0.03").spawn().unwrap();
        let never = AtomicBool::new(false);
        ecru::select! {
            wait(child.exit()) -> status => assert!(status.unwrap().unwrap().success()),
            wait(ecru::source::never::<()>()) -> _ => never.store(true, SeqCst),
        }
        assert!(!never.load(SeqCst));
    });
}

/// - given: children, and then no descriptor left for a pidfd
/// - when: `wait` and a `select!` over `exit()` wait for them, and a `Child` is dropped
/// - then: they work as before, a little later
#[test]
fn process_25_no_descriptors_left() {
    alone("process::process_25_no_descriptors_left", || {
        everywhere(|_| {
            let mut children = [0; 3].map(|_| patient());
            let [stdin, other, third] = [0, 1, 2].map(|n: usize| children[n].stdin.take().unwrap());
            without_descriptors(|| {
                assert!(ecru::io::pipe().is_err(), "there is none");
                assert!(ecru::timeout(ms(2), || children[0].wait()).is_err());
                drop(stdin);
                assert_eq!(children[0].wait().unwrap().code(), Some(7));
                let exit = children[1].exit();
                ecru::select! {
                    wait(&exit) -> status => panic!("it runs: {status:?}"),
                    default(ms(2)) => {}
                }
                drop(other);
                ecru::select! {
                    wait(&exit) -> status => assert_eq!(status.unwrap().unwrap().code(), Some(7)),
                    wait(ecru::source::never::<()>()) -> _ => unreachable!("it never has anything"),
                }
                let [_, _, orphan] = children;
                let id = orphan.id();
                drop(orphan);
                drop(third);
                until(|| !exists(id));
            });
        });
    });
}

/// - given: a shell that leads a process group, and a program that it has started
/// - when: `kill_group` is called; once more after the shell has been waited for; for a child that
///   leads no group
/// - then: both end; nothing happens; an error that says what to do, and the child lives on
#[test]
fn process_26_kill_group() {
    everywhere(|_| {
        let mut command = shell("sleep 60 & echo started; wait");
        command.process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        child.kill_group().unwrap();
        // Both programs have the output open.
        assert_eq!(output.read_line(&mut line).unwrap(), 0);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        child.kill_group().unwrap();

        let mut child = patient();
        let error = child.kill_group().unwrap_err();
        assert!(
            error.kind() == ErrorKind::NotFound && error.to_string().contains("process_group(0)")
        );
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}
