//! Simulated programs: what a step costs, and how fast virtual time passes.

#[cfg(feature = "sim")]
mod on_ecru;

use std::path::Path;
use std::process::Command;

use crate::goals::Bound::{Absolute, CostAtMost};
use crate::goals::{ECRU, Goal, goal, time};
use crate::harness::{Contender, Metric, Row, Sample, Unit};
use crate::rows::Id;

/// Where the workspace lies.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The round trips of each connection.
const ROUNDS: usize = 1_000;

/// The runs of a sample of shuttle.
const RUNS: usize = 1_000;

/// The clients of the task server, and the requests of each.
#[cfg(feature = "sim")]
const TASK_SERVER: (u64, u64) = (40, 20);

/// The rows of the topic.
pub(crate) const ROWS: &[Id] = &[
    ("sim-step", None),
    ("sim-echo", Some(64)),
    ("sim-connections", Some(10_000)),
    ("sim-lock", Some(50)),
    ("sim-send", Some(50)),
    ("sim-task-server", None),
];

/// The goals of the topic.
pub(crate) const GOALS: &[Goal] = &[
    time("sim-step", Absolute(1_000.0), "a million steps a second"),
    time("sim-echo-64", CostAtMost(1.5, "turmoil"), "1.5 times turmoil's time on the same echo"),
    goal(
        "sim-connections-10000",
        "bytes",
        Absolute(4_800.0),
        "what turmoil needs for a connection; the first page of a task's stack has 4,096 bytes",
    ),
    time("sim-lock-50", CostAtMost(1.2, "shuttle"), "a short run in 0.13 ms"),
    time("sim-send-50", CostAtMost(1.2, "shuttle"), "a short run in 0.06 ms"),
    goal(
        "sim-task-server",
        "real-for-virtual",
        Absolute(10.0),
        "ten virtual seconds in a real one, as FoundationDB reports",
    ),
];

const BYTES: &[Metric] = &[Metric { name: "bytes", unit: Unit::Bytes }];

const TASK_SERVER_METRICS: &[Metric] = &[Metric { name: "real-for-virtual", unit: Unit::Percent }];

/// Creates a row with all its contenders, ecru first. Returns `None` if there is no such family.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let row = match (family, number) {
        ("sim-step", None) => Row {
            family: "sim-step",
            number,
            title: "a step of a simulation: one of eight tasks that yield is drawn and runs".into(),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: ecru(family, 0),
            note: "steps per second are its inverse",
        },
        ("sim-echo", Some(connections)) => Row {
            family: "sim-echo",
            number,
            title: format!("simulated echo of 64 bytes over {connections} connections"),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: with_turmoil(ecru(family, connections), connections, ROUNDS),
            note: "real time for a round trip; one way takes 1 ms of virtual time",
        },
        ("sim-connections", Some(connections)) => Row {
            family: "sim-connections",
            number,
            title: format!("{connections} simulated connections, bytes for each"),
            cores: 1,
            metrics: BYTES,
            contenders: with_turmoil(ecru(family, connections), connections, 0),
            note: "resident bytes with page tables: both ends and the server's task",
        },
        ("sim-lock", Some(times)) => Row {
            family: "sim-lock",
            number,
            title: format!("a simulated run of four tasks that lock a mutex {times} times each"),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: with_shuttle(ecru(family, times), "lock", times),
            note: "each of ecru's runs has a thread of its own, so that thread-locals are new",
        },
        ("sim-send", Some(times)) => Row {
            family: "sim-send",
            number,
            title: format!(
                "a simulated run of four tasks that send {times} values each to a fifth"
            ),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: with_shuttle(ecru(family, times), "send", times),
            note: "each of ecru's runs has a thread of its own, so that thread-locals are new",
        },
        ("sim-task-server", None) => Row {
            family: "sim-task-server",
            number,
            title: "the task server with 40 clients of 20 requests each, simulated".into(),
            cores: 1,
            metrics: TASK_SERVER_METRICS,
            contenders: ecru(family, 0),
            note: "real time as a share of the virtual time; the computing of its CPU tasks takes no virtual time",
        },
        _ => return None,
    };
    Some(row)
}

/// Adds the contender `turmoil`.
fn with_turmoil(
    mut contenders: Vec<Contender>,
    connections: usize,
    rounds: usize,
) -> Vec<Contender> {
    let measure = move || turmoil(connections, rounds);
    let note = "its clock advances in ticks of 1 ms, the default";
    contenders.push(Contender::sampled("turmoil", measure).note(note));
    contenders
}

/// Adds the contender `shuttle`.
fn with_shuttle(
    mut contenders: Vec<Contender>,
    what: &'static str,
    times: usize,
) -> Vec<Contender> {
    let measure = move || {
        let arguments = [String::from(what), RUNS.to_string(), times.to_string()];
        let [seconds] = example("shuttle-runs", &arguments);
        seconds * 1e9 / RUNS as f64
    };
    contenders.push(Contender::timed("shuttle", measure).note("`check_random`"));
    contenders
}

/// Runs an example, which prints some numbers.
fn example<const NUMBERS: usize>(name: &str, arguments: &[String]) -> [f64; NUMBERS] {
    let words = ["run", "--quiet", "--release", "--offline", "--package", "ecru-bench"];
    let mut command = Command::new("cargo");
    command.current_dir(Path::new(ROOT)).args(words);
    command.args(["--example", name, "--"]).args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().map_while(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{NUMBERS} numbers, not {said}"))
}

fn turmoil(connections: usize, rounds: usize) -> Sample {
    let [seconds, bytes] = example("turmoil-echo", &[connections.to_string(), rounds.to_string()]);
    match rounds {
        0 => vec![("bytes", bytes)],
        _ => vec![(Metric::TIME.name, seconds * 1e9 / (connections * rounds) as f64)],
    }
}

#[cfg(feature = "sim")]
fn ecru(family: &str, connections: usize) -> Vec<Contender> {
    let contender = match family {
        "sim-step" => Contender::timed(ECRU, on_ecru::step),
        "sim-echo" => Contender::timed(ECRU, move || on_ecru::echo(connections, ROUNDS)),
        "sim-lock" => Contender::timed(ECRU, move || on_ecru::lock(connections)),
        "sim-send" => Contender::timed(ECRU, move || on_ecru::send(connections)),
        "sim-connections" => Contender::sampled(ECRU, move || {
            vec![("bytes", on_ecru::bytes_per_connection(connections))]
        }),
        _ => Contender::sampled(ECRU, || {
            let (clients, requests) = TASK_SERVER;
            vec![("real-for-virtual", on_ecru::task_server(clients, requests) * 100.0)]
        }),
    };
    vec![contender]
}

/// This build measures the peers alone.
#[cfg(not(feature = "sim"))]
fn ecru(_family: &str, _connections: usize) -> Vec<Contender> {
    let _known = ECRU;
    Vec::new()
}
