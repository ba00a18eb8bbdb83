//! Threads that a simulation starts.

use std::thread;

use ecru::sim::{Failure, Simulation};

use super::common::{alone_with, is_child};

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
