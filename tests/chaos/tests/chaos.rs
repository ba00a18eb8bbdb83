//! Runs a short chaos, and shows its rows of `doc/behaviour/fleet.md`. The program `ecru-chaos` runs
//! a longer one.

use std::process::{Command, Output};
use std::sync::OnceLock;

/// Returns what a short run has printed, or `None` if no server is installed.
fn short_run() -> Option<&'static str> {
    static RUN: OnceLock<Output> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecru-chaos"));
        command.args(["--seconds", "3"]).output().unwrap()
    });
    let [said, errors] = [&run.stdout, &run.stderr].map(|bytes| str::from_utf8(bytes).unwrap());
    let advice = "nats-server is not installed";
    if errors.contains(advice) {
        let required = |name| std::env::var(name).is_ok_and(|set| set == "true" || set == "1");
        assert!(!required("CI") && !required("ECRU_REQUIRE_SERVERS"), "{errors}");
        println!("SKIPPED: {advice}");
        return None;
    }
    assert!(run.status.success(), "{said}\n{errors}");
    Some(said)
}

/// - given: senders, workers and a coordinator, each in a process of its own, and a cluster of
///   three brokers, all of which are killed, stopped and cut off by a plan
/// - when: the plan has ended and the processes have settled what is left
/// - then: each job that was sent was worked on or is dead, the dead are exactly the jobs that abort
///   their process, the queues are empty, each index of a map has one result, and each extra run
///   has a reason that was observed
#[test]
fn fleet_300_chaos_from_outside_slow() {
    let Some(said) = short_run() else { return };
    for clause in [
        "ok:     each job that was sent was worked on or is dead",
        "ok:     the dead are exactly the poison",
        "ok:     the queues are empty",
        "ok:     each index of a map has one result",
        "ok:     each extra run has a reason that was observed",
    ] {
        assert!(said.contains(clause), "{clause}: {said}");
    }
}

/// - given: the same processes, whose workers acknowledge a job before they work on it
/// - when: they are killed
/// - then: the same proof finds that jobs are lost
#[test]
fn fleet_301_the_proof_from_outside_can_fail_slow() {
    let Some(said) = short_run() else { return };
    assert!(said.contains("ok:     the proof refuses the control run"), "{said}");
}
