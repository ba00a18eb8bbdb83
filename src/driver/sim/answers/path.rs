//! Files by their names.

use super::Answer;
use super::file::{DEVICE, looked};
use crate::driver::OwnedDescriptor;
use crate::driver::request::*;
use crate::driver::sim::World;
use crate::driver::sim::disk::Owner;
use crate::driver::sim::disks::{file_of, metadata_of};
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Calls on the files of a world wait for no device. Ops may take virtual time.
impl Answer<OnlyDevice> for World {
    fn answer(&self, _: OnlyDevice) -> io::Result<Option<u64>> {
        Ok(Some(DEVICE))
    }
}

/// Returns the flags of open(2) for std's options, as std makes them.
fn flags_of(how: &Opening) -> io::Result<i32> {
    let invalid = || Err(io::Error::from_raw_os_error(libc::EINVAL));
    let access = match (how.read, how.write, how.append) {
        (true, false, false) => libc::O_RDONLY,
        (false, true, false) => libc::O_WRONLY,
        (true, true, false) => libc::O_RDWR,
        (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
        (true, _, true) => libc::O_RDWR | libc::O_APPEND,
        (false, false, false) => return invalid(),
    };
    match (how.write, how.append) {
        (false, false) if how.truncate || how.create || how.create_new => return invalid(),
        (_, true) if how.truncate && !how.create_new => return invalid(),
        _ => {}
    }
    let creation = match (how.create, how.truncate, how.create_new) {
        (_, _, true) => libc::O_CREAT | libc::O_EXCL,
        (true, true, false) => libc::O_CREAT | libc::O_TRUNC,
        (true, false, false) => libc::O_CREAT,
        (false, true, false) => libc::O_TRUNC,
        (false, false, false) => 0,
    };
    Ok(access | creation | (how.custom_flags & !libc::O_ACCMODE))
}

impl World {
    fn open_file(&self, path: &Path, flags: i32, mode: u32) -> io::Result<OwnedDescriptor> {
        let opened = self.with_disk(|disk, context| disk.open(path, flags, mode, context))?;
        Ok(self.own_file(opened))
    }
}

impl Answer<LookAtName<'_>> for World {
    fn answer(&self, LookAtName { path }: LookAtName<'_>) -> io::Result<Looked> {
        Ok(looked(&self.with_disk(|disk, _| disk.look(path, false))?))
    }
}

/// All names are in memory. This only looks whether the file exists, so it is no I/O.
impl Answer<OpenCached<'_>> for World {
    fn answer(&self, OpenCached { path, flags }: OpenCached<'_>) -> io::Result<OwnedDescriptor> {
        self.open_file(path, flags.bits().cast_signed(), 0)
    }
}

impl Answer<OpenByFlags<'_>> for World {
    fn answer(&self, request: OpenByFlags<'_>) -> io::Result<OwnedDescriptor> {
        self.operate()?;
        let OpenByFlags { path, flags, mode } = request;
        self.open_file(path, flags.bits().cast_signed(), mode)
    }
}

impl Answer<OpenFile<'_>> for World {
    fn answer(&self, OpenFile { path, how }: OpenFile<'_>) -> io::Result<OwnedDescriptor> {
        self.operate()?;
        self.open_file(path, flags_of(&how)?, how.mode)
    }
}

impl Answer<ReadFile<'_>> for World {
    fn answer(&self, ReadFile { path }: ReadFile<'_>) -> io::Result<Vec<u8>> {
        self.operate()?;
        self.with_disk(|disk, context| disk.read_file(path, context))
    }
}

impl Answer<WriteFile<'_>> for World {
    fn answer(&self, WriteFile { path, contents }: WriteFile<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.write_file(path, contents, context))
    }
}

impl Answer<CopyFile<'_>> for World {
    fn answer(&self, CopyFile { from, to }: CopyFile<'_>) -> io::Result<u64> {
        self.operate()?;
        self.with_disk(|disk, context| disk.copy_file(from, to, context))
    }
}

