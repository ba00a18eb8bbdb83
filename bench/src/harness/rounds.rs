//! The rounds of a row: each contender once in a round, in rotated order. A disturbed round is
//! repeated.

use std::thread;
use std::time::Duration;

use super::child::{Outcome, run_child};
use super::noise::{Counters, Gate, Reading, difference, spin_on};
use super::order::rotated;
use super::pin::usable_cores;
use super::result::RowResult;
use super::row::{Contender, Row};

/// The pause before a disturbed round is repeated. The disturbance may end by then.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of rounds of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// The number of rounds that count.
    pub(crate) wanted: usize,
    /// The maximum number of repeated rounds. Disturbed rounds after that count.
    pub(crate) repeats: usize,
}

/// Runs a row's contenders in interleaved rounds. `progress` is called with what is running.
///
/// # Errors
///
/// Returns an error if a core that the row needs is not available.
pub(crate) fn run_row(
    row: &Row,
    rounds: Rounds,
    gate: &mut Gate,
    progress: impl FnMut(&str),
) -> Result<RowResult, String> {
    // The child runs on the first of the cores. A load for it, and this program, run on the second.
    let own: Vec<_> = usable_cores()?.into_iter().take(row.cores).collect();
    let watched: Vec<_> = usable_cores()?.into_iter().take(row.cores.max(2)).collect();
    let measure = |contender: &Contender| {
        let spun = spin_on(&own)?;
        let before = Counters::now(&watched);
        let outcome = run_child(row, contender);
        let after = Counters::now(&watched);
        Ok((outcome, difference(&before, &after, spun.max(spin_on(&own)?))))
    };
    all_rounds(row, rounds, gate, measure, || thread::sleep(PAUSE), progress)
}

/// The loop itself, with functions to measure and to pause.
fn all_rounds(
    row: &Row,
    rounds: Rounds,
    gate: &mut Gate,
    mut measure: impl FnMut(&Contender) -> Result<(Outcome, Reading), String>,
    mut pause: impl FnMut(),
    mut progress: impl FnMut(&str),
) -> Result<RowResult, String> {
    let mut result = RowResult::new(row);
    let mut round = 0;
    while round < rounds.wanted {
        let mut samples = vec![None; row.contenders.len()];
        let mut disturbance = None;
        gate.begin_round();
        for place in rotated(row.contenders.len(), round) {
            if result.contenders[place].failure.is_some() {
                // A contender that could not run once is not tried again.
                continue;
            }
            let contender = &row.contenders[place];
            progress(&format!(
                "{} round {}/{}: {}",
                row.name(),
                round + 1,
                rounds.wanted,
                contender.name
            ));
            let (outcome, reading) = measure(contender)?;
            match outcome {
                Outcome::Measured(values) => samples[place] = Some(values),
                Outcome::Skipped(reason) | Outcome::Died(reason) => {
                    result.contenders[place].failure = Some(reason);
                }
            }
            let name = format!("{}/{}", row.name(), contender.name);
            if let Some(found) = gate.judge(&name, &reading) {
                disturbance.get_or_insert(found);
                if result.repeated < rounds.repeats {
                    break;
                }
            }
        }
        if let Some(disturbance) = disturbance {
            let again = result.repeated < rounds.repeats;
            let what = if again { "again" } else { "counts all the same" };
            progress(&format!("{} round {}: {}: {what}", row.name(), round + 1, disturbance.says));
            *result.disturbances.entry(disturbance.sign.into()).or_default() += 1;
            if again {
                result.repeated += 1;
                pause();
                continue;
            }
            result.kept_disturbed += 1;
        }
        for (contender, sample) in result.contenders.iter_mut().zip(samples) {
            contender.rounds.push(sample);
        }
        result.slow += usize::from(gate.was_slow());
        round += 1;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::harness::row::Metric;

    const QUIET: Reading =
        Reading { spin: 1e6, wall: 0.2, capacity: 0.2, others: 0.0, steal: 0.0, pressure: None };
    const NOISY: Reading = Reading { others: 0.1, ..QUIET };

    fn row() -> Row {
        Row {
            family: "test",
            number: None,
            title: String::new(),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: ["a", "b", "c"].map(|name| Contender::timed(name, || 0.0)).into(),
            note: "",
        }
    }

    /// Runs with a script of readings. Returns the row, and the contenders in the order in which
    /// they ran.
    fn run(
        rounds: Rounds,
        mut answer: impl FnMut(&str, usize) -> (Outcome, Reading),
    ) -> (RowResult, String) {
        let (ran, mut pauses) = (RefCell::new(String::new()), 0);
        let measure = |contender: &Contender| {
            let before = ran.borrow().len();
            ran.borrow_mut().push_str(contender.name);
            Ok(answer(contender.name, before))
        };
        let row = all_rounds(&row(), rounds, &mut Gate::default(), measure, || pauses += 1, |_| {})
            .unwrap();
        assert_eq!(pauses, row.repeated, "one before each repeated round");
        (row, ran.into_inner())
    }

    fn measured(value: f64) -> Outcome {
        Outcome::Measured(vec![value])
    }

    #[test]
    fn the_order_is_rotated_each_round() {
        let rounds = Rounds { wanted: 4, repeats: 9 };
        let (result, ran) = run(rounds, |_, before| (measured(before as f64), QUIET));
        assert_eq!(ran, "abcbcacababc");
        // Samples are stored by contender, not by order.
        assert_eq!(result.contenders[0].rounds[1], Some(vec![5.0]));
        assert_eq!((result.repeated, result.kept_disturbed), (0, 0));
    }

    #[test]
    fn a_disturbed_round_is_given_up_run_again_and_counted() {
        let rounds = Rounds { wanted: 2, repeats: 9 };
        let noisy_once = |_: &str, before| (measured(0.0), if before == 1 { NOISY } else { QUIET });
        let (result, ran) = run(rounds, noisy_once);
        assert_eq!(ran, "ababcbca", "the rest of a disturbed round is not run");
        assert_eq!((result.repeated, result.kept_disturbed), (1, 0));
        assert_eq!(result.disturbances.values().sum::<usize>(), 1);
        assert!(result.contenders.iter().all(|contender| contender.rounds.len() == 2));
    }

    #[test]
    fn repeats_are_bounded_and_disturbed_rounds_after_them_count() {
        let rounds = Rounds { wanted: 3, repeats: 2 };
        let (result, ran) = run(rounds, |_, _| (measured(0.0), NOISY));
        assert_eq!(ran, "aaabcbcacab");
        assert_eq!((result.repeated, result.kept_disturbed), (2, 3));
        assert_eq!(result.disturbances["other processes"], 5);
    }

    #[test]
    fn what_cannot_run_is_not_tried_again() {
        let rounds = Rounds { wanted: 3, repeats: 0 };
        let (result, ran) = run(rounds, |name, _| match name {
            "b" => (Outcome::Skipped("not here".into()), QUIET),
            _ => (measured(0.0), QUIET),
        });
        assert_eq!(ran, "abccaca");
        assert_eq!(result.contenders[1].failure.as_deref(), Some("not here"));
        assert_eq!(result.contenders[1].rounds, [None, None, None]);
    }
}
