//! An incomplete file in memory: a buffer between the network and the [`Disk`].
//!
//! A file that fits into the buffer touches the disk only when it is complete, and never has an
//! `about`, because most of the cost of a small file is the change of the folder. All calls to the
//! file system go to the blocking pool, and consecutive calls share one closure.

use std::path::PathBuf;

use super::disk::{Disk, State};
use super::index::Entry;
use super::target::{About, Have, Target};
use super::trouble::Trouble;
use crate::runtime;

/// A buffer with this many bytes is written as soon as the network pauses, and a full buffer is
/// written at once.
const FLUSH: usize = 64 * 1024;

/// The memory that one download may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    /// The size of one read from the network.
    pub(crate) input: usize,
    /// The bytes that are collected for one write to the disk.
    pub(crate) output: usize,
}

impl Buffers {
    /// Divides the memory among `window` simultaneous downloads: with a large window each gets
    /// little.
    pub(crate) fn share(window: usize) -> Self {
        let share =
            |all: usize, least: usize, most: usize| (all / window.max(1)).clamp(least, most);
        Self {
            input: share(4 << 20, 16 * 1024, 128 * 1024),
            output: share(16 << 20, FLUSH, 256 * 1024),
        }
    }
}

/// One incomplete file.
#[derive(Debug)]
pub(crate) struct Part {
    disk: Disk,
    buffers: Buffers,
    buffer: Vec<u8>,
    used: usize,
    /// The version that is being received, and whether the bytes on disk belong to another version
    /// and must be replaced.
    about: About,
    afresh: bool,
    /// Whether the remains of an earlier run may be used.
    resume: bool,
    /// The record of the finished file.
    pub(crate) finished: Option<Entry>,
}

impl Part {
    pub(crate) fn new(url: &str, name: PathBuf, resume: bool, buffers: Buffers) -> Self {
        Self {
            disk: Disk::new(url, name),
            buffers,
            buffer: Vec::new(),
            used: 0,
            about: About::default(),
            afresh: false,
            resume,
            finished: None,
        }
    }

    /// Records that nothing of this file is on the disk, so that there is no need to look.
    pub(crate) fn nothing_is_there(&mut self) {
        self.disk.state = State::Nothing;
    }

    /// Records that a file of this name exists and is to be replaced.
    pub(crate) fn replace(&mut self) {
        self.disk.replace = true;
    }

    /// Called after the last attempt. Returns how many bytes a later run can resume from. An empty
    /// part is removed.
    pub(crate) fn leave(mut self) -> Option<u64> {
        runtime::unblock(|| self.disk.leave())
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        let used = std::mem::take(&mut self.used);
        if used == 0 {
            return Ok(());
        }
        let afresh = std::mem::take(&mut self.afresh);
        let (disk, about, bytes) = (&mut self.disk, &self.about, &self.buffer[..used]);
        runtime::unblock(|| {
            if afresh {
                disk.start(Some(about))?;
            }
            disk.append(bytes)
        })
    }
}

impl Target for Part {
    fn have(&mut self) -> Result<Option<Have>, Trouble> {
        let resume = std::mem::replace(&mut self.resume, true);
        let disk = &mut self.disk;
        if disk.state == State::Nothing {
            return Ok(None);
        }
        runtime::unblock(|| {
            if !disk.open(false)? || !resume {
                return Ok(None);
            }
            disk.look().map_err(|error| disk.trouble("looking at", &error))
        })
    }

    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble> {
        self.about = about.clone();
        self.afresh = offset == 0;
        self.used = 0;
        // One byte more than expected, so that a small file does not fill its buffer.
        let rest = about.length.map_or(FLUSH as u64, |length| length.saturating_sub(offset) + 1);
        let size = usize::try_from(rest).unwrap_or(usize::MAX).min(self.buffers.output);
        if self.buffer.len() < size {
            self.buffer = vec![0; size];
        }
        Ok(())
    }

    fn room(&mut self) -> Result<&mut [u8], Trouble> {
        if self.used == self.buffer.len() {
            self.flush()?;
        }
        Ok(&mut self.buffer[self.used..])
    }

    fn filled(&mut self, count: usize) -> Result<(), Trouble> {
        self.used += count;
        let pauses = count < self.buffers.input / 2;
        if pauses && self.used >= FLUSH { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Trouble> {
        let used = std::mem::take(&mut self.used);
        let afresh = std::mem::take(&mut self.afresh);
        let (disk, about, bytes) = (&mut self.disk, &self.about, &self.buffer[..used]);
        let entry = runtime::unblock(|| {
            if afresh {
                disk.start(None)?;
            }
            disk.append(bytes)?;
            disk.complete(about)
        })?;
        self.finished = Some(entry);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Trouble> {
        self.flush()
    }

    fn discard(&mut self) -> Result<(), Trouble> {
        self.used = 0;
        self.afresh = false;
        let disk = &mut self.disk;
        runtime::unblock(|| disk.discard())
    }
}
