//! Queues beyond one process: `ecru-nats` and `ecru-fleet`, and peers on the servers that they are
//! made for.
//!
//! ```text
//!  first core: the contender's program  <-- TCP -->  second core: its server
//!  it prints `metric value`                           started and stopped by this program
//! ```
//! In the rows with worker processes, all of them and the server share both cores.

mod programs;
mod servers;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::goals::Bound::{Absolute, CostAtMost, OwnRow, SpeedAtLeast};
use crate::goals::{ECRU, Goal, goal, time};
use crate::harness::{Contender, Metric, Row, Sample, Unit, on_second_core, resident_bytes_of};
use crate::rows::Id;

use programs::Program;
use servers::Kind;

/// The rows of the topic.
pub(crate) const ROWS: &[Id] = &[
    ("fleet-publish", None),
    ("fleet-pull", None),
    ("fleet-pull-busy", None),
    ("fleet-call", None),
    ("fleet-noop", None),
    ("fleet-naps", Some(10_000)),
    ("fleet-rerun", Some(16)),
    ("fleet-memory", Some(1_000)),
    ("fleet-memory", Some(10_000)),
    ("fleet-memory", Some(100_000)),
];

/// The goals of the topic.
pub(crate) const GOALS: &[Goal] = &[
    time("fleet-publish", SpeedAtLeast(1.0, "tokio"), "async-nats on the same server"),
    goal("fleet-publish", "cpu", CostAtMost(0.8, "tokio"), "async-nats on the same server"),
    time("fleet-pull", SpeedAtLeast(1.0, "tokio"), "async-nats on the same server"),
    goal("fleet-pull", "cpu", CostAtMost(0.7, "tokio"), "async-nats on the same server"),
    time("fleet-pull-busy", SpeedAtLeast(1.0, "tokio"), "async-nats, on a loaded machine"),
    time("fleet-call", CostAtMost(1.1, "tokio"), "the same two hops by hand"),
    time("fleet-noop", SpeedAtLeast(1.0, "asynq"), "asynq, whose promise is weaker"),
    time("fleet-noop", SpeedAtLeast(1.5, "river"), "River, whose promise is stronger"),
    time("fleet-naps-10000", Absolute(1.15), "1.95 s on 512 slots, plus 15%"),
    goal("fleet-rerun-16", "last", Absolute(1.5), "the lease of 1 s, plus 0.5 s"),
    goal("fleet-memory-1000", "coordinator", Absolute(FLAT_SIZE), "a small process"),
    goal("fleet-memory-10000", "coordinator", FLAT, "flat"),
    goal("fleet-memory-10000", "worker", FLAT, "flat"),
    goal("fleet-memory-100000", "coordinator", FLAT, "flat"),
    goal("fleet-memory-100000", "worker", FLAT, "flat"),
];

/// Memory that does not grow with the queue.
const FLAT: crate::goals::Bound = OwnRow(1.1, "fleet-memory-1000");

/// The most resident bytes of a process with a short queue.
const FLAT_SIZE: f64 = 32.0 * 1024.0 * 1024.0;

const COST: &[Metric] = &[Metric::TIME, Metric { name: "cpu", unit: Unit::Nanoseconds }];

const RATIO: &[Metric] = &[Metric { name: "time", unit: Unit::TimesTheLeast }];

const RERUN: &[Metric] =
    &[Metric { name: "first", unit: Unit::Seconds }, Metric { name: "last", unit: Unit::Seconds }];

const MEMORY: &[Metric] = &[
    Metric { name: "coordinator", unit: Unit::Bytes },
    Metric { name: "worker", unit: Unit::Bytes },
    Metric { name: SERVER, unit: Unit::Bytes },
];

/// The metric of the server's memory for a job.
const SERVER: &str = "server";

/// The measured operations of a round, long enough for the clock and short enough for nine rounds.
const MESSAGES: usize = 30_000;
const CALLS: usize = 1_000;
const JOBS: usize = 5_000;

pub(crate) use servers::versions as server_versions;

/// Creates a row with all its contenders, ecru first. Returns `None` if there is no such family, or
/// if it takes another kind of number.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let row = match (family, number) {
        ("fleet-publish", None) => Row {
            family: "fleet-publish",
            number,
            title: "128 bytes published to a stream, 256 without an acknowledgement".into(),
            cores: 1,
            metrics: COST,
            contenders: with_async_nats("publish", MESSAGES),
            note: "cpu: of the client's process; nats-server has the second core",
        },
        ("fleet-pull", None) => Row {
            family: "fleet-pull",
            number,
            title: "a message pulled and its acknowledgement confirmed, 256 at once".into(),
            cores: 1,
            metrics: COST,
            contenders: with_async_nats("pull", MESSAGES),
            note: "cpu: of the client's process; nats-server has the second core",
        },
        ("fleet-pull-busy", None) => Row {
            family: "fleet-pull-busy",
            number,
            title: "the same, beside two threads that compute".into(),
            cores: 1,
            metrics: COST,
            contenders: vec![
                busy(ECRU, vec!["ecru", "pull"]),
                busy("tokio", vec!["tokio", "pull"]).note("async-nats on a current-thread runtime"),
            ],
            note: "one of them on the client's core, the other one on nats-server's",
        },
        ("fleet-call", None) => Row {
            family: "fleet-call",
            number,
            title: "one call after another: a job to a worker, its stored result back".into(),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: with_async_nats("call", CALLS),
            note: "the median; caller and worker are one process; nats-server has the second core",
        },
        ("fleet-noop", None) => Row {
            family: "fleet-noop",
            number,
            title: "a job that does nothing, sent, run and its result stored".into(),
            cores: 1,
            metrics: COST,
            contenders: job_queues(),
            note: "sender and worker are one process; the server has the second core",
        },
        ("fleet-naps", Some(jobs @ 1..)) => Row {
            family: "fleet-naps",
            number,
            title: format!("{jobs} jobs of 100 ms over two processes of 256 slots"),
            cores: 2,
            metrics: RATIO,
            contenders: vec![on_ecru("naps", jobs)],
            note: "a map with stored results; three processes and the server share both cores",
        },
        ("fleet-rerun", Some(jobs @ 1..)) => Row {
            family: "fleet-rerun",
            number,
            title: format!("from SIGKILL of a worker with {jobs} jobs until another one has them"),
            cores: 2,
            metrics: RERUN,
            contenders: vec![on_ecru("rerun", jobs)],
            note: "the lease is 1 s",
        },
        ("fleet-memory", Some(jobs @ 1..)) => Row {
            family: "fleet-memory",
            number,
            title: format!("memory while {jobs} jobs are queued"),
            cores: 2,
            metrics: MEMORY,
            contenders: vec![on_ecru("memory", jobs)],
            note: "resident bytes of the process that has sent them, of a worker that holds 16, \
                   and of nats-server for each job",
        },
        _ => return None,
    };
    Some(row)
}

