//! The goals, as data.
//!
//! A bound against a peer is a ratio within the rounds of one run, because absolutes move with the machine; the absolute of the
//! machine on which the goals were set is kept beside it as text. Where a stack per task must cost more than a state machine does,
//! the goal is a floor: `known_cost`.

/// The name of ecru's own contender in every row.
pub(crate) const ECRU: &str = "ecru";

/// What is asked of one metric of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// ecru's cost is at most this many times the peer's.
    CostAtMost(f64, &'static str),
    /// ecru is at least this many times as fast as the peer (the peer's cost divided by ecru's).
    SpeedAtLeast(f64, &'static str),
    /// ecru's cost is at most this, in the metric's unit.
    Absolute(f64),
    /// ecru's cost is at most this many times its own other metric of the same row.
    OwnMetric(f64, &'static str),
    /// ecru's cost is at most this many times its own in another row (same metric, same run).
    OwnRow(f64, &'static str),
}

/// One goal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) row: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) bound: Bound,
    /// What the ratio stood for where the goals were set.
    pub(crate) stands_for: &'static str,
    /// A stack per task must lose to a state machine here; the goal is the floor.
    pub(crate) known_cost: bool,
}

/// A goal from its four parts.
const fn goal(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { row, metric, bound, stands_for, known_cost: false }
}

/// The same for a row in which a stack costs what it costs.
const fn floor(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { row, metric, bound, stands_for, known_cost: true }
}

use Bound::{Absolute, CostAtMost, OwnMetric, OwnRow, SpeedAtLeast};

/// Two workers may be 15% slower than one.
const FIFTEEN_PERCENT_SLOWER: f64 = 1.0 / 0.85;

/// All of them.
pub(crate) const GOALS: &[Goal] = &[
    goal("switch", "time", CostAtMost(1.1, "corosensei"), "0.91 ns for corosensei, one way"),
    goal("recycle", "time", CostAtMost(2.0, "corosensei"), "2.5 ns for corosensei"),
    goal("yield", "time", SpeedAtLeast(4.0, "may"), "12 ns, may 48"),
    goal("spawn-join-1", "time", SpeedAtLeast(4.3, "tokio"), "18 M/s, tokio 4.17"),
    goal("spawn-join-2", "time", SpeedAtLeast(5.0, "go"), "15 M/s, Go 2.7"),
    goal(
        "spawn-join-2",
        "time",
        OwnRow(FIFTEEN_PERCENT_SLOWER, "spawn-join-1"),
        "at most 15% slower than one worker",
    ),
    goal("spawn-batch-1", "time", SpeedAtLeast(2.6, "smol"), "12 M/s, smol 4.6"),
    goal("spawn-batch-2", "time", SpeedAtLeast(9.0, "tokio"), "10 M/s, tokio 1.1"),
    goal(
        "spawn-batch-2",
        "time",
        OwnRow(FIFTEEN_PERCENT_SLOWER, "spawn-batch-1"),
        "at most 15% slower than one worker",
    ),
    floor(
        "create-park",
        "time",
        Absolute(2_400.0),
        "2,400 ns guarded; the page fault alone is 1,300-1,500",
    ),
    // The same as a ratio: the absolute doubles when the machine is in its slow state.
    floor(
        "create-park",
        "time",
        CostAtMost(1.5, "corosensei-slab"),
        "2,400 ns, corosensei on a slab 1,600",
    ),
    goal(
        "coroutines-100000",
        "time",
        CostAtMost(1.2, "corosensei-slab"),
        "18-30 ns for corosensei on a slab",
    ),
    goal(
        "coroutines-1000000",
        "time",
        CostAtMost(1.2, "corosensei-slab"),
        "23-35 ns for corosensei on a slab",
    ),
    goal(
        "parked-10000",
        "with",
        OwnMetric(1.05, "without"),
        "parked tasks cost the others nothing",
    ),
    floor(
        "parked-1000000",
        "memory",
        Absolute(4_900.0),
        "a stack page, page tables 512, control data",
    ),
    goal("parked-1000000", "mappings", Absolute(1_000.0), "the process may have 65,530"),
    goal("given-back-1000000", "growth", Absolute(0.1), "within 10% of the start"),
    goal(
        "parked-1000000",
        "with",
        SpeedAtLeast(2.6, "tokio"),
        "90 ns, tokio 236 (through channels)",
    ),
    goal(
        "parked-1000000",
        "with",
        OwnMetric(1.05, "without"),
        "parked tasks cost the others nothing",
    ),
    goal("timer-0", "time", SpeedAtLeast(3.5, "go"), "20 M/s, Go 5.6"),
    goal("timer-0", "time", SpeedAtLeast(2.2, "tokio"), "20 M/s, tokio 3.8-9.2"),
    goal("timer-100000", "time", SpeedAtLeast(3.5, "go"), "20 M/s, Go 4.4"),
    goal("timer-100000", "time", SpeedAtLeast(2.2, "tokio"), "20 M/s, tokio 9.2"),
    floor(
        "sleeps-1000000",
        "cpu",
        CostAtMost(0.8, "go"),
        "2.5 s, Go 3.0 (a page for each task to touch)",
    ),
    goal("lone-timeout", "cpu", Absolute(0.001), "the seed took 0.045-0.169 s"),
    goal("fan-out", "time", SpeedAtLeast(0.2, "rayon"), "a fifth of rayon"),
    goal("fan-out", "time", SpeedAtLeast(3.0, "tokio"), "three times tokio"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn every_goal_names_a_row_a_metric_and_a_peer_that_exist() {
        for goal in GOALS {
            let row = rows::named(goal.row).unwrap_or_else(|| panic!("no row {}", goal.row));
            let has_metric = |name| row.metrics.iter().any(|metric| metric.name == name);
            assert!(has_metric(goal.metric), "{goal:?}");
            match goal.bound {
                CostAtMost(_, peer) | SpeedAtLeast(_, peer) => {
                    assert!(
                        row.contenders.iter().any(|contender| contender.name == peer),
                        "{goal:?}"
                    );
                }
                OwnMetric(_, other) => assert!(has_metric(other), "{goal:?}"),
                OwnRow(_, other) => assert!(rows::named(other).is_some(), "{goal:?}"),
                Absolute(limit) => assert!(limit > 0.0, "{goal:?}"),
            }
        }
    }

    #[test]
    fn every_row_of_the_list_has_a_goal() {
        for &(family, number) in rows::ALL {
            let row = rows::build(family, number).expect("the list names what exists").name();
            assert!(GOALS.iter().any(|goal| goal.row == row), "{row} has no goal");
        }
    }
}
