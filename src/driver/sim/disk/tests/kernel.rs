//! The same random calls on a disk and on a file system of the kernel: the same results, errors and
//! contents.
#![expect(unsafe_code, reason = "sets the user of a thread")]

use super::{Dice, Home, Machine};
use crate::driver::sim::disk::{Facts, Kind, Lock, OpenFile, Owner};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat};
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// How many files are open at most.
const SLOTS: usize = 6;
const LONGEST: u64 = 40_000;

/// A call. Paths are relative to a directory of the test.
#[derive(Clone, Debug)]
enum Call {
    Open { slot: usize, path: String, flags: i32, mode: u32 },
    Close { slot: usize },
    Read { slot: usize, length: usize, at: Option<u64> },
    Write { slot: usize, bytes: Vec<u8>, at: Option<u64> },
    Seek { slot: usize, to: io::SeekFrom },
    SetLength { slot: usize, length: u64 },
    Lock { slot: usize, lock: Lock },
    FactsOf { slot: usize },
    SetModeOf { slot: usize, mode: u32 },
    Look { path: String, follow: bool },
    MakeDirectory { path: String, mode: u32 },
    MakeDirectories { path: String },
    RemoveFile { path: String },
    RemoveDirectory { path: String },
    RemoveTree { path: String },
    Rename { from: String, to: String },
    HardLink { original: String, link: String },
    SymbolicLink { target: String, link: String },
    ReadLink { path: String },
    Canonicalize { path: String },
    List { path: String },
    SetMode { path: String, mode: u32 },
    SetOwner { path: String, follow: bool, owner: Owner },
    ReadFile { path: String },
    WriteFile { path: String, bytes: Vec<u8> },
    Copy { from: String, to: String },
}

/// What a call returns.
#[derive(Debug, PartialEq)]
enum Answer {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
    Path(PathBuf),
    Names(Vec<(OsString, Kind)>),
    Facts { kind: Kind, size: u64, mode: u32, names: u64, user: u32, group: u32 },
}

/// The code of the error, or 0 for an error that is not the kernel's.
type Outcome = Result<Answer, i32>;

/// Both sides of the comparison.
struct Pair {
    base: PathBuf,
    is_privileged: bool,
    machine: Machine,
    ours: [Option<OpenFile>; SLOTS],
    theirs: [Option<OwnedFd>; SLOTS],
}

fn mode_of(dice: &mut Dice) -> u32 {
    // Mostly such that something can be done.
    dice.pick(&[0o777, 0o755, 0o644, 0o700, 0o600, 0o500, 0o300, 0o400, 0o100, 0o1777, 0o000])
}

fn name(dice: &mut Dice) -> String {
    match dice.below(60) {
        0 => "n".repeat(255),
        1 => "n".repeat(256),
        _ => dice.pick(&["a", "b", "c", "d", "e"]).to_owned(),
    }
}

fn path(dice: &mut Dice) -> String {
    let mut path = name(dice);
    for _ in 0..dice.pick(&[0, 0, 0, 1, 1, 2]) {
        path += dice.pick(&["/", "/", "/", "/", "//", "/./"]);
        path += &name(dice);
    }
    // No path leaves the directory of the test, because no link leads to that directory itself.
    path += dice.pick(&["", "", "", "", "", "", "", "", "", "", "/", "/.", "/.."]);
    match dice.below(150) {
        0 => ".".to_owned(),
        1 => format!("{path}\0"),
        2 => "a/".repeat(2500),
        3 => "/".to_owned(),
        4 => String::new(),
        _ => path,
    }
}

fn bytes(dice: &mut Dice) -> Vec<u8> {
    let length = dice.pick(&[0, 1, 10, 511, 512, 513, 4095, 4096, 5000, 9000]);
    let first = dice.any() as u8;
    (0..length).map(|place: usize| first.wrapping_add(place as u8)).collect()
}

fn place(dice: &mut Dice) -> u64 {
    dice.any() % LONGEST
}

