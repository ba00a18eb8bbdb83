//! Files by their names.

use super::file::{Looked, WANTED, as_std};
use crate::driver::OwnedDescriptor;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::retry_on_intr;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How to open a file, as std's options say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) custom_flags: i32,
    pub(crate) mode: u32,
}

/// A copy in progress, by the descriptors of both files.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(in crate::driver) source: OwnedDescriptor,
    pub(in crate::driver) target: OwnedDescriptor,
}

fn owned(file: File) -> OwnedDescriptor {
    OwnedDescriptor::new(OwnedFd::from(file))
}

requests! {
    /// Returns the device that all files are on, if calls on its files never wait. The kernel has
    /// no such device.
    OnlyDevice {} -> Option<u64> {
        Ok(None)
    }

    /// Returns what is known without a wait of the file with this name. If the name is a link, the
    /// answer is about the link.
    LookAtName<'a> { path: &'a Path } -> Looked {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        Ok(Looked::of(&rustix::fs::statx(CWD, path, flags, WANTED)?))
    }

    /// Opens an existing file if its name is in the kernel's memory. Fails if it is not.
    OpenCached<'a> { path: &'a Path, flags: OFlags } -> OwnedDescriptor {
        let flags = flags | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)?;
        Ok(OwnedDescriptor::new(fd))
    }

    /// Opens a file by the flags of open(2).
    OpenByFlags<'a> { path: &'a Path, flags: OFlags, mode: u32 } -> OwnedDescriptor {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
        Ok(OwnedDescriptor::new(retry_on_intr(|| rustix::fs::open(path, flags, mode))?))
    }

    /// Opens a file as std does. May wait, for instance for the other end of a FIFO.
    OpenFile<'a> { path: &'a Path, how: Opening } -> OwnedDescriptor {
        let mut options = OpenOptions::new();
        options.read(how.read).write(how.write).append(how.append).truncate(how.truncate);
        options.create(how.create).create_new(how.create_new);
        options.custom_flags(how.custom_flags).mode(how.mode);
        options.open(path).map(owned)
    }

    /// Reads a whole file.
    ReadFile<'a> { path: &'a Path } -> Vec<u8> {
        std::fs::read(path)
    }

    /// Writes a whole file.
    WriteFile<'a> { path: &'a Path, contents: &'a [u8] } -> () {
        std::fs::write(path, contents)
    }

    /// Copies a file's contents and permissions. Returns the number of bytes.
    CopyFile<'a> { from: &'a Path, to: &'a Path } -> u64 {
        std::fs::copy(from, to)
    }

    /// Opens both files of a copy that is made in portions, and copies the permissions.
    BeginCopy<'a> { from: &'a Path, to: &'a Path } -> Copying {
        let source = File::open(from)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            let text = "the source path is neither a regular file nor a symlink to a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(metadata.permissions().mode());
        let target = options.open(to)?;
        // The permissions are set before there are contents to read, because a target that already
        // existed may be readable by others.
        if target.metadata()?.is_file() {
            target.set_permissions(metadata.permissions())?;
        }
        Ok(Copying { source: owned(source), target: owned(target) })
    }

    /// Copies the next bytes, at most `most`. Returns their number.
    CopyPortion<'a> { copying: &'a mut Copying, most: u64 } -> u64 {
        let (source, target) = (as_std(&copying.source)?, as_std(&copying.target)?);
        io::copy(&mut (&*source).take(most), &mut &*target)
    }

    /// Returns everything that is known of the file with this name. Follows links.
    MetadataAt<'a> { path: &'a Path } -> Metadata {
        std::fs::metadata(path)
    }

    /// Returns everything that is known of the file with this name. Does not follow a link.
    LinkMetadataAt<'a> { path: &'a Path } -> Metadata {
        std::fs::symlink_metadata(path)
    }

    /// Returns the absolute name without links.
    Canonicalize<'a> { path: &'a Path } -> PathBuf {
        std::fs::canonicalize(path)
    }

    /// Returns where a symbolic link leads.
    ReadLink<'a> { path: &'a Path } -> PathBuf {
        std::fs::read_link(path)
    }

    /// Removes an empty directory.
    RemoveDirectory<'a> { path: &'a Path } -> () {
        std::fs::remove_dir(path)
    }

    /// Removes a directory with its contents.
    RemoveTree<'a> { path: &'a Path } -> () {
        std::fs::remove_dir_all(path)
    }

    /// Removes the name of a file that is not a directory.
    RemoveFile<'a> { path: &'a Path } -> () {
        std::fs::remove_file(path)
    }

    /// Renames a file. Replaces a file that has the new name.
    Rename<'a> { from: &'a Path, to: &'a Path } -> () {
        std::fs::rename(from, to)
    }

    /// Gives a file another name.
    HardLink<'a> { original: &'a Path, link: &'a Path } -> () {
        std::fs::hard_link(original, link)
    }

    /// Creates a symbolic link.
    SymbolicLink<'a> { original: &'a Path, link: &'a Path } -> () {
        std::os::unix::fs::symlink(original, link)
    }

    /// Sets the permissions of the file with this name.
    SetPermissionsAt<'a> { path: &'a Path, permissions: Permissions } -> () {
        std::fs::set_permissions(path, permissions)
    }

    /// Sets the owner of the file with this name. Follows links.
    SetOwnerAt<'a> { path: &'a Path, user: Option<u32>, group: Option<u32> } -> () {
        std::os::unix::fs::chown(path, user, group)
    }

    /// Sets the owner of the file with this name. Does not follow a link.
    SetLinkOwnerAt<'a> { path: &'a Path, user: Option<u32>, group: Option<u32> } -> () {
        std::os::unix::fs::lchown(path, user, group)
    }
}
