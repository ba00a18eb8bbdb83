//! What happens to the processes, and when. A plan depends on its seed and its length alone, so a
//! seed replays it. What the machine makes of it differs each time.
//!
//! A step may be late: it waits until it makes sense, for instance for a worker with a job. The
//! conductor leaves out steps that are late for the end, but never the first one of a kind.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::shop::{ITEMS, LEASE};

/// The pause between two kills of workers.
const KILLS: Duration = Duration::from_millis(200);

/// The leases that the settings are changed to: from so many milliseconds to this.
const SHORTEST_LEASE: u64 = 900;
pub(crate) const LONGEST_LEASE: Duration = Duration::from_millis(2400);

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// `kill -9` of one of the workers that have begun a job.
    KillWorker { pick: usize },
    /// `SIGSTOP` of such a worker, which wakes up later than two leases.
    StopWorker { pick: usize, asleep: Duration },
    /// `kill -9` of the broker that leads the jobs, which starts again later.
    KillLeader { down: Duration },
    /// `kill -9` of all brokers, which start again later.
    KillBrokers { down: Duration },
    /// Nothing is forwarded between clients and one broker, or all.
    Partition { broker: Option<usize>, direction: Direction, lasts: Duration, cut: bool },
    /// `kill -9` of the coordinator when it has so many results, and another one.
    KillCoordinator { results: u64 },
    /// A job that aborts its process, and innocent ones that are handed out beside it.
    Poison,
    /// `SIGTERM` of a worker, which gives back what it has not begun.
    EndWorker { pick: usize },
    /// Another lease and another limit for the queue, while jobs run.
    ChangeSettings { lease: Duration, limit: Option<usize> },
    /// Another program deletes the consumer that hands out the jobs.
    DeleteConsumer,
    /// A job of another release, whose form this one does not know.
    OtherRelease,
    /// A job that blocks the only thread of its worker for more than two leases.
    Block,
    /// The account has no room for anything else for so long.
    Fill { lasts: Duration },
}

/// In which direction a partition holds bytes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToBroker,
    ToClient,
    Both,
}

/// The kinds of acts, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    WorkerKills,
    WorkerStops,
    LeaderKills,
    ClusterKills,
    Partitions,
    CoordinatorKills,
    Poisons,
    WorkerEnds,
    SettingChanges,
    Deletions,
    OtherReleases,
    Blocks,
    Fills,
}

impl Kind {
    pub(crate) const ALL: [Kind; 13] = [
        Kind::WorkerKills,
        Kind::WorkerStops,
        Kind::LeaderKills,
        Kind::ClusterKills,
        Kind::Partitions,
        Kind::CoordinatorKills,
        Kind::Poisons,
        Kind::WorkerEnds,
        Kind::SettingChanges,
        Kind::Deletions,
        Kind::OtherReleases,
        Kind::Blocks,
        Kind::Fills,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::WorkerKills => "kills of workers",
            Kind::WorkerStops => "stops of workers for more than two leases",
            Kind::LeaderKills => "kills of the leading broker",
            Kind::ClusterKills => "kills of all brokers",
            Kind::Partitions => "partitions",
            Kind::CoordinatorKills => "kills of the coordinator in the middle of a map",
            Kind::Poisons => "poison jobs, with innocent ones beside them",
            Kind::WorkerEnds => "workers that end in good order",
            Kind::SettingChanges => "changes of the settings while jobs run",
            Kind::Deletions => "deletions of the consumer",
            Kind::OtherReleases => "jobs of another release",
            Kind::Blocks => "jobs that block the only thread for more than two leases",
            Kind::Fills => "times without room for anything else",
        })
    }
}

impl Act {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Act::KillWorker { .. } => Kind::WorkerKills,
            Act::StopWorker { .. } => Kind::WorkerStops,
            Act::KillLeader { .. } => Kind::LeaderKills,
            Act::KillBrokers { .. } => Kind::ClusterKills,
            Act::Partition { .. } => Kind::Partitions,
            Act::KillCoordinator { .. } => Kind::CoordinatorKills,
            Act::Poison => Kind::Poisons,
            Act::EndWorker { .. } => Kind::WorkerEnds,
            Act::ChangeSettings { .. } => Kind::SettingChanges,
            Act::DeleteConsumer => Kind::Deletions,
            Act::OtherRelease => Kind::OtherReleases,
            Act::Block => Kind::Blocks,
            Act::Fill { .. } => Kind::Fills,
        }
    }
}

