//! Directories: their creation and their entries.

use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, FileType, Metadata};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};

/// An open directory whose entries are read one after another.
pub(crate) struct Listing(std::fs::ReadDir);

/// An entry of a directory.
pub(crate) struct DirectoryEntry(std::fs::DirEntry);

impl DirectoryEntry {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path()
    }

    pub(crate) fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    pub(crate) fn ino(&self) -> u64 {
        self.0.ino()
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DirectoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

requests! {
    /// Creates a directory, and its missing parents if `recursive` is set.
    CreateDirectory<'a> { path: &'a Path, recursive: bool, mode: u32 } -> () {
        DirBuilder::new().recursive(recursive).mode(mode).create(path)
    }

    /// Opens a directory.
    OpenDirectory<'a> { path: &'a Path } -> Listing {
        std::fs::read_dir(path).map(Listing)
    }

    /// Reads the next entry of a directory, or `None` after the last.
    NextEntry<'a> { listing: &'a mut Listing } -> Option<DirectoryEntry> {
        listing.0.next().transpose().map(|entry| entry.map(DirectoryEntry))
    }

    /// Returns everything that is known of the file with an entry's name. Does not follow a link.
    MetadataOfEntry<'a> { entry: &'a DirectoryEntry } -> Metadata {
        entry.0.metadata()
    }

    /// Returns the kind of an entry's file.
    KindOfEntry<'a> { entry: &'a DirectoryEntry } -> FileType {
        entry.0.file_type()
    }
}
