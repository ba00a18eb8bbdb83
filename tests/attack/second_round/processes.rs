//! Attacks that need a process of their own: signals, closed standard streams, and the environment.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use ecru::channel;
use ecru::sync::poison;
use ecru::{CancelReason, Source};

use super::support::{each_run, ms, panic_of};
use crate::common::{HOUR, alone, alone_with, is_child};

/// Asks this process to terminate.
fn terminate() {
    let id = std::process::id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
}

/// SIGTERM comes while every task computes under a limit, after the root has ended, and in a
/// shield.
#[test]
fn a_signal_comes_at_odd_moments() {
    alone("second_round::processes::a_signal_comes_at_odd_moments", || {
        for workers in [1, 2] {
            let builder = ecru::Runtime::builder().workers(workers).cancel_on_terminate(true);
            let runtime = builder.build().unwrap();
            let seen = runtime.run(|| {
                std::thread::spawn(terminate);
                ecru::timeout(HOUR, || {
                    ecru::scope(|s| {
                        let child = s.spawn(|| {
                            while !ecru::is_cancelled() {}
                            ecru::checkpoint().unwrap_err().reason()
                        });
                        while !ecru::is_cancelled() {}
                        let own = ecru::checkpoint().map_err(|c| c.reason());
                        ecru::shield(|| match child.join() {
                            Ok(reason) => assert_eq!(reason, CancelReason::Shutdown),
                            // The signal came before the task could begin.
                            Err(error) => {
                                assert!(matches!(error, ecru::JoinError::Cancelled), "{error}")
                            }
                        });
                        own
                    })
                })
            });
            assert_eq!(seen, Ok(Err(CancelReason::Shutdown)));
            let (tell, told) = mpsc::channel();
            runtime.run(|| {
                ecru::spawn(move || {
                    std::thread::spawn(terminate);
                    tell.send(ecru::sleep(HOUR).map_err(|c| c.reason())).unwrap();
                });
            });
            assert_eq!(told.recv().unwrap(), Err(CancelReason::Shutdown));
            let after = runtime.run(|| {
                ecru::shield(|| {
                    terminate();
                    assert_eq!(ecru::sleep(ms(1)), Ok(()), "a shield keeps it out");
                });
                // The signal has come, but its listener may not have run yet.
                ecru::sleep(HOUR).map_err(|c| c.reason())
            });
            assert_eq!(after, Err(CancelReason::Shutdown));
        }
    });
}

/// With standard error and other streams closed, the process survives a deadlock, a panic and an
/// error that is never looked at. No report is written to a descriptor of the program.
#[test]
fn reports_are_made_without_a_standard_error() {
    let name = "second_round::processes::reports_are_made_without_a_standard_error";
    if !is_child(name) {
        for redirections in ["2>&-", "2>&- <&-", "2>/dev/full"] {
            let exe = std::env::current_exe().unwrap();
            let output = Command::new("sh")
                .arg("-c")
                .arg(format!(
                    "exec \"$0\" --exact {name} --nocapture --test-threads=1 {redirections}"
                ))
                .arg(exe)
                .env("ECRU_TEST_CHILD", name)
                .env_remove("RUST_BACKTRACE")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let good = output.status.success() && text.contains("1 passed");
            assert!(good, "{redirections}: {} {text}", output.status);
        }
        return;
    }
    for workers in [1, 2] {
        let (reader, writer) = ecru::io::pipe().unwrap();
        let text = panic_of(|| {
            let builder = ecru::Runtime::builder().workers(workers).detect_deadlock(true);
            builder.build().unwrap().run(|| {
                drop(ecru::spawn(|| Err::<(), _>("unseen")));
                ecru::scope(|s| assert!(s.spawn(|| panic!("a child's")).join().is_err()));
                let (_sender, receiver) = channel::bounded::<u32>(0);
                receiver.recv().unwrap_or(0)
            })
        });
        assert!(text.as_deref().is_some_and(|text| text.starts_with("deadlock: ")), "{text:?}");
        let mut bytes = vec![];
        (&writer).write_all(b"mine").unwrap();
        drop(writer);
        (&reader).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"mine");
    }
}

/// A program that a timer or a closure will wake does not count as stuck, whatever
/// `ECRU_DETECT_DEADLOCK` is.
#[test]
fn nothing_is_stuck_where_a_timer_or_a_closure_will_wake() {
    let name = "second_round::processes::nothing_is_stuck_where_a_timer_or_a_closure_will_wake";
    for value in ["1", "0", "", "yes"] {
        let prepare = |command: &mut Command| _ = command.env("ECRU_DETECT_DEADLOCK", value);
        if alone_with(name, prepare, || each_run(waits_that_end)).is_none() {
            return;
        }
    }
}

fn waits_that_end() {
    let (mutex, condvar) = (poison::Mutex::new(()), poison::Condvar::new());
    assert!(condvar.wait_timeout(mutex.lock().unwrap(), ms(3)).unwrap().1.timed_out());
    let (sender, receiver) = channel::bounded::<()>(0);
    channel::after(ms(2)).on_ready(move |_| drop(sender)).detach();
    assert!(receiver.recv().is_err());
    ecru::block_on(channel::after(ms(2)).to_future()).unwrap().unwrap();
    let never = || channel::never::<()>().recv();
    assert!(ecru::shield_for(ms(2), || ecru::timeout(ms(2), never)).is_err());
    let (sender, receiver) = channel::bounded::<()>(0);
    ecru::scope(|s| {
        s.spawn(|| {
            ecru::unblock(move || {
                std::thread::sleep(Duration::from_millis(10));
                drop(sender);
            });
        });
        assert!(receiver.recv().is_err());
    });
    let cancelled = ecru::cancel_scope(|c| {
        ecru::shield_for(ms(3), || {
            c.cancel();
            never()
        })
    });
    assert!(cancelled.is_err());
}
