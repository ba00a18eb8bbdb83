//! Goals of tasks, coroutines and timers.

use super::Bound::{Absolute, CostAtMost, OwnMetric, OwnRow, SpeedAtLeast};
use super::{ECRU_FUTURE, Goal, floor, goal};

/// Two workers may be 15% slower than one.
const FIFTEEN_PERCENT_SLOWER: f64 = 1.0 / 0.85;

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    goal("switch", "time", CostAtMost(1.1, "corosensei"), "0.91 ns for corosensei, one way"),
    goal("recycle", "time", CostAtMost(2.0, "corosensei"), "2.5 ns for corosensei"),
    goal("yield", "time", SpeedAtLeast(4.0, "may"), "12 ns, may 48"),
    goal("yield-64", "time", SpeedAtLeast(4.0, "may"), "as between two tasks"),
    goal("spawn-join-1", "time", SpeedAtLeast(4.3, "tokio"), "18 M/s, tokio 4.17"),
    goal("spawn-join-2", "time", SpeedAtLeast(5.0, "go"), "15 M/s, Go 2.7"),
    Goal {
        contender: ECRU_FUTURE,
        ..goal("spawn-join-1", "time", CostAtMost(1.0, "tokio"), "tasks without a stack")
    },
    Goal {
        contender: ECRU_FUTURE,
        ..goal("spawn-join-2", "time", CostAtMost(1.0, "tokio"), "tasks without a stack")
    },
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
    // This is a ratio, because the absolute time doubles when the machine is in its slow state.
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
    Goal {
        contender: ECRU_FUTURE,
        ..goal("sleeps-1000000", "cpu", CostAtMost(1.1, "tokio"), "tasks without a stack")
    },
    goal("lone-timeout", "cpu", Absolute(0.001), "the seed took 0.045-0.169 s"),
    goal("late-timer-100", "late", CostAtMost(1.0, "go"), "no later than where it is interrupted"),
    goal("late-timer-100", "latest", CostAtMost(1.0, "tokio"), "no later than an await of tokio"),
    goal("late-timer-2000", "late", CostAtMost(1.0, "go"), "no later than where it is interrupted"),
    goal("late-timer-2000", "latest", CostAtMost(1.0, "tokio"), "no later than an await of tokio"),
    goal("fan-out", "time", SpeedAtLeast(0.2, "rayon"), "a fifth of rayon"),
    goal("fan-out", "time", SpeedAtLeast(3.0, "tokio"), "three times tokio"),
];
