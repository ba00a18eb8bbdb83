//! Goals of the shapes on two workers. The rows with eight workers on the same two cores have no
//! goals.

use crate::goals::Bound::{Absolute, CostAtMost, CostAtMostBest, SpeedAtLeast};
use crate::goals::{Goal, goal, time};

/// The placements with which the default is compared. A program's author could have chosen the
/// better one.
const PLACED: &[&str] = &["ecru-together", "ecru-spread"];

/// A goal for a shape that computes.
const fn computes(row: &'static str) -> Goal {
    time(row, CostAtMostBest(1.15, PLACED), "the better of two placements chosen by hand")
}

/// A goal for a shape that communicates, with the default placement.
const fn talks(row: &'static str) -> Goal {
    time(row, CostAtMost(1.15, "ecru-spread"), "no worse than tasks dealt out in turn")
}

/// A goal for a shape that communicates, with tasks spawned by `near()`.
const fn stays(row: &'static str) -> Goal {
    let limit = CostAtMost(1.05, "ecru-together");
    Goal { contender: "ecru-near", ..time(row, limit, "as if all tasks were kept together") }
}

/// A goal for a pool with enough computing for both workers.
const fn scales(row: &'static str) -> Goal {
    time(row, SpeedAtLeast(1.8, "ecru-one"), "two workers against one")
}

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    computes("placement-pool-early"),
    scales("placement-pool-early"),
    computes("placement-pool-late"),
    scales("placement-pool-late"),
    computes("placement-pool-trickling"),
    computes("placement-pool-short"),
    computes("placement-pool-long"),
    scales("placement-pool-long"),
    computes("placement-pipeline"),
    talks("placement-pipeline-talk"),
    stays("placement-pipeline-talk"),
    talks("placement-pairs"),
    stays("placement-pairs"),
    computes("placement-accept"),
    computes("placement-map-short"),
    computes("placement-map-long"),
    computes("placement-nested"),
    computes("placement-million"),
    computes("placement-actors"),
    goal("placement-blocked", "stranded", Absolute(0.5), "nothing waits for the blocked worker"),
    computes("placement-blocked-beside"),
    time(
        "placement-words",
        CostAtMost(1.05, "threads"),
        "std threads 0.82 s, spread 0.98, together 1.82",
    ),
    computes("placement-mixed"),
];
