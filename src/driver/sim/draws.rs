//! What a seed decides in a world: which operations meet with a fault, and how long things take.
//!
//! # Draws
//! A draw does not depend on the draws before it. It has a kind, a host and a number: the draws of
//! one kind on one host are counted from 1, also where nothing can go wrong. What is drawn depends
//! on these three and on the seed. So if one fault is taken away from a run, its other faults stay
//! the same for as long as the program does the same.
//!
//! A fault that has struck is named by its draw ([`DrawnFault`]). A run can be told which faults
//! strike ([`Draws::impose`]). Then the seed decides only how large they are.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::HostId;
use crate::base::random::Generator;
use crate::base::{clock, simulated};

/// What goes wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A packet is lost.
    Loss,
    /// A datagram is overtaken.
    Late,
    /// A datagram arrives twice.
    Twice,
    /// A write breaks its connection.
    Reset,
    /// A connection is refused.
    Refused,
    /// A connection is established late.
    Slow,
    /// A read or a write moves only a part of what it could.
    Short,
    /// A read or a write of a file fails.
    Error,
    /// A sync fails.
    Sync,
    /// A call finds too many open files.
    Full,
    /// A host crashes.
    Crash,
    /// A host loses its power.
    Power,
    /// Nothing travels between two hosts.
    Cut,
    /// A chance of the program's own comes true.
    Chance,
    /// A sync succeeds, and the disk lacks a part of what was written.
    Lie = AFTER_OTHERS as isize,
    /// A write goes to another place of its file.
    Astray,
    /// A bit of a file has changed by the time it is read.
    Rot,
    /// The wall clock of a host is wrong for a while.
    Jump,
}

impl FaultKind {
    pub(crate) const ALL: [FaultKind; 18] = [
        FaultKind::Loss,
        FaultKind::Late,
        FaultKind::Twice,
        FaultKind::Reset,
        FaultKind::Refused,
        FaultKind::Slow,
        FaultKind::Short,
        FaultKind::Error,
        FaultKind::Sync,
        FaultKind::Full,
        FaultKind::Crash,
        FaultKind::Power,
        FaultKind::Cut,
        FaultKind::Chance,
        FaultKind::Lie,
        FaultKind::Astray,
        FaultKind::Rot,
        FaultKind::Jump,
    ];

    /// Returns the word that stands for this kind in traces.
    pub(crate) fn word(self) -> &'static str {
        match self {
            FaultKind::Loss => "loss",
            FaultKind::Late => "late",
            FaultKind::Twice => "twice",
            FaultKind::Reset => "reset",
            FaultKind::Refused => "refused",
            FaultKind::Slow => "slow",
            FaultKind::Short => "short",
            FaultKind::Error => "eio",
            FaultKind::Sync => "sync",
            FaultKind::Full => "emfile",
            FaultKind::Crash => "crash",
            FaultKind::Power => "power",
            FaultKind::Cut => "cut",
            FaultKind::Chance => "chance",
            FaultKind::Lie => "lie",
            FaultKind::Astray => "astray",
            FaultKind::Rot => "rot",
            FaultKind::Jump => "jump",
        }
    }
}

/// A fault, named by the draw by which it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DrawnFault {
    pub(crate) kind: FaultKind,
    pub(crate) host: u16,
    pub(crate) number: u64,
}

/// A fault that has struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Struck {
    pub(crate) fault: DrawnFault,
    /// The host at the other end, if the fault is one of the network.
    pub(crate) to: Option<HostId>,
    /// The virtual time since the run began.
    pub(crate) at: Duration,
}