fn call(dice: &mut Dice) -> Call {
    let slot = dice.below(SLOTS);
    let at = if dice.one_in(2) { Some(place(dice)) } else { None };
    match dice.below(60) {
        0..10 => {
            let mut flags =
                dice.pick(&[libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDWR]);
            let more = [
                (libc::O_CREAT, 2),
                (libc::O_EXCL, 6),
                (libc::O_TRUNC, 4),
                (libc::O_APPEND, 4),
                (libc::O_NOFOLLOW, 8),
                (libc::O_DIRECTORY, 10),
                (libc::O_PATH, 12),
                (libc::O_TMPFILE, 20),
            ];
            for (flag, odds) in more {
                if dice.one_in(odds) {
                    flags |= flag;
                }
            }
            // Kernels before 6.4 disagree about this one.
            if flags & libc::O_CREAT != 0 && flags & libc::O_TMPFILE != libc::O_TMPFILE {
                flags &= !libc::O_DIRECTORY;
            }
            Call::Open { slot, path: path(dice), flags, mode: mode_of(dice) }
        }
        10 => Call::Close { slot },
        11..15 => Call::Read { slot, length: dice.pick(&[0, 1, 100, 5000, 50_000]), at },
        15..21 => Call::Write { slot, bytes: bytes(dice), at },
        21 => {
            let distance = place(dice) as i64 - LONGEST as i64 / 2;
            let to = dice.pick(&[
                io::SeekFrom::Start(distance.unsigned_abs()),
                io::SeekFrom::Current(distance),
                io::SeekFrom::End(distance),
            ]);
            Call::Seek { slot, to }
        }
        22..24 => Call::SetLength { slot, length: place(dice) },
        24..26 => {
            Call::Lock { slot, lock: dice.pick(&[Lock::Shared, Lock::Exclusive, Lock::Unlock]) }
        }
        26 => Call::FactsOf { slot },
        27 => Call::SetModeOf { slot, mode: mode_of(dice) },
        28..31 => Call::Look { path: path(dice), follow: dice.one_in(2) },
        31..34 => Call::MakeDirectory { path: path(dice), mode: mode_of(dice) },
        34 => Call::MakeDirectories { path: path(dice) },
        35..37 => Call::RemoveFile { path: path(dice) },
        37..39 => Call::RemoveDirectory { path: path(dice) },
        39 => Call::RemoveTree { path: path(dice) },
        40..45 => Call::Rename { from: path(dice), to: path(dice) },
        45..47 => Call::HardLink { original: path(dice), link: path(dice) },
        47..50 => {
            let targets = ["a", "b", "a/b", "./c", "d/", "../base/e", "missing", "a//b/c"];
            Call::SymbolicLink { target: dice.pick(&targets).to_owned(), link: path(dice) }
        }
        50 => Call::ReadLink { path: path(dice) },
        51..53 => Call::Canonicalize { path: path(dice) },
        53..55 => Call::List { path: path(dice) },
        55 => Call::SetMode { path: path(dice), mode: mode_of(dice) },
        56 => {
            let ids = [None, Some(1000), Some(1001)];
            let owner = Owner { user: dice.pick(&ids), group: dice.pick(&ids) };
            Call::SetOwner { path: path(dice), follow: dice.one_in(2), owner }
        }
        57 => Call::ReadFile { path: path(dice) },
        58 => Call::WriteFile { path: path(dice), bytes: bytes(dice) },
        _ => Call::Copy { from: path(dice), to: path(dice) },
    }
}

