//! Open files.

use super::Answer;
use crate::driver::OwnedDescriptor;
use crate::driver::request::*;
use crate::driver::sim::World;
use crate::driver::sim::disk::{Facts, Kind, Lock, Owner};
use crate::driver::sim::disks::{DiskFile, file_of, metadata_of, times_of};
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

/// The number of the type of the file system: that of tmpfs, whose calls do not wait either.
const TMPFS: u64 = 0x0102_1994;

/// Returns the kind of a file in the kernel's words.
pub(super) fn kind(kind: Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::RegularFile,
        Kind::Directory => FileKind::Directory,
        Kind::Link => FileKind::Symlink,
        Kind::Socket => FileKind::Socket,
    }
}

/// The device that all files of a world are on.
pub(super) const DEVICE: u64 = u64::MAX;

pub(super) fn looked(facts: &Facts) -> Looked {
    Looked { kind: kind(facts.kind), size: facts.size, device: DEVICE }
}

/// Returns the file that a descriptor names.
fn named(descriptor: &OwnedDescriptor) -> io::Result<&DiskFile> {
    file_of(descriptor.name())
}

// Questions about facts are no I/O: the kernel has them in its memory.

impl Answer<LookAt<'_>> for World {
    fn answer(&self, LookAt { file }: LookAt<'_>) -> io::Result<Looked> {
        Ok(looked(&named(file)?.facts()?.0))
    }
}

impl Answer<KindAndSize<'_>> for World {
    fn answer(&self, KindAndSize { file }: KindAndSize<'_>) -> io::Result<(FileKind, u64)> {
        let (facts, _) = named(file)?.facts()?;
        Ok((kind(facts.kind), facts.size))
    }
}

impl Answer<SizeAndCursor<'_>> for World {
    fn answer(&self, SizeAndCursor { file }: SizeAndCursor<'_>) -> io::Result<(u64, u64)> {
        let (facts, cursor) = named(file)?.facts()?;
        Ok((facts.size, cursor))
    }
}

impl Answer<FileSystemOf<'_>> for World {
    fn answer(&self, FileSystemOf { file }: FileSystemOf<'_>) -> io::Result<u64> {
        named(file).map(|_| TMPFS)
    }
}

impl Answer<MetadataOf<'_>> for World {
    fn answer(&self, MetadataOf { file }: MetadataOf<'_>) -> io::Result<Metadata> {
        self.operate()?;
        metadata_of(&named(file)?.facts()?.0)
    }
}

impl Answer<SetLength<'_>> for World {
    fn answer(&self, SetLength { file, size }: SetLength<'_>) -> io::Result<()> {
        self.operate()?;
        named(file)?.call(|disk, file, context| disk.set_length(file, size, context))
    }
}

impl Answer<SetPermissionsOf<'_>> for World {
    fn answer(&self, request: SetPermissionsOf<'_>) -> io::Result<()> {
        self.operate()?;
        let mode = Permissions::mode(&request.permissions);
        named(request.file)?.call(|disk, file, _| disk.set_open_mode(file, mode))
    }
}

impl Answer<SetTimes<'_>> for World {
    fn answer(&self, SetTimes { file, times }: SetTimes<'_>) -> io::Result<()> {
        self.operate()?;
        let file = named(file)?;
        let (accessed, modified) = times_of(times, &file.facts()?.0.attributes)?;
        file.call(|disk, file, _| disk.set_times(file, accessed, modified))
    }
}

impl Answer<SetOwnerOf<'_>> for World {
    fn answer(&self, SetOwnerOf { file, user, group }: SetOwnerOf<'_>) -> io::Result<()> {
        self.operate()?;
        let owner = Owner { user, group };
        named(&self.adopt(file)?)?.call(|disk, file, _| disk.set_open_owner(file, owner))
    }
}

impl Answer<MoveCursor<'_>> for World {
    fn answer(&self, MoveCursor { file, to }: MoveCursor<'_>) -> io::Result<u64> {
        named(file)?.call(|disk, file, _| disk.seek(file, to))
    }
}

/// A lock that is not free is an error in any case. Tasks do not ask to wait for one, but try again
/// after a pause.
impl Answer<LockFile<'_>> for World {
    fn answer(&self, LockFile { file, operation }: LockFile<'_>) -> io::Result<()> {
        use FlockOperation::*;
        let lock = match operation {
            LockShared | NonBlockingLockShared => Lock::Shared,
            LockExclusive | NonBlockingLockExclusive => Lock::Exclusive,
            Unlock | NonBlockingUnlock => Lock::Unlock,
        };
        named(file)?.call(|disk, file, _| disk.lock(file, lock))
    }
}
