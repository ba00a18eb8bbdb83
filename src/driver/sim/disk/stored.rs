//! A file's content on two levels: as programs see it, and as it would be after a power failure.

use super::content::{Content, pages_of};
use super::faults::DiskFaults;
use crate::base::random::Generator;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of bytes that a disk writes as a whole or not at all.
pub(super) const SECTOR: u64 = 512;
/// How many bytes of changes are kept. The older half of them is written to the disk then, as a
/// kernel does that is short of memory.
const MOST_LOGGED: usize = 16 << 20;
/// What a change is counted as beside its bytes.
const OVERHEAD: usize = 64;

/// A file's content.
#[derive(Debug, Default)]
pub(super) struct Stored {
    cache: Content,
    disk: Content,
    /// The changes to the cache that the disk does not have.
    log: VecDeque<Change>,
    /// The number of changes before those in the log.
    before: u64,
    logged: usize,
}

/// A change to a file's content.
#[derive(Debug)]
enum Change {
    /// The file was cut or extended. Each write beyond the end has such a change before its own.
    Length(u64),
    Write {
        at: u64,
        bytes: Box<[u8]>,
    },
}

impl Change {
    fn size(&self) -> usize {
        match self {
            Change::Length(_) => OVERHEAD,
            Change::Write { bytes, .. } => OVERHEAD + bytes.len(),
        }
    }
}

/// Which changes have reached the disk when it fails.
struct Reached {
    /// The changes of the length before this place in the log.
    lengths: usize,
    /// For each sector the last write that has reached it. The cache writes whole sectors, so the
    /// earlier writes to the sector have reached it as well.
    writes: BTreeMap<u64, usize>,
}

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    Lost,
    /// Each sector is kept or lost for itself.
    Torn,
}

impl Stored {
    /// Returns the content as programs see it.
    pub(super) fn cache(&self) -> &Content {
        &self.cache
    }

    /// Returns the number of changes so far.
    pub(super) fn changes(&self) -> u64 {
        self.before + self.log.len() as u64
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        if end > self.cache.length() {
            self.note(Change::Length(end));
        }
        self.note(Change::Write { at, bytes: bytes.into() });
        self.cache.write(at, bytes);
        self.write_back();
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length != self.cache.length() {
            self.note(Change::Length(length));
            self.cache.set_length(length);
            self.write_back();
        }
    }

    /// Changes bits of one byte, also on the disk.
    pub(super) fn flip(&mut self, at: u64, mask: u8) {
        self.cache.flip(at, mask);
        self.disk.flip(at, mask);
    }

    fn note(&mut self, change: Change) {
        self.logged += change.size();
        self.log.push_back(change);
    }

    fn write_back(&mut self) {
        if self.logged > MOST_LOGGED {
            self.sync(self.before + (self.log.len() as u64).div_ceil(2));
        }
    }

    /// Writes the first changes to the disk, up to this number of [changes](Stored::changes).
    pub(super) fn sync(&mut self, changes: u64) {
        let count = usize::try_from(changes.saturating_sub(self.before)).unwrap_or(usize::MAX);
        if count >= self.log.len() {
            self.sync_all();
            return;
        }
        self.before += count as u64;
        for change in self.log.drain(..count) {
            self.logged -= change.size();
            match change {
                Change::Length(length) => self.disk.set_length(length),
                Change::Write { at, bytes } => self.disk.write(at, &bytes),
            }
        }
    }

    /// Writes all changes to the disk. The cache's pages become the disk's, so nothing is copied.
    fn sync_all(&mut self) {
        self.before = self.changes();
        let mut written = BTreeSet::new();
        for change in self.log.drain(..) {
            match change {
                // In order, because a file that was cut and extended has lost the bytes between.
                Change::Length(length) => self.disk.set_length(length),
                Change::Write { at, bytes } => written.extend(pages_of(at, bytes.len())),
            }
        }
        self.logged = 0;
        self.disk.share(&self.cache, &written);
    }

    /// Fails to write the changes to the disk. The cache keeps them, but takes them for written, as
    /// Linux does: they are not written again. The length is kept in the journal, and is not lost.
    pub(super) fn fail_to_sync(&mut self, faults: &DiskFaults, random: &mut Generator) {
        let reached = Reached { lengths: self.log.len(), ..self.draw(faults, random) };
        self.reach(&reached);
    }

