//! What may go wrong with a disk.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What may go wrong with the disks. [`DiskFaults::NONE`] is a disk without faults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiskFaults {
    /// The bytes that a disk has room for, in whole pages.
    pub(crate) capacity: Option<u64>,
    /// The number of files and sockets that a host may have open.
    pub(crate) open_files: Option<u32>,
    /// The probability that a file or a socket cannot be opened, as if there were too many.
    pub(crate) exhaustion: f64,
    /// The probability that a read, a write or a sync fails with `EIO`.
    pub(crate) errors: f64,
    /// The probability that a read or a write moves fewer bytes than it could.
    pub(crate) short_transfers: f64,
    /// How long a sync takes.
    pub(crate) sync_latency: RangeInclusive<Duration>,
    /// A power failure may keep a part of the sectors of a write.
    pub(crate) tears: bool,
    /// A power failure may keep a write and lose an earlier one.
    pub(crate) reorders: bool,
    /// The changes of all names reach the disk in order, and with each sync. Otherwise those of
    /// each directory reach it in order, and with a sync of that directory.
    pub(crate) journals_names: bool,
}

impl DiskFaults {
    /// Nothing goes wrong. A power failure, which only the program itself asks for, still loses,
    /// tears and reorders what was not synced.
    pub(crate) const NONE: DiskFaults = DiskFaults {
        capacity: None,
        open_files: None,
        exhaustion: 0.0,
        errors: 0.0,
        short_transfers: 0.0,
        sync_latency: Duration::ZERO..=Duration::ZERO,
        tears: true,
        reorders: true,
        journals_names: false,
    };
}
