//! The project's own checks: `cargo xtask check` before a commit. `.ci/run` is
//! the whole gate.
//!
//! A check prints the number of cases that it looked at, and fails if there were none, because a
//! check without cases proves nothing.

mod behaviour;
mod examples_shown;
mod layers;
mod outcome;
mod paths;
mod process;
mod public;
mod steps;
mod swarm;
mod syntax;
mod table;
mod tree;
mod twins;
mod unsafety;

use crate::outcome::Outcome;
use crate::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <check>

  check       what to run before a commit: fmt, clippy, layers, unsafe, behaviour, tests

  layers      modules name only modules of lower layers (table in ARCHITECTURE.md)
  unsafe      every unsafe block cites an invariant of doc/unsafe.md
  behaviour   the tables under doc/behaviour/ are what the doc comments of the tests say, and links lead
              to files; --write writes the tables
  without-sim nothing of the simulator is compiled without the feature `sim`
  examples    every example ends by itself and well
  ecosystem   the same for those with other people's crates, and real servers
  twins       what std's types have and ecru's have not, and why; --write writes the page
  public      the public items of each published package are those of the stored list; --write stores today's
  loom        the waiting protocols, model-checked
  baton       the behaviour tests with each coroutine on a thread of its own
  asan        tests under AddressSanitizer (needs nightly); names of suites may follow
  aarch64     tests on an emulated ARM processor (needs Debian's rustc-web); names of tests may follow
  miri        behaviour tests in Rust's interpreter (needs nightly with miri); names of tests may follow
  swarm       the behaviour tests and others in simulations, with two seeds; --runs N for N simulations, optimized
  slopes      instructions per operation against the stored counts; --bless stores today's
";

fn main() -> ExitCode {
    if std::env::var_os(public::AS_RUSTDOC).is_some() {
        eprintln!("rustdoc could not be started: {}", public::become_rustdoc());
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // At run time: a build that was copied to another checkout works on that one. Without cargo, it
    // is the working directory.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = own.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("the working tree could not be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcomes = match arguments[..] {
        ["check"] => check(root, &tree),
        ["layers"] => vec![("layers", layers::check(&tree))],
        ["unsafe"] => vec![("unsafe", unsafety::check(&tree))],
        ["behaviour"] => vec![("behaviour", behaviour::check(&tree))],
        ["behaviour", "--write"] => vec![("behaviour", behaviour::write(root, &tree))],
        ["twins"] => vec![("twins", twins::check(root, false))],
        ["twins", "--write"] => vec![("twins", twins::check(root, true))],
        ["public"] => vec![("public", public::check(root, &tree, false))],
        ["public", "--write"] => vec![("public", public::check(root, &tree, true))],
        ["examples"] => vec![("examples", steps::examples(root, &tree))],
        ["ecosystem"] => vec![("ecosystem", steps::ecosystem(root, &tree))],
        ["without-sim"] => vec![("without-sim", steps::without_sim(root))],
        ["loom"] => vec![("loom", steps::loom(root))],
        ["miri", ref topics @ ..] => vec![("miri", steps::miri(root, topics))],
        ["asan", ref suites @ ..] => vec![("asan", steps::asan(root, suites))],
        ["aarch64", ref topics @ ..] => vec![("aarch64", steps::aarch64(root, topics))],
        ["baton"] => vec![("baton", steps::baton(root))],
        ["swarm"] => vec![("swarm", swarm::check(root, &tree, None))],
        ["swarm", "--runs", runs] => vec![("swarm", swarm::check(root, &tree, Some(runs)))],
        ["slopes"] => vec![("slopes", steps::slopes(root, false))],
        ["slopes", "--bless"] => vec![("slopes", steps::slopes(root, true))],
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    let mut all_stand = true;
    for (name, outcome) in &outcomes {
        all_stand &= outcome.report(name);
    }
    if all_stand { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(root: &Path, tree: &Tree) -> Vec<(&'static str, Outcome)> {
    let mut outcomes = vec![
        ("layers", layers::check(tree)),
        ("unsafe", unsafety::check(tree)),
        ("behaviour", behaviour::check(tree)),
    ];
    outcomes.extend(steps::ordinary(root));
    outcomes
}
