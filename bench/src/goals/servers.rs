//! Goals of servers under load.

use super::Bound::{Absolute, CostAtMost, CostAtMostBest};
use super::{ECRU_WHEN, Goal, goal, poll};

/// The runtimes that serve. The raw loops are lower bounds, and have goals of their own.
const RUNTIMES: &[&str] = &["tokio", "monoio", "may", "smol", "go"];

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    goal("echo-64", "cpu", CostAtMostBest(1.02, RUNTIMES), "tokio 0.96 x raw epoll"),
    goal("echo-64", "cpu", CostAtMost(1.08, "raw-uring"), "2.95 us for raw io_uring"),
    goal("echo-64", "p99", CostAtMostBest(1.0, RUNTIMES), "p99 no worse"),
    poll("echo-64", "cpu", CostAtMost(1.05, "tokio"), "tokio, both on epoll"),
    goal("echo-1000", "cpu", CostAtMostBest(1.02, RUNTIMES), "tokio 1.15 x raw epoll"),
    poll("echo-1000", "cpu", CostAtMost(1.05, "tokio"), "tokio, both on epoll"),
    goal("idle-10000", "memory", Absolute(6144.0), "6 KiB"),
    Goal {
        contender: ECRU_WHEN,
        ..goal("idle-10000", "memory", Absolute(1024.0), "1 KiB without a stack")
    },
    goal("http-64", "cpu", CostAtMostBest(1.02, RUNTIMES), "the best peer"),
];
