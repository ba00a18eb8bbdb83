//! Web programs of users' shapes on ecru and on tokio: `bench/web`, a program that has both sides.
//!
//! ```text
//!  first core: a server with one worker  <-- TCP -->  second core: wrk or h2load
//! ```
//! The program starts both, and prints `metric value`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::goals::Bound::CostAtMost;
use crate::goals::{ECRU, ECRU_POLL, Goal, floor, goal, poll};
use crate::harness::{Contender, Metric, Row, Sample, Unit};
use crate::member;
use crate::rows::Id;

const PACKAGE: &str = "ecru-bench-web";

/// The rows of the topic.
pub(crate) const ROWS: &[Id] = &[
    ("web-bare", None),
    ("web-health", None),
    ("web-json", None),
    ("web-tls", None),
    ("web-http2", None),
    ("web-close", None),
    ("web-direct", None),
    ("web-postgres", None),
    ("web-bare", Some(2)),
    ("web-health", Some(2)),
    ("web-json", Some(2)),
    ("web-tls", Some(2)),
    ("web-http2", Some(2)),
    ("web-close", Some(2)),
    ("web-postgres", Some(2)),
    ("web-crossing", None),
    ("web-block-on", None),
    ("web-idle", None),
];

/// The goals of the topic.
pub(crate) const GOALS: &[Goal] = &[
    goal("web-bare", "cpu", CostAtMost(1.05, "tokio"), "hyper on tokio"),
    goal("web-health", "cpu", CostAtMost(1.05, "tokio"), "axum on tokio"),
    p99("web-bare"),
    p99("web-health"),
    p99("web-json"),
    p99("web-tls"),
    p99("web-close"),
    p99("web-postgres"),
    goal("web-json", "cpu", CostAtMost(1.05, "tokio"), "axum on tokio"),
    goal("web-tls", "cpu", CostAtMost(1.05, "tokio"), "tokio-rustls"),
    goal("web-http2", "cpu", CostAtMost(1.05, "tokio"), "hyper on tokio"),
    goal("web-close", "cpu", CostAtMost(1.0, "tokio"), "axum on tokio"),
    goal("web-direct", "cpu", CostAtMost(1.045, "tokio"), "axum on tokio, and 0.3 us"),
    goal("web-postgres", "cpu", CostAtMost(1.05, "tokio"), "axum and deadpool-postgres"),
    goal("web-bare-2", "cpu", CostAtMost(1.05, "tokio"), "hyper on tokio, two workers"),
    goal("web-json-2", "cpu", CostAtMost(1.05, "tokio"), "axum on tokio, two workers"),
    goal("web-http2-2", "cpu", CostAtMost(1.05, "tokio"), "hyper on tokio, two workers"),
    goal("web-close-2", "cpu", CostAtMost(1.0, "tokio"), "axum on tokio, two workers"),
    p99("web-bare-2"),
    p99("web-health-2"),
    p99("web-json-2"),
    p99("web-tls-2"),
    p99("web-close-2"),
    p99("web-postgres-2"),
    goal("web-health-2", "cpu", CostAtMost(1.05, "tokio"), "axum on tokio, two workers"),
    goal("web-tls-2", "cpu", CostAtMost(1.05, "tokio"), "tokio-rustls, two workers"),
    goal("web-postgres-2", "cpu", CostAtMost(1.05, "tokio"), "deadpool-postgres, two workers"),
    goal("web-crossing", "time", CostAtMost(1.2, "tokio"), "`Handle::block_on` from a thread"),
    floor("web-block-on", "time", CostAtMost(2.5, "tokio"), "a stack waits for the future"),
    goal("web-idle", "memory", CostAtMost(1.1, "tokio"), "axum on tokio"),
    poll("web-health", "cpu", CostAtMost(1.05, "tokio"), "tokio, both on epoll"),
    poll("web-http2", "cpu", CostAtMost(1.05, "tokio"), "tokio, both on epoll"),
];

/// The goal for the latency of a row.
const fn p99(row: &'static str) -> Goal {
    goal(row, "p99", CostAtMost(1.0, "tokio"), "p99 no worse")
}

const COST: &[Metric] = &[
    Metric { name: "cpu", unit: Unit::Nanoseconds },
    Metric { name: "p99", unit: Unit::Nanoseconds },
];

/// h2load reports no percentiles.
const CPU: &[Metric] = &[Metric { name: "cpu", unit: Unit::Nanoseconds }];

const MEMORY: &[Metric] = &[Metric { name: "memory", unit: Unit::Bytes }];

const TIME: &[Metric] = &[Metric::TIME];

/// Creates a row with all its contenders, ecru first. The number is that of the workers, one if there
/// is none. Returns `None` if there is no such family.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let workers = number.unwrap_or(1);
    if workers == 0 {
        return None;
    }
    let (family, metrics, title) = match family {
        "web-bare" => ("web-bare", COST, "hyper alone, a short page"),
        "web-health" => ("web-health", COST, "axum's router, a short page"),
        "web-json" => ("web-json", COST, "axum's router, JSON in and out"),
        "web-tls" => ("web-tls", COST, "axum's router over TLS, a short page"),
        "web-http2" => ("web-http2", CPU, "axum's router over HTTP/2, four requests at once"),
        "web-close" => ("web-close", COST, "axum's router, ten requests for each connection"),
        "web-direct" => ("web-direct", COST, "a handler in direct style, beside axum's"),
        "web-postgres" => ("web-postgres", COST, "axum and PostgreSQL, a row by its key as JSON"),
        "web-crossing" => ("web-crossing", TIME, "a future of tokio's, from outside its runtime"),
        "web-block-on" => ("web-block-on", TIME, "a request to another task by futures"),
        "web-idle" => ("web-idle", MEMORY, "10,000 idle connections, bytes for each"),
        _ => return None,
    };
    let contender = |name| {
        let needs = || program().map(drop);
        Contender::sampled(name, move || measure(name, family, workers)).needs(needs)
    };
    Some(Row {
        family,
        number,
        title: match (family, workers) {
            ("web-crossing" | "web-block-on", _) => title.to_owned(),
            (_, 1) => format!("{title}, one worker, 64 connections"),
            _ => format!("{title}, {workers} workers, 64 connections"),
        },
        cores: workers,
        metrics,
        contenders: [ECRU, ECRU_POLL, "tokio"].map(contender).into(),
        note: match (family, workers) {
            ("web-crossing" | "web-block-on", _) => "",
            (_, 1) => "cpu: of the server's process, for a request; the load has a core of its own",
            _ => "cpu: of the server's process, for a request; the load is on the same cores",
        },
    })
}

fn program() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| member::build(PACKAGE)).clone()
}

/// Runs one side of a program for one round.
fn measure(side: &str, family: &str, workers: usize) -> Sample {
    let path = program().unwrap_or_else(|error| panic!("{error}"));
    let kind = family.trim_start_matches("web-");
    let mut command = Command::new(path);
    let output =
        command.args(["measure", side, kind, &workers.to_string()]).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{side} {kind} {}: {}", output.status, said.trim());
    let printed = String::from_utf8_lossy(&output.stdout);
    let metrics = [COST, MEMORY, TIME].concat();
    let known = printed.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let metric = metrics.iter().find(|metric| metric.name == name)?;
        Some((metric.name, value.trim().parse().ok()?))
    });
    known.collect()
}
