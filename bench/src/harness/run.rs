//! The rounds: A B C, A B C, …

use super::child::{Outcome, run_child};
use super::row::{Metric, Row};

/// Everything one contender measured.
pub(crate) struct ContenderResult {
    pub(crate) name: &'static str,
    pub(crate) note: Option<&'static str>,
    /// One entry for each round; `None` where it gave nothing.
    pub(crate) rounds: Vec<Option<Vec<f64>>>,
    /// Why it gave nothing, the last time it did.
    pub(crate) failure: Option<String>,
}

impl ContenderResult {
    /// The values of one metric over the rounds in which the contender measured.
    fn values(&self, metric: usize) -> Vec<f64> {
        self.rounds.iter().flatten().map(|sample| sample[metric]).collect()
    }

    /// The smallest value of one metric, and its median.
    pub(crate) fn best_and_median(&self, metric: usize) -> Option<(f64, f64)> {
        let values = self.values(metric);
        let best = values.iter().copied().reduce(f64::min)?;
        Some((best, median(values)?))
    }
}

/// A row with all its rounds.
pub(crate) struct RowResult {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) note: &'static str,
    pub(crate) metrics: &'static [Metric],
    pub(crate) contenders: Vec<ContenderResult>,
}

impl RowResult {
    /// The contender of that name.
    pub(crate) fn contender(&self, name: &str) -> Option<&ContenderResult> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// The place of a metric in every sample.
    pub(crate) fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }
}

/// Runs a row's contenders in interleaved rounds; `progress` is told what runs.
pub(crate) fn run_row(row: &Row, rounds: usize, mut progress: impl FnMut(&str)) -> RowResult {
    let rounds = rounds.min(row.rounds_at_most);
    let mut contenders: Vec<_> = row.contenders.iter().map(empty).collect();
    for round in 1..=rounds {
        for (contender, result) in row.contenders.iter().zip(&mut contenders) {
            progress(&format!("{} round {round}/{rounds}: {}", row.name(), contender.name));
            if result.failure.is_some() {
                // What could not run once is not given the time of another try.
                result.rounds.push(None);
                continue;
            }
            match run_child(row, contender) {
                Outcome::Measured(values) => result.rounds.push(Some(values)),
                Outcome::Skipped(reason) | Outcome::Died(reason) => {
                    result.rounds.push(None);
                    result.failure = Some(reason);
                }
            }
        }
    }
    RowResult {
        name: row.name(),
        title: row.title.clone(),
        note: row.note,
        metrics: row.metrics,
        contenders,
    }
}

/// A contender before its first round.
fn empty(contender: &super::row::Contender) -> ContenderResult {
    ContenderResult {
        name: contender.name,
        note: contender.note,
        rounds: Vec::new(),
        failure: None,
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_there() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