/// Returns ecru's contender, and async-nats.
fn with_async_nats(work: &'static str, count: usize) -> Vec<Contender> {
    let tokio = contender("tokio", Kind::Nats, Program::Rust, vec!["tokio", work], count);
    vec![on_ecru(work, count), tokio.note("async-nats on a current-thread runtime")]
}

/// Returns ecru's contender and the queues in Go.
fn job_queues() -> Vec<Contender> {
    let go =
        |name, kind, contender| self::contender(name, kind, Program::Go, vec![contender], JOBS);
    vec![
        on_ecru("noop", JOBS).note("a map, 256 at once; acknowledged jobs are in the page cache"),
        go("asynq", Kind::Redis, "asynq")
            .note("256 at once; acknowledged jobs are only in Redis's memory, its default"),
        go("asynq-log", Kind::RedisLog, "asynq")
            .note("256 at once; acknowledged jobs are in the page cache"),
        go("river", Kind::Postgres, "river")
            .note("River's own benchmark's settings; acknowledged jobs are on the disk"),
        go("river-late", Kind::PostgresLate, "river")
            .note("as `river`, without synchronous_commit: the last jobs may be lost"),
    ]
}

/// Returns ecru's contender.
fn on_ecru(work: &'static str, count: usize) -> Contender {
    contender(ECRU, Kind::Nats, Program::Rust, vec!["ecru", work], count)
}

/// Returns a contender: the program with these words, the server's address and the number.
fn contender(
    name: &'static str,
    kind: Kind,
    program: Program,
    words: Vec<&'static str>,
    count: usize,
) -> Contender {
    let measure = move || measure(kind, program, &words, count);
    let needs = move || kind.missing().map_or(Ok(()), Err).and_then(|()| program.path().map(drop));
    Contender::sampled(name, measure).needs(needs)
}

/// Returns a contender of clients that runs while each core has something else to do.
fn busy(name: &'static str, words: Vec<&'static str>) -> Contender {
    let measure = move || {
        let _computing = Computing::start();
        measure(Kind::Nats, Program::Rust, &words, MESSAGES)
    };
    let needs =
        || Kind::Nats.missing().map_or(Ok(()), Err).and_then(|()| Program::Rust.path().map(drop));
    Contender::sampled(name, measure).needs(needs)
}

/// Two threads that compute until this is dropped: one on this thread's core, one on the second.
struct Computing {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Computing {
    fn start() -> Computing {
        let is_over = Arc::new(AtomicBool::new(false));
        let begin = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        // A thread runs where the thread that starts it does.
        let threads = vec![begin(), on_second_core(begin)];
        Computing { is_over, threads }
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Starts the server and runs the contender's program.
fn measure(kind: Kind, program: Program, words: &[&str], count: usize) -> Sample {
    let server = on_second_core(|| kind.start()).unwrap_or_else(|error| panic!("{error}"));
    let before = resident_bytes_of(server.id());
    let path = program.path().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(path);
    command.args(words).arg(server.url()).arg(count.to_string());
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    // The harness shows the last line.
    assert!(output.status.success(), "{words:?} {}: {}", output.status, said.trim());
    let mut sample = parse(&String::from_utf8_lossy(&output.stdout));
    sample.push((SERVER, (resident_bytes_of(server.id()) - before) / count as f64));
    sample
}

/// Reads the metrics that a program has printed, and leaves out what no row asks for.
fn parse(printed: &str) -> Sample {
    let metrics = [COST, RERUN, MEMORY].concat();
    let lines = printed.lines().filter_map(|line| line.split_once(' '));
    let known = lines.filter_map(|(name, value)| {
        let metric = metrics.iter().find(|metric| metric.name == name)?;
        Some((metric.name, value.trim().parse().ok()?))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_program_become_a_sample() {
        let sample = parse("time 12.5\nready\ncpu 3\nother 7\nlast no number\n");
        assert_eq!(sample, [("time", 12.5), ("cpu", 3.0)]);
    }

    #[test]
    fn every_metric_of_a_row_can_be_printed() {
        for &(family, number) in ROWS {
            let row = build(family, number).unwrap();
            for metric in row.metrics {
                let line = format!("{} 1.0", metric.name);
                assert!(!parse(&line).is_empty(), "{}: {line}", row.name());
            }
        }
    }

    #[test]
    fn a_number_of_zero_gives_no_row() {
        assert!(build("fleet-memory", Some(0)).is_none() && build("fleet-call", Some(1)).is_none());
    }
}
