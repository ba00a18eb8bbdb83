//! What is printed and written: ratios against the goals first, then absolutes.

use std::fmt::Write;

use serde_json::{Value, json};

use super::machine::Machine;
use super::row::Unit;
use super::run::{ContenderResult, RowResult, median};
use crate::goals::{Bound, ECRU, ECRU_POLL, GOALS, Goal};

/// A goal held against a run.
pub(crate) struct Verdict {
    pub(crate) goal: &'static Goal,
    /// `None`: not measured, because ecru, the peer or the other row is missing.
    pub(crate) measured: Option<f64>,
    /// How far beyond the bound, as a fraction of the bound; zero or less is met.
    pub(crate) missed_by: Option<f64>,
}

impl Verdict {
    /// One line, for people.
    fn line(&self) -> String {
        let goal = self.goal;
        let asked = match goal.bound {
            Bound::CostAtMost(times, peer) => format!("at most {times} x the cost of {peer}"),
            Bound::PollCostAtMost(times, peer) => {
                format!("with `poll` at most {times} x the cost of {peer}")
            }
            Bound::SpeedAtLeast(times, peer) => format!("at least {times} x as fast as {peer}"),
            Bound::Absolute(limit) => format!("at most {limit}"),
            Bound::OwnMetric(times, metric) => format!("at most {times} x its own `{metric}`"),
            Bound::OwnRow(times, row) => format!("at most {times:.2} x its own {row}"),
        };
        let floor = if goal.known_cost { " (known cost: a floor)" } else { "" };
        let times = if matches!(goal.bound, Bound::Absolute(_)) { "" } else { " x" };
        let result = match (self.measured, self.missed_by) {
            (Some(measured), Some(by)) if by > 0.0 => {
                format!("{}{times} MISSED by {:.0}%", short(measured), (by * 100.0).ceil())
            }
            (Some(measured), _) => format!("{}{times} MET", short(measured)),
            _ => "not measured".into(),
        };
        format!("{}: goal {asked}{floor} [{}]: {result}", goal.metric, goal.stands_for)
    }
}

/// The goals of one row held against it; `all` has the other rows of the same run.
pub(crate) fn verdicts(row: &RowResult, all: &[RowResult]) -> Vec<Verdict> {
    let goals = GOALS.iter().filter(|goal| goal.row == row.name);
    goals.map(|goal| verdict(goal, row, all)).collect()
}

/// One goal.
fn verdict(goal: &'static Goal, row: &RowResult, all: &[RowResult]) -> Verdict {
    let measured = row.metric(goal.metric).and_then(|metric| match goal.bound {
        Bound::CostAtMost(_, peer) => ratio(row, metric, ECRU, peer, metric),
        Bound::PollCostAtMost(_, peer) => ratio(row, metric, ECRU_POLL, peer, metric),
        Bound::SpeedAtLeast(_, peer) => ratio(row, metric, peer, ECRU, metric),
        Bound::Absolute(_) => {
            row.contender(ECRU)?.best_and_median(metric).map(|(_, median)| median)
        }
        Bound::OwnMetric(_, other) => ratio(row, metric, ECRU, ECRU, row.metric(other)?),
        Bound::OwnRow(_, other) => {
            let other = all.iter().find(|candidate| candidate.name == other)?;
            let (_, own) = row.contender(ECRU)?.best_and_median(metric)?;
            let (_, compared) = other.contender(ECRU)?.best_and_median(metric)?;
            Some(own / compared)
        }
    });
    let missed_by = measured.map(|measured| match goal.bound {
        Bound::SpeedAtLeast(times, _) => 1.0 - measured / times,
        Bound::CostAtMost(limit, _)
        | Bound::PollCostAtMost(limit, _)
        | Bound::Absolute(limit)
        | Bound::OwnMetric(limit, _)
        | Bound::OwnRow(limit, _) => measured / limit - 1.0,
    });
    Verdict { goal, measured, missed_by }
}

/// The median, over the rounds, of one contender's value divided by another's in the same round.
fn ratio(
    row: &RowResult,
    metric: usize,
    above: &str,
    below: &str,
    metric_below: usize,
) -> Option<f64> {
    let (above, below) = (row.contender(above)?, row.contender(below)?);
    let rounds = above.rounds.iter().zip(&below.rounds);
    let both = rounds
        .filter_map(|(above, below)| Some(above.as_ref()?[metric] / below.as_ref()?[metric_below]));
    median(both.collect())
}

/// Everything, as a page of markdown: for each row its verdicts, ecru against every peer, and the absolutes.
pub(crate) fn markdown(rows: &[RowResult], machine: &Machine) -> String {
    let mut page = String::from("# ecru-bench\n\n");
    for (name, value) in machine.fields() {
        writeln!(page, "- {name}: {value}").expect("a string takes it");
    }
    page.push_str("\nRatios are medians over interleaved rounds of one run. Every metric is a cost: less is better.\n");
    for row in rows {
        row_markdown(&mut page, row, rows).expect("a string takes it");
    }
    page
}

/// One row of the page.
fn row_markdown(page: &mut String, row: &RowResult, all: &[RowResult]) -> std::fmt::Result {
    writeln!(page, "\n## {}: {}\n", row.name, row.title)?;
    for verdict in verdicts(row, all) {
        writeln!(page, "- {}", verdict.line())?;
    }
    writeln!(page, "- {}\n", row.note)?;
    write!(page, "| contender |")?;
    for metric in row.metrics {
        write!(page, " {} x ecru | best | median |", metric.name)?;
    }
    writeln!(page, " note |")?;
    writeln!(page, "|---|{}---|", "---:|---:|---:|".repeat(row.metrics.len()))?;
    for contender in &row.contenders {
        write!(page, "| {} |", contender.name)?;
        for (metric, described) in row.metrics.iter().enumerate() {
            cells(page, row, contender, metric, described.unit)?;
        }
        let failure = contender.failure.as_deref().map(|reason| format!("**{reason}** "));
        writeln!(page, " {}{} |", failure.unwrap_or_default(), contender.note.unwrap_or_default())?;
    }
    Ok(())
}

