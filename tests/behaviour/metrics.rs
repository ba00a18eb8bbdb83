//! Numbers of a run, and their text.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::channel::bounded;
use ecru::diag::{self, Metrics};
use ecru::{Runtime, RuntimeHandle};

use crate::support::{HOUR, OnDrop, Watchdog, run_on, until};

/// - given: tasks that wait for time, a channel, a descriptor and a closure of `unblock`, a pending
///   future, and one that has not begun
/// - when: the numbers are taken
/// - then: each task is counted once, by what it waits for; so are timers, operations and threads;
///   those that have ended are counted, and the questions of metrics and dumps are not
#[test]
fn run_97_metrics_count_tasks() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let handle = runtime.handle();
        runtime.run(|| {
            ecru::scope(|s| {
                let (tx, rx) = bounded::<u32>(1);
                let (up, mut down) = ecru::net::UnixStream::pair().unwrap();
                let sleepers = [0; 3].map(|_| s.spawn(|| ecru::sleep(HOUR).is_err()));
                let receiver = s.spawn(move || rx.recv());
                let reader = s.spawn(move || io::Read::read(&mut (&up), &mut [0; 8]));
                let future = s.spawn_future(std::future::pending::<()>());
                let waits = |metrics: &Metrics| metrics.waiting.values().sum::<usize>();
                until(|| waits(&diag::metrics()) == 6);
                let unstarted = s.builder().near().spawn(|| ());
                // A worker that is preempted for long does not answer.
                let mut metrics = diag::metrics();
                until(|| {
                    metrics = diag::metrics();
                    metrics.busy_workers.is_empty()
                });
                for (what, count) in [
                    ("time to pass", 3),
                    ("a value from a channel", 1),
                    ("to read from", 1),
                    ("its future to be woken", 1),
                ] {
                    assert_eq!(metrics.waiting.get(what), Some(&count), "{what}: {metrics:?}");
                }
                let counts = (metrics.running, metrics.timers, metrics.in_flight);
                assert_eq!(counts, (1, 3, 1), "{metrics:?}");
                // All belong to the scope around this.
                assert_eq!(metrics.scopes, 1, "{metrics:?}");
                assert!(metrics.live >= 7 && metrics.stacks.live >= 5, "{metrics:?}");
                assert_eq!(metrics.worker_times.len(), workers);
                assert_eq!(metrics.unknown, 0, "{metrics:?}");
                unstarted.join().unwrap();
                let _ = (handle.dump(), diag::metrics());
                until(|| diag::metrics().ended == 1);
                assert_eq!(diag::metrics().spawned, 8);
                // The closure may begin before its task is parked.
                let what = "a closure on a thread that may block";
                let shut = ecru::unblock(|| {
                    let mut shut = handle.metrics();
                    while shut.waiting.get(what) != Some(&1) {
                        thread::yield_now();
                        shut = handle.metrics();
                    }
                    shut
                });
                assert_eq!((shut.unblock_threads, shut.unblock_idle, shut.running), (1, 0, 0));
                sleepers.iter().for_each(|sleeper| sleeper.cancel());
                tx.send(1).unwrap();
                io::Write::write_all(&mut down, b"x").unwrap();
                future.cancel();
                receiver.join().unwrap().unwrap();
                reader.join().unwrap().unwrap();
            });
            until(|| diag::metrics().ended == 7);
        });
        let after = handle.metrics();
        assert_eq!((after.live, after.timers, after.in_flight), (0, 0, 0), "{after:?}");
        drop(runtime);
        assert_eq!(handle.metrics().worker_times, Vec::<Duration>::new());
    }
}

