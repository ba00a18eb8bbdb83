//! The goals, as data.
//!
//! A bound against a peer is a ratio within the rounds of one run, because absolutes move with the machine; the absolute of the
//! machine on which the goals were set is kept beside it as text. Where a stack per task must cost more than a state machine does,
//! the goal is a floor: `known_cost`.

/// The name of ecru's own contender in every row.
pub(crate) const ECRU: &str = "ecru";

/// The same on the `poll` driver, in the rows where the driver matters.
pub(crate) const ECRU_POLL: &str = "ecru-poll";

/// What is asked of one metric of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// ecru's cost is at most this many times the peer's.
    CostAtMost(f64, &'static str),
    /// The cost of ecru on the `poll` driver is at most this many times the peer's.
    PollCostAtMost(f64, &'static str),
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

/// A goal for the metric that most rows have.
const fn time(row: &'static str, bound: Bound, stands_for: &'static str) -> Goal {
    goal(row, "time", bound, stands_for)
}

/// A goal for a row in which a stack costs what it costs.
const fn floor(
    row: &'static str,
    metric: &'static str,
    bound: Bound,
    stands_for: &'static str,
) -> Goal {
    Goal { row, metric, bound, stands_for, known_cost: true }
}

use Bound::{Absolute, CostAtMost, OwnMetric, OwnRow, PollCostAtMost, SpeedAtLeast};

/// Two workers may be 15% slower than one.
const FIFTEEN_PERCENT_SLOWER: f64 = 1.0 / 0.85;

/// For rows that nobody set a ratio for.
const NO_WORSE_THAN_GO: &str = "at least Go's";

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
    time("channel-rendezvous-1", SpeedAtLeast(2.2, "kanal"), "30 M/s, kanal 13.9"),
    time("channel-rendezvous-1", SpeedAtLeast(5.0, "go"), "30 M/s, Go 6.15"),
    time("channel-one-1", SpeedAtLeast(1.9, "kanal"), "36 M/s, kanal 18.8"),
    time("channel-128-1", SpeedAtLeast(1.35, "kanal"), "80 M/s, kanal 59.6"),
    time("channel-unbounded-1", SpeedAtLeast(1.4, "kanal"), "85 M/s, kanal 61"),
    time("channel-rendezvous-2", SpeedAtLeast(3.0, "kanal"), "25 M/s, kanal 6.6"),
    time("channel-one-2", SpeedAtLeast(3.0, "kanal"), "30 M/s, kanal 9.1"),
    time("channel-128-2", SpeedAtLeast(3.0, "kanal"), "65 M/s, kanal 27.6"),
    time("channel-unbounded-2", SpeedAtLeast(3.0, "kanal"), "70 M/s, kanal 36.6"),
    time("apart-rendezvous", SpeedAtLeast(1.0, "go"), "Go 6.05 M/s on two workers"),
    time("apart-one", SpeedAtLeast(1.0, "go"), "Go 8.4 M/s on two workers"),
    time("apart-128", SpeedAtLeast(1.0, "go"), "Go 25.9 M/s on two workers"),
    time("apart-unbounded", SpeedAtLeast(1.0, "go"), "Go 27.6 M/s on two workers"),
    time("threads-rendezvous", CostAtMost(1.0, "kanal"), "no worse than the best; kanal 1.9 M/s"),
    time("threads-rendezvous", CostAtMost(1.0, "flume"), "no worse than the best"),
    time("threads-rendezvous", CostAtMost(1.0, "crossbeam"), "crossbeam 0.16 M/s"),
    time("threads-rendezvous", CostAtMost(1.0, "std"), "std 0.18 M/s"),
    time("threads-one", CostAtMost(1.0, "kanal"), "no worse than the best; kanal 2.2 M/s"),
    time("threads-one", CostAtMost(1.0, "flume"), "no worse than the best"),
    time("threads-one", CostAtMost(1.0, "crossbeam"), "crossbeam 1.9 M/s"),
    time("threads-one", CostAtMost(1.0, "std"), "std 0.08 M/s"),
    time("threads-128", CostAtMost(1.0, "kanal"), "no worse than the best; kanal 8.4 M/s"),
    time("threads-128", CostAtMost(1.0, "flume"), "no worse than the best"),
    time("threads-128", CostAtMost(1.0, "crossbeam"), "crossbeam 11.9 M/s"),
    time("threads-128", CostAtMost(1.0, "std"), "std 15 M/s"),
    time("forward-rendezvous-1", SpeedAtLeast(3.3, "go"), "10 M/s, Go 3.0"),
    time("forward-128-1", SpeedAtLeast(2.1, "go"), "30 M/s, Go 14.2"),
    time("forward-rendezvous-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("forward-128-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("select-ready", SpeedAtLeast(1.4, "crossbeam"), "30 M/s, crossbeam 21.3"),
    time("select-producers-1", SpeedAtLeast(2.9, "go"), "15 M/s, Go 5.1"),
    time("select-producers-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("race-1", SpeedAtLeast(3.4, "tokio"), "3 M/s, tokio 0.88"),
    time("race-2", SpeedAtLeast(4.0, "go"), "2 M/s, Go 0.455"),
    time("ping-pong-1", SpeedAtLeast(2.6, "tokio"), "90 ns, tokio 236"),
    time("ping-pong-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    goal("echo-64", "cpu", CostAtMost(1.02, "tokio"), "the best peer, tokio 0.96 x raw epoll"),
    goal("echo-64", "cpu", CostAtMost(1.02, "monoio"), "the best peer"),
    goal("echo-64", "cpu", CostAtMost(1.02, "may"), "the best peer"),
    goal("echo-64", "cpu", CostAtMost(1.08, "raw-uring"), "2.95 us for raw io_uring"),
    goal("echo-64", "p99", CostAtMost(1.0, "tokio"), "p99 no worse"),
    goal("echo-64", "cpu", PollCostAtMost(1.05, "tokio"), "tokio, both on epoll"),
    goal("echo-1000", "cpu", CostAtMost(1.02, "tokio"), "the best peer, tokio 1.15 x raw epoll"),
    goal("echo-1000", "cpu", CostAtMost(1.02, "monoio"), "the best peer"),
    goal("echo-1000", "cpu", CostAtMost(1.02, "may"), "the best peer"),
    goal("echo-1000", "cpu", PollCostAtMost(1.05, "tokio"), "tokio, both on epoll"),
    goal("idle-10000", "memory", Absolute(6144.0), "6 KiB"),
    goal("http-64", "cpu", CostAtMost(1.02, "tokio"), "the best peer"),
    time("files-read-4", CostAtMost(1.3, "std"), "std 1.01 us, monoio 3.1, tokio 3.9"),
    time("files-write-4", CostAtMost(1.3, "std"), "std 1.54 us, tokio 4.6, monoio 5.5"),
    time("files-read-40000000", CostAtMost(1.05, "std"), "std 22.6 ms, monoio 22.6"),
    time("files-write-40000000", CostAtMost(1.05, "std"), "std 15.2 ms, monoio 15.8"),
    // The notes have one future for 3.4 bare virtual threads.
    time("gears-future", SpeedAtLeast(1.0, "jdk"), "a bare virtual thread 560 ns"),
    time("gears-future", SpeedAtLeast(5.0, "go"), "as spawn-join-2"),
    time(
        "gears-race",
        CostAtMost(1.001, "ecru-fastest"),
        "the notes: 15.590 races a second, 15.597",
    ),
    time(
        "gears-race",
        CostAtMost(1.01, "threads-spin"),
        "the notes: 15.590 races a second, 15.671",
    ),
    time(
        "gears-sync",
        SpeedAtLeast(3.5, "ideal"),
        "the ideal cell 8.2 M/s; gears' was 27 x slower",
    ),
    time("gears-one", SpeedAtLeast(3.5, "ideal"), "the ideal cell 8.2 M/s; gears' was 28 x slower"),
    time("gears-mux-sync", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("gears-mux-one", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
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
                CostAtMost(_, peer) | PollCostAtMost(_, peer) | SpeedAtLeast(_, peer) => {
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
