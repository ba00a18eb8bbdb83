//! Goals of whole programs.

use super::Bound::Absolute;
use super::{Goal, goal};

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    goal("downloads", "hundred", Absolute(1.01), "100 at once in 1.01 x the time of one alone"),
    goal("downloads", "thousands", Absolute(1.015), "four rounds of 512 in 1.015 x four times one"),
    goal("task-server", "task", Absolute(1.005), "within 0.5% of the critical path, 14.541 s"),
    goal("task-server", "cache", Absolute(1.005), "within 0.5% of the critical path, 9.302 s"),
    goal("cold-build", "time", Absolute(15.0), "15 s, on two cores; tokio took 72"),
    goal("crates", "crates", Absolute(20.0), "corosensei 4, tokio 19, may 23, smol 32, compio 44"),
];
