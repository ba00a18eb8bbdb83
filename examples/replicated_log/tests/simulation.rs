//! Three nodes in simulations: no acknowledged entry is lost, the nodes agree, and in calm weather
//! everything finishes.

mod common;

use ecru::sim::{self, Explore, Strategy};
use std::ops::Range;

/// Returns how many seeds are run: 300, or as many as `ECRU_SIM_SEEDS` says. Each strategy has half
/// of them.
fn seeds() -> u64 {
    std::env::var("ECRU_SIM_SEEDS").map_or(300, |n| n.parse().expect("a number"))
}

fn run(seeds: Range<u64>, strategy: Strategy) {
    let explored = sim::explore(Explore::Seeds { seeds, strategy }, || {
        common::program(replicated_log::run);
    });
    if let Err(found) = explored {
        panic!("{found}");
    }
}

#[test]
fn no_acknowledged_entry_is_lost_in_a_random_order_slow() {
    run(0..seeds() / 2, Strategy::Random);
}

#[test]
fn no_acknowledged_entry_is_lost_if_a_task_is_slow_slow() {
    run(seeds() / 2..seeds(), Strategy::Pct { depth: 3 });
}
