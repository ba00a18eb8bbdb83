//! What may go wrong with a disk.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
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
    /// The probability that a sync succeeds although the disk lacks a part of what was written.
    pub(crate) lies: f64,
    /// The probability that a write goes to another place of its file.
    pub(crate) misdirection: f64,
    /// The probability that a bit changes of what is read.
    pub(crate) rot: f64,
    /// How long a sync takes.
    pub(crate) sync_latency: RangeInclusive<Duration>,
    /// A power failure may keep a part of the sectors of a write.
    pub(crate) tears: bool,
    /// A power failure may keep a write and lose an earlier one.
    pub(crate) reorders: bool,
    /// The changes of all names reach the disk in order, and with each sync. Otherwise those of
    /// each directory reach it in order, and with a sync of that directory.
    pub(crate) journals_names: bool,
    /// What may go wrong instead with the reads, writes and syncs of the files at or below a path.
    /// The last of those that fit counts.
    pub(crate) files: Vec<(PathBuf, DiskFaults)>,
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
        lies: 0.0,
        misdirection: 0.0,
        rot: 0.0,
        sync_latency: Duration::ZERO..=Duration::ZERO,
        tears: true,
        reorders: true,
        journals_names: false,
        files: Vec::new(),
    };

    /// Returns what may go wrong with a file that was opened by this path.
    pub(super) fn of_file(&self, path: Option<&str>) -> &DiskFaults {
        let path = Path::new(path.unwrap_or_default());
        let own = self.files.iter().rev().find(|(above, _)| path.starts_with(above));
        own.map_or(self, |(_, faults)| faults)
    }

    /// Returns what may still go wrong when faults have ended: power failures remain what they are.
    pub(crate) fn calm(&self) -> DiskFaults {
        let DiskFaults { tears, reorders, journals_names, .. } = *self;
        DiskFaults { tears, reorders, journals_names, ..DiskFaults::NONE }
    }
}
