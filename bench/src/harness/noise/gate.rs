//! The decision whether a child was disturbed.

use std::collections::HashMap;

/// Cores that differ in speed by more than this factor within a round disturb it.
const SLOWER: f64 = 1.10;

/// Other processes may use this fraction of the cores' time ..
const OTHERS: f64 = 0.04;

/// .. plus this many seconds, because the counters move in steps of 10 ms.
const OTHERS_STEPS: f64 = 0.020;

/// The hypervisor may take this fraction of the cores' time ..
const STEAL: f64 = 0.02;

/// .. plus this many seconds.
const STEAL_STEPS: f64 = 0.010;

/// Threads may wait for a core for this share of the time because of other processes, beside the
/// steps of the counters.
const PRESSURE: f64 = 0.05;

/// The values read around one child.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// The slowest calibration spin, before or after the child on any core, in nanoseconds.
    pub(crate) spin: f64,
    /// The seconds that the child took.
    pub(crate) wall: f64,
    /// These seconds, times the number of watched cores.
    pub(crate) capacity: f64,
    /// CPU seconds of other processes on these cores.
    pub(crate) others: f64,
    /// Seconds that the hypervisor gave these cores to another guest.
    pub(crate) steal: f64,
    /// The share of the time in which a thread waited for a core.
    pub(crate) pressure: Option<f64>,
}

/// What the gate has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    least_spin: Option<f64>,
    /// The fastest and the slowest spin of the current round.
    round: Option<(f64, f64)>,
    least_pressure: HashMap<String, f64>,
}

impl Gate {
    /// Returns a gate that knows the fastest spin of the run that is resumed.
    pub(crate) fn with(least_spin: Option<f64>) -> Gate {
        Gate { least_spin, ..Gate::default() }
    }

    /// Returns the fastest spin so far, in nanoseconds.
    pub(crate) fn least_spin(&self) -> Option<f64> {
        self.least_spin
    }

    /// Records a spin that belongs to no child.
    pub(crate) fn note_spin(&mut self, spin: f64) {
        self.least_spin = Some(self.least_spin.map_or(spin, |least| least.min(spin)));
    }

    /// Begins a round. Speeds are compared within it.
    pub(crate) fn begin_round(&mut self) {
        self.round = None;
    }

    /// Returns whether the whole round ran on cores that were slower than at other times.
    pub(crate) fn was_slow(&self) -> bool {
        let spins = self.round.zip(self.least_spin);
        spins.is_some_and(|((fastest, _), least)| fastest > SLOWER * least)
    }

    /// Records the reading of one contender, and returns what disturbed it, if anything. The name
    /// identifies the contender and its row.
    pub(crate) fn judge(&mut self, contender: &str, reading: &Reading) -> Option<Disturbance> {
        self.note_spin(reading.spin);
        let (fastest, slowest) = self.round.unwrap_or((reading.spin, reading.spin));
        let (fastest, slowest) = (fastest.min(reading.spin), slowest.max(reading.spin));
        self.round = Some((fastest, slowest));
        let least_pressure = reading.pressure.map(|share| {
            let least = self.least_pressure.entry(contender.to_owned()).or_insert(share);
            *least = least.min(share);
            *least
        });
        let percent = |part: f64| 100.0 * part / reading.capacity;
        let disturbance = |sign, says| Some(Disturbance { sign, says });
        if slowest > SLOWER * fastest {
            let speed = 100.0 * fastest / slowest;
            let says = format!("the slowest contender's cores ran at {speed:.0}% of the fastest's");
            return disturbance("speed", says);
        }
        if reading.others > OTHERS * reading.capacity + OTHERS_STEPS {
            let used = percent(reading.others);
            let says = format!("other processes used {used:.0}% of the cores");
            return disturbance("other processes", says);
        }
        if reading.steal > STEAL * reading.capacity + STEAL_STEPS {
            let taken = percent(reading.steal);
            return disturbance("steal", format!("the hypervisor took {taken:.0}% of the cores"));
        }
        // A thread waits for a core because of other processes for no longer than these run. The
        // rest is the contender's own: threads that it has woken wait for those that woke them.
        let (share, least) = reading.pressure.zip(least_pressure)?;
        let others = (reading.others - OTHERS_STEPS) / reading.wall;
        let by_others = (share - least).min(others);
        if by_others > PRESSURE {
            let (share, least) = (100.0 * share, 100.0 * least);
            let says = format!(
                "threads waited for a core {share:.0}% of the time, {least:.0}% in its quietest \
                 round, while other processes ran"
            );
            return disturbance("pressure", says);
        }
        None
    }
}

