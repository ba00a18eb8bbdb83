//! The disks of a world, one for each host, and the files that descriptors name.
#![expect(unsafe_code, reason = "accesses memory that ops lend")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileTimes, FileType, Metadata, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};
use std::{env, io, slice};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketType};

use super::disk::{Attributes, Context, Disk, DiskFaults, Facts, Home, Kind, OpenFile};
use super::file::path_descriptor;
use super::{Draws, File, HostId, Journal, Watcher, World, unsupported};
use crate::base::simulated;
use crate::driver::descriptor::Descriptor;
use crate::driver::op::{CURSOR, FileCall, FileOp};
use crate::driver::{Op, OwnedDescriptor};

/// The user and the group of all simulated processes. They are not privileged.
const USER: u32 = 1000;

/// The disks of a world.
#[derive(Debug)]
pub(super) struct Disks {
    by_host: BTreeMap<HostId, Disk>,
    /// The hosts that have crashed. What their tasks still do has no effect.
    down: BTreeSet<HostId>,
    faults: DiskFaults,
    /// What may go wrong instead with the disks of some hosts.
    faults_of: BTreeMap<HostId, DiskFaults>,
    /// The op that the driver attempts next.
    attempted: Option<u64>,
    /// The hosts of the syncs under way, by the numbers of their ops.
    syncs: BTreeMap<u64, HostId>,
}

/// An open file of a host's disk. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct DiskFile {
    /// Weak, because the world keeps the files of descriptors that were given away.
    world: Weak<World>,
    host: HostId,
    file: OpenFile,
}

impl Default for Disks {
    fn default() -> Disks {
        Disks {
            by_host: BTreeMap::new(),
            down: BTreeSet::new(),
            faults: DiskFaults::NONE,
            faults_of: BTreeMap::new(),
            attempted: None,
            syncs: BTreeMap::new(),
        }
    }
}

/// Returns how a host begins. Its current directory and its directory for temporary files have the
/// names of the real ones, because std tells programs these.
fn home() -> Home {
    static CURRENT: OnceLock<PathBuf> = OnceLock::new();
    let current = CURRENT.get_or_init(|| env::current_dir().unwrap_or_else(|_| "/home".into()));
    let others = vec![PathBuf::from("/tmp"), env::temp_dir()];
    Home { current: current.clone(), others, user: USER, group: USER, umask: 0o022 }
}

/// Returns the time on a host's wall clock.
fn wall_clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + simulated::wall_clock().unwrap_or(simulated::BEGIN)
}

impl Disks {
    /// Calls `f` with the disk of a host that has this many sockets. Returns the syncs that the
    /// call has begun: after how long they end, and their numbers.
    pub(super) fn with<T>(
        &mut self,
        host: HostId,
        sockets: usize,
        (draws, journal): (&mut Draws, &mut Journal),
        f: impl FnOnce(&mut Disk, &mut Context<'_>, Option<u64>) -> T,
    ) -> (T, Vec<(Duration, u64)>) {
        let now = wall_clock();
        let disk = self.by_host.entry(host).or_insert_with(|| Disk::new(home(), now));
        let mut begun = Vec::new();
        let faults = self.faults_of.get(&host).unwrap_or(&self.faults);
        let mut context = Context { now, host, draws, journal, faults, sockets, begun: &mut begun };
        let result = f(disk, &mut context, self.attempted.take());
        self.syncs.extend(begun.iter().map(|(_, op)| (*op, host)));
        (result, begun)
    }
}

impl World {
    /// Calls `f` with the disk of the host on which the current code runs.
    ///
    /// # Errors
    /// Fails with `ECANCELED` if the host has crashed, and with the errors of `f`.
    pub(super) fn with_disk<T>(
        &self,
        f: impl FnOnce(&mut Disk, &mut Context<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let here = self.here();
        self.check_up(here)?;
        self.disk(here, |disk, context, _| f(disk, context))
    }

    /// Checks that a host may have more descriptors.
    ///
    /// # Errors
    /// Fails with `EMFILE`.
    pub(super) fn check_descriptors(&self, host: HostId, more: usize) -> io::Result<()> {
        let is_limited = |disks: &mut Disks| {
            let faults = disks.faults_of.get(&host).unwrap_or(&disks.faults);
            faults.open_files.is_some() || faults.exhaustion > 0.0
        };
        if !self.disks(is_limited) {
            return Ok(());
        }
        self.disk(host, |disk, context, _| disk.check_room(more, context))
    }

    fn check_up(&self, host: HostId) -> io::Result<()> {
        match self.disks(|disks| disks.down.contains(&host)) {
            true => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            false => Ok(()),
        }
    }

    /// Sets what may go wrong with the disks.
    pub(crate) fn set_disk_faults(&self, faults: DiskFaults) {
        self.disks(|disks| disks.faults = faults);
    }

    /// Sets what may go wrong with the disk of a host instead.
    pub(crate) fn set_disk_faults_of(&self, host: HostId, faults: DiskFaults) {
        self.disks(|disks| disks.faults_of.insert(host, faults));
    }

    /// Ends what may go wrong with the disks by itself. Power failures remain what they are.
    pub(crate) fn calm_disks(&self) {
        self.disks(|disks| {
            disks.faults = disks.faults.calm();
            disks.faults_of.values_mut().for_each(|faults| *faults = faults.calm());
        });
    }

    /// Ends the open files of a host, and keeps its disk as it is until the host starts again.
    pub(crate) fn crash_disk(&self, host: HostId) {
        self.disk(host, |disk, _, _| disk.crash());
        self.take_disk(host);
    }

    fn take_disk(&self, host: HostId) {
        let waiting = self.disks(|disks| {
            disks.down.insert(host);
            let syncs = disks.syncs.iter().filter(|(_, other)| **other == host);
            Vec::from_iter(syncs.map(|(op, _)| *op))
        });
        self.note_news(waiting);
    }

    /// Crashes a host's disk, which then loses what it does not have for certain.
    pub(crate) fn fail_power_of_disk(&self, host: HostId) {
        self.disk(host, |disk, context, _| disk.power_fail(context));
        self.take_disk(host);
    }

    /// Gives a host that has crashed its disk again.
    pub(crate) fn restart_disk(&self, host: HostId) {
        self.disks(|disks| disks.down.remove(&host));
    }

    /// Ends a sync whose time has come. Returns whether its op is still waiting.
    pub(super) fn finish_sync(&self, op: u64) -> bool {
        let host = self.disks(|disks| disks.syncs.get(&op).copied());
        host.is_some_and(|host| self.disk(host, |disk, context, _| disk.finish_sync(op, context)))
    }

    /// Returns the descriptor of an open file of the host on which the current code runs.
    pub(super) fn own_file(&self, file: OpenFile) -> OwnedDescriptor {
        let (world, host) = (Weak::clone(&self.this), self.here());
        OwnedDescriptor::in_memory(Arc::new(File::Disk(DiskFile { world, host, file })))
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade() {
            world.disk(self.host, |disk, _, _| disk.close(self.file));
        }
    }
}

impl DiskFile {
    /// Returns the number of the open file.
    pub(super) fn number(&self) -> OpenFile {
        self.file
    }

