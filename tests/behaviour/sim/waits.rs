//! Calls that have another thread, or the kernel, outside of simulations.

use super::simulate;
use ecru::process::Command;
use ecru::signal::Signal;
use ecru::sim::{self, Simulation};
use std::io::ErrorKind;
use std::panic::catch_unwind;
use std::time::Duration;

fn text(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast_ref::<&str>().unwrap()).to_owned(),
    }
}

/// - given: a simulation
/// - when: a task calls `unblock`
/// - then: the closure runs in place, on a stack like a thread's, and may wait in virtual time
#[test]
fn sim_08_unblock() {
    let report = simulate(1, || {
        let own = std::thread::current().id();
        ecru::scope(|s| {
            s.spawn(move || {
                let mut sum = 0;
                ecru::unblock(|| {
                    let large = std::hint::black_box([1_u8; 1 << 20]);
                    ecru::sleep(Duration::from_secs(5)).unwrap();
                    // With the other backend, each stack is a thread.
                    assert!(cfg!(ecru_baton) || std::thread::current().id() == own);
                    sum = large.iter().map(|byte| u32::from(*byte)).sum();
                });
                assert_eq!(sum, 1 << 20);
                let panics = catch_unwind(|| ecru::unblock(|| panic!("in place")));
                assert_eq!(text(panics.unwrap_err()), "in place");
            });
            ecru::sleep(Duration::from_secs(3)).unwrap();
            assert_eq!(sim::elapsed(), Duration::from_secs(3));
        });
        sim::elapsed()
    });
    assert_eq!(report.unwrap(), Duration::from_secs(5));
}

/// - given: a simulation
/// - when: it starts a program, or listens to a signal
/// - then: an error of kind `Unsupported` names the call
#[test]
fn sim_09_unsupported() {
    let report = simulate(1, || {
        let started = Command::new("true").spawn().unwrap_err();
        assert_eq!(started.kind(), ErrorKind::Unsupported);
        assert!(started.to_string().contains("Command::spawn"), "{started}");
        let replaced = Command::new("true").exec();
        assert!(replaced.to_string().contains("Command::exec"), "{replaced}");
        let listened = Signal::new(10).unwrap_err();
        assert_eq!(listened.kind(), ErrorKind::Unsupported);
        assert!(listened.to_string().contains("Signal::new"), "{listened}");
    });
    report.unwrap();
}

/// - given: a task, in a simulation or in a run
/// - when: it begins another run, or a simulation
/// - then: it panics, and the text says what to do
#[test]
fn sim_10_nested() {
    let report = simulate(1, || {
        let run = text(catch_unwind(|| ecru::run(|| ())).unwrap_err());
        assert!(run.contains("`ecru::run` called inside a simulation"), "{run}");
        let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
        let run = catch_unwind(std::panic::AssertUnwindSafe(|| runtime.run(|| ())));
        let run = text(run.unwrap_err());
        assert!(run.contains("`Runtime::run` called inside a simulation"), "{run}");
        let nested = text(catch_unwind(|| Simulation::new(2).run(|| ())).unwrap_err());
        assert!(nested.contains("call it on a plain thread"), "{nested}");
    });
    report.unwrap();
    let nested = ecru::run(|| catch_unwind(|| Simulation::new(2).run(|| ())));
    assert!(text(nested.unwrap_err()).contains("call it on a plain thread"));
}

/// - given: tasks of a simulation, of which one waits and another one is ready
/// - when: one of them asks for a dump
/// - then: it shows what waits, with numbers that count the tasks of the run; no time passes
#[test]
fn sim_29_dump() {
    for seed in 0..50 {
        let report = simulate(seed, || {
            let parked = ecru::sync::Notify::new();
            ecru::scope(|s| {
                let daemon = s.builder().name("parked");
                daemon.spawn_daemon(|| parked.wait());
                sim::settle();
                s.builder().name("ready").spawn(|| while ecru::yield_now().is_ok() {}).cancel();
                let tree = ecru::RuntimeHandle::current().dump();
                let mut names: Vec<_> = tree.tasks().filter_map(|task| task.name()).collect();
                names.retain(|name| *name != "ready");
                assert_eq!(names, ["parked"], "{tree}");
                let parked = tree.tasks().find(|task| task.name() == Some("parked")).unwrap();
                assert_eq!(
                    (parked.id().to_string(), parked.waits_on().is_some()),
                    ("#1".into(), true)
                );
                let root = tree.tasks().find(|task| task.is_root()).unwrap();
                assert_eq!(root.id().to_string(), "#0");
            });
            sim::elapsed()
        });
        assert_eq!(report.unwrap(), Duration::ZERO);
    }
}
