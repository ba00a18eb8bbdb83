//! Fifteen programs with a bug each. A simulation finds every bug, and its message shows how to
//! repair the program.
//!
//! Each program has two forms, which differ in the lines of its `match form` or `if`. The bug is
//! found within 1,000 seeds, with [`Strategy::Random`] and with [`Strategy::Pct`]. The repaired form
//! passes 200 seeds with each of them, or as many as `ECRU_SIM_SEEDS` says.
//! `doc/simulation.md` states the number of seeds that were needed, and `table` fails if it differs.

mod aba_in_a_lease;
mod ack_before_fsync;
mod answer_of_another;
mod check_then_act;
mod half_open_connection;
mod leaked_permit;
mod lease_without_fencing;
mod limiter_with_an_old_time;
mod lock_order;
mod log_without_directory_sync;
mod lost_wakeup;
mod retry_without_id;
mod samples;
mod stale_cache;
mod table;
mod two_phase_commit;
mod vote_after_reply;

use ecru::sim::{self, Explore, Failure, Found, Simulation, Strategy};

/// Whether a program has its bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Buggy,
    Repaired,
}

/// The number of seeds within which a bug has to be found.
const SEEDS: u64 = 1000;

/// The number of seeds that a repaired program has to pass by each strategy, if the environment does
/// not name another one. `.ci/long` tries 2,000.
const USUAL_SEEDS: u64 = 200;

const STRATEGIES: [Strategy; 2] = [Strategy::Random, Strategy::Pct { depth: 3 }];

/// Runs the buggy form until it fails.
#[track_caller]
fn find(program: fn(Form), strategy: &Strategy) -> Box<Found> {
    let plan = Explore::Seeds { seeds: 0..SEEDS, strategy: strategy.clone() };
    sim::explore(plan, move || program(Form::Buggy)).expect_err("the bug is found")
}

/// Checks that the bug is found, that the message has all of `words`, and that the trace repeats
/// the failure.
#[track_caller]
fn is_found(program: fn(Form), words: &[&str]) {
    for strategy in STRATEGIES {
        let found = find(program, &strategy);
        let message = found.to_string();
        for word in words {
            assert!(message.contains(word), "{strategy:?}: {word:?} is missing in:\n{message}");
        }
        let again = Simulation::new(found.seed)
            .strategy(Strategy::Replay(found.trace.clone()))
            .run(move || program(Form::Buggy));
        let failure = again.result.expect_err("the trace repeats the failure");
        assert_eq!(first_line(&failure), first_line(&found.failure), "{strategy:?}");
    }
}

/// What happened, without the state of the tasks, which has addresses.
fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Checks that the repaired form passes every seed.
#[track_caller]
fn passes(program: fn(Form)) {
    let seeds = std::env::var("ECRU_SIM_SEEDS")
        .map_or(USUAL_SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    for strategy in STRATEGIES {
        let plan = Explore::Seeds { seeds: 0..seeds, strategy };
        if let Err(found) = sim::explore(plan, move || program(Form::Repaired)) {
            panic!("{found}");
        }
    }
}
