//! The measurements of gears' notes: the cost of its futures, races and channels compared with
//! simpler means.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::spawning;
use crate::harness::{
    Contender, Metric, Row, Sample, Unit, nanoseconds_per_operation, on_two_cores,
};
use crate::peers;

/// The times that the three racing tasks sleep.
pub(crate) const SLEEPS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(100)];

/// The number of races in one process.
const RACES: usize = 20;

/// A row of this family.
pub(super) fn build(family: &str) -> Option<Row> {
    match family {
        "gears-future" => Some(future()),
        "gears-race" => Some(race()),
        "gears-sync" => Some(channel("gears-sync", "without a buffer", 0)),
        "gears-one" => Some(channel("gears-one", "with a buffer of one", 1)),
        "gears-mux-sync" => Some(multiplexer("gears-mux-sync", "without buffers", 0)),
        "gears-mux-one" => Some(multiplexer("gears-mux-one", "with buffers of one", 1)),
        _ => None,
    }
}

fn future() -> Row {
    Row {
        family: "gears-future",
        number: None,
        title: "a future, begun and awaited, beside a bare thread".into(),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("threads", || nanoseconds_per_operation(spawning::threads_one))
                .note("the kernel's"),
            Contender::timed("tokio", || spawning::tokio_one(2)),
            Contender::go(2, &["spawn-join"]),
            Contender::jdk(&["spawn-join"]).note("a bare virtual thread, started and joined"),
        ],
        note: "gears' notes: a future 11,624 ns, a bare virtual thread 3,417 ns, on a laptop's four cores",
    }
}

fn race() -> Row {
    Row {
        family: "gears-race",
        number: None,
        title: "a race of three that sleep 10, 50 and 100 ms".into(),
        cores: 2,
        metrics: &[Metric::TIME, Metric { name: "over", unit: Unit::Nanoseconds }],
        contenders: vec![
            Contender::sampled("threads-spin", || races(spin_for_threads))
                .note("threads that set a flag, for which another one spins; the losers sleep on"),
            Contender::sampled("tokio", tokio_race)
                .note("a JoinSet; the losers cancelled and awaited"),
            Contender::jdk(&["race"])
                .note("virtual threads that set a flag, for which another one spins"),
        ],
        note: "over: what it took beyond the 10 ms, of which the kernel's timers have 50 us or more; \
               gears' notes: 15.590 races a second, 15.597 when only the fastest was awaited, 15.671 with a flag",
    }
}

/// Returns the median of several races, and the part of it beyond the sleep.
pub(crate) fn races(mut race: impl FnMut()) -> Sample {
    let timed = |_| {
        let began = Instant::now();
        race();
        began.elapsed().as_secs_f64() * 1e9
    };
    sample((0..RACES).map(timed).collect())
}

fn sample(mut times: Vec<f64>) -> Sample {
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    vec![(Metric::TIME.name, median), ("over", median - SLEEPS[0].as_secs_f64() * 1e9)]
}

fn spin_for_threads() {
    let done = Arc::new(AtomicBool::new(false));
    for length in SLEEPS {
        let done = done.clone();
        thread::spawn(move || {
            thread::sleep(length);
            done.store(true, Ordering::Release);
        });
    }
    spin(&done);
}

/// Spins until the flag is set.
pub(crate) fn spin(done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        hint::spin_loop();
    }
}

fn tokio_race() -> Sample {
    peers::tokio::in_task(&peers::tokio::runtime(2), async {
        let mut times = Vec::new();
        for _ in 0..RACES {
            let began = Instant::now();
            let mut racing = JoinSet::new();
            for length in SLEEPS {
                racing.spawn(tokio::time::sleep(length));
            }
            racing.join_next().await.expect("there are three").expect("it is never cancelled");
            racing.shutdown().await;
            times.push(began.elapsed().as_secs_f64() * 1e9);
        }
        sample(times)
    })
}

fn channel(family: &'static str, says: &str, capacity: usize) -> Row {
    let capacity = capacity.to_string();
    Row {
        family,
        number: None,
        title: format!("a channel {says}, beside the ideal cell"),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("ideal", ideal)
                .note("two threads that spin on one cell, each on a core of its own"),
            Contender::go(2, &["hop", &capacity]),
            Contender::jdk(&["hop", &capacity])
                .note("between virtual threads; SynchronousQueue or ArrayBlockingQueue(1)"),
        ],
        note: "ecru on two workers, as it likes best; gears' notes: 3,131 ns without a buffer, 3,244 with one, the ideal cell 115",
    }
}

/// Two cells without a library: whose turn it is, and the value.
fn ideal() -> f64 {
    nanoseconds_per_operation(|operations| {
        let (value, time_to_write) = (AtomicU64::new(0), AtomicBool::new(true));
        on_two_cores(
            || {
                for sent in 0..operations {
                    while !time_to_write.load(Ordering::Acquire) {
                        hint::spin_loop();
                    }
                    value.store(sent, Ordering::Relaxed);
                    time_to_write.store(false, Ordering::Release);
                }
            },
            || {
                for expected in 0..operations {
                    while time_to_write.load(Ordering::Acquire) {
                        hint::spin_loop();
                    }
                    assert_eq!(value.load(Ordering::Relaxed), expected);
                    time_to_write.store(true, Ordering::Release);
                }
            },
        );
    })
}

fn multiplexer(family: &'static str, says: &str, capacity: usize) -> Row {
    let capacity = capacity.to_string();
    Row {
        family,
        number: None,
        title: format!("through a multiplexer, channels {says}"),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::go(2, &["multiplex", &capacity])
                .note("a goroutine that passes on, and selects so that it could be told to stop"),
        ],
        note: "one publisher, one subscriber; gears' notes: 6,421 and 6,579 ns, twice what one channel takes",
    }
}
