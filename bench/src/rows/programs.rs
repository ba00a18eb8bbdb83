//! Whole programs: the downloads, the task server, and the build of a first example.
//!
//! Each is a program of this workspace, run as its user runs it. There are no peers. The goals are
//! absolute, or relative to the best time that the program's own waits allow.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Contender, Metric, Row, Sample, Unit, seconds};

/// Where the workspace lies.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The time that the clients with the most sleep need in the task server's stages, in seconds.
const CRITICAL_PATHS: [(&str, f64); 2] = [("task", 14.541), ("cache", 9.302)];

/// A row about a program.
pub(super) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let row = match (family, number) {
        ("downloads", None) => row(
            "downloads",
            "downloads of 6 MB at 500 kB/s: 100 at once, 2,000 in four rounds of 512",
            const { &[ratio("hundred"), ratio("thousands")] },
            "the time as a multiple of one file's alone, or of four files'; the server is another \
             process on the same cores; every byte is verified",
        ),
        ("task-server", None) => row(
            "task-server",
            "task server with 40 clients of 20 requests each: the stages task and cache",
            const { &[ratio("task"), ratio("cache")] },
            "the time as a multiple of the sleep of the client with the most sleep: 14.541 s and \
             9.302 s; server and clients in one process",
        ),
        ("cold-build", None) => row(
            "cold-build",
            "building and running the example 01_hello into an empty target folder, two cores",
            &[Metric { name: "time", unit: Unit::Seconds }],
            "the crates are downloaded already, so the network is not counted; when the goal was \
             set, crossbeam-channel took 6 s, may 44 s, tokio 72 s, compio 193 s",
        ),
        ("crates", None) => row(
            "crates",
            "crates that a program builds for ecru, itself included",
            &[Metric { name: "crates", unit: Unit::Count }],
            "normal and build dependencies on this platform; when the goal was set, corosensei had \
             4, tokio with all features 19, may 23, smol 32, compio 44",
        ),
        _ => return None,
    };
    Some(row)
}

/// A metric that compares a time with the shortest possible.
const fn ratio(name: &'static str) -> Metric {
    Metric { name, unit: Unit::TimesTheLeast }
}

fn row(family: &'static str, title: &str, metrics: &'static [Metric], note: &'static str) -> Row {
    Row { family, number: None, title: title.into(), cores: 2, metrics, contenders: vec![], note }
}

/// Returns ecru's contender for such a row.
pub(crate) fn measure(family: &str) -> Option<Contender> {
    let measure: fn() -> Sample = match family {
        "downloads" => downloads,
        "task-server" => task_server,
        "cold-build" => cold_build,
        "crates" => crates,
        _ => return None,
    };
    Some(Contender::sampled(crate::goals::ECRU, measure))
}

fn downloads() -> Sample {
    let program = built("downloads");
    let said = output(Command::new(program).args(["--measure", "--quiet"]));
    let after = |words: &str| {
        let line = said.lines().find(|line| line.contains(words)).expect("it prints this line");
        assert!(line.contains("; 0 failed"), "{line}");
        let ratio = line.split(" s, ").nth(1).and_then(|rest| rest.split(' ').next());
        ratio.and_then(|ratio| ratio.parse().ok()).expect("a ratio follows the time")
    };
    vec![("hundred", after("at once")), ("thousands", after("with window"))]
}

fn task_server() -> Sample {
    let program = built("task-server");
    let stages = CRITICAL_PATHS.map(|(stage, least)| {
        let said = output(Command::new(&program).args(["0", "1", "40", "20", "--stage", stage]));
        let elapsed = said.rsplit_once("elapsed ").and_then(|(_, rest)| rest.split(' ').next());
        let elapsed: Option<f64> = elapsed.and_then(|seconds| seconds.parse().ok());
        (stage, elapsed.expect("it prints the time") / least)
    });
    stages.into()
}

fn cold_build() -> Sample {
    let folder = std::env::temp_dir().join(format!("ecru-bench-build-{}", std::process::id()));
    let (taken, said) = seconds(|| {
        let arguments = ["run", "--quiet", "--offline", "--jobs", "2", "--example", "01_hello"];
        output(cargo().args(arguments).env("CARGO_TARGET_DIR", &folder))
    });
    assert!(!said.is_empty(), "the example says something");
    std::fs::remove_dir_all(&folder).expect("cargo has made it");
    vec![("time", taken)]
}

fn crates() -> Sample {
    let arguments = ["tree", "--offline", "--package", "ecru", "--edges", "normal,build"];
    let said = output(cargo().args(arguments).args(["--prefix", "none", "--format", "{p}"]));
    let names: std::collections::BTreeSet<_> = said.lines().filter_map(first_two_words).collect();
    vec![("crates", names.len() as f64)]
}

/// Returns a package's name and version, without the text that cargo writes after them.
fn first_two_words(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?))
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(Path::new(ROOT));
    command
}

/// Builds a program of this workspace, and returns its path.
fn built(package: &str) -> PathBuf {
    output(cargo().args(["build", "--quiet", "--release", "--offline", "--package", package]));
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
    target.join("release").join(package)
}

/// Returns the output of a program.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}", said.trim());
    String::from_utf8_lossy(&output.stdout).into_owned()
}
