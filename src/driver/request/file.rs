//! Open files.
#![expect(unsafe_code, reason = "borrows fds as std's files")]

use crate::driver::OwnedDescriptor;
use rustix::fs::{AtFlags, FileType, FlockOperation, Stat, Statx, StatxFlags};
use rustix::io::retry_on_intr;
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// What the kernel knows of a file without a call to its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    pub(crate) kind: FileType,
    pub(crate) size: u64,
    pub(crate) device: u64,
}

/// Which facts a look is for.
pub(super) const WANTED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::SIZE);

impl Looked {
    pub(super) fn of(found: &Statx) -> Looked {
        Looked {
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            size: found.stx_size,
            device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        }
    }
}

/// Borrows the fd as a file of std's, which is not closed.
pub(super) fn as_std(fd: &OwnedDescriptor) -> io::Result<ManuallyDrop<File>> {
    let fd = fd.kernel()?.as_raw_fd();
    // SAFETY: the fd is open while it is borrowed, which is longer than the file is used here, and
    // `ManuallyDrop` does not close it.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }))
}

fn size(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

requests! {
    /// Returns what is known of an open file without a wait.
    LookAt<'a> { file: &'a OwnedDescriptor } -> Looked {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        Ok(Looked::of(&rustix::fs::statx(file.kernel()?, c"", flags, WANTED)?))
    }

    /// Returns an open file's kind and size. May wait for the file's device.
    KindAndSize<'a> { file: &'a OwnedDescriptor } -> (FileType, u64) {
        let found = rustix::fs::fstat(file.kernel()?)?;
        Ok((FileType::from_raw_mode(found.st_mode), size(&found)))
    }

    /// Returns an open file's size and cursor. A file without a cursor has it at 0.
    SizeAndCursor<'a> { file: &'a OwnedDescriptor } -> (u64, u64) {
        let size = size(&rustix::fs::fstat(file.kernel()?)?);
        Ok((size, rustix::fs::seek(file.kernel()?, rustix::fs::SeekFrom::Current(0)).unwrap_or(0)))
    }

    /// Returns the number of the type of the file system that a file lives on.
    FileSystemOf<'a> { file: &'a OwnedDescriptor } -> u64 {
        Ok(rustix::fs::fstatfs(file.kernel()?)?.f_type as u64)
    }

    /// Returns everything that is known of an open file.
    MetadataOf<'a> { file: &'a OwnedDescriptor } -> Metadata {
        as_std(file)?.metadata()
    }

    /// Cuts or extends an open file to this size.
    SetLength<'a> { file: &'a OwnedDescriptor, size: u64 } -> () {
        as_std(file)?.set_len(size)
    }

    /// Sets the permissions of an open file.
    SetPermissionsOf<'a> { file: &'a OwnedDescriptor, permissions: Permissions } -> () {
        as_std(file)?.set_permissions(permissions)
    }

    /// Sets the times of an open file.
    SetTimes<'a> { file: &'a OwnedDescriptor, times: FileTimes } -> () {
        as_std(file)?.set_times(times)
    }

    /// Sets the owner of an open file, whose descriptor may belong to other code.
    SetOwnerOf<'a> { file: BorrowedFd<'a>, user: Option<u32>, group: Option<u32> } -> () {
        std::os::unix::fs::fchown(file, user, group)
    }

    /// Moves the cursor of an open file, and returns its new offset.
    MoveCursor<'a> { file: &'a OwnedDescriptor, to: io::SeekFrom } -> u64 {
        io::Seek::seek(&mut &*as_std(file)?, to)
    }

    /// Acquires, converts or releases a lock on a whole file.
    LockFile<'a> { file: &'a OwnedDescriptor, operation: FlockOperation } -> () {
        let fd = file.kernel()?;
        Ok(retry_on_intr(|| rustix::fs::flock(fd, operation))?)
    }
}
