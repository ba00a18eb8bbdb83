//! The goals, as data.
//!
//! A bound against a peer is a ratio within the rounds of one run, because absolute times depend on
//! the machine. The absolute time on the machine where the goals were set is kept beside it as
//! text. Where a stack per task must cost more than a state machine, the goal is a floor:
//! `known_cost`.

pub(crate) mod channels;
pub(crate) mod files;
pub(crate) mod gears;
pub(crate) mod programs;
pub(crate) mod servers;
pub(crate) mod tasks;

/// The name of ecru's own contender in every row.
pub(crate) const ECRU: &str = "ecru";

/// The name of ecru's contender on the `poll` driver, in the rows where the driver matters.
pub(crate) const ECRU_POLL: &str = "ecru-poll";
/// ecru without a task for a connection that is idle.
pub(crate) const ECRU_WHEN: &str = "ecru-when";
/// ecru's tasks without a stack, whose work is a future.
pub(crate) const ECRU_FUTURE: &str = "ecru-future";

/// For rows without a ratio of their own.
const NO_WORSE_THAN_GO: &str = "at least Go's";

/// The bound of a goal on one metric of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// The contender's cost is at most this many times the peer's.
    CostAtMost(f64, &'static str),
    /// The contender's cost is at most this many times that of the best of these, by their medians.
    CostAtMostBest(f64, &'static [&'static str]),
    /// The contender is at least this many times as fast as the peer (the peer's cost divided by
    /// its own).
    SpeedAtLeast(f64, &'static str),
    /// The contender's cost is at most this, in the metric's unit.
    Absolute(f64),
    /// The contender's cost is at most this many times its own other metric of the same row.
    OwnMetric(f64, &'static str),
    /// The contender's cost is at most this many times its own in another row (same metric, same
    /// run).
    OwnRow(f64, &'static str),
}

/// One goal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) row: &'static str,
    pub(crate) metric: &'static str,
    /// The contender that has to reach the goal, usually [`ECRU`].
    pub(crate) contender: &'static str,
    pub(crate) bound: Bound,
    /// What the ratio meant where the goals were set.
    pub(crate) stands_for: &'static str,
    /// Whether the goal is a floor, because a stack per task must lose to a state machine here.
    pub(crate) known_cost: bool,
}

/// Creates a goal of ecru's own contender.
pub(crate) const fn goal(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { row, metric, contender: ECRU, bound, stands_for, known_cost: false }
}

/// Creates a goal for the metric that most rows have.
pub(crate) const fn time(row: &'static str, bound: Bound, stands_for: &'static str) -> Goal {
    goal(row, "time", bound, stands_for)
}

/// Creates a goal for a row with a known cost of stacks.
pub(crate) const fn floor(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { known_cost: true, ..goal(row, metric, bound, stands_for) }
}

/// Creates a goal of ecru on the `poll` driver.
pub(crate) const fn poll(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { contender: ECRU_POLL, ..goal(row, metric, bound, stands_for) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::{self, TOPICS};

    #[test]
    fn every_goal_names_a_row_a_metric_and_contenders_that_exist() {
        for goal in topics::goals() {
            let row = topics::named(goal.row).unwrap_or_else(|| panic!("no row {}", goal.row));
            let has_metric = |name| row.metrics.iter().any(|metric| metric.name == name);
            let has = |name| row.contenders.iter().any(|contender| contender.name == name);
            assert!(has_metric(goal.metric) && has(goal.contender), "{goal:?}");
            match goal.bound {
                Bound::CostAtMost(_, peer) | Bound::SpeedAtLeast(_, peer) => {
                    assert!(has(peer), "{goal:?}");
                }
                Bound::CostAtMostBest(_, peers) => {
                    assert!(!peers.is_empty() && peers.iter().all(|peer| has(peer)), "{goal:?}");
                }
                Bound::OwnMetric(_, other) => assert!(has_metric(other), "{goal:?}"),
                Bound::OwnRow(_, other) => assert!(topics::named(other).is_some(), "{goal:?}"),
                Bound::Absolute(limit) => assert!(limit > 0.0, "{goal:?}"),
            }
        }
    }

    #[test]
    fn every_row_of_a_topic_with_goals_has_one() {
        let held = TOPICS.iter().filter(|topic| !topic.goals.is_empty());
        for row in held.flat_map(topics::rows_of) {
            let name = row.name();
            assert!(topics::goals().iter().any(|goal| goal.row == name), "{name} has no goal");
        }
    }
}
