//! What is published, seen by the exporter for Prometheus.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{HOUR, OnDrop, Watchdog, ms, run_on, until};
use ecru::diag::Metrics;
use ecru_metrics::{Publisher, publish_every};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

fn exporter() -> (PrometheusRecorder, PrometheusHandle) {
    let exporter = PrometheusBuilder::new().build_recorder();
    let page = exporter.handle();
    (exporter, page)
}

/// Returns the lines of a page with this part that are no comments.
fn lines(page: &str, part: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    lines.map(String::from).collect()
}

/// Returns the values of a page, without the names that OpenMetrics has for another kind.
fn values(page: &str) -> BTreeSet<String> {
    let others = ["ready_to_run", "wake_to_run", "worker_processor_seconds"];
    let is_shared = |line: &String| !others.iter().any(|other| line.contains(other));
    lines(page, "ecru_").into_iter().filter(is_shared).collect()
}

/// A run with a recorder, tasks that wait in several ways, and a thread that may block.
fn measured() -> Metrics {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(1).record(1 << 16).build().unwrap().run(|| {
        ecru::unblock(|| ());
        ecru::scope(|s| {
            let (_sender, receiver) = ecru::channel::bounded::<u32>(1);
            let tasks = [
                s.spawn(|| ecru::sleep(HOUR).is_err()),
                s.spawn(move || receiver.recv().is_err()),
                s.spawn_future(std::future::pending::<bool>()),
            ];
            until(|| ecru::diag::metrics().waiting.values().sum::<usize>() == 3);
            let metrics = ecru::diag::metrics();
            tasks.iter().for_each(|task| task.cancel());
            metrics
        })
    })
}

#[test]
fn the_page_has_the_numbers_of_openmetrics() {
    let (exporter, page) = exporter();
    let metrics = measured();
    metrics::with_local_recorder(&exporter, || Publisher::new().publish(&metrics));
    let page = page.render();
    assert_eq!(values(&page), values(&metrics.to_openmetrics()));
    for line in [
        "ecru_tasks{state=\"waiting\"} 3",
        "ecru_tasks_waiting{for=\"time to pass\"} 1",
        "ecru_tasks_waiting{for=\"a value from a channel\"} 1",
        "ecru_timers 1",
        "ecru_scopes 1",
    ] {
        assert!(lines(&page, "").contains(line), "{line}:\n{page}");
    }
    let delays = metrics.delays.unwrap();
    for (name, times) in [("ready", &delays.ready_to_run), ("wake", &delays.wake_to_run)] {
        assert!(times.count() > 0);
        let count = format!("ecru_{name}_to_run_events {}", times.count());
        assert!(lines(&page, "").contains(&count), "{count}:\n{page}");
        for (label, share) in
            [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)]
        {
            let time = times.quantile(share).as_secs_f64();
            let line = format!("ecru_{name}_to_run_seconds{{quantile=\"{label}\"}} {time}");
            assert!(lines(&page, "").contains(&line), "{line}:\n{page}");
        }
    }
    assert_eq!(lines(&page, "ecru_worker_processor_seconds{worker=\"0\"} ").len(), 1);
    assert!(!lines(&page, "ecru_longest_run_seconds{spawned_at=").is_empty());
}

#[test]
fn every_family_is_described_and_keeps_its_name() {
    // Such a page has the unit and the kind in each name.
    let exporter = PrometheusBuilder::new().with_recommended_naming(true).build_recorder();
    let page = exporter.handle();
    let metrics = measured();
    metrics::with_local_recorder(&exporter, || Publisher::new().publish(&metrics));
    let page = page.render();
    assert_eq!(values(&page), values(&metrics.to_openmetrics()));
    let described = |line: &str| {
        let name = line.split(['{', ' ']).next().unwrap();
        page.contains(&format!("# HELP {name} "))
    };
    let undescribed: Vec<String> =
        lines(&page, "ecru_").into_iter().filter(|line| !described(line)).collect();
    assert_eq!(undescribed, [""; 0], "{page}");
}

