//! Directories.

use super::Answer;
use crate::driver::request::*;
use crate::driver::sim::World;
use crate::driver::sim::disk::Entry;
use crate::driver::sim::disks::{metadata_of, type_of};
use std::fs::{FileType, Metadata};
use std::io;

impl Answer<CreateDirectory<'_>> for World {
    fn answer(&self, request: CreateDirectory<'_>) -> io::Result<()> {
        self.operate()?;
        let CreateDirectory { path, recursive, mode } = request;
        self.with_disk(|disk, context| {
            if recursive {
                disk.make_directories(path, mode, context)
            } else {
                disk.make_directory(path, mode, context)
            }
        })
    }
}

impl Answer<OpenDirectory<'_>> for World {
    fn answer(&self, OpenDirectory { path }: OpenDirectory<'_>) -> io::Result<Listing> {
        self.operate()?;
        let (_, entries) = self.with_disk(|disk, context| disk.list(path, context))?;
        let entry = |Entry { name, ino, .. }| DirectoryEntry::InMemory {
            path: path.join(name),
            inode: ino.0,
        };
        let left = entries.into_iter().map(entry).collect();
        Ok(Listing::InMemory { directory: path.to_owned(), left })
    }
}

impl Answer<NextEntry<'_>> for World {
    fn answer(&self, request: NextEntry<'_>) -> io::Result<Option<DirectoryEntry>> {
        request.listing.next()
    }
}

impl Answer<MetadataOfEntry<'_>> for World {
    fn answer(&self, MetadataOfEntry { entry }: MetadataOfEntry<'_>) -> io::Result<Metadata> {
        self.operate()?;
        metadata_of(&self.with_disk(|disk, _| disk.look(&entry.path(), false))?)
    }
}

impl Answer<KindOfEntry<'_>> for World {
    fn answer(&self, KindOfEntry { entry }: KindOfEntry<'_>) -> io::Result<FileType> {
        let facts = self.with_disk(|disk, _| disk.look(&entry.path(), false))?;
        type_of(&facts)
    }
}
