//! The standard streams, each test in a process of its own.
#![expect(unsafe_code, reason = "queries streams and terminals")]

use super::{bytes, read_all};
use crate::support::{Watchdog, begin, is_child, ms, run_on, start_again};
use ecru::io::{self, BufRead, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Returns a command for a process that reads or writes its standard streams.
fn start(test: &str) -> std::process::Command {
    let mut command = start_again(test);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Returns the output from the line "begin" on, after the process has ended successfully.
fn output_of(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.split_once("begin\n").map(|(_, text)| String::from(text)).unwrap_or(text)
}

/// Reads until the process prints the word.
fn hear(child: &mut Child, word: &str) {
    let out = child.stdout.as_mut().unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(word.as_bytes()) {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&heard));
        heard.push(byte[0]);
    }
}

/// - given: a process whose input is a pipe
/// - when: it reads lines in a task on its only worker
/// - then: it gets the lines; other tasks run meanwhile; the end is `Ok(0)`
#[test]
fn io_17_stdin_pipe() {
    const NAME: &str = "io::standard_streams::io_17_stdin_pipe";
    if is_child(NAME) {
        run_on(1, || {
            let turns = AtomicUsize::new(0);
            ecru::scope(|s| {
                let reads = s.spawn(|| {
                    let mut first = String::new();
                    assert_eq!(io::stdin().read_line(&mut first).unwrap(), 6);
                    let rest: Vec<_> = io::stdin().lines().map(Result::unwrap).collect();
                    let mut nothing = [0];
                    assert_eq!(io::stdin().read(&mut nothing).unwrap(), 0);
                    (first, rest)
                });
                ecru::yield_now().unwrap();
                while turns.fetch_add(1, SeqCst) < 100 {
                    ecru::yield_now().unwrap();
                }
                assert!(!reads.is_finished());
                println!("ready");
                let (first, rest) = reads.join().unwrap();
                assert_eq!(first, "first\n");
                assert_eq!(rest, ["second", "", "third"]);
            });
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).spawn().unwrap();
    hear(&mut child, "ready\n");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"first\nsecond\n").unwrap();
    stdin.write_all(b"\nthird").unwrap();
    drop(stdin);
    output_of(child);
}

/// - given: a process whose input is a file, or is empty
/// - when: it reads to the end
/// - then: it gets the whole file, or nothing
#[test]
fn io_18_stdin_file() {
    const NAME: &str = "io::standard_streams::io_18_stdin_file";
    if is_child(NAME) {
        run_on(2, || {
            let all = read_all(io::stdin());
            assert!(all.is_empty() || all == bytes(300_000));
            println!("begin\n{} bytes", all.len());
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let path = std::env::temp_dir().join(format!("ecru-stdin-{}", std::process::id()));
    std::fs::write(&path, bytes(300_000)).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let full = output_of(start(NAME).stdin(file).spawn().unwrap());
    assert!(full.starts_with("300000 bytes"), "{full}");
    let null = output_of(start(NAME).stdin(Stdio::null()).spawn().unwrap());
    assert!(null.starts_with("0 bytes"), "{null}");
    // If the input is closed, Rust opens /dev/null in its place.
    let mut closed = start(NAME);
    let close = || {
        // SAFETY: the descriptor is the child's own.
        unsafe { libc::close(0) };
        Ok(())
    };
    // SAFETY: closing an fd is async-signal-safe.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut closed, close) };
    let closed = output_of(closed.spawn().unwrap());
    assert!(closed.starts_with("0 bytes"), "{closed}");
    std::fs::remove_file(&path).unwrap();
}

/// - given: a process that shares its input with another
/// - when: it reads and waits
/// - then: the open file's mode is unchanged
#[test]
fn io_19_stdin_mode() {
    const NAME: &str = "io::standard_streams::io_19_stdin_mode";
    if is_child(NAME) {
        let mode = || {
            // SAFETY: the call returns an integer.
            unsafe { libc::fcntl(0, libc::F_GETFL) }
        };
        let before = mode();
        assert_eq!(before & libc::O_NONBLOCK, 0);
        run_on(1, || {
            assert!(ecru::timeout(ms(2), || io::stdin().read(&mut [0; 9])).is_err());
            assert_eq!(mode(), before);
        });
        assert!(ecru::timeout(ms(2), || io::stdin().read(&mut [0; 9])).is_err());
        assert_eq!(mode(), before);
        assert_eq!(io::stdin().as_fd().as_raw_fd(), 0);
        return;
    }
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).spawn().unwrap();
    let stdin = child.stdin.take();
    output_of(child);
    drop(stdin);
}

/// - given: a task that waits for a line
/// - when: its deadline passes
/// - then: `Elapsed`, and the line that comes later is read whole
#[test]
fn io_20_stdin_cancelled() {
    const NAME: &str = "io::standard_streams::io_20_stdin_cancelled";
    if is_child(NAME) {
        run_on(1, || {
            for _ in 0..3 {
                let mut line = String::new();
                let late = ecru::timeout(ms(3), || io::stdin().read_line(&mut line));
                assert!(late.is_err() && line.is_empty());
            }
            // One task holds the stream, and another waits for its turn, which can also be
            // cancelled.
            ecru::scope(|s| {
                let lock = io::stdin().lock();
                let waits =
                    begin(s, || io::stdin().read_line(&mut String::new()).map_err(|e| e.kind()));
                waits.cancel();
                assert_eq!(waits.join().unwrap(), Err(ErrorKind::Other));
                drop(lock);
            });
            println!("ready");
            let mut line = String::new();
            assert_eq!(io::stdin().read_line(&mut line).unwrap(), 5);
            assert_eq!(line, "word\n");
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).spawn().unwrap();
    hear(&mut child, "ready\n");
    child.stdin.as_mut().unwrap().write_all(b"word\n").unwrap();
    output_of(child);
}

/// - given: a process whose input is a terminal
/// - when: it reads a line, and then another line within a time limit
/// - then: the line; `Elapsed`, and other tasks run meanwhile
#[test]
fn io_21_stdin_terminal() {
    const NAME: &str = "io::standard_streams::io_21_stdin_terminal";
    if is_child(NAME) {
        run_on(1, || {
            assert!(io::stdin().is_terminal());
            let turns = AtomicUsize::new(0);
            ecru::scope(|s| {
                let reads = begin(s, || {
                    let mut line = String::new();
                    io::stdin().read_line(&mut line).unwrap();
                    let late = ecru::timeout(ms(5), || io::stdin().read_line(&mut line));
                    assert!(late.is_err());
                    line
                });
                while turns.fetch_add(1, SeqCst) < 100 {
                    ecru::yield_now().unwrap();
                }
                assert!(!reads.is_finished());
                println!("ready");
                assert_eq!(reads.join().unwrap(), "typed\n");
            });
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let (mut keyboard, terminal) = terminal();
    let mut child = start(NAME).stdin(Stdio::from(terminal)).spawn().unwrap();
    hear(&mut child, "ready\n");
    keyboard.write_all(b"typed\n").unwrap();
    output_of(child);
}

/// Returns both ends of a new terminal.
fn terminal() -> (std::fs::File, std::fs::File) {
    let open = |path: &str| std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let keyboard = open("/dev/ptmx");
    let (mut number, unlocked) = (0_i32, 0_i32);
    let fd = keyboard.as_raw_fd();
    // SAFETY: the call reads an integer.
    let unlocks = unsafe { libc::ioctl(fd, libc::TIOCSPTLCK, &raw const unlocked) };
    // SAFETY: the call writes an integer.
    let asks = unsafe { libc::ioctl(fd, libc::TIOCGPTN, &raw mut number) };
    assert_eq!((unlocks, asks), (0, 0));
    (keyboard, open(&format!("/dev/pts/{number}")))
}

/// - given: a process that writes to `stdout` from several tasks, one of which holds `lock` twice
/// - when: its output is read
/// - then: each line is whole, and so is the last one, which has no line end
#[test]
fn io_22_stdout() {
    const NAME: &str = "io::standard_streams::io_22_stdout";
    if is_child(NAME) {
        println!("begin");
        run_on(2, || {
            ecru::scope(|s| {
                for task in 0..4 {
                    s.spawn(move || {
                        for line in 0..100 {
                            writeln!(io::stdout(), "line {line} of task {task}").unwrap();
                            ecru::yield_now().unwrap();
                        }
                    });
                }
            });
            let mut lock = io::stdout().lock();
            write!(lock, "a line ").unwrap();
            // The task that holds the lock may take it again.
            let mut again = io::stdout().lock();
            write!(again, "in three ").unwrap();
            drop(lock);
            writeln!(io::stdout(), "parts").unwrap();
            drop(again);
        });
        write!(io::stdout(), "no end").unwrap();
        // Exits before the test harness prints more.
        std::process::exit(0);
    }
    let _watchdog = Watchdog::new();
    let text = output_of(start(NAME).spawn().unwrap());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 402, "{text}");
    for task in 0..4 {
        let own: Vec<_> =
            lines.iter().filter(|line| line.ends_with(&format!("task {task}"))).collect();
        assert_eq!(own.len(), 100);
        assert!(own.iter().enumerate().all(|(n, line)| line.starts_with(&format!("line {n} "))));
    }
    assert_eq!(lines[400..], ["a line in three parts", "no end"]);
}

/// - given: a process whose output is a full pipe
/// - when: a task writes, with its own guard or one that was moved to it
/// - then: it parks: other tasks run on the only worker, including the one that made the guard
#[test]
fn io_23_stdout_parks() {
    const NAME: &str = "io::standard_streams::io_23_stdout_parks";
    if is_child(NAME) {
        println!("begin");
        run_on(1, || {
            let done = AtomicBool::new(false);
            ecru::scope(|s| {
                let writes = begin(s, || {
                    io::stdout().write_all(&[b'x'; 200_000]).unwrap();
                    io::stdout().flush().unwrap();
                    done.store(true, SeqCst);
                });
                for _ in 0..100 {
                    ecru::yield_now().unwrap();
                }
                assert!(!done.load(SeqCst), "nobody has read it");
                // Now the pipe will be read.
                writeln!(io::stderr(), "full").unwrap();
                writes.join().unwrap();
            });
        });
        std::process::exit(0);
    }
    let _watchdog = Watchdog::new();
    let text = read_when_full(NAME);
    assert_eq!(text.len(), 200_000);
    assert!(text.bytes().all(|byte| byte == b'x'));
}

/// A guard that was moved to a local child belongs to both tasks. The child waits for room, and
/// does not block the worker.
#[test]
fn io_23_stdout_parks_with_a_guard_that_was_moved() {
    const NAME: &str = "io::standard_streams::io_23_stdout_parks_with_a_guard_that_was_moved";
    if is_child(NAME) {
        println!("begin");
        run_on(1, || {
            let (writes, wrote) = (&AtomicBool::new(false), &AtomicBool::new(false));
            ecru::scope(|s| {
                let mut lock = io::stdout().lock();
                s.spawn_local(move || {
                    writes.store(true, SeqCst);
                    lock.write_all(&[b'x'; 200_000]).unwrap();
                    lock.flush().unwrap();
                    wrote.store(true, SeqCst);
                });
                s.spawn_local(move || {
                    for _ in 0..200 {
                        ecru::yield_now().unwrap();
                    }
                    assert!(!wrote.load(SeqCst), "nobody has read it");
                    writeln!(io::stderr(), "full").unwrap();
                });
                while !writes.load(SeqCst) {
                    ecru::yield_now().unwrap();
                }
                io::stdout().lock().write_all(&[b'y'; 10]).unwrap();
            });
        });
        std::process::exit(0);
    }
    let _watchdog = Watchdog::new();
    let text = read_when_full(NAME);
    assert_eq!(text.bytes().filter(|byte| *byte == b'x').count(), 200_000);
    assert_eq!(text.bytes().filter(|byte| *byte == b'y').count(), 10);
}

/// Returns the output of a child with this name, which is read after the child has reported that
/// the pipe is full.
fn read_when_full(name: &str) -> String {
    let mut child = start(name).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    while line.trim() != "full" {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0);
    }
    output_of(child)
}

/// - given: a process that writes to `stderr`
/// - when: its output is read
/// - then: every byte arrives at once
#[test]
fn io_24_stderr() {
    const NAME: &str = "io::standard_streams::io_24_stderr";
    if is_child(NAME) {
        run_on(2, || {
            let mut errors = io::stderr();
            write!(errors, "no end").unwrap();
            let mut lock = errors.lock();
            writeln!(lock, " but this").unwrap();
            writeln!(io::stderr(), "and a line").unwrap();
            assert!(!lock.is_terminal());
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let output = start(NAME).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "no end but this\nand a line\n");
}

/// - given: a process whose standard streams are pipes
/// - when: it reads and writes several slices in one call, by the handles and by the locks
/// - then: all of them are used, in order; the standard output keeps an unfinished line
#[test]
fn io_34_standard_streams_vectored() {
    const NAME: &str = "io::standard_streams::io_34_standard_streams_vectored";
    if is_child(NAME) {
        run_on(2, || {
            let parts = ["one", "", " two\nthr", "ee"].map(|part| IoSlice::new(part.as_bytes()));
            let rest = [" four\n", "five", "\n"].map(|part| IoSlice::new(part.as_bytes()));
            writeln!(io::stdout(), "begin").unwrap();
            assert_eq!(io::stdout().write_vectored(&parts).unwrap(), 13);
            assert_eq!(io::stdout().lock().write_vectored(&rest).unwrap(), 11);
            assert_eq!((&io::stderr()).write_vectored(&parts).unwrap(), 13);
            assert_eq!(io::stderr().lock().write_vectored(&rest).unwrap(), 11);
            let (mut first, mut second) = ([0; 3], [0; 4]);
            let mut buffers = [&mut first[..], &mut second].map(IoSliceMut::new);
            assert_eq!((&io::stdin()).read_vectored(&mut buffers).unwrap(), 7);
            assert_eq!(io::stdin().lock().read_vectored(&mut buffers).unwrap(), 1);
            assert_eq!((&first, &second), (b"h23", b"4567"));
        });
        return;
    }
    const WRITTEN: &str = "one two\nthree four\nfive\n";
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1234567h").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), WRITTEN);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("begin\n{WRITTEN}")), "{text}");
}

/// - given: a process whose input is a pipe in which nothing arrives
/// - when: a simulation reads the input, and writes to both outputs
/// - then: the input is at its end, and what is written arrives; afterwards the process reads the
///   pipe
#[test]
fn io_30_in_a_simulation() {
    const NAME: &str = "io::standard_streams::io_30_in_a_simulation";
    if is_child(NAME) {
        let report = ecru::sim::Simulation::new(1).run(|| {
            let mut text = String::new();
            assert_eq!(io::stdin().read_line(&mut text).unwrap(), 0);
            writeln!(io::stderr(), "error").unwrap();
            writeln!(io::stdout(), "simulated").unwrap();
        });
        report.unwrap();
        let mut line = String::new();
        assert_eq!(io::stdin().read_line(&mut line).unwrap(), 6);
        assert_eq!(line, "later\n");
        return;
    }
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).stderr(Stdio::piped()).spawn().unwrap();
    hear(&mut child, "simulated\n");
    child.stdin.take().unwrap().write_all(b"later\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error\n");
}

/// - given: a process whose task holds the locks of all three streams
/// - when: a simulation on another thread reads the input, and writes to both outputs
/// - then: it does not wait for the locks
#[test]
fn io_31_in_a_simulation_beside_a_holder() {
    const NAME: &str = "io::standard_streams::io_31_in_a_simulation_beside_a_holder";
    if is_child(NAME) {
        ecru::run(|| {
            let _held = (io::stdin().lock(), io::stdout().lock(), io::stderr().lock());
            let simulate = || {
                ecru::sim::Simulation::new(1).run(|| {
                    let mut text = String::new();
                    assert_eq!(io::stdin().read_to_string(&mut text).unwrap(), 0);
                    assert_eq!(io::stdin().lock().lines().count(), 0);
                    assert_eq!(io::stdin().lock().fill_buf().unwrap(), b"");
                    writeln!(io::stderr(), "error").unwrap();
                    writeln!(io::stdout(), "simulated").unwrap();
                })
            };
            std::thread::scope(|s| s.spawn(simulate).join().unwrap()).unwrap();
        });
        return;
    }
    let _watchdog = Watchdog::new();
    let mut child = start(NAME).stderr(Stdio::piped()).spawn().unwrap();
    hear(&mut child, "simulated\n");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error\n");
}