#[test]
fn what_is_gone_becomes_zero() {
    let (exporter, page) = exporter();
    let mut publisher = Publisher::new();
    let mut metrics = Metrics::default();
    let mut publish = |metrics: &Metrics| {
        metrics::with_local_recorder(&exporter, || publisher.publish(metrics));
    };
    metrics.waiting.insert("time to pass", 3);
    metrics.waiting.insert("a value from a channel", 2);
    metrics.worker_times = vec![ms(1500)];
    metrics.spawned = 7;
    publish(&metrics);
    metrics.waiting.remove("time to pass");
    metrics.worker_times.clear();
    for _ in 0..2 {
        publish(&metrics);
        let waiting = lines(&page.render(), "ecru_tasks_waiting");
        let expected = [
            "ecru_tasks_waiting{for=\"a value from a channel\"} 2",
            "ecru_tasks_waiting{for=\"time to pass\"} 0",
        ];
        assert_eq!(waiting, expected.map(String::from).into());
        let time = lines(&page.render(), "ecru_worker_processor_seconds");
        assert_eq!(time, ["ecru_worker_processor_seconds{worker=\"0\"} 0".to_owned()].into());
    }
    // A counter does not go back, even if another runtime has a smaller one.
    publish(&Metrics::default());
    assert_eq!(
        lines(&page.render(), "ecru_tasks_spawned"),
        ["ecru_tasks_spawned_total 7".to_owned()].into()
    );
    metrics.waiting.insert("time to pass", 1);
    publish(&metrics);
    assert!(page.render().contains("ecru_tasks_waiting{for=\"time to pass\"} 1\n"));
}

#[test]
fn labels_tell_runtimes_apart() {
    let (exporter, page) = exporter();
    let metrics = [2, 3].map(|timers| {
        let mut metrics = Metrics::default();
        metrics.timers = timers;
        metrics
    });
    metrics::with_local_recorder(&exporter, || {
        Publisher::new().label("runtime", "front").publish(&metrics[0]);
        Publisher::new().label("runtime", String::from("a\"b")).publish(&metrics[1]);
    });
    let expected = [
        "ecru_timers{runtime=\"front\"} 2".to_owned(),
        "ecru_timers{runtime=\"a\\\"b\"} 3".to_owned(),
    ];
    assert_eq!(lines(&page.render(), "ecru_timers"), expected.into());
}

/// A daemon publishes until its scope ends. A thread publishes while the only worker is blocked.
#[test]
fn a_daemon_and_a_thread_publish_again_and_again() {
    let (exporter, page) = exporter();
    metrics::set_global_recorder(exporter).unwrap();
    let shows = |line: &str| page.render().lines().any(|shown| shown == line);
    run_on(1, || {
        ecru::scope(|s| {
            s.spawn_daemon(|| publish_every(ms(1)));
            until(|| shows("ecru_tasks{state=\"running\"} 1"));
            let sleepers = [0; 3].map(|_| s.spawn(|| ecru::sleep(HOUR).is_err()));
            // The daemon itself asks, so it runs, and the body waits or is ready.
            until(|| shows("ecru_tasks_waiting{for=\"time to pass\"} 3"));
            sleepers.iter().for_each(|sleeper| sleeper.cancel());
            until(|| shows("ecru_tasks_waiting{for=\"time to pass\"} 0"));
        });
    });
    let _watchdog = Watchdog::new();
    let runtime = ecru::Runtime::builder().workers(1).watchdog(Duration::ZERO).build().unwrap();
    let (handle, ends) = (runtime.handle(), AtomicBool::new(false));
    thread::scope(|threads| {
        let _ends = OnDrop(|| ends.store(true, SeqCst));
        threads.spawn(|| {
            // Only a time limit ends it on a thread.
            while !ends.load(SeqCst) {
                let publisher = Publisher::new().label("by", "thread");
                let ended = ecru::timeout(ms(50), || publisher.publish_every(ms(1), &handle));
                assert!(ended.is_err());
            }
        });
        runtime.run(|| {
            while !shows("ecru_workers_busy{by=\"thread\"} 1") {
                thread::yield_now();
            }
        });
    });
}

/// Without an exporter, and inside `no_suspend`.
#[test]
fn publishing_does_not_wait() {
    let metrics = measured();
    ecru::no_suspend(|| Publisher::new().publish(&metrics));
}
