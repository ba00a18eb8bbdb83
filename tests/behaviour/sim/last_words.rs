//! What is printed if the process ends in a simulation.

use crate::support::{is_child, start_again};
use ecru::sim;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a test again, in which the process ends. Returns what it prints and the signal.
fn end(name: &str) -> (String, Option<i32>) {
    let mut child = start_again(name);
    child.env("ECRU_SIM_SEED", "7").env("CARGO_PKG_NAME", "ecru").stderr(Stdio::piped());
    let child = child.output().unwrap();
    (String::from_utf8_lossy(&child.stderr).into_owned(), child.status.signal())
}

/// Checks that the text has the seed, the turns and the command that repeats the run.
fn assert_repeatable(text: &str, name: &str) {
    assert!(text.contains("ends in a simulation with seed 7; its turns so far: v1 0"), "{text}");
    let command = "the command that repeats it: ECRU_SIM_SEED=7 cargo test -p ecru";
    assert!(text.contains(&format!("{command} -- --exact {name}")), "{text}");
    assert_eq!(text.matches("ends in a simulation").count(), 1, "{text}");
}

/// Tests `f`, but not in the first run, which measures the program with another seed.
fn test(f: impl Fn() + Send + Sync) {
    let runs = AtomicU32::new(0);
    sim::test(|| {
        if runs.fetch_add(1, Ordering::Relaxed) > 0 {
            f();
        }
    });
}

/// Panics when it is dropped.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("the second panic");
    }
}

/// - given: a test in simulations
/// - when: a task aborts the process, or panics while it unwinds
/// - then: the seed, the turns so far and the command that repeats the run are printed
#[test]
#[cfg(not(ecru_baton))] // the task's thread knows nothing of the simulation
fn sim_372_abort() {
    const NAME: &str = "sim::last_words::sim_372_abort";
    if is_child(NAME) {
        test(|| {
            ecru::scope(|s| {
                s.spawn(|| ecru::yield_now());
                s.spawn(|| std::process::abort());
            });
        });
    }
    let (text, signal) = end(NAME);
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    assert_repeatable(&text, NAME);
}

#[test]
#[cfg(not(ecru_baton))] // the task's thread knows nothing of the simulation
fn sim_372_abort_by_a_second_panic() {
    const NAME: &str = "sim::last_words::sim_372_abort_by_a_second_panic";
    if is_child(NAME) {
        test(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    let _bad = Bad;
                    panic!("the first panic");
                });
            });
        });
    }
    let (text, signal) = end(NAME);
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    assert_repeatable(&text, NAME);
}

#[expect(unconditional_recursion, reason = "overflows the stack")]
fn overflow(depth: u64) -> u64 {
    let frame = [depth; 64];
    overflow(std::hint::black_box(depth + 1)) + frame[std::hint::black_box(3)]
}

/// - given: a test in simulations
/// - when: a task overflows its stack
/// - then: the same is printed, and the note names the simulation's setting
#[test]
#[cfg(not(ecru_baton))] // the task's thread knows nothing of the simulation
fn sim_373_overflow() {
    const NAME: &str = "sim::last_words::sim_373_overflow";
    if is_child(NAME) {
        test(|| ecru::scope(|s| s.spawn(|| _ = overflow(0)).join().unwrap()));
    }
    let (text, signal) = end(NAME);
    assert_eq!(signal, Some(libc::SIGSEGV), "{text}");
    assert!(text.contains("`Simulation::stack_size(..)` for all tasks"), "{text}");
    assert_repeatable(&text, NAME);
}
