//! Where a file lives. This decides which calls may run on a worker's own thread.
//!
//! # Terms
//! The *residence* of a file is one of three:
//! - *memory*: file systems such as tmpfs, where every call is a copy between two places in memory.
//!   Such a call never waits for a device.
//! - *device*: local file systems. Data that the kernel has cached is available at once, and most
//!   calls can be restricted to that data.
//! - *elsewhere*: network file systems, FUSE, and file systems of unknown type. Each call may wait
//!   for another machine or process, even a call for cached data.
//!
//! # Cache
//! The residence of devices and of recently used directories is cached for [`TRUST`]. The cache is
//! a hint for speed. After a mount it may be wrong for that long, in which case a worker may wait
//! for a moment.

use super::in_task;
use crate::base::clock;
use crate::driver::request::{
    FileKind, FileSystemOf, KindAndSize, LookAt, LookAtName, Looked, OFlags, OnlyDevice,
    OpenByFlags, OpenCached,
};
use crate::driver::{OwnedDescriptor, request};
use std::io;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long a cached answer is used.
const TRUST: Duration = Duration::from_secs(1);
/// The number of devices, and of directories, whose answers are cached.
const CACHED: usize = 16;

/// Whether a call on a file may block its thread; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayBlock {
    Never,
    UnlessCached,
    Always,
}

/// The facts about a file that are known without a call to its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileFacts {
    pub(super) may_block: MayBlock,
    pub(super) kind: FileKind,
    /// The size when the file was looked at.
    pub(super) size: u64,
}

impl FileFacts {
    /// A regular file has a cursor and positions, and no readiness.
    pub(super) fn is_regular(&self) -> bool {
        self.kind == FileKind::RegularFile
    }

    /// The facts of an open file. May wait, if its device has not been seen lately.
    pub(super) fn of(fd: &OwnedDescriptor) -> io::Result<FileFacts> {
        match request(LookAt { file: fd }) {
            Ok(found) => Ok(facts(found, may_block_on(found.device, fd))),
            // A kernel, or a filter, without that call.
            Err(_) => {
                let (kind, size) = waiting(|| request(KindAndSize { file: fd }))?;
                Ok(FileFacts { may_block: MayBlock::Always, kind, size })
            }
        }
    }
}

fn facts(found: Looked, may_block: MayBlock) -> FileFacts {
    FileFacts { may_block, kind: found.kind, size: found.size }
}

/// Returns the facts about the path's last name in a directory in memory, without waiting. If the
/// name is a link, the facts are those of the link.
pub(super) fn facts_of_name(path: &Path, directory: Directory) -> io::Result<FileFacts> {
    let found = request(LookAtName { path })?;
    // Another file system may be mounted there.
    let same = found.device == directory.device;
    Ok(facts(found, if same { directory.may_block } else { MayBlock::Always }))
}

/// Returns whether the path names a directory in memory directly, and not through a link.
pub(super) fn is_folder_in_memory(path: &Path) -> bool {
    in_memory(path).and_then(|directory| facts_of_name(path, directory).ok()).is_some_and(|facts| {
        facts.kind == FileKind::Directory && facts.may_block == MayBlock::Never
    })
}

/// Opens an existing file for reading or writing, if the file and the way to it are in the kernel's
/// memory. Returns `None` if they are not, or if the file is of a kind whose opening may wait.
pub(super) fn open_cached(path: &Path, flags: OFlags) -> Option<(OwnedDescriptor, FileFacts)> {
    let looked_at =
        request(OpenCached { path, flags: OFlags::PATH | (flags & OFlags::NOFOLLOW) }).ok()?;
    let facts = FileFacts::of(&looked_at).ok()?;
    let waits = !matches!(facts.kind, FileKind::RegularFile | FileKind::Directory)
        || facts.may_block == MayBlock::Always;
    if waits {
        return None;
    }
    request(OpenCached { path, flags }).ok().map(|fd| (fd, facts))
}

/// Opens an fd that only names the path (`O_PATH`), for questions about it, if the path is in the
/// kernel's memory.
pub(super) fn name_cached(path: &Path, follow: bool) -> Option<OwnedDescriptor> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let fd = request(OpenCached { path, flags: OFlags::PATH | nofollow }).ok()?;
    let facts = FileFacts::of(&fd).ok()?;
    (facts.may_block != MayBlock::Always).then_some(fd)
}

