//! Evaluates goals against a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::range::{ROUNDS_FOR_A_VERDICT, Range};
use super::report::short;
use super::result::RowResult;
use crate::goals::{Bound, ECRU, Goal};

/// The number of disturbed rounds that may count in a verdict. The range leaves out one value at
/// either end, so a single disturbed value cannot carry it beyond the others.
const DISTURBED_AT_MOST: usize = 1;

/// The outcome of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The whole range that contains the median is within the bound.
    Met,
    /// The whole range is beyond the bound.
    Missed,
    /// The range includes the bound, or there were too few undisturbed rounds.
    Undecided,
    /// A contender or a row that the goal needs is missing.
    Unmeasured,
}

/// One goal, evaluated for one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GoalResult {
    pub(crate) metric: String,
    /// The contender that has to reach the goal.
    pub(crate) contender: String,
    /// The bound, in words.
    pub(crate) asked: String,
    /// What the bound meant on the machine where it was set.
    pub(crate) stands_for: String,
    /// Whether the goal is a floor, because of the known cost of a stack for each task.
    pub(crate) known_cost: bool,
    pub(crate) limit: f64,
    /// Whether more is better, as in "at least 4 x as fast".
    pub(crate) at_least: bool,
    pub(crate) measured: Option<Range>,
    /// The number of disturbed rounds that count in it.
    pub(crate) disturbed: usize,
    pub(crate) verdict: Verdict,
}

impl fmt::Display for GoalResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = if self.known_cost { " (known cost: a floor)" } else { "" };
        write!(
            f,
            "{}: {} {}{floor} [{}]: ",
            self.metric, self.contender, self.asked, self.stands_for
        )?;
        let Some(range) = self.measured else { return write!(f, "not measured") };
        let (low, high) = (short(range.low), short(range.high));
        write!(f, "{} ({low} to {high}) ", short(range.median))?;
        match self.verdict {
            Verdict::Met => write!(f, "MET"),
            Verdict::Missed => {
                let by = if self.at_least {
                    1.0 - range.median / self.limit
                } else {
                    range.median / self.limit - 1.0
                };
                write!(f, "MISSED by {:.0}%", (by * 100.0).ceil())
            }
            _ if range.rounds < ROUNDS_FOR_A_VERDICT => {
                write!(f, "UNDECIDED: {} rounds of {ROUNDS_FOR_A_VERDICT}", range.rounds)
            }
            _ if self.disturbed > DISTURBED_AT_MOST => {
                write!(f, "UNDECIDED: {} rounds were disturbed", self.disturbed)
            }
            _ => write!(f, "UNDECIDED"),
        }
    }
}

/// Evaluates each of these goals for its row. `all` has the other rows of the same run.
pub(crate) fn hold(goals: &[&Goal], row: &RowResult, all: &[RowResult]) -> Vec<GoalResult> {
    goals.iter().filter(|goal| goal.row == row.name).map(|goal| result(goal, row, all)).collect()
}

/// Evaluates one goal for its row.
fn result(goal: &Goal, row: &RowResult, all: &[RowResult]) -> GoalResult {
    let (limit, at_least) = match goal.bound {
        Bound::SpeedAtLeast(times, _) => (times, true),
        Bound::CostAtMost(limit, _)
        | Bound::CostAtMostBest(limit, _)
        | Bound::Absolute(limit)
        | Bound::OwnMetric(limit, _)
        | Bound::OwnRow(limit, _) => (limit, false),
    };
    let measured = measure(goal, row, all);
    let verdict = decide(measured, limit, at_least);
    let decided = matches!(verdict, Verdict::Met | Verdict::Missed);
    let disturbed = disturbed_rounds(goal, row);
    let too_noisy = decided && disturbed > DISTURBED_AT_MOST;
    GoalResult {
        metric: goal.metric.into(),
        contender: goal.contender.into(),
        asked: asked(&goal.bound),
        stands_for: goal.stands_for.into(),
        known_cost: goal.known_cost,
        limit,
        at_least,
        measured,
        verdict: if too_noisy { Verdict::Undecided } else { verdict },
        disturbed,
    }
}

