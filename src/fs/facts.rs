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
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    pub(super) kind: FileType,
    /// The size when the file was looked at.
    pub(super) size: u64,
}

impl FileFacts {
    /// A regular file has a cursor and positions, and no readiness.
    pub(super) fn is_regular(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// The facts of an open file. May wait, if its device has not been seen lately.
    pub(super) fn of(fd: BorrowedFd<'_>) -> io::Result<FileFacts> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match rustix::fs::statx(fd, c"", flags, WANTED) {
            Ok(found) => Ok(facts(&found, may_block_on(&found, fd))),
            // A kernel, or a filter, without that call.
            Err(_) => {
                let found = waiting(|| rustix::fs::fstat(fd))?;
                Ok(FileFacts {
                    may_block: MayBlock::Always,
                    kind: FileType::from_raw_mode(found.st_mode),
                    size: u64::try_from(found.st_size).unwrap_or(0),
                })
            }
        }
    }
}

const WANTED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::SIZE);

fn facts(found: &Statx, may_block: MayBlock) -> FileFacts {
    let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
    FileFacts { may_block, kind, size: found.stx_size }
}

/// Returns the facts about the path's last name in a directory in memory, without waiting. If the
/// name is a link, the facts are those of the link.
pub(super) fn look(path: &Path, directory: Directory) -> io::Result<FileFacts> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(rustix::fs::CWD, path, flags, WANTED)?;
    // Another file system may be mounted there.
    let same = device(&found) == directory.device;
    Ok(facts(&found, if same { directory.may_block } else { MayBlock::Always }))
}

/// Returns whether the path names a directory in memory directly, and not through a link.
pub(super) fn is_folder_in_memory(path: &Path) -> bool {
    in_memory(path).and_then(|directory| look(path, directory).ok()).is_some_and(|facts| {
        facts.kind == FileType::Directory && facts.may_block == MayBlock::Never
    })
}

/// Opens an existing file for reading or writing, if the file and the way to it are in the kernel's
/// memory. Returns `None` if they are not, or if the file is of a kind whose opening may wait.
pub(super) fn open_cached(path: &Path, flags: OFlags) -> Option<(OwnedFd, FileFacts)> {
    let looked_at = resolve_cached(path, OFlags::PATH | (flags & OFlags::NOFOLLOW)).ok()?;
    let facts = FileFacts::of(looked_at.as_fd()).ok()?;
    let waits = !matches!(facts.kind, FileType::RegularFile | FileType::Directory)
        || facts.may_block == MayBlock::Always;
    if waits {
        return None;
    }
    resolve_cached(path, flags).ok().map(|fd| (fd, facts))
}

/// Opens an fd that only names the path (`O_PATH`), for questions about it, if the path is in the
/// kernel's memory.
pub(super) fn name_cached(path: &Path, follow: bool) -> Option<OwnedFd> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let fd = resolve_cached(path, OFlags::PATH | nofollow).ok()?;
    let facts = FileFacts::of(fd.as_fd()).ok()?;
    (facts.may_block != MayBlock::Always).then_some(fd)
}

fn resolve_cached(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)
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
    if let Some(directory) = PARENTS.get(parent) {
        return Some(directory);
    }
    let directory = OFlags::PATH | OFlags::DIRECTORY;
    let parent_path: &Path = parent.as_ref();
    let opened = resolve_cached(parent_path, directory).or_else(|_| {
        let flags = directory | OFlags::CLOEXEC;
        waiting(|| rustix::fs::open(parent_path, flags, Mode::empty()))
    });
    let fd = opened.ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(&fd, c"", flags, WANTED).ok()?;
    let may_block = may_block_on(&found, fd.as_fd());
    let directory = Directory { may_block, device: device(&found) };
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

fn device(found: &Statx) -> u64 {
    u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor)
}

fn may_block_on(found: &Statx, fd: BorrowedFd<'_>) -> MayBlock {
    let device = device(found);
    if let Some(may_block) = DEVICES.get(&device) {
        return may_block;
    }
    // A network file system asks its server.
    let may_block = match waiting(|| rustix::fs::fstatfs(fd)) {
        Ok(found) => may_block_by_type(found.f_type as u64),
        Err(_) => MayBlock::Always,
    };
    DEVICES.put(device, may_block);
    may_block
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