    /// Loses what the disk does not have. Some of the changes may have reached it. Returns the
    /// number of bytes that were written, and are not there.
    pub(super) fn power_fail(&mut self, faults: &DiskFaults, random: &mut Generator) -> u64 {
        let written = self.written();
        let reached = self.draw(faults, random);
        self.reach(&reached);
        let lost = written.into_iter().map(|(from, to)| self.lost_in(from, to)).sum();
        self.cache = self.disk.clone();
        lost
    }

    /// Returns the ranges of the file that have been written, and that the disk may lack. They do
    /// not overlap.
    fn written(&self) -> Vec<(u64, u64)> {
        let length = self.cache.length();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for change in &self.log {
            if let Change::Write { at, bytes } = change {
                ranges.push((*at, (*at + bytes.len() as u64).min(length)));
            }
        }
        ranges.sort_unstable();
        let mut apart: Vec<(u64, u64)> = Vec::new();
        for (from, to) in ranges {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        apart
    }

    /// Returns the number of bytes in a range that the disk does not have as programs see them.
    fn lost_in(&self, from: u64, to: u64) -> u64 {
        let (mut seen, mut kept) = ([0; SECTOR as usize], [0; SECTOR as usize]);
        let (mut at, mut lost) = (from, 0);
        while at < to {
            let wanted = usize::try_from(to - at).unwrap_or(usize::MAX).min(seen.len());
            let count = self.cache.read(at, &mut seen[..wanted]);
            if count == 0 {
                break;
            }
            let there = self.disk.read(at, &mut kept[..count]);
            let same = seen[..there].iter().zip(&kept[..there]).filter(|(one, other)| one == other);
            lost += (count - same.count()) as u64;
            at += count as u64;
        }
        lost
    }

    /// Draws which changes have reached the disk.
    fn draw(&self, faults: &DiskFaults, random: &mut Generator) -> Reached {
        let count = self.log.len();
        if count == 0 {
            return Reached { lengths: 0, writes: BTreeMap::new() };
        }
        // Programs go wrong most often if all changes are lost, or if only some of them are.
        let place = random.below(count + 1);
        let (first, mixed) = match random.below(4) {
            0 => (0, false),
            1 => (count, false),
            2 => (place, false),
            _ => (place, faults.reorders),
        };
        let mut writes = BTreeMap::new();
        for (index, change) in self.log.iter().enumerate() {
            let Change::Write { at, bytes } = change else { continue };
            let fate = match index.cmp(&first) {
                _ if mixed => [Fate::Kept, Fate::Lost, Fate::Torn][random.below(3)],
                Ordering::Less => Fate::Kept,
                Ordering::Equal => Fate::Torn,
                Ordering::Greater => Fate::Lost,
            };
            let fate = match fate {
                Fate::Torn if !faults.tears => [Fate::Kept, Fate::Lost][random.below(2)],
                fate => fate,
            };
            for (sector, _, _) in sectors(*at, bytes) {
                if fate == Fate::Kept || (fate == Fate::Torn && random.below(2) == 0) {
                    writes.insert(sector, index);
                }
            }
        }
        Reached { lengths: first, writes }
    }

    /// Applies the changes that have reached the disk, and forgets the others.
    fn reach(&mut self, reached: &Reached) {
        self.before = self.changes();
        self.logged = 0;
        // Bytes beyond a cut that has not reached the disk were written to blocks that the file
        // only has if the cut is there, too.
        let mut limit = u64::MAX;
        for (index, change) in self.log.drain(..).enumerate() {
            match change {
                Change::Length(length) if index < reached.lengths => self.disk.set_length(length),
                Change::Length(length) => limit = limit.min(length),
                Change::Write { at, bytes } => {
                    let end = self.disk.length().min(limit);
                    for (sector, at, part) in sectors(at, &bytes) {
                        let is_there =
                            reached.writes.get(&sector).is_some_and(|last| *last >= index);
                        let fits = end.saturating_sub(at).min(part.len() as u64) as usize;
                        if is_there {
                            self.disk.write(at, &part[..fits]);
                        }
                    }
                }
            }
        }
    }
}

/// Splits a write at the borders of sectors. Returns the sector's number, the place, and the bytes.
fn sectors(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let room = (SECTOR - place % SECTOR) as usize;
        let part = &bytes[done..bytes.len().min(done + room)];
        done += part.len();
        (!part.is_empty()).then_some((place / SECTOR, place, part))
    })
}
