//! Timers: set and cancelled, many sleeping at once, alone, and beside a task that computes.

use std::future::{Future, pending};
use std::hint;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

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

/// The time that a task sleeps beside one that computes.
pub(crate) const NAP: Duration = Duration::from_millis(5);

/// More values than are received while the naps are measured.
pub(crate) const VALUES: u64 = 100_000;

/// Computes for this many microseconds.
pub(crate) fn compute(micros: usize) {
    let (begun, all) = (Instant::now(), Duration::from_micros(micros as u64));
    while begun.elapsed() < all {
        hint::spin_loop();
    }
}

/// Measures how much longer than [`NAP`] the naps of a task take.
pub(crate) struct Naps {
    begun: Instant,
    nap: Instant,
    over: Vec<f64>,
}

impl Naps {
    pub(crate) fn begin() -> Naps {
        let now = Instant::now();
        Naps { begun: now, nap: now, over: Vec::new() }
    }

    /// Called after each nap. Returns whether another one follows: there are at least five, and
    /// they take a second.
    pub(crate) fn note(&mut self) -> bool {
        let now = Instant::now();
        self.over.push((now - self.nap).as_secs_f64() - NAP.as_secs_f64());
        self.nap = now;
        self.over.len() < 5 || now - self.begun < Duration::from_secs(1)
    }

    pub(crate) fn sample(mut self) -> Sample {
        self.over.sort_by(f64::total_cmp);
        let [median, most] = [self.over.len() / 2, self.over.len() - 1];
        vec![("late", self.over[median] * 1e9), ("latest", self.over[most] * 1e9)]
    }
}

/// A timer of a task that shares its thread with a task that computes. That one's channel is never
/// empty.
pub(crate) fn late_timer(micros: usize) -> Row {
    Row {
        family: "late-timer",
        number: Some(micros),
        title: format!("how late a sleep of 5 ms ends beside a receiver that computes {micros} us"),
        cores: 1,
        metrics: &[
            Metric { name: "late", unit: Unit::Nanoseconds },
            Metric { name: "latest", unit: Unit::Nanoseconds },
        ],
        contenders: vec![
            Contender::sampled("tokio", move || tokio_late(micros)),
            Contender::sampled("threads", move || threads_late(micros)),
            Contender::go(1, &["late-timer", &micros.to_string()]),
        ],
        note: "median and longest of a second; the kernel interrupts threads, and Go goroutines",
    }
}

fn tokio_late(micros: usize) -> Sample {
    let runtime = peers::tokio::runtime(1);
    peers::tokio::in_task(&runtime, async move {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (0..VALUES).for_each(|value| sender.send(value).expect("it is open"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let computing = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                receiver.recv().await.expect("it is never empty");
                compute(micros);
            }
        });
        let mut naps = Naps::begin();
        loop {
            tokio::time::sleep(NAP).await;
            if !naps.note() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        computing.await.expect("the task does not panic");
        naps.sample()
    })
}

fn threads_late(micros: usize) -> Sample {
    let (sender, receiver) = std::sync::mpsc::channel();
    (0..VALUES).for_each(|value| sender.send(value).expect("it is open"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Moved, because a receiver cannot be shared.
            let receiver = receiver;
            while !stop.load(Ordering::Relaxed) {
                receiver.recv().expect("it is never empty");
                compute(micros);
            }
        });
        let mut naps = Naps::begin();
        loop {
            std::thread::sleep(NAP);
            if !naps.note() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        naps.sample()
    })
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
