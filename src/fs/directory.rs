//! Directories: listing their entries and creating them.

use super::functions::{MODE, on_blocking_thread};
use super::in_task;
use crate::driver::request;
use crate::driver::request::{
    CreateDirectory, DirectoryEntry, KindOfEntry, Listing, MetadataOfEntry, NextEntry,
};
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

/// The number of entries that are fetched at once.
const SOME: usize = 128;

/// An iterator over the entries of a directory: [`std::fs::ReadDir`]. It is returned by
/// [`read_dir`](super::read_dir).
///
/// # Cancellation
/// In a cancelled task, `next` returns one error and then `None`, so that a loop that ignores
/// errors ends. No entry is lost: later calls that are not cancelled continue with the next entry.
pub struct ReadDir {
    source: Listing,
    /// The directory lives in memory, so reading it never waits.
    in_memory: bool,
    fetched: VecDeque<io::Result<DirEntry>>,
    ended: bool,
    /// There has been a call that was not cancelled.
    asked: bool,
    /// The last call returned `Cancelled`.
    told: bool,
}

impl ReadDir {
    pub(super) fn new(source: Listing, in_memory: bool) -> ReadDir {
        let fetched = VecDeque::new();
        ReadDir { source, in_memory, fetched, ended: false, asked: false, told: false }
    }

    /// Creates the listing and fetches its first entries.
    pub(super) fn begun(source: Listing, in_memory: bool) -> ReadDir {
        let mut listing = ReadDir::new(source, in_memory);
        listing.fetch();
        listing
    }

    /// Fetches entries if none are left over and the directory has more.
    ///
    /// # Errors
    /// Fails only if the task is cancelled.
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

    /// Fetches a batch of entries with their file types. A few file systems need a call for each
    /// type.
    fn fetch(&mut self) {
        while self.fetched.len() < SOME {
            let next = request(NextEntry { listing: &mut self.source }).transpose();
            let Some(next) = next else {
                self.ended = true;
                return;
            };
            self.fetched.push_back(next.map(|entry| {
                let kind = request(KindOfEntry { entry: &entry }).ok();
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

// std's type has these impls as well. A panic leaves the iterator between two entries, and the
// errors that it may hold are never inspected.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// An entry of a directory: [`std::fs::DirEntry`].
pub struct DirEntry {
    entry: DirectoryEntry,
    kind: Option<FileType>,
}

impl DirEntry {
    /// Returns the directory's path joined with the entry's name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// Returns the entry's name without a path.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    /// Returns the entry's length, permissions, times, and so on. A link is not followed.
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
    /// Returns the errors of [`std::fs::DirEntry::metadata`].
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn metadata(&self) -> io::Result<Metadata> {
        on_blocking_thread(|| request(MetadataOfEntry { entry: &self.entry }))
    }

    /// Returns whether the entry is a file, a directory, or something else. See
    /// [`metadata`](DirEntry::metadata) for an example.
    ///
    /// # Errors
    /// Returns the errors of [`std::fs::DirEntry::file_type`].
    ///
    /// # Cancellation
    /// This call usually does not wait. It is a cancellation point only if the type could not be
    /// read together with the entry.
    pub fn file_type(&self) -> io::Result<FileType> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => on_blocking_thread(|| request(KindOfEntry { entry: &self.entry })),
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

/// A builder that configures how directories are created: [`std::fs::DirBuilder`].
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
    recursive: bool,
    mode: u32,
}

impl DirBuilder {
    /// Creates a builder that is not recursive and grants all permissions except those in the
    /// process's umask.
    #[must_use]
    pub fn new() -> DirBuilder {
        DirBuilder { recursive: false, mode: MODE }
    }

    /// Sets whether missing parents are created too. With `true`, a directory that already exists
    /// is no error.
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.recursive = recursive;
        self
    }

    /// Sets the permissions, from which the process's umask is removed. See
    /// [`DirBuilderExt::mode`].
    pub fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.mode = mode;
        self
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// Returns the errors of [`std::fs::DirBuilder::create`].
    ///
    /// # Cancellation
    /// This is a cancellation point. An operation that has begun is completed.
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        let DirBuilder { recursive, mode } = *self;
        on_blocking_thread(|| request(CreateDirectory { path, recursive, mode }))
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