/// A directory's residence and device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Directory {
    may_block: MayBlock,
    device: u64,
}

/// Returns the directory of the path's last name if it lives in memory. A call that concerns that
/// name then does not wait.
pub(super) fn in_memory(path: &Path) -> Option<Directory> {
    directory_of(path).filter(|directory| directory.may_block == MayBlock::Never)
}

fn directory_of(path: &Path) -> Option<Directory> {
    let parent = parent(path)?;
    if let Some(device) = only_device() {
        return Some(Directory { may_block: MayBlock::Never, device });
    }
    if let Some(directory) = PARENTS.get(parent) {
        return Some(directory);
    }
    let (path, flags): (&Path, _) = (parent.as_ref(), OFlags::PATH | OFlags::DIRECTORY);
    let opened = request(OpenCached { path, flags })
        .or_else(|_| waiting(|| request(OpenByFlags { path, flags, mode: 0 })));
    let fd = opened.ok()?;
    let Looked { device, .. } = request(LookAt { file: &fd }).ok()?;
    let directory = Directory { may_block: may_block_on(device, &fd), device };
    PARENTS.put(parent.into(), directory);
    Some(directory)
}

/// Returns the path without its last name.
fn parent(path: &Path) -> Option<&std::ffi::OsStr> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    let parent: &[u8] = match bytes.iter().rposition(|byte| *byte == b'/') {
        None if bytes.is_empty() => return None,
        None => b".",
        Some(0) => b"/",
        Some(end) => &bytes[..end],
    };
    Some(std::ffi::OsStr::from_bytes(parent))
}

fn may_block_on(device: u64, fd: &OwnedDescriptor) -> MayBlock {
    if only_device() == Some(device) {
        return MayBlock::Never;
    }
    if let Some(may_block) = DEVICES.get(&device) {
        return may_block;
    }
    // A network file system asks its server.
    let may_block = match waiting(|| request(FileSystemOf { file: fd })) {
        Ok(number) => may_block_by_type(number),
        Err(_) => MayBlock::Always,
    };
    DEVICES.put(device, may_block);
    may_block
}

/// Returns the device that all files are on, if the driver keeps them in memory. Nothing has to be
/// found out about it, and nothing is cached.
fn only_device() -> Option<u64> {
    request(OnlyDevice {}).unwrap_or(None)
}

/// By the numbers in the kernel's UAPI (`linux/magic.h`).
fn may_block_by_type(number: u64) -> MayBlock {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    const LOCAL: [u64; 11] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0x794c_7630, // overlayfs
        0x9660,      // iso9660
        0x7371_7368, // squashfs
        0x4d44,      // fat
        0x9fa0,      // procfs
        0x6265_6572, // sysfs
        0x1cd1,      // devpts
    ];
    match number {
        TMPFS | RAMFS => MayBlock::Never,
        number if LOCAL.contains(&number) => MayBlock::UnlessCached,
        _ => MayBlock::Always,
    }
}

/// Runs a call that may wait on a thread that may block.
fn waiting<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if in_task() { crate::sched::unblock(call) } else { call() }
}

static DEVICES: Cache<u64, MayBlock> = Cache::new();
static PARENTS: Cache<Box<std::ffi::OsStr>, Directory> = Cache::new();

/// Recent answers.
struct Cache<K, V>(RwLock<Vec<(K, V, Instant)>>);

impl<K, V: Copy> Cache<K, V> {
    const fn new() -> Cache<K, V> {
        Cache(RwLock::new(Vec::new()))
    }

    fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: PartialEq + ?Sized,
    {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (_, value, since) = known.iter().find(|(own, _, _)| own.borrow() == key)?;
        (clock::now().saturating_duration_since(*since) < TRUST).then_some(*value)
    }

    fn put(&self, key: K, value: V)
    where
        K: PartialEq,
    {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = (key, value, clock::now());
        if let Some(own) = known.iter_mut().find(|(own, _, _)| *own == entry.0) {
            *own = entry;
        } else if known.len() < CACHED {
            known.push(entry);
        } else if let Some(oldest) = known.iter_mut().min_by_key(|(_, _, since)| *since) {
            *oldest = entry;
        }
    }
}
