//! The spread of one number over the rounds.

use serde::{Deserialize, Serialize};

/// The number of rounds that a verdict needs. Of nine values, the second to the eighth contain the
/// median with a probability of 96%.
pub(crate) const ROUNDS_FOR_A_VERDICT: usize = 9;

/// The spread of one number over the rounds of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) min: f64,
    /// The lower end of the range that contains the median: the second of nine values.
    pub(crate) low: f64,
    pub(crate) median: f64,
    /// The upper end of that range: the eighth of nine values.
    pub(crate) high: f64,
    pub(crate) max: f64,
    /// The number of rounds with a value.
    pub(crate) rounds: usize,
}

impl Range {
    /// Returns the spread of these values, or `None` if there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Range> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let left_out = left_out(values.len());
        Some(Range {
            min,
            low: values[left_out],
            median: middle(&values),
            high: values[values.len() - 1 - left_out],
            max,
            rounds: values.len(),
        })
    }
}

/// Returns how many values to leave out at either end so that the rest still contains the median
/// with a probability of at least 95%. The result is 0 for fewer than nine values, and 1 for nine.
fn left_out(count: usize) -> usize {
    // Of `count` values, the number below the median is binomial with probability 1/2. The range
    // misses the median if at most `left_out` values lie on one side of it.
    let all = 2_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut term, mut tail, mut result) = (1.0, 0.0, 0);
    for outside in 0..count / 2 {
        tail += term;
        if 1.0 - 2.0 * tail / all < 0.95 {
            break;
        }
        result = outside;
        term *= (count - outside) as f64 / (outside + 1) as f64;
    }
    result
}

/// Returns the middle of sorted values, or the mean of the two in the middle.
fn middle(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_values_leave_out_one_at_either_end() {
        let range = Range::of((1..=9).rev().map(f64::from).collect()).unwrap();
        let Range { min, low, median, high, max, rounds } = range;
        assert_eq!([min, low, median, high, max], [1.0, 2.0, 5.0, 8.0, 9.0]);
        assert_eq!(rounds, 9);
    }

    #[test]
    fn few_values_leave_out_none() {
        let range = Range::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((range.low, range.high), (1.0, 3.0));
        let range = Range::of((1..=8).map(f64::from).collect()).unwrap();
        assert_eq!((range.low, range.high), (1.0, 8.0));
    }

    #[test]
    fn more_values_leave_out_as_many_as_95_percent_allow() {
        // The known order statistics for the median: 12 -> 3rd to 10th, 20 -> 6th to 15th.
        assert_eq!([10, 12, 20, 25].map(left_out), [1, 2, 5, 7]);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(Range::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(Range::of(vec![]), None);
    }
}
