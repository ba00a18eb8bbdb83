//! Directories: their creation and their entries.

#[cfg(feature = "sim")]
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};

/// An open directory whose entries are read one after another.
pub(crate) enum Listing {
    Kernel(std::fs::ReadDir),
    /// The entries that are left of a directory in memory.
    #[cfg(feature = "sim")]
    InMemory {
        directory: PathBuf,
        left: VecDeque<DirectoryEntry>,
    },
}

/// An entry of a directory.
pub(crate) enum DirectoryEntry {
    Kernel(std::fs::DirEntry),
    /// An entry of a directory in memory.
    #[cfg(feature = "sim")]
    InMemory {
        path: PathBuf,
        inode: u64,
    },
}

impl Listing {
    /// Reads the next entry, or `None` after the last.
    pub(in crate::driver) fn next(&mut self) -> io::Result<Option<DirectoryEntry>> {
        match self {
            Listing::Kernel(listing) => Ok(listing.next().transpose()?.map(DirectoryEntry::Kernel)),
            #[cfg(feature = "sim")]
            Listing::InMemory { left, .. } => Ok(left.pop_front()),
        }
    }
}

impl DirectoryEntry {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            DirectoryEntry::Kernel(entry) => entry.path(),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { path, .. } => path.clone(),
        }
    }

    pub(crate) fn file_name(&self) -> OsString {
        match self {
            DirectoryEntry::Kernel(entry) => entry.file_name(),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { path, .. } => {
                path.file_name().unwrap_or_default().to_os_string()
            }
        }
    }

    pub(crate) fn ino(&self) -> u64 {
        match self {
            DirectoryEntry::Kernel(entry) => entry.ino(),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { inode, .. } => *inode,
        }
    }
}

// These are the texts of std's types.
impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listing::Kernel(listing) => listing.fmt(f),
            #[cfg(feature = "sim")]
            Listing::InMemory { directory, .. } => {
                f.debug_tuple("ReadDir").field(directory).finish()
            }
        }
    }
}

impl fmt::Debug for DirectoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryEntry::Kernel(entry) => entry.fmt(f),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { path, .. } => f.debug_tuple("DirEntry").field(path).finish(),
        }
    }
}

/// Returns the error of a request to the kernel about an entry of a directory in memory.
#[cfg(feature = "sim")]
fn not_of_kernel<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

requests! {
    /// Creates a directory, and its missing parents if `recursive` is set.
    CreateDirectory<'a> { path: &'a Path, recursive: bool, mode: u32 } -> () {
        DirBuilder::new().recursive(recursive).mode(mode).create(path)
    }

    /// Opens a directory.
    OpenDirectory<'a> { path: &'a Path } -> Listing {
        std::fs::read_dir(path).map(Listing::Kernel)
    }

    /// Reads the next entry of a directory, or `None` after the last.
    NextEntry<'a> { listing: &'a mut Listing } -> Option<DirectoryEntry> {
        listing.next()
    }

    /// Returns everything that is known of the file with an entry's name. Does not follow a link.
    MetadataOfEntry<'a> { entry: &'a DirectoryEntry } -> Metadata {
        match entry {
            DirectoryEntry::Kernel(entry) => entry.metadata(),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { .. } => not_of_kernel(),
        }
    }

    /// Returns the kind of an entry's file.
    KindOfEntry<'a> { entry: &'a DirectoryEntry } -> FileType {
        match entry {
            DirectoryEntry::Kernel(entry) => entry.file_type(),
            #[cfg(feature = "sim")]
            DirectoryEntry::InMemory { .. } => not_of_kernel(),
        }
    }
}

#[cfg(all(test, feature = "sim", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_listing_in_memory_reads_like_that_of_the_kernel() {
        let entry = |name: &str| {
            let path = Path::new("/folder").join(name);
            DirectoryEntry::InMemory { path, inode: 7 }
        };
        let left = VecDeque::from([entry("one"), entry("other")]);
        let mut listing = Listing::InMemory { directory: PathBuf::from("/folder"), left };
        assert_eq!(format!("{listing:?}"), "ReadDir(\"/folder\")");
        let one = listing.next().unwrap().unwrap();
        assert_eq!(format!("{one:?}"), "DirEntry(\"/folder/one\")");
        assert_eq!((one.path(), one.file_name()), ("/folder/one".into(), "one".into()));
        assert_eq!(one.ino(), 7);
        assert_eq!(listing.next().unwrap().unwrap().file_name(), "other");
        assert!(listing.next().unwrap().is_none());
    }
}