impl Answer<BeginCopy<'_>> for World {
    fn answer(&self, BeginCopy { from, to }: BeginCopy<'_>) -> io::Result<Copying> {
        self.operate()?;
        let (source, target) =
            self.with_disk(|disk, context| disk.begin_copy(from, to, context))?;
        Ok(Copying { source: self.own_file(source), target: self.own_file(target) })
    }
}

impl Answer<CopyPortion<'_>> for World {
    fn answer(&self, CopyPortion { copying, most }: CopyPortion<'_>) -> io::Result<u64> {
        self.operate()?;
        let target = file_of(copying.target.name())?.number();
        file_of(copying.source.name())?
            .call(|disk, source, context| disk.copy_portion(source, target, most, context))
    }
}

impl Answer<MetadataAt<'_>> for World {
    fn answer(&self, MetadataAt { path }: MetadataAt<'_>) -> io::Result<Metadata> {
        self.operate()?;
        metadata_of(&self.with_disk(|disk, _| disk.look(path, true))?)
    }
}

impl Answer<LinkMetadataAt<'_>> for World {
    fn answer(&self, LinkMetadataAt { path }: LinkMetadataAt<'_>) -> io::Result<Metadata> {
        self.operate()?;
        metadata_of(&self.with_disk(|disk, _| disk.look(path, false))?)
    }
}

impl Answer<Canonicalize<'_>> for World {
    fn answer(&self, Canonicalize { path }: Canonicalize<'_>) -> io::Result<PathBuf> {
        self.operate()?;
        self.with_disk(|disk, _| disk.real_path(path))
    }
}

impl Answer<ReadLink<'_>> for World {
    fn answer(&self, ReadLink { path }: ReadLink<'_>) -> io::Result<PathBuf> {
        self.operate()?;
        self.with_disk(|disk, _| disk.target_of(path))
    }
}

impl Answer<RemoveDirectory<'_>> for World {
    fn answer(&self, RemoveDirectory { path }: RemoveDirectory<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.remove_directory(path, context))
    }
}

impl Answer<RemoveTree<'_>> for World {
    fn answer(&self, RemoveTree { path }: RemoveTree<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.remove_tree(path, context))
    }
}

impl Answer<RemoveFile<'_>> for World {
    fn answer(&self, RemoveFile { path }: RemoveFile<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.remove_file(path, context))?;
        let here = self.here();
        self.network(|network, _| network.remove_path(here, path.as_os_str().as_bytes()));
        Ok(())
    }
}

impl Answer<Rename<'_>> for World {
    fn answer(&self, Rename { from, to }: Rename<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.rename(from, to, context))
    }
}

impl Answer<HardLink<'_>> for World {
    fn answer(&self, HardLink { original, link }: HardLink<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.hard_link(original, link, context))
    }
}

impl Answer<SymbolicLink<'_>> for World {
    fn answer(&self, SymbolicLink { original, link }: SymbolicLink<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, context| disk.symbolic_link(original, link, context))
    }
}

impl Answer<SetPermissionsAt<'_>> for World {
    fn answer(&self, request: SetPermissionsAt<'_>) -> io::Result<()> {
        self.operate()?;
        let mode = Permissions::mode(&request.permissions);
        self.with_disk(|disk, _| disk.set_mode(request.path, mode))
    }
}

impl Answer<SetOwnerAt<'_>> for World {
    fn answer(&self, SetOwnerAt { path, user, group }: SetOwnerAt<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, _| disk.set_owner(path, true, Owner { user, group }))
    }
}

impl Answer<SetLinkOwnerAt<'_>> for World {
    fn answer(&self, SetLinkOwnerAt { path, user, group }: SetLinkOwnerAt<'_>) -> io::Result<()> {
        self.operate()?;
        self.with_disk(|disk, _| disk.set_owner(path, false, Owner { user, group }))
    }
}