/// The three cells of one metric: how many times ecru's cost, best, median.
fn cells(
    page: &mut String,
    row: &RowResult,
    contender: &ContenderResult,
    metric: usize,
    unit: Unit,
) -> std::fmt::Result {
    match ratio(row, metric, contender.name, ECRU, metric) {
        Some(times) => write!(page, " {} |", short(times))?,
        None => write!(page, " - |")?,
    }
    match contender.best_and_median(metric) {
        Some((best, median)) => {
            write!(page, " {} | {} |", with_unit(best, unit), with_unit(median, unit))
        }
        None => write!(page, " - | - |"),
    }
}

/// Everything, as JSON; every round is kept.
pub(crate) fn json(rows: &[RowResult], machine: &Machine) -> Value {
    let machine: serde_json::Map<_, _> =
        machine.fields().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let rows: Vec<_> = rows.iter().map(|row| row_json(row, rows)).collect();
    json!({ "machine": machine, "rows": rows })
}

/// One row.
fn row_json(row: &RowResult, all: &[RowResult]) -> Value {
    let metrics: Vec<_> = row
        .metrics
        .iter()
        .map(|metric| json!({ "name": metric.name, "unit": metric.unit.name() }))
        .collect();
    let contender = |contender: &ContenderResult| {
        let summary =
            (0..row.metrics.len()).map(|metric| match contender.best_and_median(metric) {
                Some((best, median)) => json!({ "best": best, "median": median }),
                None => Value::Null,
            });
        json!({
            "name": contender.name,
            "note": contender.note,
            "failure": contender.failure,
            "metrics": summary.collect::<Vec<_>>(),
            "rounds": contender.rounds,
        })
    };
    let goals = verdicts(row, all);
    let goals = goals.iter().map(|verdict| {
        json!({ "says": verdict.line(), "measured": verdict.measured, "met": verdict.missed_by.map(|by| by <= 0.0) })
    });
    json!({
        "row": row.name,
        "title": row.title,
        "metrics": metrics,
        "goals": goals.collect::<Vec<_>>(),
        "contenders": row.contenders.iter().map(contender).collect::<Vec<_>>(),
    })
}

/// A number with three significant digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 100.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else if magnitude >= 0.01 {
        3
    } else {
        6
    };
    format!("{value:.decimals$}")
}

/// A number in its unit; many nanoseconds in a larger one.
fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds if value.abs() >= 1e7 => format!("{} ms", short(value / 1e6)),
        Unit::Nanoseconds if value.abs() >= 1e5 => format!("{} us", short(value / 1e3)),
        _ => format!("{} {}", short(value), unit.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::row::Metric;

    #[test]
    fn long_times_are_in_larger_units() {
        let shown =
            [84.2, 15_377.0, 129_052.0, 23_755_652.0].map(|n| with_unit(n, Unit::Nanoseconds));
        assert_eq!(shown, ["84.2 ns", "15377 ns", "129 us", "23.8 ms"]);
        assert_eq!(with_unit(5e7, Unit::Bytes), "50000000 bytes");
    }

    /// A row `yield` in which ecru and may took these times, round by round.
    fn row(ecru: &[Option<f64>], may: &[Option<f64>]) -> RowResult {
        let contender = |name, times: &[Option<f64>]| ContenderResult {
            name,
            note: None,
            rounds: times.iter().map(|time| time.map(|time| vec![time])).collect(),
            failure: None,
        };
        RowResult {
            name: "yield".into(),
            title: String::new(),
            note: "",
            metrics: &[Metric::TIME],
            contenders: vec![contender(ECRU, ecru), contender("may", may)],
        }
    }

    /// The only goal of the row: at least four times as fast as may.
    fn only_verdict(row: &RowResult) -> Verdict {
        let mut verdicts = verdicts(row, &[]);
        assert_eq!(verdicts.len(), 1);
        verdicts.remove(0)
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is half as fast in the second and third rounds; each round alone says 5.
        let verdict = only_verdict(&row(
            &[Some(10.0), Some(20.0), Some(20.0)],
            &[Some(50.0), Some(100.0), Some(100.0)],
        ));
        assert_eq!(verdict.measured, Some(5.0));
        assert!(verdict.line().contains("5.00 x MET"), "{}", verdict.line());
    }

    #[test]
    fn a_miss_says_by_how_much() {
        let verdict = only_verdict(&row(&[Some(10.0)], &[Some(30.0)]));
        assert_eq!(verdict.missed_by, Some(0.25));
        assert!(verdict.line().contains("3.00 x MISSED by 25%"), "{}", verdict.line());
    }

    #[test]
    fn a_round_that_one_side_lacks_does_not_count() {
        let verdict = only_verdict(&row(&[Some(10.0), Some(1.0)], &[Some(50.0), None]));
        assert_eq!(verdict.measured, Some(5.0));
    }

    #[test]
    fn nothing_measured_is_neither_met_nor_missed() {
        let verdict = only_verdict(&row(&[None], &[Some(50.0)]));
        assert_eq!((verdict.measured, verdict.missed_by), (None, None));
        assert!(verdict.line().contains("not measured"), "{}", verdict.line());
    }
}