fn code(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn done<T>(result: io::Result<T>, answer: impl FnOnce(T) -> Answer) -> Outcome {
    result.map(answer).map_err(|error| code(&error))
}

fn nothing<T>(_: T) -> Answer {
    Answer::Nothing
}

fn our_facts(facts: Facts) -> Answer {
    let Facts { kind, size, names, attributes, .. } = facts;
    // File systems differ in the sizes and counts of directories.
    let (size, names) = if kind == Kind::Directory { (0, 0) } else { (size, u64::from(names)) };
    let (user, group) = (attributes.user, attributes.group);
    Answer::Facts { kind, size, mode: attributes.mode, names, user, group }
}

fn their_facts(found: Stat) -> Answer {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        other => panic!("the test makes no such file: {other:?}"),
    };
    let (size, names) = match kind {
        Kind::Directory => (0, 0),
        #[allow(clippy::unnecessary_cast, reason = "other processors have smaller counts of links")]
        _ => (found.st_size as u64, found.st_nlink as u64),
    };
    let (user, group) = (found.st_uid, found.st_gid);
    Answer::Facts { kind, size, mode: found.st_mode & 0o7777, names, user, group }
}

impl Pair {
    /// Returns the path for both sides. The empty path and the root are what they are.
    fn full(&self, path: &str) -> PathBuf {
        match path {
            "" | "/" => PathBuf::from(path),
            // Not `join`, which would drop what follows the last name.
            path => PathBuf::from(format!("{}/{path}", self.base.display())),
        }
    }

    fn ours(&mut self, call: &Call) -> Outcome {
        let full = |path: &str| self.full(path);
        let paths = match call {
            Call::Rename { from, to } | Call::Copy { from, to } => (full(from), full(to)),
            Call::HardLink { original, link } => (full(original), full(link)),
            Call::SymbolicLink { target, link } => (PathBuf::from(target), full(link)),
            Call::Open { path, .. }
            | Call::Look { path, .. }
            | Call::MakeDirectory { path, .. }
            | Call::MakeDirectories { path }
            | Call::RemoveFile { path }
            | Call::RemoveDirectory { path }
            | Call::RemoveTree { path }
            | Call::ReadLink { path }
            | Call::Canonicalize { path }
            | Call::List { path }
            | Call::SetMode { path, .. }
            | Call::SetOwner { path, .. }
            | Call::ReadFile { path }
            | Call::WriteFile { path, .. } => (full(path), PathBuf::new()),
            _ => (PathBuf::new(), PathBuf::new()),
        };
        let (path, other) = (paths.0.as_path(), paths.1.as_path());
        let (held, slots) = (self.ours, &mut self.ours);
        // An empty slot behaves as a closed file.
        let open = |slot: usize| held[slot].unwrap_or(OpenFile(0));
        self.machine.call(|disk, context| match call {
            Call::Open { slot, flags, mode, .. } => {
                let opened = disk.open(path, *flags, *mode, context);
                if let Some(before) = slots[*slot].take() {
                    disk.close(before);
                }
                slots[*slot] = opened.as_ref().ok().copied();
                done(opened, nothing)
            }
            Call::Close { slot } => {
                if let Some(before) = slots[*slot].take() {
                    disk.close(before);
                }
                Ok(Answer::Nothing)
            }
            Call::Read { slot, length, at } => {
                let mut buffer = vec![0; *length];
                let read = disk.read(open(*slot), &mut buffer, *at, context);
                done(read, |count| Answer::Bytes(buffer[..count].to_vec()))
            }
            Call::Write { slot, bytes, at } => {
                let written = disk.write(open(*slot), bytes, *at, context);
                done(written, |count| Answer::Number(count as u64))
            }
            Call::Seek { slot, to } => done(disk.seek(open(*slot), *to), Answer::Number),
            Call::SetLength { slot, length } => {
                done(disk.set_length(open(*slot), *length, context), nothing)
            }
            Call::Lock { slot, lock } => done(disk.lock(open(*slot), *lock), nothing),
            Call::FactsOf { slot } => {
                done(disk.facts_of(open(*slot)), |(facts, _)| our_facts(facts))
            }
            Call::SetModeOf { slot, mode } => done(disk.set_open_mode(open(*slot), *mode), nothing),
            Call::Look { follow, .. } => done(disk.look(path, *follow), our_facts),
            Call::MakeDirectory { mode, .. } => {
                done(disk.make_directory(path, *mode, context), nothing)
            }
            Call::MakeDirectories { .. } => {
                done(disk.make_directories(path, 0o777, context), nothing)
            }
            Call::RemoveFile { .. } => done(disk.remove_file(path, context), nothing),
            Call::RemoveDirectory { .. } => done(disk.remove_directory(path, context), nothing),
            Call::RemoveTree { .. } => done(disk.remove_tree(path, context), nothing),
            Call::Rename { .. } => done(disk.rename(path, other, context), nothing),
            Call::HardLink { .. } => done(disk.hard_link(path, other, context), nothing),
            Call::SymbolicLink { .. } => done(disk.symbolic_link(path, other, context), nothing),
            Call::ReadLink { .. } => done(disk.target_of(path), Answer::Path),
            Call::Canonicalize { .. } => done(disk.real_path(path), Answer::Path),
            Call::List { .. } => done(disk.list(path, context), |(_, entries)| {
                let entries = entries.into_iter().map(|entry| (entry.name, entry.kind));
                Answer::Names(entries.collect())
            }),
            Call::SetMode { mode, .. } => done(disk.set_mode(path, *mode), nothing),
            Call::SetOwner { follow, owner, .. } => {
                done(disk.set_owner(path, *follow, *owner), nothing)
            }
            Call::ReadFile { .. } => done(disk.read_file(path, context), Answer::Bytes),
            Call::WriteFile { bytes, .. } => done(disk.write_file(path, bytes, context), nothing),
            Call::Copy { .. } => done(disk.copy_file(path, other, context), Answer::Number),
        })
    }

