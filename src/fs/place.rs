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

/// How long a cached entry is valid.
const TRUST: Duration = Duration::from_secs(1);
/// The most devices, and the most directories, that are cached.
const MOST: usize = 16;

/// Where a file lives; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Residence {
    Memory,
    Device,
    Elsewhere,
}

/// The facts about a file that are known without a call to its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) residence: Residence,
    pub(super) kind: FileType,
    /// The size when the file was looked up.
    pub(super) size: u64,
}

impl Place {
    /// Returns whether the file is regular. A regular file has a cursor and positions, but no
    /// readiness.
    pub(super) fn is_regular(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Returns the place of an open file. Waits if its device is not in the cache.
    pub(super) fn of(fd: BorrowedFd<'_>) -> io::Result<Place> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match rustix::fs::statx(fd, c"", flags, WANTED) {
            Ok(found) => Ok(place(&found, residence_of(&found, fd))),
            // The kernel, or a seccomp filter, does not offer statx(2).
            Err(_) => {
                let found = waiting(|| rustix::fs::fstat(fd))?;
                Ok(Place {
                    residence: Residence::Elsewhere,
                    kind: FileType::from_raw_mode(found.st_mode),
                    size: u64::try_from(found.st_size).unwrap_or(0),
                })
            }
        }
    }
}

const WANTED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::SIZE);

fn place(found: &Statx, residence: Residence) -> Place {
    let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
    Place { residence, kind, size: found.stx_size }
}

/// Looks up the path's last name in a directory in memory, without waiting and without following a
/// link.
pub(super) fn look(path: &Path, directory: Directory) -> io::Result<Place> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(rustix::fs::CWD, path, flags, WANTED)?;
    // Another file system may be mounted there.
    let same = device(&found) == directory.device;
    Ok(place(&found, if same { directory.residence } else { Residence::Elsewhere }))
}

/// Returns whether the path names a directory in memory directly, and not through a link.
pub(super) fn is_folder_in_memory(path: &Path) -> bool {
    in_memory(path).and_then(|directory| look(path, directory).ok()).is_some_and(|place| {
        place.kind == FileType::Directory && place.residence == Residence::Memory
    })
}

/// Opens an existing file for reading or writing if the file and the path to it are in the kernel's
/// memory. Returns `None` if they are not, or if opening this kind of file may wait.
pub(super) fn open_cached(path: &Path, flags: OFlags) -> Option<(OwnedFd, Place)> {
    let looked_at = resolve_cached(path, OFlags::PATH | (flags & OFlags::NOFOLLOW)).ok()?;
    let place = Place::of(looked_at.as_fd()).ok()?;
    let waits = !matches!(place.kind, FileType::RegularFile | FileType::Directory)
        || place.residence == Residence::Elsewhere;
    if waits {
        return None;
    }
    resolve_cached(path, flags).ok().map(|fd| (fd, place))
}

/// Opens an fd that only names the path (`O_PATH`), for questions about it, if the path is in the
/// kernel's memory.
pub(super) fn name_cached(path: &Path, follow: bool) -> Option<OwnedFd> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let fd = resolve_cached(path, OFlags::PATH | nofollow).ok()?;
    let place = Place::of(fd.as_fd()).ok()?;
    (place.residence != Residence::Elsewhere).then_some(fd)
}

fn resolve_cached(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)
}

/// A directory's residence and device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Directory {
    residence: Residence,
    device: u64,
}

/// Returns the directory of the path's last name if it lives in memory. A call that concerns that
/// name then does not wait.
pub(super) fn in_memory(path: &Path) -> Option<Directory> {
    directory_of(path).filter(|directory| directory.residence == Residence::Memory)
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
    let residence = residence_of(&found, fd.as_fd());
    let directory = Directory { residence, device: device(&found) };
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

fn residence_of(found: &Statx, fd: BorrowedFd<'_>) -> Residence {
    let device = device(found);
    if let Some(residence) = DEVICES.get(&device) {
        return residence;
    }
    // On a network file system this call contacts the server.
    let residence = match waiting(|| rustix::fs::fstatfs(fd)) {
        Ok(found) => residence_of_type(found.f_type as u64),
        Err(_) => Residence::Elsewhere,
    };
    DEVICES.put(device, residence);
    residence
}

/// Returns the residence for a file system's magic number in the kernel's UAPI (`linux/magic.h`).
fn residence_of_type(number: u64) -> Residence {
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
        TMPFS | RAMFS => Residence::Memory,
        number if LOCAL.contains(&number) => Residence::Device,
        _ => Residence::Elsewhere,
    }
}

/// Runs a call that may wait on a thread that may block.
fn waiting<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if in_task() { crate::sched::unblock(call) } else { call() }
}

static DEVICES: Memory<u64, Residence> = Memory::new();
static PARENTS: Memory<Box<std::ffi::OsStr>, Directory> = Memory::new();

/// A small cache whose entries expire.
struct Memory<K, V>(RwLock<Vec<(K, V, Instant)>>);

impl<K, V: Copy> Memory<K, V> {
    const fn new() -> Memory<K, V> {
        Memory(RwLock::new(Vec::new()))
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
        } else if known.len() < MOST {
            known.push(entry);
        } else if let Some(oldest) = known.iter_mut().min_by_key(|(_, _, since)| *since) {
            *oldest = entry;
        }
    }
}
