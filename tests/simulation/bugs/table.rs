//! The table that `doc/simulation.md` has, which this test compares with what is found, and the
//! failure that it shows. To print them, with times that no other test disturbs:
//!
//! ```text
//! cargo test --test simulation -- bugs::table --nocapture
//! ```

use super::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What the bug is called, and the program that has it.
pub(super) type Bug = (&'static str, fn(Form));

const BUGS: [Bug; 15] = [
    lost_wakeup::BUG,
    lock_order::BUG,
    check_then_act::BUG,
    half_open_connection::BUG,
    ack_before_fsync::BUG,
    retry_without_id::BUG,
    leaked_permit::BUG,
    aba_in_a_lease::BUG,
    vote_after_reply::BUG,
    two_phase_commit::BUG,
    log_without_directory_sync::BUG,
    answer_of_another::BUG,
    lease_without_fencing::BUG,
    limiter_with_an_old_time::BUG,
    stale_cache::BUG,
];

/// The page with the table.
const PAGE: &str = include_str!("../../../doc/simulation.md");

/// The processor time of this process.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("it is not negative")
}

#[test]
fn table_slow() {
    println!("| bug | seeds with `Random` | seeds with `Pct {{ depth: 3 }}` | time in all |");
    println!("|---|---|---|---|");
    let mut missing = Vec::new();
    for (name, program) in BUGS {
        let began = processor_time();
        let [random, pct] = STRATEGIES.map(|strategy| find(program, &strategy).seed + 1);
        let took = (processor_time() - began).as_millis();
        let row = format!("| {name} | {random} | {pct} |");
        println!("{row} {took} ms |");
        if !PAGE.lines().any(|line| line == row) {
            missing.push(row);
        }
    }
    println!("{}", find(vote_after_reply::BUG.1, &STRATEGIES[0]));
    assert!(missing.is_empty(), "doc/simulation.md lacks these rows: {missing:#?}");
    let stated = PAGE.split_once("# Fifteen bugs").unwrap().1;
    let stated = stated.split_once("\n# ").unwrap().0;
    // The first two lines of the table are its head.
    assert_eq!(stated.lines().filter(|line| line.starts_with('|')).count(), BUGS.len() + 2);
}