/// Returns how many of the rounds that count are of no use for this goal.
///
/// A count, or a number of bytes, is the same on a busy machine. A time that is compared with a
/// number, or with another row's, needs cores at full speed.
fn disturbed_rounds(goal: &Goal, row: &RowResult) -> usize {
    let unit = row.metric(goal.metric).map(|metric| row.metrics[metric].unit.as_str());
    let is_a_time = matches!(unit, Some("ns" | "s"));
    match goal.bound {
        _ if matches!(unit, Some("" | "bytes")) => 0,
        Bound::Absolute(_) | Bound::OwnRow(..) if is_a_time => row.kept_disturbed + row.slow,
        _ => row.kept_disturbed,
    }
}

/// Decides from the position of the range.
fn decide(measured: Option<Range>, limit: f64, at_least: bool) -> Verdict {
    let Some(range) = measured else { return Verdict::Unmeasured };
    let (all_within, all_beyond) = if at_least {
        (range.low >= limit, range.high < limit)
    } else {
        (range.high <= limit, range.low > limit)
    };
    match (range.rounds >= ROUNDS_FOR_A_VERDICT, all_within, all_beyond) {
        (true, true, _) => Verdict::Met,
        (true, _, true) => Verdict::Missed,
        _ => Verdict::Undecided,
    }
}

/// Returns the number that a goal is about, over the rounds.
fn measure(goal: &Goal, row: &RowResult, all: &[RowResult]) -> Option<Range> {
    let metric = row.metric(goal.metric)?;
    let own = (goal.contender, metric);
    match goal.bound {
        Bound::CostAtMost(_, peer) => row.ratio(own, (peer, metric)),
        Bound::CostAtMostBest(_, peers) => against_the_best(row, own, peers),
        Bound::SpeedAtLeast(_, peer) => row.ratio((peer, metric), own),
        Bound::Absolute(_) => row.contender(goal.contender)?.spread(metric),
        Bound::OwnMetric(_, other) => row.ratio(own, (goal.contender, row.metric(other)?)),
        Bound::OwnRow(_, other) => {
            let other = all.iter().find(|candidate| candidate.name == other)?;
            let compared = other.contender(goal.contender)?.spread(other.metric(goal.metric)?)?;
            Some(divide(row.contender(goal.contender)?.spread(metric)?, compared))
        }
    }
}

/// Returns a contender's cost divided by that of the best of these peers, the one with the lowest
/// median. The lowest value of each round would be a peer that does not exist.
fn against_the_best(row: &RowResult, own: (&str, usize), peers: &[&str]) -> Option<Range> {
    let medians: Option<Vec<_>> = peers
        .iter()
        .map(|peer| Some((row.contender(peer)?.spread(own.1)?.median, *peer)))
        .collect();
    let best = medians?.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    row.ratio(own, (best.1, own.1))
}

/// Divides numbers of two rows. Their rounds were not at the same time, so the ends of the result
/// are those of the two ranges that are farthest apart.
fn divide(above: Range, below: Range) -> Range {
    Range {
        min: above.min / below.max,
        low: above.low / below.high,
        median: above.median / below.median,
        high: above.high / below.low,
        max: above.max / below.min,
        rounds: above.rounds.min(below.rounds),
    }
}