    /// Calls `f` with the disk and the open file. The world of a simulation that has ended knows no
    /// file.
    pub(super) fn call<T>(
        &self,
        f: impl FnOnce(&mut Disk, OpenFile, &mut Context<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.call_for_op(|disk, context, _| f(disk, self.file, context))
    }

    /// Calls `f` with the disk and with the number of the op that the driver attempts, if it does.
    fn call_for_op<T>(
        &self,
        f: impl FnOnce(&mut Disk, &mut Context<'_>, Option<u64>) -> io::Result<T>,
    ) -> io::Result<T> {
        let world = self.world.upgrade().ok_or(rustix::io::Errno::CANCELED)?;
        world.check_up(self.host)?;
        world.disk(self.host, f)
    }

    /// Returns the facts about the file, and its cursor.
    pub(super) fn facts(&self) -> io::Result<(Facts, u64)> {
        self.call(|disk, file, _| disk.facts_of(file))
    }

    /// Notes which op the driver attempts next. A file has no other watchers, because it only
    /// changes for ops that wait for a sync of their own.
    pub(super) fn watch(&self, watcher: &Watcher) {
        if let (Watcher::Op(number), Some(world)) = (watcher, self.world.upgrade()) {
            world.disks(|disks| disks.attempted = Some(*number));
        }
    }

    /// Forgets an op that has ended or was cancelled.
    pub(super) fn unwatch(&self, watcher: &Watcher) {
        let (Watcher::Op(number), Some(world)) = (watcher, self.world.upgrade()) else { return };
        let host = world.disks(|disks| {
            disks.attempted = None;
            disks.syncs.remove(number)
        });
        if host.is_some() {
            world.disk(self.host, |disk, _, _| disk.cancel_sync(*number));
        }
    }

    /// Opens a descriptor that leads nowhere.
    pub(super) fn placeholder(&self) -> io::Result<OwnedFd> {
        path_descriptor()
    }

    /// Carries out an op without waiting, as the kernel would.
    ///
    /// # Safety
    /// Everything that the op points to is valid for this call, and no other code accesses it
    /// meanwhile.
    pub(super) unsafe fn attempt(&self, op: &Op<'_>) -> io::Result<u32> {
        let Op::File(FileOp { call, offset, .. }) = *op else {
            return match op {
                Op::Readiness { interest, .. } => Ok(u32::from(interest.events().cast_unsigned())),
                _ => Err(io::Error::from_raw_os_error(libc::ENOTSOCK)),
            };
        };
        let at = (offset != CURSOR).then_some(offset);
        let moved = match call {
            FileCall::Read { buf, len } => {
                // SAFETY: the caller promises a buffer of this length. (It is only written to.)
                self.read(unsafe { slice::from_raw_parts_mut(buf, len as usize) }, at)
            }
            FileCall::Write { buf, len } => {
                // SAFETY: the caller promises a buffer of this length.
                self.write(unsafe { slice::from_raw_parts(buf, len as usize) }, at)
            }
            FileCall::ReadVectored { buffers, count } => {
                // SAFETY: the caller promises this many buffers.
                let buffers = unsafe { buffers_of(buffers, count) };
                each(buffers, |buffer| {
                    let start = buffer.iov_base.cast::<u8>();
                    // SAFETY: the caller promises that each buffer is valid.
                    self.read(unsafe { slice::from_raw_parts_mut(start, buffer.iov_len) }, None)
                })
            }
            FileCall::WriteVectored { buffers, count } => {
                // SAFETY: the caller promises this many buffers.
                let buffers = unsafe { buffers_of(buffers, count) };
                each(buffers, |buffer| {
                    let start = buffer.iov_base.cast::<u8>();
                    // SAFETY: the caller promises that each buffer is valid.
                    self.write(unsafe { slice::from_raw_parts(start, buffer.iov_len) }, None)
                })
            }
            FileCall::Sync { data_only } => self.sync(data_only).map(|()| 0),
        };
        moved.map(|count| u32::try_from(count).expect("no more than one op can ask for"))
    }

    fn read(&self, buffer: &mut [u8], at: Option<u64>) -> io::Result<usize> {
        self.operate()?;
        self.call(|disk, file, context| disk.read(file, buffer, at, context))
    }

    fn write(&self, bytes: &[u8], at: Option<u64>) -> io::Result<usize> {
        self.operate()?;
        self.call(|disk, file, context| disk.write(file, bytes, at, context))
    }

    fn sync(&self, data_only: bool) -> io::Result<()> {
        let is_under_way =
            |disks: &mut Disks| disks.attempted.is_some_and(|op| disks.syncs.contains_key(&op));
        if !self.world.upgrade().is_some_and(|world| world.disks(is_under_way)) {
            self.operate()?;
        }
        self.call_for_op(|disk, context, op| disk.sync(self.file, data_only, op, context))
    }

    fn operate(&self) -> io::Result<()> {
        self.world.upgrade().map_or(Ok(()), |world| world.operate())
    }
}

/// Returns a list of buffers.
///
/// # Safety
/// There are this many buffers.
unsafe fn buffers_of<'a>(buffers: *const libc::iovec, count: u32) -> &'a [libc::iovec] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(buffers, count as usize) }
}

/// Transfers buffer by buffer, until one is not transferred as a whole.
fn each(
    buffers: &[libc::iovec],
    mut transfer: impl FnMut(&libc::iovec) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    for buffer in buffers.iter().filter(|buffer| buffer.iov_len > 0) {
        match transfer(buffer) {
            Ok(count) => {
                done += count;
                if count < buffer.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Returns the file of a disk that a descriptor names.
///
/// # Errors
/// Fails if the descriptor names something else.
pub(super) fn file_of(descriptor: &Descriptor) -> io::Result<&DiskFile> {
    match descriptor.file() {
        Some(File::Disk(file)) => Ok(file),
        Some(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        None => Err(unsupported("the use of a descriptor of the kernel as a file")),
    }
}

/// Returns std's type with these facts.
///
/// Such a value can only come from the kernel. Of a file it is that of a file in the kernel's
/// memory, which gets the same length, permissions and times. Of other inodes, only the kind is as
/// it should be.
pub(super) fn metadata_of(facts: &Facts) -> io::Result<Metadata> {
    simulated::aside(|| real_metadata_like(facts))
}

fn real_metadata_like(facts: &Facts) -> io::Result<Metadata> {
    let Attributes { mode, accessed, modified, .. } = facts.attributes;
    match facts.kind {
        Kind::File => {
            let file = file_in_memory(accessed, modified)?;
            file.set_len(facts.size)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            // After the length, which has set the time.
            file.set_times(FileTimes::new().set_accessed(accessed).set_modified(modified))?;
            file.metadata()
        }
        Kind::Directory => fs::metadata("/"),
        Kind::Link => fs::symlink_metadata("/proc/self"),
        Kind::Socket => {
            let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
            fs::File::from(socket).metadata()
        }
    }
}

/// Returns std's type of a kind of file.
pub(super) fn type_of(facts: &Facts) -> io::Result<FileType> {
    Ok(metadata_of(facts)?.file_type())
}

/// Returns the times of last access and modification that std's value sets. It does not show them,
/// so they are set on a file in the kernel's memory.
pub(super) fn times_of(times: FileTimes, now: &Attributes) -> io::Result<(SystemTime, SystemTime)> {
    let file = file_in_memory(now.accessed, now.modified)?;
    file.set_times(times)?;
    let metadata = simulated::aside(|| file.metadata())?;
    Ok((metadata.accessed()?, metadata.modified()?))
}

fn file_in_memory(accessed: SystemTime, modified: SystemTime) -> io::Result<fs::File> {
    let file = fs::File::from(memfd_create(c"ecru-simulated", MemfdFlags::CLOEXEC)?);
    file.set_times(FileTimes::new().set_accessed(accessed).set_modified(modified))?;
    Ok(file)
}
