//! Threads that a simulation starts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use ecru::sim::{Failure, Simulation};

use super::common::{alone_with, is_child, ms, start_again};

/// - given: a task of a simulation
/// - when: it starts a thread
/// - then: the thread is refused, and the run fails as `Foreign`: the text names the call and the
///   task
#[test]
fn libc_40_a_thread_in_a_simulation() {
    let starts = || {
        let report = Simulation::new(1).run(|| {
            ecru::scope(|s| {
                let task =
                    s.builder().name("starter").spawn(|| thread::Builder::new().spawn(|| ()));
                let error = task.join().unwrap().unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            });
        });
        (report.trace_hash, report.result.unwrap_err())
    };
    let (hash, failure) = starts();
    assert!(matches!(failure, Failure::Foreign { .. }), "{failure}");
    let text = failure.to_string();
    for part in ["'starter'", "threads.rs", "`pthread_create`", "std::thread::spawn"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(starts().0, hash);
}

/// - given: a task that unwraps a thread, as `std::thread::spawn` does
/// - when: the thread is refused
/// - then: the panic that follows does not hide why
#[test]
fn libc_41_a_thread_that_is_unwrapped() {
    let report = Simulation::new(1).run(|| thread::spawn(|| 7).join().unwrap());
    let failure = report.result.unwrap_err();
    assert!(matches!(failure, Failure::Foreign { .. }), "{failure}");
}

/// - given: a program with this crate
/// - when: code outside of simulations starts threads, also while a simulation runs
/// - then: they run
#[test]
fn libc_42_threads_outside() {
    thread::scope(|s| {
        let simulations = s.spawn(|| (0..10).for_each(|seed| super::simulated(seed, || ())));
        for number in 0..50 {
            assert_eq!(s.spawn(move || number).join().unwrap(), number);
        }
        simulations.join().unwrap();
    });
    ecru::run(|| assert_eq!(ecru::unblock(|| thread::spawn(|| 7).join().unwrap()), 7));
}

/// - given: a simulation of which something is to be reported
/// - when: a task panics
/// - then: the report is written, which takes a thread and real time
#[test]
fn libc_43_reports() {
    let test = "threads::libc_43_reports";
    let body = || {
        let report = Simulation::new(1).run(|| -> () { panic!("this is reported") });
        assert!(matches!(report.result, Err(Failure::Panicked(_))));
    };
    if is_child(test) {
        return body();
    }
    let output = alone_with(test, |_| {}, body).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // std writes the message, and ecru which task it was.
    assert!(text.contains("this is reported") && text.contains("ecru: task #0"), "{text}");
}

/// A program whose task `waiter` waits for a lock that the task `holder` holds across a wait of ecru.
/// Both call `lock`, which returns the guard.
fn held_across_a_wait<G>(lock: impl Fn() -> G + Send + Sync) {
    // Long enough for each other step on a busy machine.
    let _ = Simulation::new(1).max_step_time(ms(2_000)).run(|| {
        ecru::scope(|s| {
            s.builder().name("holder").spawn(|| {
                let _guard = lock();
                let _ = ecru::sleep(Duration::from_secs(1));
            });
            ecru::sim::settle();
            s.builder().name("waiter").spawn(|| drop(lock()));
        });
    });
}

/// - given: a lock of `std`, and one of `parking_lot`, that a task holds across a wait of ecru
/// - when: another task waits for the lock, and so keeps the thread
/// - then: the run is `Stuck`, and its text names the task that waits, and the one that may hold the
///   lock, with the place where that one waits
#[test]
fn libc_44_both_sides_of_a_lock_held_across_a_wait_slow() {
    const TEST: &str = "threads::libc_44_both_sides_of_a_lock_held_across_a_wait_slow";
    if is_child(TEST) {
        if std::env::var_os("ECRU_TEST_LOCK").is_some_and(|lock| lock == "std") {
            let lock = std::sync::Mutex::new(());
            return held_across_a_wait(|| lock.lock().unwrap());
        }
        let lock = parking_lot::Mutex::new(());
        return held_across_a_wait(|| lock.lock());
    }
    for lock in ["std", "parking_lot"] {
        let mut child = start_again(TEST);
        child.env("ECRU_TEST_LOCK", lock).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Ended(child.spawn().unwrap());
        // The process is aborted later.
        let said = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut said = said.skip_while(|line| !line.contains("stuck: "));
        let first = said.next().expect("the run is stuck");
        assert!(first.contains("'waiter'") && first.ends_with("by one of these:"), "{first}");
        let holder = said.next().unwrap();
        let parts = ["'holder' (", "), which waits for time to pass, at ", "threads.rs:"];
        assert!(parts.iter().all(|part| holder.contains(part)), "{holder}");
    }
}

/// Kills a process when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