    fn theirs(&mut self, call: &Call) -> Outcome {
        let full = |path: &str| self.full(path);
        match call {
            Call::Open { slot, path, flags, mode } => {
                let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
                let path = full(path);
                let opened = if path.as_os_str().as_encoded_bytes().contains(&0) {
                    // As std, which ecru's files are opened by.
                    Err(io::ErrorKind::InvalidInput.into())
                } else {
                    rustix::fs::open(&path, flags, Mode::from_raw_mode(*mode)).map_err(Into::into)
                };
                // After the new file is open, so that its inode is another one.
                self.theirs[*slot] = None;
                done(opened, |fd| {
                    self.theirs[*slot] = Some(fd);
                    Answer::Nothing
                })
            }
            Call::Close { slot } => {
                self.theirs[*slot] = None;
                Ok(Answer::Nothing)
            }
            Call::Read { slot, length, at } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                let mut buffer = vec![0; *length];
                let count = match at {
                    Some(at) => rustix::io::pread(fd, &mut buffer, *at),
                    None => rustix::io::read(fd, &mut buffer),
                };
                done(count.map_err(Into::into), |count| Answer::Bytes(buffer[..count].to_vec()))
            }
            Call::Write { slot, bytes, at } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                let count = match at {
                    Some(at) => rustix::io::pwrite(fd, bytes, *at),
                    None => rustix::io::write(fd, bytes),
                };
                done(count.map_err(Into::into), |count| Answer::Number(count as u64))
            }
            Call::Seek { slot, to } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                let to = match *to {
                    io::SeekFrom::Start(place) => SeekFrom::Start(place),
                    io::SeekFrom::End(distance) => SeekFrom::End(distance),
                    io::SeekFrom::Current(distance) => SeekFrom::Current(distance),
                };
                done(rustix::fs::seek(fd, to).map_err(Into::into), Answer::Number)
            }
            Call::SetLength { slot, length } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                done(rustix::fs::ftruncate(fd, *length).map_err(Into::into), nothing)
            }
            Call::Lock { slot, lock } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                let operation = match lock {
                    Lock::Shared => FlockOperation::NonBlockingLockShared,
                    Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
                    Lock::Unlock => FlockOperation::NonBlockingUnlock,
                };
                done(rustix::fs::flock(fd, operation).map_err(Into::into), nothing)
            }
            Call::FactsOf { slot } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                done(rustix::fs::fstat(fd).map_err(Into::into), their_facts)
            }
            Call::SetModeOf { slot, mode } => {
                let fd = self.theirs[*slot].as_ref().ok_or(libc::EBADF)?;
                let mode = Mode::from_raw_mode(*mode);
                done(rustix::fs::fchmod(fd, mode).map_err(Into::into), nothing)
            }
            Call::Look { path, follow } => {
                let path = full(path);
                let flags = if *follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
                if path.as_os_str().as_encoded_bytes().contains(&0) {
                    return Err(0);
                }
                let found = rustix::fs::statat(rustix::fs::CWD, &path, flags);
                done(found.map_err(Into::into), their_facts)
            }
            Call::MakeDirectory { path, mode } => {
                done(DirBuilder::new().mode(*mode).create(full(path)), nothing)
            }
            Call::MakeDirectories { path } => done(fs::create_dir_all(full(path)), nothing),
            Call::RemoveFile { path } => done(fs::remove_file(full(path)), nothing),
            Call::RemoveDirectory { path } => done(fs::remove_dir(full(path)), nothing),
            Call::RemoveTree { path } => done(fs::remove_dir_all(full(path)), nothing),
            Call::Rename { from, to } => done(fs::rename(full(from), full(to)), nothing),
            Call::HardLink { original, link } => {
                done(fs::hard_link(full(original), full(link)), nothing)
            }
            Call::SymbolicLink { target, link } => {
                done(std::os::unix::fs::symlink(target, full(link)), nothing)
            }
            Call::ReadLink { path } => done(fs::read_link(full(path)), Answer::Path),
            Call::Canonicalize { path } => done(fs::canonicalize(full(path)), Answer::Path),
            Call::List { path } => {
                let entries = fs::read_dir(full(path)).map_err(|error| code(&error))?;
                let mut names = Vec::from_iter(entries.map(|entry| {
                    let entry = entry.unwrap();
                    (entry.file_name(), kind(entry.file_type().unwrap()))
                }));
                names.sort_by(|one, other| one.0.cmp(&other.0));
                Ok(Answer::Names(names))
            }
            Call::SetMode { path, mode } => {
                done(fs::set_permissions(full(path), fs::Permissions::from_mode(*mode)), nothing)
            }
            Call::SetOwner { path, follow, owner } => {
                let set =
                    if *follow { std::os::unix::fs::chown } else { std::os::unix::fs::lchown };
                done(set(full(path), owner.user, owner.group), nothing)
            }
            Call::ReadFile { path } => done(fs::read(full(path)), Answer::Bytes),
            Call::WriteFile { path, bytes } => done(fs::write(full(path), bytes), nothing),
            Call::Copy { from, to } => done(fs::copy(full(from), full(to)), Answer::Number),
        }
    }

    /// Returns whether a call can be compared. What is left out, and is not a matter of this test, is
    /// listed in `doc/simulation.md`: the root is that of the machine, and file systems disagree about
    /// cursors in directories.
    fn is_comparable(&self, call: &Call) -> bool {
        let is_directory = |slot: usize| {
            let facts = self.ours[slot].and_then(|file| self.machine.disk.facts_of(file).ok());
            facts.is_some_and(|(facts, _)| facts.kind == Kind::Directory)
        };
        match call {
            Call::Seek { slot, .. } => !is_directory(*slot),
            Call::Look { path, .. } | Call::List { path } => path != "/",
            // Without rights to the directory of the test, nothing else could be done.
            Call::SetModeOf { slot, .. } => !is_directory(*slot),
            Call::SetMode { path, .. } => path != "/" && !path.ends_with('.'),
            Call::SetOwner { path, .. } => path != "/",
            // If something cannot be removed, the order decides what is removed before it.
            Call::RemoveTree { path } => path != "/" && self.is_privileged,
            // The C library takes paths of any length here, and needs no right for a dot.
            Call::Canonicalize { path } => {
                path.len() < 4000 && (self.is_privileged || !path.contains("/."))
            }
            // The root is another file system.
            Call::Rename { from: path, to: other }
            | Call::HardLink { original: path, link: other } => path != "/" && other != "/",
            Call::Open { path, .. } => path != "/",
            _ => true,
        }
    }
}

