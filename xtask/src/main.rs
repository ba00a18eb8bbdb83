//! The project's own checks: `cargo xtask check` before a commit, `cargo xtask ci` for
//! the whole gate.
//!
//! A check prints the number of cases that it looked at, and fails if there were none, because a
//! check without cases proves nothing.

mod behaviour;
mod determinism;
mod drivers;
mod language;
mod layers;
mod numbers;
mod outcome;
mod paths;
mod process;
mod public;
mod rustdoc;
mod seeds;
mod steps;
mod swarm;
mod syntax;
mod table;
mod tree;
mod twins;
mod unsafety;

use crate::outcome::Outcome;
use crate::tree::Tree;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <check>

  check       what to run before a commit: fmt, clippy, layers, unsafe, behaviour, numbers, tests
  ci          the gate, as the project's server runs it (.ci/run)

  layers      modules name only modules of lower layers (table in ARCHITECTURE.md)
  unsafe      every unsafe block cites an invariant of doc/unsafe.md
  behaviour   the tables under doc/behaviour/ are what the doc comments of the tests say; --write writes them
  language    comments and documents without the words that they keep out
  without-sim nothing of the simulator is compiled without the feature `sim`
  seeds       doc/seeds.md: every link and every test that it names is there
  examples    every example ends by itself and well
  ecosystem   the same for those with other people's crates, and real servers
  twins       what std's types have and ecru's have not, and why; --write writes the page, --refresh reads std's documentation again
  public      the public items of each published package are those of the stored list; --write stores today's
  deny        licences, sources and versions of the dependencies, by cargo-deny (.ci/prepare installs it)
  typos       spelling, by typos (.ci/prepare installs it)
  numbers     bench/RESULTS.md, its plot and the README's table are those of the newest results; --write writes them
  loom        the waiting protocols, model-checked
  abort       the tests for programs in which panics abort
  baton       the behaviour tests with each coroutine on a thread of its own
  determinism a simulation is the same in each build: debug, optimized, with each task on a thread
  asan        tests under AddressSanitizer (needs nightly); names of suites may follow
  drivers     the behaviour tests on each driver, with one worker and with two; the attacks on the second one
  miri        behaviour tests in Rust's interpreter (needs nightly with miri); names of tests may follow
  chaos       the processes of a fleet and its brokers are killed by a plan, and no job is lost; --seconds N, --seed S
  swarm       the behaviour tests and others in simulations, with two seeds; --runs N for N simulations, optimized
  slopes      instructions per operation against the stored counts; --bless stores today's
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("the working tree could not be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcomes = match arguments[..] {
        ["check"] => check(root, &tree),
        ["ci"] => vec![("ci", steps::ci(root))],
        ["layers"] => vec![("layers", layers::check(&tree))],
        ["unsafe"] => vec![("unsafe", unsafety::check(&tree))],
        ["behaviour"] => vec![("behaviour", behaviour::check(&tree))],
        ["behaviour", "--write"] => vec![("behaviour", behaviour::write(root, &tree))],
        ["language"] => vec![("language", language::check(&tree))],
        ["seeds"] => vec![("seeds", seeds::check(&tree))],
        ["twins"] => vec![("twins", twins::check(root, false, false))],
        ["twins", "--write"] => vec![("twins", twins::check(root, true, false))],
        ["twins", "--refresh"] => vec![("twins", twins::check(root, true, true))],
        ["public"] => vec![("public", public::check(root, &tree, false))],
        ["public", "--write"] => vec![("public", public::check(root, &tree, true))],
        ["deny"] => vec![("deny", steps::deny(root))],
        ["typos"] => vec![("typos", steps::typos(root))],
        ["numbers"] => vec![("numbers", numbers::check(root, false))],
        ["numbers", "--write"] => vec![("numbers", numbers::check(root, true))],
        ["examples"] => vec![("examples", steps::examples(root, &tree))],
        ["ecosystem"] => vec![("ecosystem", steps::ecosystem(root, &tree))],
        ["without-sim"] => vec![("without-sim", steps::without_sim(root))],
        ["loom"] => vec![("loom", steps::loom(root))],
        ["miri", ref topics @ ..] => vec![("miri", steps::miri(root, topics))],
        ["asan", ref suites @ ..] => vec![("asan", steps::asan(root, suites))],
        ["abort"] => vec![("abort", steps::abort(root))],
        ["baton"] => vec![("baton", steps::baton(root))],
        ["determinism"] => vec![("determinism", determinism::check(root))],
        ["drivers"] => vec![("drivers", drivers::check(root))],
        ["chaos", ref options @ ..] => vec![("chaos", steps::chaos(root, options))],
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
        ("language", language::check(tree)),
        ("seeds", seeds::check(tree)),
        ("numbers", numbers::check(root, false)),
    ];
    outcomes.extend(steps::ordinary(root));
    outcomes
}
