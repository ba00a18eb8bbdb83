//! Ctrl-C or SIGTERM ends a run in order: `cancel_on_ctrl_c`, `cancel_on_terminate`. Each case runs
//! in a process of its own.
#![expect(unsafe_code, reason = "sends signals and installs handlers")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use ecru::{Runtime, Source};

use crate::common::PATIENCE;
use crate::support::{HOUR, Watchdog, forever, is_child, ms, start_again, until};

fn listening(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).cancel_on_ctrl_c(true).build().unwrap()
}

/// Sends a text to the parent, on a line of its own, after any output of the test harness.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{text}").unwrap();
    out.flush().unwrap();
}

/// A child process, which is killed if the test fails or hangs.
struct Child {
    process: std::process::Child,
    out: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

/// Calls `body` if this is the process of its own that the test has started. Otherwise starts that
/// process.
#[track_caller]
fn apart(test: &str, body: impl FnOnce()) -> Option<Child> {
    if is_child(test) {
        body();
        return None;
    }
    let _watchdog = Watchdog::new();
    let mut process = start_again(test).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    Some(Child { process, out, _watchdog })
}

impl Child {
    /// Reads until the child prints the text.
    #[track_caller]
    fn hear(&mut self, text: &str) {
        let mut line = String::new();
        while line.trim() != text {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it never said '{text}'");
        }
    }

    fn press_ctrl_c(&self) {
        self.send(libc::SIGINT);
    }

    fn send(&self, signal: i32) {
        let process = i32::try_from(self.process.id()).unwrap();
        // SAFETY: this sends a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    }

    /// Returns the exit status, or the signal.
    fn end(mut self) -> Result<i32, i32> {
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        let status = self.process.wait().unwrap();
        status.code().ok_or_else(|| status.signal().unwrap())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// - given: `cancel_on_ctrl_c(true)`, and a root, a child and a task of the run that wait
/// - when: SIGINT comes
/// - then: all of them are cancelled with the reason `Shutdown`, and `run` returns
#[test]
fn run_33_ctrl_c_cancels_the_run() {
    let Some(mut child) = apart("ctrl_c::run_33_ctrl_c_cancels_the_run", || {
        for workers in [1, 2] {
            static BEGUN: AtomicUsize = AtomicUsize::new(0);
            BEGUN.store(0, SeqCst);
            let wait = || {
                BEGUN.fetch_add(1, SeqCst);
                forever().reason()
            };
            listening(workers).run(|| {
                let of_run = ecru::spawn(wait);
                let reasons = ecru::scope(|s| {
                    let child = s.spawn(wait);
                    until(|| BEGUN.load(SeqCst) == 2);
                    say("waits");
                    let own = forever().reason();
                    [own, ecru::shield(|| child.join().unwrap())]
                });
                let of_run = ecru::shield(|| of_run.join().unwrap());
                say(&format!("{reasons:?} {of_run:?}"));
            });
        }
    }) else {
        return;
    };
    for _ in 0..2 {
        child.hear("waits");
        child.press_ctrl_c();
        child.hear("[Shutdown, Shutdown] Shutdown");
    }
    assert_eq!(child.end(), Ok(0));
}

/// - given: one worker, kept busy by a task that calls `is_cancelled` in a loop
/// - when: SIGINT comes
/// - then: the task sees the request
#[test]
fn run_34_ctrl_c_reaches_a_busy_run() {
    let Some(mut child) = apart("ctrl_c::run_34_ctrl_c_reaches_a_busy_run", || {
        listening(1).run(|| {
            say("computes");
            while !ecru::is_cancelled() {
                std::hint::spin_loop();
            }
        });
    }) else {
        return;
    };
    child.hear("computes");
    child.press_ctrl_c();
    assert_eq!(child.end(), Ok(0));
}

/// - given: a run that continues after a first SIGINT
/// - when: a second one comes
/// - then: the process ends by the signal
#[test]
fn run_35_second_ctrl_c_kills() {
    let Some(mut child) = apart("ctrl_c::run_35_second_ctrl_c_kills", || {
        listening(2).run(|| {
            say("waits");
            forever();
            say("goes on");
            ecru::shield(forever);
        });
    }) else {
        return;
    };
    child.hear("waits");
    child.press_ctrl_c();
    child.hear("goes on");
    child.press_ctrl_c();
    assert_eq!(child.end(), Err(libc::SIGINT));
}

/// - given: ended runs that had the setting
/// - when: SIGINT comes
/// - then: the process ends by the signal, as before the runs
#[test]
fn run_36_ctrl_c_is_given_back() {
    let Some(mut child) = apart("ctrl_c::run_36_ctrl_c_is_given_back", || {
        let runtime = listening(1);
        for _ in 0..3 {
            runtime.run(|| ());
        }
        say("is over");
        thread::sleep(PATIENCE / 2);
    }) else {
        return;
    };
    child.hear("is over");
    child.press_ctrl_c();
    assert_eq!(child.end(), Err(libc::SIGINT));
}

/// - given: a run without the setting
/// - when: SIGINT comes
/// - then: the process ends by the signal
#[test]
fn run_37_ctrl_c_is_left_alone() {
    let Some(mut child) = apart("ctrl_c::run_37_ctrl_c_is_left_alone", || {
        ecru::run(|| {
            say("waits");
            forever();
        });
    }) else {
        return;
    };
    child.hear("waits");
    child.press_ctrl_c();
    assert_eq!(child.end(), Err(libc::SIGINT));
}

/// - given: two runs with the setting and one without, in one process
/// - when: SIGINT comes
/// - then: the two are cancelled, and the other one continues
#[test]
fn run_38_ctrl_c_cancels_every_run() {
    let Some(mut child) = apart("ctrl_c::run_38_ctrl_c_cancels_every_run", || {
        let waiting = AtomicUsize::new(0);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    listening(1).run(|| {
                        if waiting.fetch_add(1, SeqCst) == 1 {
                            say("both wait");
                        }
                        forever();
                    });
                });
            }
            Runtime::builder().workers(1).build().unwrap().run(|| {
                assert!(ecru::sleep(ms(100)).is_ok());
            });
        });
    }) else {
        return;
    };
    child.hear("both wait");
    child.press_ctrl_c();
    assert_eq!(child.end(), Ok(0));
}

static CALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: i32) {
    CALLED.store(true, SeqCst);
}

/// - given: a function that the program had installed for SIGINT
/// - when: SIGINT comes during a run with the setting, and again after it
/// - then: the run is cancelled and the function is called; then it is called again
#[test]
fn run_39_ctrl_c_chains() {
    let Some(child) = apart("ctrl_c::run_39_ctrl_c_chains", || {
        // SAFETY: the function only writes to an atomic.
        unsafe { libc::signal(libc::SIGINT, note as extern "C" fn(i32) as usize) };
        listening(1).run(|| {
            // SAFETY: this sends a signal to the calling thread.
            unsafe { libc::raise(libc::SIGINT) };
            forever();
        });
        assert!(CALLED.swap(false, SeqCst));
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGINT) };
        assert!(CALLED.load(SeqCst));
    }) else {
        return;
    };
    assert_eq!(child.end(), Ok(0));
}

/// - given: a function that is installed for SIGINT during a run with the setting, and calls the
///   previous handler
/// - when: SIGINT comes during that run, after it, during a second run, and twice after that
/// - then: the function is called each time; the first SIGINT cancels its run, and so does the one
///   in the second run; the process does not end, and no handler calls itself in a cycle
#[test]
fn run_42_ctrl_c_is_passed_on() {
    let Some(child) = apart("ctrl_c::run_42_ctrl_c_is_passed_on", || {
        let press = || {
            // SAFETY: this sends a signal to the calling thread.
            unsafe { libc::raise(libc::SIGINT) };
            assert!(CALLED.swap(false, SeqCst));
        };
        listening(1).run(|| {
            // SAFETY: the function writes to an atomic, and calls the previous handler.
            let before =
                unsafe { libc::signal(libc::SIGINT, pass_on as extern "C" fn(i32) as usize) };
            BEFORE.store(before, SeqCst);
            press();
            forever();
        });
        press();
        listening(1).run(|| {
            press();
            forever();
        });
        press();
        press();
    }) else {
        return;
    };
    assert_eq!(child.end(), Ok(0));
}

