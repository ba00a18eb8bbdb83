//! `cargo xtask swarm` runs tests in simulations, with many seeds, on all cores.
//!
//! | program | what a seed is |
//! |---|---|
//! | `behaviour` | `ECRU_TEST_SEED=7` makes each run of its tests a simulation with the seed 7, so the program is started once for each seed |
//! | `behaviour` of `ecru-flow` | the same |
//! | `simulation` | its tests make simulations themselves, with as many seeds as `ECRU_SIM_SEEDS` says |
//!
//! Without `--runs`, the programs `behaviour` run with two seeds, unoptimized: that shows whether
//! the lists below are right. `cargo test` has run the program `simulation` then.
//!
//! Each test says how many simulations it has made, in a line of its own. Tests of a program
//! `behaviour` that make none are listed in `not_simulated.md` beside it, with their reasons. A
//! test that is neither simulated nor listed is a problem.

mod list;
mod program;

use crate::outcome::Outcome;
use crate::tree::Tree;
use list::List;
use program::{Pass, Program};
use std::path::Path;
use std::time::Instant;

/// With how many seeds the programs are run unless a number of simulations is asked for. Even seeds
/// pick tasks at random, odd ones by priorities.
const USUAL_SEEDS: usize = 2;

/// The least number of seeds for tests that make simulations themselves: as many as they have in
/// other runs.
const OWN_SEEDS: usize = 16;

/// Runs the behaviour tests in at least as many simulations as `runs` says, and the suite whose
/// tests make their own, in optimized builds. Without a number, runs the behaviour tests with
/// [`USUAL_SEEDS`], in the builds that `cargo test` has made.
pub(crate) fn check(root: &Path, tree: &Tree, runs: Option<&str>) -> Outcome {
    let wanted = match runs.map(str::parse) {
        Some(Err(_)) => {
            return Outcome::broken(format!(
                "--runs is `{}`, which is not a number",
                runs.unwrap_or("")
            ));
        }
        Some(Ok(wanted)) => Some(wanted),
        None => None,
    };
    swarm(root, tree, wanted).unwrap_or_else(Outcome::broken)
}

/// A test program whose runs are simulations if it is told so.
struct Suite {
    program: Program,
    list: List,
    tests: Vec<String>,
}

impl Suite {
    fn read(tree: &Tree, program: Program, page: &'static str) -> Result<Suite, String> {
        let (list, tests) = (List::read(tree, page)?, program.tests()?);
        Ok(Suite { program, list, tests })
    }

    /// Returns the tests that are not listed.
    fn simulated(&self) -> Vec<&str> {
        self.tests.iter().map(String::as_str).filter(|test| !self.list.names(test)).collect()
    }

    fn pass(&self, seed: usize) -> Result<Pass, String> {
        self.program.pass(&self.simulated(), &[("ECRU_TEST_SEED", seed)])
    }

    /// Describes the tests that have passed and are neither simulated nor listed.
    fn unlisted(&self, pass: &Pass) -> Vec<String> {
        let tests = self.simulated().into_iter().filter(|test| {
            !pass.made.contains_key(*test) && !pass.failed.iter().any(|failed| failed == test)
        });
        let page = self.list.page;
        tests
            .map(|test| format!("{test} makes no simulation: list it in {page} with the reason"))
            .collect()
    }
}

fn swarm(root: &Path, tree: &Tree, wanted: Option<usize>) -> Result<Outcome, String> {
    let profile = if wanted.is_some() { "quick" } else { "test" };
    let [behaviour, simulation] = Program::build(root, profile, None, ["behaviour", "simulation"])?;
    let [flow] = Program::build(root, profile, Some("ecru-flow"), ["behaviour"])?;
    let suites =
        [Suite::read(tree, behaviour, list::PAGE)?, Suite::read(tree, flow, list::FLOW_PAGE)?];
    // Some listed tests are compiled only in optimized builds.
    let mut problems: Vec<String> = match wanted {
        Some(_) => suites.iter().flat_map(|suite| suite.list.unknown(&suite.tests)).collect(),
        None => Vec::new(),
    };

    let begun = Instant::now();
    let passes = |seed| suites.iter().map(|suite| suite.pass(seed)).collect::<Result<Vec<_>, _>>();
    let first = passes(0)?;
    for (suite, pass) in suites.iter().zip(&first) {
        problems.extend(suite.unlisted(pass));
    }
    let own = match wanted {
        Some(wanted) => {
            let each = first.iter().map(Pass::simulations).sum::<usize>().max(1);
            let seeds = (wanted / each).max(OWN_SEEDS);
            let own = simulation.pass(&[], &[("ECRU_SIM_SEEDS", seeds)])?;
            problems.extend(own.problems(&simulation, "ECRU_SIM_SEEDS", seeds));
            own
        }
        None => Pass::default(),
    };
    let mut failed: Vec<String> = own.failed.clone();
    let (mut cases, mut seeds) = (0, 0);
    let mut next = first;
    loop {
        for (suite, pass) in suites.iter().zip(next) {
            cases += pass.simulations();
            problems.extend(pass.problems(&suite.program, "ECRU_TEST_SEED", seeds));
            failed.extend(pass.failed);
        }
        seeds += 1;
        let is_over = wanted.map_or(seeds == USUAL_SEEDS, |wanted| cases >= wanted);
        // Problems of many seeds have few causes.
        if is_over || problems.len() > 20 {
            break;
        }
        next = passes(seeds)?;
    }
    cases += own.simulations();
    let took = begun.elapsed().as_secs_f64();

    failed.sort();
    failed.dedup();
    let count = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let ran = count(|suite| suite.simulated().len()) + own.passed + own.failed.len();
    // As the programs print it, with each test counted once.
    println!("test result: {} passed; {} failed", ran - failed.len(), failed.len());
    let summary = format!(
        "{cases} simulations of {ran} tests with {seeds} seeds in {took:.1} s, {:.0} a second; {} \
         tests are listed as not simulated",
        cases as f64 / took,
        count(|suite| suite.tests.len() - suite.simulated().len()),
    );
    Ok(Outcome { cases, summary, problems })
}
