//! Directories: what they have, and making them.

use super::functions::on_blocking_thread;
use super::in_task;
use crate::sched;
use crate::task::{self, Cancelled};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};

/// How many entries are fetched at once.
const SOME: usize = 128;

/// What a directory has: [`std::fs::ReadDir`]. From [`read_dir`](super::read_dir).
///
/// # Cancellation
/// `next` gives an error if the task has been cancelled, once, and then `None`, so that nobody who ignores errors goes round for ever. No entry is
/// lost: calls that are not cancelled go on.
pub struct ReadDir {
    source: std::fs::ReadDir,
    /// Nothing waits there.
    in_memory: bool,
    fetched: VecDeque<io::Result<DirEntry>>,
    ended: bool,
    /// There has been a call, which was not cancelled.
    asked: bool,
    /// The last call said that it was cancelled.
    told: bool,
}

impl ReadDir {
    pub(super) fn new(source: std::fs::ReadDir, in_memory: bool) -> ReadDir {
        let fetched = VecDeque::new();
        ReadDir { source, in_memory, fetched, ended: false, asked: false, told: false }
    }

    /// The same, with its first entries.
    pub(super) fn begun(source: std::fs::ReadDir, in_memory: bool) -> ReadDir {
        let mut listing = ReadDir::new(source, in_memory);
        listing.fetch();
        listing
    }

    /// Sees to it that there is an entry, or none left.
    ///
    /// # Errors
    /// Only a cancellation.
    fn prepare(&mut self) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if !self.fetched.is_empty() || self.ended {
            return Ok(());
        }
        if self.in_memory || !in_task() {
            self.fetch();
        } else {
            sched::unblock(|| self.fetch());
        }
        Ok(())
    }

    /// Some more, with their kinds, which a few file systems have to be asked for.
    fn fetch(&mut self) {
        while self.fetched.len() < SOME {
            let Some(next) = self.source.next() else {
                self.ended = true;
                return;
            };
            self.fetched.push_back(next.map(|entry| {
                let kind = entry.file_type().ok();
                DirEntry { entry, kind }
            }));
        }
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if !self.asked || (self.fetched.is_empty() && !self.ended) {
            if let Err(cancelled) = self.prepare() {
                self.told = !self.told;
                return self.told.then_some(Err(cancelled.into()));
            }
            (self.asked, self.told) = (true, false);
        }
        self.fetched.pop_front()
    }
}

// As std's: a panic leaves it between two entries, and the errors that it may hold are not looked into.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// One name in a directory: [`std::fs::DirEntry`].
pub struct DirEntry {
    entry: std::fs::DirEntry,
    kind: Option<FileType>,
}

impl DirEntry {
    /// The directory's path and the name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// The name by itself.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    /// What the name stands for: its length, permissions, times, and so on. A link is not followed.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs;
    ///
    /// # let folder = std::env::temp_dir().join(format!("ecru-entries-{}", std::process::id()));
    /// fs::create_dir(&folder)?;
    /// fs::write(folder.join("file"), "undyed")?;
    /// for entry in fs::read_dir(&folder)? {
    ///     let entry = entry?;
    ///     assert_eq!(entry.path(), folder.join("file"));
    ///     assert!(entry.file_type()?.is_file());
    ///     assert_eq!(entry.metadata()?.len(), 6);
    /// }
    /// # fs::remove_dir_all(&folder)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`std::fs::DirEntry::metadata`].
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn metadata(&self) -> io::Result<Metadata> {
        on_blocking_thread(|| self.entry.metadata())
    }

    /// Whether it is a file, a directory, or something else. See [`metadata`](DirEntry::metadata) for an example.
    ///
    /// # Errors
    /// Those of [`std::fs::DirEntry::file_type`].
    ///
    /// # Cancellation
    /// Waits for nothing, as a rule.
    pub fn file_type(&self) -> io::Result<FileType> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => on_blocking_thread(|| self.entry.file_type()),
        }
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.entry.ino()
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// How directories are to be created: [`std::fs::DirBuilder`].
///
/// # Examples
/// ```
/// use ecru::fs::{self, DirBuilder};
///
/// # let folder = std::env::temp_dir().join(format!("ecru-builder-{}", std::process::id()));
/// DirBuilder::new().recursive(true).mode(0o700).create(folder.join("a/b"))?;
/// assert!(fs::metadata(folder.join("a/b"))?.is_dir());
/// # fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct DirBuilder {
    builder: std::fs::DirBuilder,
}

impl DirBuilder {
    /// Not recursive, and with permissions for everybody, less the process's umask.
    #[must_use]
    pub fn new() -> DirBuilder {
        DirBuilder { builder: std::fs::DirBuilder::new() }
    }

    /// Whether missing parents are to be created too; a directory that exists is no error then.
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.builder.recursive(recursive);
        self
    }

    /// The permissions, less the process's umask. As [`DirBuilderExt::mode`].
    pub fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.builder.mode(mode);
        self
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// Those of [`std::fs::DirBuilder::create`].
    ///
    /// # Cancellation
    /// A cancel point; once begun it ends.
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        on_blocking_thread(|| self.builder.create(path))
    }
}

impl Default for DirBuilder {
    fn default() -> DirBuilder {
        DirBuilder::new()
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        DirBuilder::mode(self, mode)
    }
}
