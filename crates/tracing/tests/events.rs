//! Events of the runtime, in a real subscriber. A process has one observer and one global
//! subscriber, so the tests share them and look for their own tasks.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use common::{HOUR, Watchdog, ms, quiet_panic, run_on};
use ecru::channel;
use tracing::info_span;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn written() -> MutexGuard<'static, Vec<u8>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        written().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs the subscriber and the events. Events of any thread go there.
fn log_events() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let format = fmt::format().without_time();
        let layer = fmt::layer().with_ansi(false).event_format(format).with_writer(|| Log);
        tracing_subscriber::registry().with(ecru_tracing::layer()).with(layer).init();
        ecru_tracing::emit_events().unwrap();
    });
    ecru_tracing::emit_events().expect("it may be called again");
}

/// Returns the lines that have all of these parts.
fn lines_with(parts: &[&str]) -> Vec<String> {
    let text = String::from_utf8_lossy(&written()).into_owned();
    let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
    text.lines().filter(has_all).map(|line| line.trim().to_owned()).collect()
}

/// Returns the only line with these parts.
#[track_caller]
fn line_with(parts: &[&str]) -> String {
    let lines = lines_with(parts);
    assert_eq!(lines.len(), 1, "{parts:?}: {lines:#?}");
    lines[0].clone()
}

#[test]
fn a_task_has_an_event_for_its_spawn_and_its_end() {
    log_events();
    for workers in [1, 2] {
        let name = &*format!("alpha{workers}");
        let (id, line) = run_on(workers, || {
            ecru::scope(|s| {
                let line = line!() + 1;
                let task = s.builder().name(name).spawn(|| ecru::task::current().id());
                (task.join().unwrap(), line)
            })
        });
        let this = file!();
        let task = format!("task.id={id} task.name=\"{name}\"");
        let spawned = line_with(&["task spawned", name]);
        let expected =
            format!("DEBUG ecru::task: task spawned {task} task.spawned_at={this}:{line}:");
        assert!(spawned.starts_with(&expected), "{spawned}\n{expected}");
        let ended = line_with(&["task ended", name]);
        assert_eq!(ended, format!("DEBUG ecru::task: task ended {task} how=\"returned\""));
    }
}

#[test]
fn an_end_says_how() {
    log_events();
    run_on(1, || {
        ecru::scope(|s| {
            let task = s.builder().name("falls").spawn(|| quiet_panic("a fault"));
            assert!(task.join().is_err());
            let unstarted = s.builder().name("unstarted").near().spawn(|| ());
            unstarted.cancel();
            assert!(unstarted.join().is_err());
            let future = s.builder().name("pending").spawn_future(std::future::pending::<()>());
            ecru::yield_now().unwrap();
            future.cancel();
            assert!(future.join().is_err());
            let ready = s.builder().name("ready").spawn_future(async { 5 });
            assert_eq!(ready.join().unwrap(), 5);
        });
        let failed = ecru::try_scope(|s| {
            s.builder().name("fails").spawn(|| Err::<(), _>(io::Error::other("a fault")));
            Ok(())
        });
        assert!(failed.is_err());
    });
    let fallen = line_with(&["task ended", "\"falls\""]);
    assert!(fallen.starts_with("WARN ecru::task: task ended task.id="), "{fallen}");
    assert!(fallen.ends_with("how=\"panicked\""), "{fallen}");
    for (name, how) in [
        ("\"unstarted\"", "how=\"dropped\""),
        ("\"pending\"", "how=\"dropped\""),
        ("\"ready\"", "how=\"returned\""),
        ("\"fails\"", "how=\"failed\""),
    ] {
        let ended = line_with(&["DEBUG ecru::task: task ended", name]);
        assert!(ended.ends_with(how), "{ended}");
        line_with(&["DEBUG ecru::task: task spawned", name]);
    }
}

#[test]
fn a_cancellation_names_its_task_and_its_reason() {
    log_events();
    run_on(2, || {
        ecru::scope(|s| {
            let named = |name: &'static str| s.builder().name(name);
            let (sender, receiver) = channel::bounded(0);
            let task = named("cancelled outside").spawn(move || {
                sender.send(()).unwrap();
                ecru::sleep(HOUR).is_err()
            });
            receiver.recv().unwrap();
            // The first request counts.
            ecru::unblock(|| thread::scope(|threads| threads.spawn(|| task.cancel()).join()))
                .unwrap();
            task.cancel();
            assert!(task.join().unwrap());
            let late =
                named("too late").spawn(|| ecru::timeout(ms(1), || ecru::sleep(HOUR)).is_err());
            assert!(late.join().unwrap());
        });
        let _ = ecru::timeout(Duration::ZERO, || ecru::scope(|s| s.spawn(common::forever).join()));
    });
    line_with(&["cancelled", "\"cancelled outside\"", "reason="]);
    let late = line_with(&["ecru::task: cancelled", "\"too late\""]);
    assert!(late.contains("task.id=#") && late.contains("reason="), "{late}");
}

#[test]
fn events_are_in_the_spans_of_their_tasks() {
    log_events();
    run_on(1, || {
        let _request = info_span!("request", id = 7).entered();
        ecru::scope(|s| s.builder().name("spanned").spawn(|| ecru::yield_now()).join())
            .unwrap()
            .unwrap();
    });
    for event in ["task spawned", "task ended"] {
        let line = line_with(&[event, "\"spanned\""]);
        assert!(line.contains("DEBUG request{id=7}: ecru::task: "), "{line}");
    }
}

#[test]
fn reports_are_events() {
    log_events();
    let _watchdog = Watchdog::new();
    let runtime = ecru::Runtime::builder().workers(1).watchdog(ms(10)).build().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            let other = s.builder().near().spawn(|| ecru::yield_now());
            let busy = s.builder().name("busy for long").near().spawn(|| {
                while lines_with(&["has not switched", "busy for long"]).is_empty() {
                    std::hint::spin_loop();
                }
            });
            busy.join().unwrap();
            other.join().unwrap().unwrap();
        });
    });
    let alarm = lines_with(&["WARN ecru::report: worker 0 has not switched", "busy for long"]);
    assert!(!alarm.is_empty());
    let detecting = ecru::Runtime::builder().workers(1).detect_deadlock(true).build().unwrap();
    let stuck = || detecting.run(|| channel::bounded::<u32>(1).1.recv().is_err());
    assert!(catch_unwind(AssertUnwindSafe(stuck)).is_err());
    while lines_with(&["WARN ecru::report: deadlock"]).is_empty() {
        thread::yield_now();
    }
}

/// Questions of dumps and metrics are tasks of the library.
#[test]
fn tasks_of_the_library_have_no_events() {
    log_events();
    run_on(2, || {
        let handle = ecru::RuntimeHandle::current();
        assert!(handle.dump().tasks().count() >= 1);
        assert!(handle.metrics().live >= 1);
    });
    assert_eq!(lines_with(&["src/task/observer.rs"]), [""; 0]);
    assert_eq!(lines_with(&["src/diag"]), [""; 0]);
}
