//! What diagnostics cost on ecru and on tokio: `bench/explained`, a program that has both sides.
//!
//! It is built twice, and in a workspace of its own: the subscriber of tokio's console needs a tokio
//! that is built otherwise, and the other contenders must not have that one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::goals::{ECRU, Goal};
use crate::harness::{Contender, Metric, Row, Sample, Unit};
use crate::member;
use crate::rows::Id;

/// tokio with the subscriber of its console.
const CONSOLE: &str = "tokio-console";

/// The rows of the topic.
pub(crate) const ROWS: &[Id] = &[
    ("explained-yield", None),
    ("explained-spawn-join", None),
    ("explained-channel", None),
    ("explained-echo", None),
];

/// The topic has no goals against a peer: [`DIAGNOSTICS.md`](../../DIAGNOSTICS.md) has ecru's own.
pub(crate) const GOALS: &[Goal] = &[];

const METRICS: &[Metric] = &[Metric::TIME, Metric { name: "cpu", unit: Unit::Nanoseconds }];

/// Creates a row with all its contenders, ecru first. Returns `None` if there is no such family.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let (family, title) = match (family, number) {
        ("explained-yield", None) => ("explained-yield", "a yield, two tasks"),
        ("explained-spawn-join", None) => ("explained-spawn-join", "spawn and join"),
        ("explained-channel", None) => ("explained-channel", "a round trip over two channels"),
        ("explained-echo", None) => ("explained-echo", "64 bytes over TCP and back"),
        _ => return None,
    };
    let contender = |name| {
        let needs = move || program(name).map(drop);
        Contender::sampled(name, move || measure(name, family)).needs(needs)
    };
    Some(Row {
        family,
        number,
        title: format!("{title}, with and without diagnostics"),
        cores: 1,
        metrics: METRICS,
        contenders: [ECRU, "ecru-recorded", "tokio", CONSOLE].map(contender).into(),
        note: "cpu: of the whole process; the console's subscriber has a thread of its own",
    })
}

fn program(contender: &str) -> Result<PathBuf, String> {
    static PLAIN: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static WITH_CONSOLE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("explained");
    let name = "ecru-bench-explained";
    if contender == CONSOLE {
        let build = || {
            member::build_apart(&folder, name, "console", |command| {
                command.args(["--features", "console"]).env("RUSTFLAGS", "--cfg tokio_unstable");
            })
        };
        return WITH_CONSOLE.get_or_init(build).clone();
    }
    PLAIN.get_or_init(|| member::build_apart(&folder, name, "plain", |_| {})).clone()
}

/// Runs one contender for one round.
fn measure(contender: &str, family: &str) -> Sample {
    let path = program(contender).unwrap_or_else(|error| panic!("{error}"));
    let work = family.trim_start_matches("explained-");
    let mut command = Command::new(path);
    let output = command.args(["measure", contender, work]).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{contender} {work} {}: {}", output.status, said.trim());
    let printed = String::from_utf8_lossy(&output.stdout);
    let known = printed.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let metric = METRICS.iter().find(|metric| metric.name == name)?;
        Some((metric.name, value.trim().parse().ok()?))
    });
    known.collect()
}