/// Describes a bound in words.
fn asked(bound: &Bound) -> String {
    match *bound {
        Bound::CostAtMost(times, peer) => format!("at most {times} x the cost of {peer}"),
        Bound::CostAtMostBest(times, peers) => {
            format!("at most {times} x the cost of the best of {}", peers.join(", "))
        }
        Bound::SpeedAtLeast(times, peer) => format!("at least {times} x as fast as {peer}"),
        Bound::Absolute(limit) => format!("at most {limit}"),
        Bound::OwnMetric(times, metric) => format!("at most {times} x its own `{metric}`"),
        Bound::OwnRow(times, row) => format!("at most {times:.2} x {ECRU} in {row}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::result::{ContenderResult, MetricName};
    use crate::harness::row::Unit;

    /// A row `test` with these contenders and their times, round by round.
    fn row(name: &str, contenders: &[(&str, Vec<Option<f64>>)]) -> RowResult {
        let contenders = contenders.iter().map(|(name, times)| ContenderResult {
            rounds: times.iter().map(|time| time.map(|time| vec![time])).collect(),
            ..ContenderResult::new(name, None)
        });
        RowResult {
            name: name.into(),
            title: String::new(),
            note: String::new(),
            cores: 1,
            metrics: vec![MetricName { name: "time".into(), unit: "ns".into() }],
            repeated: 0,
            kept_disturbed: 0,
            slow: 0,
            disturbances: Default::default(),
            goals: vec![],
            contenders: contenders.collect(),
        }
    }

    #[test]
    fn a_round_in_which_the_divisor_is_zero_has_no_ratio() {
        let zeros = vec![Some(0.0), Some(0.0), Some(2.0)];
        let row = row("test", &[(ECRU, zeros), ("may", vec![Some(0.0), Some(1.0), Some(4.0)])]);
        let ratio = row.ratio(("may", 0), (ECRU, 0)).expect("the third round has one");
        assert_eq!((ratio.rounds, ratio.median), (1, 2.0));
    }

    fn goal(bound: Bound) -> Goal {
        Goal {
            row: "test",
            metric: "time",
            contender: ECRU,
            bound,
            stands_for: "",
            known_cost: false,
        }
    }

    fn held(bound: Bound, row: &RowResult) -> GoalResult {
        hold(&[&goal(bound)], row, &[]).remove(0)
    }

    /// Nine rounds in which the peer's time is a multiple of ecru's 10 ns.
    fn nine(times: [f64; 9]) -> RowResult {
        let peer = times.map(|times| Some(10.0 * times)).to_vec();
        row("test", &[(ECRU, vec![Some(10.0); 9]), ("peer", peer)])
    }

    #[test]
    fn a_range_within_the_bound_is_met_and_one_beyond_it_missed() {
        let faster = nine([5.0, 4.1, 4.2, 4.9, 4.5, 4.6, 4.7, 4.8, 3.0]);
        assert_eq!(held(Bound::SpeedAtLeast(4.0, "peer"), &faster).verdict, Verdict::Met);
        let slower = nine([3.0, 3.1, 3.2, 3.9, 3.5, 3.6, 3.7, 3.8, 9.0]);
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &slower);
        assert_eq!(result.verdict, Verdict::Missed);
        assert!(result.to_string().contains("3.60 (3.10 to 3.90) MISSED by 10%"), "{result}");
    }

    #[test]
    fn a_range_that_crosses_the_bound_is_undecided() {
        let crossing = nine([5.0, 3.9, 3.8, 4.9, 4.5, 4.6, 4.7, 4.8, 4.9]);
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &crossing);
        assert_eq!(result.verdict, Verdict::Undecided);
        assert!(result.to_string().ends_with("UNDECIDED"), "{result}");
        let cost = held(Bound::CostAtMost(0.25, "peer"), &crossing);
        assert_eq!(cost.verdict, Verdict::Undecided);
    }

    #[test]
    fn fewer_than_nine_rounds_decide_nothing() {
        let few = row("test", &[(ECRU, vec![Some(1.0); 8]), ("peer", vec![Some(9.0); 8])]);
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &few);
        assert_eq!(result.verdict, Verdict::Undecided);
        assert!(result.to_string().contains("8 rounds of 9"), "{result}");
    }

    #[test]
    fn more_than_one_disturbed_round_decides_nothing() {
        let mut faster = nine([5.0; 9]);
        faster.kept_disturbed = 1;
        assert_eq!(held(Bound::SpeedAtLeast(4.0, "peer"), &faster).verdict, Verdict::Met);
        faster.kept_disturbed = 2;
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &faster);
        assert_eq!(result.verdict, Verdict::Undecided);
        assert!(result.to_string().ends_with("2 rounds were disturbed"), "{result}");
    }

    #[test]
    fn slow_rounds_decide_ratios_but_no_times() {
        let mut slow = nine([5.0; 9]);
        slow.slow = 9;
        assert_eq!(held(Bound::SpeedAtLeast(4.0, "peer"), &slow).verdict, Verdict::Met);
        assert_eq!(held(Bound::Absolute(20.0), &slow).verdict, Verdict::Undecided);
        slow.slow = 1;
        assert_eq!(held(Bound::Absolute(20.0), &slow).verdict, Verdict::Met);
    }

    #[test]
    fn noise_does_not_change_a_count() {
        let mut counted = nine([5.0; 9]);
        (counted.kept_disturbed, counted.slow) = (9, 9);
        for metric in &mut counted.metrics {
            metric.unit = Unit::Bytes.name().into();
        }
        assert_eq!(held(Bound::Absolute(20.0), &counted).verdict, Verdict::Met);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is half as fast in some rounds, and each round alone has the ratio 5.
        let speeds = [1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 1.0, 2.0, 2.0];
        let at = |time: f64| speeds.map(|slow| Some(slow * time)).to_vec();
        let row = row("test", &[(ECRU, at(10.0)), ("peer", at(50.0))]);
        let range = held(Bound::SpeedAtLeast(4.0, "peer"), &row).measured.unwrap();
        assert_eq!((range.min, range.max), (5.0, 5.0));
    }

    #[test]
    fn a_round_that_one_side_lacks_does_not_count() {
        let mut times = vec![Some(10.0); 9];
        times[4] = None;
        let row = row("test", &[(ECRU, times), ("peer", vec![Some(50.0); 9])]);
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &row);
        assert_eq!((result.measured.unwrap().rounds, result.verdict), (8, Verdict::Undecided));
    }

    #[test]
    fn the_best_of_several_is_that_with_the_least_median() {
        let mut spread = vec![Some(10.0); 9];
        spread[3] = Some(90.0);
        let row = row(
            "test",
            &[(ECRU, vec![Some(11.0); 9]), ("together", vec![Some(20.0); 9]), ("spread", spread)],
        );
        let best = Bound::CostAtMostBest(1.15, &["together", "spread"]);
        let result = held(best, &row);
        assert_eq!((result.verdict, result.measured.unwrap().max), (Verdict::Met, 1.1));
        let missing = Bound::CostAtMostBest(1.15, &["together", "absent"]);
        assert_eq!(held(missing, &row).verdict, Verdict::Unmeasured);
    }

    #[test]
    fn rows_are_compared_by_the_ends_that_lie_farthest_apart() {
        let spread = |from: f64| (0..9).map(|round| Some(from + f64::from(round))).collect();
        let one = row("test", &[(ECRU, spread(20.0))]);
        let other = row("other", &[(ECRU, spread(10.0))]);
        let goal = goal(Bound::OwnRow(2.0, "other"));
        let result = hold(&[&goal], &one, &[one.clone(), other]).remove(0);
        let range = result.measured.unwrap();
        assert_eq!((range.low, range.high), (21.0 / 17.0, 27.0 / 11.0));
        assert_eq!(result.verdict, Verdict::Undecided);
    }

    #[test]
    fn nothing_measured_is_neither_met_nor_missed() {
        let row = row("test", &[(ECRU, vec![None; 9]), ("peer", vec![Some(50.0); 9])]);
        let result = held(Bound::SpeedAtLeast(4.0, "peer"), &row);
        assert_eq!(result.verdict, Verdict::Unmeasured);
        assert!(result.to_string().contains("not measured"), "{result}");
    }
}