static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn pass_on(signal: i32) {
    CALLED.store(true, SeqCst);
    type Function = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: the library's handler takes these arguments, and does not look at the pointers
    // itself.
    let before = unsafe { std::mem::transmute::<usize, Function>(BEFORE.load(SeqCst)) };
    before(signal, std::ptr::null_mut(), std::ptr::null_mut());
}

/// - given: runs with `cancel_on_terminate(true)`, with and without `cancel_on_ctrl_c(true)`
/// - when: SIGTERM or SIGINT comes; then SIGTERM comes again
/// - then: the run is cancelled with the reason `Shutdown` and returns; the second signal ends the
///   process
#[test]
fn run_43_terminate_cancels_the_run() {
    let Some(mut child) = apart("ctrl_c::run_43_terminate_cancels_the_run", || {
        let both =
            Runtime::builder().cancel_on_ctrl_c(true).cancel_on_terminate(true).build().unwrap();
        for _ in 0..2 {
            both.run(|| {
                say("waits");
                let reason = forever().reason();
                say(&format!("{reason:?}"));
            });
        }
        let terminate = Runtime::builder().cancel_on_terminate(true).build().unwrap();
        terminate.run(|| {
            say("waits");
            forever();
            say("goes on");
            ecru::shield(forever);
        });
    }) else {
        return;
    };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        child.hear("waits");
        child.send(signal);
        child.hear("Shutdown");
    }
    child.hear("waits");
    child.send(libc::SIGTERM);
    child.hear("goes on");
    child.send(libc::SIGTERM);
    assert_eq!(child.end(), Err(libc::SIGTERM));
}

/// - given: a run with `cancel_on_ctrl_c(true)` only
/// - when: SIGTERM comes
/// - then: the process ends by the signal
#[test]
fn run_44_terminate_is_left_alone() {
    let Some(mut child) = apart("ctrl_c::run_44_terminate_is_left_alone", || {
        listening(1).run(|| {
            say("waits");
            forever();
        });
    }) else {
        return;
    };
    child.hear("waits");
    child.send(libc::SIGTERM);
    assert_eq!(child.end(), Err(libc::SIGTERM));
}

/// - given: a run with `cancel_on_ctrl_c(true)`, and a callback of a timer that blocks its thread
/// - when: SIGINT comes
/// - then: the run is cancelled
#[test]
fn run_74_ctrl_c_beside_a_blocked_callback() {
    let Some(mut child) = apart("ctrl_c::run_74_ctrl_c_beside_a_blocked_callback", || {
        listening(1).run(|| {
            let block = |_| {
                say("blocks");
                thread::park_timeout(HOUR);
            };
            // On a slow machine, the callback may be called at once, by the calling thread.
            thread::spawn(move || ecru::channel::after(ms(1)).on_ready(block).detach());
            let reason = forever().reason();
            say(&format!("{reason:?}"));
        });
    }) else {
        return;
    };
    child.hear("blocks");
    child.press_ctrl_c();
    child.hear("Shutdown");
    assert_eq!(child.end(), Ok(0));
}

/// - given: a run with `cancel_on_ctrl_c(true)`, and a hook in it that blocks after the first
///   SIGINT
/// - when: a second SIGINT comes
/// - then: the process ends by the signal
#[test]
fn run_75_second_ctrl_c_beside_a_blocked_hook() {
    let Some(mut child) = apart("ctrl_c::run_75_second_ctrl_c_beside_a_blocked_hook", || {
        listening(1).run(|| {
            let block = || {
                say("blocks");
                thread::park_timeout(HOUR);
            };
            ecru::on_cancel(block, || {
                say("waits");
                forever();
            });
        });
    }) else {
        return;
    };
    child.hear("waits");
    child.press_ctrl_c();
    child.hear("blocks");
    child.press_ctrl_c();
    assert_eq!(child.end(), Err(libc::SIGINT));
}