/// What is counted and has no fault of its own. A draw depends on the number of its kind, so numbers
/// never change, and later kinds of faults have those after these.
const LATENCY: usize = 14;
const SYNC_LATENCY: usize = LATENCY + 1;
const POWER_FAILURE: usize = LATENCY + 2;
const AFTER_OTHERS: usize = LATENCY + 3;
const KINDS: usize = FaultKind::Jump as usize + 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct Draws {
    seed: u64,
    /// The number of draws so far, for each host and kind.
    counts: Vec<[u64; KINDS]>,
    /// The faults that strike, unless the seed decides.
    imposed: Option<BTreeSet<DrawnFault>>,
    /// All durations are the least of their ranges.
    is_steady: bool,
    /// A duration was drawn.
    varies: bool,
    /// The run is over, and nothing goes wrong any more.
    is_over: bool,
    struck: Vec<Struck>,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws {
            seed,
            counts: Vec::new(),
            imposed: None,
            is_steady: false,
            varies: false,
            is_over: false,
            struck: Vec::new(),
        }
    }

    /// Sets which faults strike, unless that is `None`, and whether all durations are the least of
    /// their ranges.
    pub(crate) fn impose(&mut self, faults: Option<&[DrawnFault]>, is_steady: bool) {
        self.imposed = faults.map(|faults| faults.iter().copied().collect());
        self.is_steady = is_steady;
    }

    /// Ends all faults, because the run is over.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Returns the faults that have struck, in the order in which they did.
    pub(crate) fn struck(&self) -> &[Struck] {
        &self.struck
    }

    /// Returns whether a duration was drawn that could have been shorter.
    pub(crate) fn varies(&self) -> bool {
        self.varies
    }

    /// Counts a draw.
    #[inline]
    fn count(&mut self, kind: usize, host: HostId) -> u64 {
        let host = usize::from(host.0);
        if self.counts.len() <= host {
            self.counts.resize(host + 1, [0; KINDS]);
        }
        let count = &mut self.counts[host][kind];
        *count += 1;
        *count
    }

    /// Returns the generator of a draw.
    fn generator(&self, kind: usize, host: HostId, number: u64) -> Generator {
        // No run makes 2^40 draws.
        Generator::new(self.seed, (kind as u64) << 56 | u64::from(host.0) << 40 | number)
    }

    /// Draws whether a fault strikes that has this probability. Returns a generator for the size of
    /// the fault if it does.
    #[inline]
    pub(crate) fn strike(
        &mut self,
        kind: FaultKind,
        host: HostId,
        to: Option<HostId>,
        probability: f64,
    ) -> Option<Generator> {
        let (fault, generator) = self.plan(kind, host, probability)?;
        self.note_struck(fault, to);
        Some(generator)
    }

    /// Draws whether a fault with this probability strikes later. Returns the fault and a generator
    /// for its size if it does. [`note_struck`](Draws::note_struck) is called when it strikes.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        kind: FaultKind,
        host: HostId,
        probability: f64,
    ) -> Option<(DrawnFault, Generator)> {
        if self.is_over {
            return None;
        }
        let number = self.count(kind as usize, host);
        // Most draws are of faults that cannot strike.
        if probability <= 0.0 && self.imposed.is_none() {
            return None;
        }
        self.plan_possible(kind, host, number, probability)
    }

    #[inline(never)]
    fn plan_possible(
        &mut self,
        kind: FaultKind,
        host: HostId,
        number: u64,
        probability: f64,
    ) -> Option<(DrawnFault, Generator)> {
        let fault = DrawnFault { kind, host: host.0, number };
        let is_imposed = self.imposed.as_ref().map(|imposed| imposed.contains(&fault));
        if is_imposed == Some(false) {
            return None;
        }
        let mut generator = self.generator(kind as usize, host, number);
        // Drawn in either case, so that the size of the fault is the same.
        let strikes = generator.chance(probability);
        is_imposed.unwrap_or(strikes).then_some((fault, generator))
    }

    /// Notes that a fault strikes now.
    pub(crate) fn note_struck(&mut self, fault: DrawnFault, to: Option<HostId>) {
        let now = clock::common_now();
        let at = now.saturating_duration_since(simulated::start().unwrap_or(now));
        self.struck.push(Struck { fault, to, at });
    }

    /// Draws how many of `count` units a transfer moves, which may be only a part of them.
    pub(crate) fn part_of(&mut self, host: HostId, count: usize, probability: f64) -> usize {
        if count <= 1 {
            return count;
        }
        let short = self.strike(FaultKind::Short, host, None, probability);
        short.map_or(count, |mut size| 1 + size.below(count - 1))
    }

    /// Draws how long a packet from this host travels.
    pub(crate) fn latency(&mut self, host: HostId, range: &RangeInclusive<Duration>) -> Duration {
        self.duration(LATENCY, host, range)
    }

    /// Draws how long a sync on this host takes.
    pub(crate) fn sync_latency(
        &mut self,
        host: HostId,
        range: &RangeInclusive<Duration>,
    ) -> Duration {
        self.duration(SYNC_LATENCY, host, range)
    }

    fn duration(
        &mut self,
        kind: usize,
        host: HostId,
        range: &RangeInclusive<Duration>,
    ) -> Duration {
        let number = self.count(kind, host);
        if range.start() >= range.end() {
            return *range.start();
        }
        let mut generator = self.generator(kind, host, number);
        self.within(&mut generator, range)
    }

    /// Draws a duration by a generator that a draw has returned.
    pub(crate) fn within(
        &mut self,
        generator: &mut Generator,
        range: &RangeInclusive<Duration>,
    ) -> Duration {
        let (start, end) = (*range.start(), *range.end());
        if start >= end || self.is_steady || self.is_over {
            return start;
        }
        self.varies = true;
        let span = usize::try_from((end - start).as_nanos()).unwrap_or(usize::MAX - 1);
        start + Duration::from_nanos(generator.below(span + 1) as u64)
    }

    /// Returns the generator for what a power failure leaves on the disk of this host.
    pub(crate) fn power_failure(&mut self, host: HostId) -> Generator {
        let number = self.count(POWER_FAILURE, host);
        self.generator(POWER_FAILURE, host, number)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{DrawnFault, Draws, FaultKind};
    use crate::driver::sim::HostId;
    use std::time::Duration;

    const HOST: HostId = HostId(3);

    /// Which of these draws strike, and with which sizes.
    fn drawn(draws: &mut Draws, kind: FaultKind) -> Vec<Option<u64>> {
        let draw = |_| draws.strike(kind, HOST, None, 0.3).map(|mut size| size.any());
        (0..200).map(draw).collect()
    }

    #[test]
    fn a_draw_does_not_depend_on_others() {
        let alone = drawn(&mut Draws::new(7), FaultKind::Reset);
        let mut draws = Draws::new(7);
        drawn(&mut draws, FaultKind::Loss);
        draws.latency(HOST, &(Duration::ZERO..=Duration::from_secs(1)));
        assert_eq!(drawn(&mut draws, FaultKind::Reset), alone);
        assert_ne!(drawn(&mut Draws::new(8), FaultKind::Reset), alone);
        assert_ne!(drawn(&mut Draws::new(7), FaultKind::Loss), alone);
        let struck = alone.iter().flatten().count();
        assert!((30..90).contains(&struck), "{struck}");
    }

    #[test]
    fn imposed_faults_strike_with_the_same_sizes_and_no_others_do() {
        let mut first = Draws::new(7);
        let sizes = drawn(&mut first, FaultKind::Reset);
        let faults: Vec<DrawnFault> = first.struck().iter().map(|struck| struck.fault).collect();
        let mut again = Draws::new(7);
        again.impose(Some(&faults), false);
        assert_eq!(drawn(&mut again, FaultKind::Reset), sizes);
        let mut fewer = Draws::new(7);
        fewer.impose(Some(&faults[1..]), false);
        let left = drawn(&mut fewer, FaultKind::Reset);
        let first = sizes.iter().position(Option::is_some).unwrap();
        assert_eq!(
            (&left[..=first], &left[first + 1..]),
            (&*vec![None; first + 1], &sizes[first + 1..])
        );
        let mut none = Draws::new(7);
        none.impose(Some(&[]), false);
        assert!(none.strike(FaultKind::Reset, HOST, None, 1.0).is_none());
    }

    #[test]
    fn numbers_are_counted_also_where_nothing_can_go_wrong() {
        let mut draws = Draws::new(1);
        assert!(draws.strike(FaultKind::Error, HOST, None, 0.0).is_none());
        assert!(draws.strike(FaultKind::Error, HOST, None, 1.0).is_some());
        assert_eq!(draws.struck()[0].fault.number, 2);
    }

    #[test]
    fn durations_are_the_least_ones_in_a_steady_run() {
        let range = Duration::from_millis(2)..=Duration::from_millis(20);
        let mut draws = Draws::new(1);
        assert!((0..20).any(|_| draws.latency(HOST, &range) != *range.start()));
        assert!(draws.varies());
        let mut draws = Draws::new(1);
        draws.impose(None, true);
        assert!((0..20).all(|_| draws.latency(HOST, &range) == *range.start()));
        assert!(!draws.varies());
    }
}
