//! Goals of the rows that gears' notes measure.

use super::Bound::{CostAtMost, SpeedAtLeast};
use super::{Goal, NO_WORSE_THAN_GO, time};

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    // In the notes, one future costs as much as 3.4 bare virtual threads.
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
