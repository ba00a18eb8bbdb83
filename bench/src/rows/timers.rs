//! Timers: set and cancelled, many sleeping at once, and one alone.

use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::harness::{
    Contender, Metric, Row, Sample, Unit, cpu_seconds, nanoseconds_per_operation, seconds,
};
use crate::peers;

/// The time that each task of the crowd sleeps.
pub(crate) const SLEEP: Duration = Duration::from_secs(2);

/// Longer than any row runs.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// The use of nearly every timeout: it is set, and cancelled before it fires.
pub(crate) fn set_and_cancel(live: usize) -> Row {
    Row {
        family: "timer",
        number: Some(live),
        title: format!("timer set + cancel, {live} live"),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || tokio_set_and_cancel(live)),
            Contender::go(1, &["timer", &live.to_string()]),
        ],
        note: "tokio: a Sleep polled once and dropped; Go: AfterFunc and Stop; the live ones fire an hour later",
    }
}

/// Many tasks that sleep at the same time.
pub(crate) fn sleeps(count: usize) -> Row {
    Row {
        family: "sleeps",
        number: Some(count),
        title: format!("{count} tasks sleeping 2 s: time over the 2 s, CPU"),
        cores: 1,
        metrics: &[
            Metric { name: "over", unit: Unit::Seconds },
            Metric { name: "cpu", unit: Unit::Seconds },
        ],
        contenders: vec![
            Contender::sampled("tokio", move || tokio_sleeps(count)),
            Contender::go(1, &["sleeps", &count.to_string()]),
        ],
        note: "from the first spawn to the last join",
    }
}

/// A timeout during which nothing else happens.
pub(crate) fn lone_timeout() -> Row {
    Row {
        family: "lone-timeout",
        number: None,
        title: "CPU during a lone 1 s timeout".into(),
        cores: 1,
        metrics: &[Metric { name: "cpu", unit: Unit::Seconds }],
        contenders: vec![
            Contender::sampled("tokio", tokio_lone),
            Contender::sampled("threads", || cpu_of(|| std::thread::sleep(Duration::from_secs(1)))),
            Contender::go(1, &["lone-timeout"]),
        ],
        note: "user and system time of the whole process",
    }
}

fn tokio_set_and_cancel(live: usize) -> f64 {
    let runtime = peers::tokio::runtime(1);
    runtime.block_on(async {
        for _ in 0..live {
            tokio::spawn(tokio::time::sleep(NEVER));
        }
        tokio::task::yield_now().await;
    });
    runtime.block_on(async {
        // One more turn of the scheduler, so that every live timer has been polled and is in the
        // wheel.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut context = Context::from_waker(Waker::noop());
        nanoseconds_per_operation(|operations| {
            for _ in 0..operations {
                let sleep = pin!(tokio::time::sleep(Duration::from_secs(60)));
                assert!(sleep.poll(&mut context).is_pending(), "a minute has not passed");
            }
        })
    })
}

fn tokio_sleeps(count: usize) -> Sample {
    let runtime = peers::tokio::runtime(1);
    crowd(|| {
        peers::tokio::in_task(&runtime, async move {
            let tasks: Vec<_> =
                (0..count).map(|_| tokio::spawn(tokio::time::sleep(SLEEP))).collect();
            for task in tasks {
                task.await.expect("the task does not panic");
            }
        });
    })
}

/// Returns the wall time beyond the sleep, and the CPU time.
pub(crate) fn crowd(sleep_all: impl FnOnce()) -> Sample {
    let before = cpu_seconds();
    let (taken, ()) = seconds(sleep_all);
    vec![("over", taken - SLEEP.as_secs_f64()), ("cpu", cpu_seconds() - before)]
}

/// Returns the CPU time of one call.
pub(crate) fn cpu_of(work: impl FnOnce()) -> Sample {
    let before = cpu_seconds();
    work();
    vec![("cpu", cpu_seconds() - before)]
}

fn tokio_lone() -> Sample {
    let runtime = peers::tokio::runtime(1);
    cpu_of(|| {
        let elapsed = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(1), pending::<()>()).await
        });
        assert!(elapsed.is_err(), "nothing else ends it");
    })
}
