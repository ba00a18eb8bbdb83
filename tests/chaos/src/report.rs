//! What is printed: the plan, what has happened, and the verdict.

use std::time::Duration;

use crate::conductor::Shown;
use crate::plan::{Kind, Step};
use crate::proof::{self, Clause, Evidence, Violation};

/// How many violations of a clause are printed.
const MOST: usize = 5;

/// Prints a plan. The kills of workers are only counted.
pub(crate) fn plan(seed: u64, length: Duration, steps: &[Step]) {
    println!("chaos for {} s by the seed {seed}", length.as_secs());
    for Step { at, act } in steps.iter().filter(|step| step.act.kind() != Kind::WorkerKills) {
        println!("{:9.3} s: {act:?}", at.as_secs_f64());
    }
    let kills = steps.iter().filter(|step| step.act.kind() == Kind::WorkerKills).count();
    println!("and {kills} kills of workers, one every 200 ms");
}

/// Checks, and counts what was checked.
#[derive(Default)]
struct Checks {
    passed: usize,
    failed: usize,
}

impl Checks {
    fn check(&mut self, holds: bool, what: &str) {
        println!("{} {what}", if holds { "ok:    " } else { "FAILED:" });
        self.passed += usize::from(holds);
        self.failed += usize::from(!holds);
    }

    fn clauses(&mut self, violations: &[Violation]) {
        for clause in Clause::ALL {
            let found: Vec<_> =
                violations.iter().filter(|violation| violation.clause == clause).collect();
            self.check(found.is_empty(), &clause.to_string());
            for violation in found.iter().take(MOST) {
                println!("        {}", violation.text);
            }
            if found.len() > MOST {
                println!("        and {} more", found.len() - MOST);
            }
        }
    }

    fn expected(&mut self, unexpected: &[String]) {
        self.check(unexpected.is_empty(), "each process has ended as it should");
        unexpected.iter().for_each(|text| println!("        {text}"));
    }
}

/// Prints what has happened and what holds, and returns whether all is well.
pub(crate) fn verdict(shown: &Shown, control: &(Evidence, Vec<String>)) -> bool {
    let mut checks = Checks::default();
    println!();
    for kind in Kind::ALL {
        let times = shown.happened.get(&kind).copied().unwrap_or(0);
        checks.check(times > 0, &format!("{times} {kind}"));
    }
    checks.check(shown.aborts > 0, &format!("{} workers aborted by poison", shown.aborts));
    checks.check(
        shown.broker_kills > 0,
        &format!("{} brokers killed and started again", shown.broker_kills),
    );
    checks.expected(&shown.unexpected);
    let (counts, violations) = proof::check(&shown.evidence);
    checks.clauses(&violations);
    println!("        {counts:?}, {} maps were begun again by an error", shown.failed_maps);
    let (evidence, unexpected) = control;
    checks.expected(unexpected);
    let (counts, violations) = proof::check(evidence);
    let lost: Vec<_> =
        violations.iter().filter(|violation| violation.clause == Clause::Lost).collect();
    let text = format!(
        "the proof refuses the control run, which acknowledges before the work: {} of {} jobs are \
         lost",
        lost.len(),
        counts.sent
    );
    checks.check(!lost.is_empty(), &text);
    let Checks { passed, failed } = checks;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    failed == 0
}