/// An act and its time since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) act: Act,
}

/// Returns the steps in the order of their times. There is one of each kind at least.
pub(crate) fn steps(seed: u64, length: Duration) -> Vec<Step> {
    let mut random = Rng::with_seed(seed);
    let mut steps = Vec::new();
    for kind in Kind::ALL {
        let pause = match kind {
            Kind::WorkerKills => KILLS,
            Kind::WorkerStops => Duration::from_secs(4),
            Kind::LeaderKills => Duration::from_secs(15),
            Kind::ClusterKills => Duration::from_secs(40),
            Kind::Partitions => Duration::from_secs(7),
            Kind::CoordinatorKills => Duration::from_secs(3),
            Kind::Poisons => Duration::from_secs(8),
            Kind::WorkerEnds => Duration::from_secs(2),
            Kind::SettingChanges => Duration::from_secs(6),
            Kind::Deletions => Duration::from_secs(20),
            Kind::OtherReleases => Duration::from_secs(10),
            Kind::Blocks => Duration::from_secs(5),
            Kind::Fills => Duration::from_secs(25),
        };
        let exact = kind == Kind::WorkerKills;
        let mut at = match exact {
            true => pause,
            false => pause.min(length).mul_f64(random.f64()),
        };
        loop {
            steps.push(Step { at, act: act(kind, &mut random) });
            at += if exact { pause } else { pause.mul_f64(0.5 + random.f64()) };
            if at > length {
                break;
            }
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn act(kind: Kind, random: &mut Rng) -> Act {
    let mut millis = |range: std::ops::Range<u64>| Duration::from_millis(random.u64(range));
    match kind {
        Kind::WorkerKills => Act::KillWorker { pick: random.usize(..) },
        Kind::WorkerStops => {
            let asleep = 2 * LEASE + millis(200..2000);
            Act::StopWorker { pick: random.usize(..), asleep }
        }
        Kind::LeaderKills => Act::KillLeader { down: millis(0..4000) },
        Kind::ClusterKills => Act::KillBrokers { down: millis(0..3000) },
        Kind::Partitions => {
            let lasts = millis(300..4500);
            let directions = [Direction::ToBroker, Direction::ToClient, Direction::Both];
            let direction = directions[random.usize(..directions.len())];
            let broker = random.bool().then(|| random.usize(..3));
            Act::Partition { broker, direction, lasts, cut: random.bool() }
        }
        Kind::CoordinatorKills => Act::KillCoordinator { results: random.u64(1..ITEMS) },
        Kind::Poisons => Act::Poison,
        Kind::WorkerEnds => Act::EndWorker { pick: random.usize(..) },
        Kind::SettingChanges => {
            let lease = millis(SHORTEST_LEASE..LONGEST_LEASE.as_millis() as u64);
            Act::ChangeSettings { lease, limit: random.bool().then(|| random.usize(6..24)) }
        }
        Kind::Deletions => Act::DeleteConsumer,
        Kind::OtherReleases => Act::OtherRelease,
        Kind::Blocks => Act::Block,
        Kind::Fills => Act::Fill { lasts: millis(1000..5000) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_its_plan() {
        let length = Duration::from_secs(120);
        assert_eq!(steps(7, length), steps(7, length));
        assert_ne!(steps(7, length), steps(8, length));
    }

    #[test]
    fn every_kind_happens_however_short_the_plan_is() {
        for (seed, seconds) in (0..50).flat_map(|seed| [(seed, 1), (seed, 120)]) {
            let length = Duration::from_secs(seconds);
            let steps = steps(seed, length);
            assert!(steps.is_sorted_by_key(|step| step.at));
            assert!(steps.iter().all(|step| step.at <= length), "{steps:?}");
            for kind in Kind::ALL {
                assert!(steps.iter().any(|step| step.act.kind() == kind), "{kind} of seed {seed}");
            }
            let kills = steps.iter().filter(|step| step.act.kind() == Kind::WorkerKills);
            assert_eq!(kills.count(), 5 * usize::try_from(seconds).unwrap());
        }
    }
}