/// - given: a plain thread without a run, a closure of `unblock`, and `no_suspend`
/// - when: `diag::metrics` is called there
/// - then: it panics, and names what to use
#[test]
fn run_98_metrics_outside_a_run() {
    let _watchdog = Watchdog::new();
    let text = |result: thread::Result<Metrics>| {
        let payload = result.err().unwrap();
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .unwrap_or_else(|| payload.downcast_ref::<String>().unwrap().clone())
    };
    let outside = text(catch_unwind(diag::metrics));
    assert!(outside.contains("Runtime::handle().metrics()"), "{outside}");
    ecru::run(|| {
        let unblocked = text(ecru::unblock(|| catch_unwind(diag::metrics)));
        assert!(unblocked.contains("Runtime::handle().metrics()"), "{unblocked}");
        let refused = text(catch_unwind(AssertUnwindSafe(|| ecru::no_suspend(diag::metrics))));
        assert!(refused.contains("no_suspend"), "{refused}");
    });
}

/// - given: a task that keeps its worker, and dumps and metrics of its run
/// - when: the numbers are taken, and then a record
/// - then: the task counts as one that runs; the questions are in no record
#[test]
fn run_104_busy_workers_and_questions() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(1).record(1 << 16).build().unwrap();
    let handle = runtime.handle();
    let (busy, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    runtime.run(|| {
        let _ = (handle.dump(), diag::metrics());
        thread::scope(|threads| {
            let asks = threads.spawn(|| {
                let _over = OnDrop(|| is_over.store(true, SeqCst));
                while !busy.load(SeqCst) {
                    thread::yield_now();
                }
                handle.metrics()
            });
            busy.store(true, SeqCst);
            while !is_over.load(SeqCst) {
                std::hint::spin_loop();
            }
            let metrics = asks.join().unwrap();
            assert_eq!((metrics.running, metrics.live), (1, 1), "{metrics:?}");
            assert_eq!(metrics.busy_workers, [0]);
        });
        let delays = diag::metrics().delays.unwrap();
        assert!(delays.longest_runs.iter().all(|(place, _)| place.file() == file!()), "{delays:?}");
    });
    let mut trace = Vec::new();
    handle.record_to(&mut trace).unwrap();
    assert!(!String::from_utf8(trace).unwrap().contains("dump.rs"));
}

/// - given: metrics of a run with a recorder
/// - when: they are made text
/// - then: it is as OpenMetrics 1.0 has it: each family once, with its type before its samples, numbers
///   that are read, cumulative buckets, and `# EOF` at the end
#[test]
fn run_99_metrics_as_openmetrics() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(1).record(1 << 16).build().unwrap();
    let (metrics, text) = runtime.run(|| {
        ecru::scope(|s| {
            (0..20).for_each(|_| {
                s.spawn(|| ecru::yield_now().unwrap());
            });
        });
        let metrics = RuntimeHandle::current().metrics();
        let text = metrics.to_openmetrics();
        (metrics, text)
    });
    let delays = metrics.delays.unwrap();
    assert!(delays.ready_to_run.count() >= 40 && delays.wake_to_run.count() >= 20);
    assert!(delays.longest_runs.iter().any(|run| run.0.file() == file!()));
    let body = text.strip_suffix("# EOF\n").unwrap();
    let (mut families, mut family, mut kind) = (Vec::new(), "", "");
    let mut buckets: Vec<f64> = Vec::new();
    for line in body.lines() {
        if let Some(said) = line.strip_prefix("# TYPE ") {
            (family, kind) = said.split_once(' ').unwrap();
            assert!(!families.contains(&family), "{family} twice");
            assert!(["gauge", "counter", "gaugehistogram"].contains(&kind), "{line}");
            families.push(family);
            buckets.clear();
            continue;
        }
        if let Some(said) = line.strip_prefix("# HELP ").or(line.strip_prefix("# UNIT ")) {
            assert!(said.starts_with(family), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let name = name.split('{').next().unwrap();
        let suffix = name.strip_prefix(family).unwrap();
        let wanted: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            _ => &["_bucket", "_gcount", "_gsum"],
        };
        assert!(wanted.contains(&suffix), "{line}");
        if suffix == "_bucket" {
            assert!(buckets.last().is_none_or(|last| *last <= value), "{line}");
            buckets.push(value);
        }
    }
    assert!(families.contains(&"ecru_tasks") && families.len() > 12, "{families:?}");
    run_on(1, || assert!(diag::metrics().delays.is_none()));
}
