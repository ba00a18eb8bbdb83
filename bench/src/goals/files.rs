//! Goals of whole files.

use super::Bound::CostAtMost;
use super::{Goal, time};

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    time("files-read-4", CostAtMost(1.3, "std"), "std 1.01 us, monoio 3.1, tokio 3.9"),
    time("files-write-4", CostAtMost(1.3, "std"), "std 1.54 us, tokio 4.6, monoio 5.5"),
    time("files-read-40000000", CostAtMost(1.05, "std"), "std 22.6 ms, monoio 22.6"),
    time("files-write-40000000", CostAtMost(1.05, "std"), "std 15.2 ms, monoio 15.8"),
    time("files-read-disk-4", CostAtMost(1.3, "std"), "as on tmpfs"),
    time("files-write-disk-4", CostAtMost(1.3, "std"), "as on tmpfs"),
    time("files-read-disk-40000000", CostAtMost(1.05, "std"), "as on tmpfs"),
    time("files-write-disk-40000000", CostAtMost(1.05, "std"), "as on tmpfs"),
];