/// What disturbed a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disturbance {
    /// One of the four signs, by which disturbances are counted.
    pub(crate) sign: &'static str,
    pub(crate) says: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Reading = Reading {
        spin: 1e6,
        wall: 0.2,
        capacity: 0.4,
        others: 0.005,
        steal: 0.0,
        pressure: Some(0.02),
    };

    #[track_caller]
    fn disturbed_by(reading: Reading, what: &str) {
        let mut gate = Gate::default();
        assert_eq!(gate.judge("row/ecru", &QUIET), None);
        let disturbance = gate.judge("row/ecru", &reading).expect("it is disturbed");
        assert!(disturbance.says.contains(what), "{disturbance:?}");
    }

    #[test]
    fn each_sign_alone_disturbs() {
        disturbed_by(Reading { spin: 1.25e6, ..QUIET }, "at 80%");
        disturbed_by(Reading { others: 0.1, ..QUIET }, "other processes used 25%");
        disturbed_by(Reading { steal: 0.04, ..QUIET }, "the hypervisor took 10%");
        let waited = Reading { others: 0.035, pressure: Some(0.5), ..QUIET };
        disturbed_by(waited, "50% of the time, 2%");
    }

    /// A contender whose threads wake each other makes them wait in some rounds more than in others.
    #[test]
    fn threads_that_wait_for_each_other_do_not_disturb() {
        let mut gate = Gate::default();
        assert_eq!(gate.judge("row/ecru", &QUIET), None);
        assert_eq!(gate.judge("row/ecru", &Reading { pressure: Some(0.5), ..QUIET }), None);
    }

    #[test]
    fn a_little_of_everything_does_not() {
        let mut gate = Gate::default();
        assert_eq!(gate.judge("row/ecru", &QUIET), None);
        let reading =
            Reading { spin: 1.09e6, others: 0.035, steal: 0.015, pressure: Some(0.06), ..QUIET };
        assert_eq!(gate.judge("row/ecru", &reading), None);
    }

    #[test]
    fn speed_is_compared_within_the_round_and_pressure_with_the_same_contender() {
        let mut gate = Gate::with(Some(1e6));
        // A round that is slow as a whole compares its contenders as well as any other.
        let slow = Reading { spin: 1.2e6, ..QUIET };
        assert_eq!(gate.judge("row/ecru", &slow), None);
        assert_eq!(gate.judge("row/tokio", &slow), None);
        assert!(gate.was_slow());
        assert!(gate.judge("row/may", &QUIET).is_some());
        gate.begin_round();
        assert_eq!(gate.judge("row/ecru", &QUIET), None);
        assert!(!gate.was_slow());
        // If a contender makes its own threads wait, it does so in each round.
        let crowded = Reading { pressure: Some(0.9), ..QUIET };
        assert_eq!(gate.judge("row/go", &crowded), None);
        assert_eq!(gate.judge("row/go", &crowded), None);
        gate.note_spin(0.5e6);
        assert_eq!(gate.judge("row/go", &crowded), None);
        assert!(gate.was_slow());
        assert_eq!(gate.least_spin(), Some(0.5e6));
    }

    #[test]
    fn without_pressure_the_other_signs_count() {
        let mut gate = Gate::default();
        assert_eq!(gate.judge("row/ecru", &Reading { pressure: None, ..QUIET }), None);
        let stolen = Reading { pressure: None, steal: 0.1, ..QUIET };
        assert!(gate.judge("row/ecru", &stolen).is_some());
    }
}