fn kind(kind: fs::FileType) -> Kind {
    assert!(!kind.is_fifo());
    match () {
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_symlink() => Kind::Link,
        () => Kind::File,
    }
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

/// Creates a directory for a test that is its own, in memory if possible.
fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    place.join(format!("ecru-disk-{}-{number}", std::process::id()))
}

/// Makes calls on both sides, as this user if it is not `None`.
fn compare(seed: u64, calls: usize, user: Option<u32>) {
    let top = folder();
    let base = top.join("base");
    fs::create_dir_all(&base).unwrap();
    if user.is_some() {
        std::os::unix::fs::chown(&base, user, user).unwrap();
    }
    let owner = fs::metadata(&base).unwrap();
    let home = Home {
        current: base.clone(),
        others: Vec::new(),
        user: owner.uid(),
        group: owner.gid(),
        umask: umask(),
    };
    let run = {
        let is_privileged = home.user == 0;
        let machine = Machine::of(home, seed);
        let (ours, theirs) = ([None; SLOTS], [const { None }; SLOTS]);
        let mut pair = Pair { base, is_privileged, machine, ours, theirs };
        move || {
            if let Some(user) = user {
                // SAFETY: the call concerns the calling thread only, which ends afterwards.
                unsafe { libc::setfsgid(user) };
                // SAFETY: the call concerns the calling thread only, which ends afterwards.
                unsafe { libc::setfsuid(user) };
            }
            let mut dice = Dice(seed);
            let mut history = Vec::new();
            for step in 0..calls {
                let call = call(&mut dice);
                if !pair.is_comparable(&call) {
                    continue;
                }
                let (theirs, ours) = (pair.theirs(&call), pair.ours(&call));
                if ours != theirs {
                    let last = &history[history.len().saturating_sub(40)..];
                    let last = Vec::from_iter(last.iter().map(|call| {
                        let text = format!("{call:?}");
                        format!("{text:.200}")
                    }));
                    let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
                    panic!(
                        "seed {seed}, step {step}: {call:?}\n{ours:.400}\n{theirs:.400}\nafter\n{}",
                        last.join("\n")
                    );
                }
                history.push((call, theirs.err()));
            }
        }
    };
    let outcome = thread::Builder::new().spawn(run).unwrap().join();
    let removed = fs::remove_dir_all(&top);
    if let Err(payload) = outcome {
        std::panic::resume_unwind(payload);
    }
    removed.unwrap();
}

#[test]
fn random_calls_have_the_results_of_the_kernel() {
    for seed in 0..8 {
        compare(seed, 500, None);
    }
}

#[test]
fn random_calls_of_a_user_without_privileges_have_the_results_of_the_kernel() {
    if !rustix::process::geteuid().is_root() {
        // The other test compares as that user. The harness would hide what the macros print from
        // `.ci/steps`, which counts this line.
        let text = "\nskipped: comparing a disk for two users, which takes root\n";
        let _ = io::stderr().write_all(text.as_bytes());
        return;
    }
    for seed in 0..8 {
        compare(seed, 500, Some(1000));
    }
}

#[test]
fn many_random_calls_have_the_results_of_the_kernel_slow() {
    let count = std::env::var("ECRU_DISK_SEEDS").ok().and_then(|count| count.parse().ok());
    for seed in 100..100 + count.unwrap_or(20) {
        compare(seed, 3000, None);
        if rustix::process::geteuid().is_root() {
            compare(seed, 3000, Some(1000));
        }
    }
}
