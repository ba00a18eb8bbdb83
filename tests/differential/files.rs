//! Files and directories.
//!
//! Rights are not compared: a simulated program is a user without privileges, and this process may
//! be root. So all modes let their owner do everything. The tests of the simulated disk compare
//! rights with those of the kernel.

use crate::program::{Model, scratch_path, shown, shown_error};
use ecru::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What programs operate on. Both begin with the file `a`, the empty directory `d`, and the link
/// `l` to the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files {
    /// Up to three open files.
    Open,
    /// The names of a directory.
    Names,
}

type Name = &'static str;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Open(usize, Name, How),
    Close(usize),
    /// Makes the second file another handle of the first one.
    Clone(usize, usize),
    Read(usize, usize),
    ReadAt(usize, usize, u64),
    Write(usize, usize),
    WriteAt(usize, usize, u64),
    Seek(usize, SeekFrom),
    SetLen(usize, u64),
    Facts(usize),
    /// Sets the time of the last change to a time long ago.
    SetOld(usize),
    SetModeOf(usize, u32),
    Sync(usize),
    TryLock(usize),
    TryLockShared(usize),
    Unlock(usize),
    ReadAll(Name),
    WriteAll(Name, usize),
    Copy(Name, Name),
    FactsAt(Name),
    LinkFactsAt(Name),
    Exists(Name),
    SetMode(Name, u32),
    Owner(Name),
    CreateDir(Name),
    CreateDirAll(Name),
    RemoveFile(Name),
    RemoveDir(Name),
    RemoveDirAll(Name),
    Rename(Name, Name),
    HardLink(Name, Name),
    Symlink(Name, Name),
    ReadLink(Name),
    Canonicalize(Name),
    ReadDir(Name),
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Read,
    Write,
    ReadWrite,
    Truncate,
    Create,
    CreateTruncate,
    CreateNew,
    Append,
    ReadAppendCreate,
    /// Refused by the library.
    Nothing,
    TruncateAppend,
}

impl How {
    const ALL: [How; 11] = [
        How::Read,
        How::Write,
        How::ReadWrite,
        How::Truncate,
        How::Create,
        How::CreateTruncate,
        How::CreateNew,
        How::Append,
        How::ReadAppendCreate,
        How::Nothing,
        How::TruncateAppend,
    ];

    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        match self {
            How::Read => options.read(true),
            How::Write => options.write(true),
            How::ReadWrite => options.read(true).write(true),
            How::Truncate => options.read(true).write(true).truncate(true),
            How::Create => options.read(true).write(true).create(true),
            How::CreateTruncate => options.write(true).create(true).truncate(true),
            How::CreateNew => options.read(true).write(true).create_new(true),
            How::Append => options.append(true),
            How::ReadAppendCreate => options.read(true).append(true).create(true),
            How::Nothing => &mut options,
            How::TruncateAppend => options.append(true).truncate(true),
        };
        options
    }
}

/// How many files are open at most.
const SLOTS: usize = 3;

/// The paths of programs. `missing` never exists, and a path must not leave the folder.
const NAMES: [Name; 13] =
    ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "l", "l/", "a/", "d/./a", "d/../b", "missing/a"];

/// Files of programs that open them.
const OPENED: [Name; 6] = ["a", "b", "l", "d", "d/a", "a/b"];

const MODES: [u32; 4] = [0o700, 0o755, 0o1777, 0o711];

pub(crate) struct State {
    base: PathBuf,
    /// As [`fs::canonicalize`] returns it.
    real: PathBuf,
    files: [Option<File>; SLOTS],
    written: u8,
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// A time at which nothing is written.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

/// Describes bytes by the lengths of their runs.
fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|one, other| one == other);
    runs.map(|run| format!("{}x{} ", run.len(), run[0])).collect()
}

/// Describes what is known of a file, as far as simulations know it: `doc/simulation.md` lists what
/// they do not.
fn facts(found: io::Result<fs::Metadata>) -> String {
    shown(found.map(|found| {
        let kind = found.file_type();
        if kind.is_dir() || kind.is_symlink() {
            return format!("{} {}", kind.is_dir(), kind.is_symlink());
        }
        // The bits that no umask removes.
        let mode = found.permissions().mode() & 0o7700;
        let is_old = found.modified().unwrap() == long_ago();
        format!("file {} {mode:o} {is_old}", found.len())
    }))
}

fn locked(result: Result<(), TryLockError>) -> String {
    match result {
        Ok(()) => String::from("()"),
        Err(TryLockError::WouldBlock) => String::from("WouldBlock"),
        Err(TryLockError::Error(error)) => shown_error(&error),
    }
}

impl Model for Files {
    type Op = Op;
    type State = State;

    fn operations(self) -> Vec<Op> {
        match self {
            Files::Open => (0..SLOTS).flat_map(on_slot).chain(on_names(&OPENED)).collect(),
            Files::Names => on_names(&NAMES).chain(on_pairs(&NAMES)).collect(),
        }
    }

    fn begin(self) -> State {
        let base = scratch_path();
        fs::create_dir(&base).unwrap();
        fs::write(base.join("a"), [1; 5000]).unwrap();
        fs::create_dir(base.join("d")).unwrap();
        fs::symlink("a", base.join("l")).unwrap();
        let real = fs::canonicalize(&base).unwrap();
        State { base, real, files: [const { None }; SLOTS], written: 1 }
    }

    fn step(self, state: &mut State, op: Op) -> String {
        let base = state.base.clone();
        // Not `join`, which would drop what follows the last name.
        let at = |name: Name| PathBuf::from(format!("{}/{name}", base.display()));
        match op {
            Op::Open(slot, name, how) => {
                let opened = how.options().open(at(name));
                let result = shown(opened.as_ref().map(|_| ()).map_err(clone_error));
                state.files[slot] = opened.ok();
                result
            }
            Op::Close(slot) => {
                state.files[slot] = None;
                String::from("closes")
            }
            Op::Clone(from, to) => {
                let Some(file) = &state.files[from] else { return String::from("closed") };
                state.files[to] = Some(file.try_clone().unwrap());
                String::from("clones")
            }
            Op::ReadAll(name) => shown(fs::read(at(name)).map(|bytes| runs(&bytes))),
            Op::WriteAll(name, size) => {
                let bytes = state.bytes(size);
                shown(fs::write(at(name), bytes))
            }
            Op::Copy(from, to) => shown(fs::copy(at(from), at(to))),
            Op::FactsAt(name) => facts(fs::metadata(at(name))),
            Op::LinkFactsAt(name) => facts(fs::symlink_metadata(at(name))),
            Op::Exists(name) => shown(fs::exists(at(name))),
            Op::SetMode(name, mode) => {
                shown(fs::set_permissions(at(name), fs::Permissions::from_mode(mode)))
            }
            Op::Owner(name) => shown(fs::chown(at(name), None, None)),
            Op::CreateDir(name) => shown(fs::create_dir(at(name))),
            Op::CreateDirAll(name) => shown(fs::create_dir_all(at(name))),
            Op::RemoveFile(name) => shown(fs::remove_file(at(name))),
            Op::RemoveDir(name) => shown(fs::remove_dir(at(name))),
            Op::RemoveDirAll(name) => shown(fs::remove_dir_all(at(name))),
            Op::Rename(from, to) => shown(fs::rename(at(from), at(to))),
            Op::HardLink(original, link) => shown(fs::hard_link(at(original), at(link))),
            Op::Symlink(target, link) => shown(fs::symlink(target, at(link))),
            Op::ReadLink(name) => shown(fs::read_link(at(name))),
            Op::Canonicalize(name) => shown(fs::canonicalize(at(name)).map(|path| {
                path.strip_prefix(&state.real).map(Path::to_owned).unwrap_or(path.clone())
            })),
            Op::ReadDir(name) => shown(names_in(&at(name))),
            Op::Read(slot, _)
            | Op::ReadAt(slot, ..)
            | Op::Write(slot, _)
            | Op::WriteAt(slot, ..)
            | Op::Seek(slot, _)
            | Op::SetLen(slot, _)
            | Op::Facts(slot)
            | Op::SetOld(slot)
            | Op::SetModeOf(slot, _)
            | Op::Sync(slot)
            | Op::TryLock(slot)
            | Op::TryLockShared(slot)
            | Op::Unlock(slot) => state.step_on_file(slot, op),
        }
    }

    fn excuse(self, program: &[Op], real: &str, simulated: &str) -> Option<&'static str> {
        match (program.last()?, real, simulated) {
            (Op::Open(..), "InvalidInput", "InvalidInput (22)") => Some("options that std refuses"),
            (Op::Read(_, 0), "\"\"", "IsADirectory (21)") => Some("nothing read from a directory"),
            _ => None,
        }
    }
}

impl State {
    /// Returns bytes that were not written before.
    fn bytes(&mut self, size: usize) -> Vec<u8> {
        self.written += 1;
        vec![self.written; size]
    }

    fn step_on_file(&mut self, slot: usize, op: Op) -> String {
        let bytes = match op {
            Op::Write(_, size) | Op::WriteAt(_, size, _) => self.bytes(size),
            Op::Read(_, size) | Op::ReadAt(_, size, _) => vec![0; size],
            _ => Vec::new(),
        };
        let Some(file) = &self.files[slot] else { return String::from("closed") };
        let (mut file, mut buffer) = (file, bytes);
        let read = |result: io::Result<usize>, buffer: &[u8]| {
            shown(result.map(|count| runs(&buffer[..count])))
        };
        match op {
            Op::Read(..) => {
                let result = file.read(&mut buffer);
                read(result, &buffer)
            }
            Op::ReadAt(_, _, place) => {
                let result = file.read_at(&mut buffer, place);
                read(result, &buffer)
            }
            Op::Write(..) => shown(file.write(&buffer)),
            Op::WriteAt(_, _, place) => shown(file.write_at(&buffer, place)),
            // File systems disagree about cursors in directories.
            Op::Seek(..) if file.metadata().unwrap().is_dir() => String::from("not compared"),
            Op::Seek(_, to) => shown(file.seek(to)),
            Op::SetLen(_, size) => shown(file.set_len(size)),
            Op::Facts(_) => facts(file.metadata()),
            Op::SetOld(_) => shown(file.set_modified(long_ago())),
            Op::SetModeOf(_, mode) => shown(file.set_permissions(fs::Permissions::from_mode(mode))),
            Op::Sync(_) => shown(file.sync_all()),
            Op::TryLock(_) => locked(file.try_lock()),
            Op::TryLockShared(_) => locked(file.try_lock_shared()),
            Op::Unlock(_) => shown(file.unlock()),
            _ => unreachable!("the caller passes operations of open files"),
        }
    }
}

/// The names in a directory, in their order, with what they are.
fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(path)?.map(|entry| {
        let entry = entry?;
        let kind = entry.file_type()?;
        let kind = if kind.is_dir() {
            "/"
        } else if kind.is_symlink() {
            "@"
        } else {
            ""
        };
        Ok(format!("{}{kind}", entry.file_name().display()))
    });
    let mut names = entries.collect::<io::Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Returns an error that is shown as this one.
fn clone_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error)
}

fn on_slot(slot: usize) -> Vec<Op> {
    let mut ops = vec![
        Op::Close(slot),
        Op::Clone(slot, (slot + 1) % SLOTS),
        Op::Facts(slot),
        Op::SetOld(slot),
        Op::SetModeOf(slot, 0o1700),
        Op::Sync(slot),
        Op::TryLock(slot),
        Op::TryLockShared(slot),
        Op::Unlock(slot),
    ];
    ops.extend([0, 100, 4096, 6000].map(|size| Op::Read(slot, size)));
    ops.extend([(100, 0), (6000, 4000), (10, 20_000)].map(|(n, at)| Op::ReadAt(slot, n, at)));
    ops.extend([0, 1, 100, 4096, 5000].map(|size| Op::Write(slot, size)));
    ops.extend([(0, 9000), (100, 4050), (5000, 9000)].map(|(n, at)| Op::WriteAt(slot, n, at)));
    let places = [
        SeekFrom::Start(0),
        SeekFrom::Start(4095),
        SeekFrom::Start(12_000),
        SeekFrom::Current(0),
        SeekFrom::Current(-100),
        SeekFrom::Current(100),
        SeekFrom::End(0),
        SeekFrom::End(-4096),
        SeekFrom::End(10),
    ];
    ops.extend(places.map(|to| Op::Seek(slot, to)));
    ops.extend([0, 4096, 5000, 10_000].map(|size| Op::SetLen(slot, size)));
    let opens = OPENED.iter().flat_map(|name| How::ALL.map(|how| Op::Open(slot, name, how)));
    ops.extend(opens);
    ops
}

fn on_names(names: &'static [Name]) -> impl Iterator<Item = Op> {
    names.iter().flat_map(|&name| {
        let mut ops = vec![
            Op::ReadAll(name),
            Op::FactsAt(name),
            Op::LinkFactsAt(name),
            Op::Exists(name),
            Op::Owner(name),
            Op::CreateDir(name),
            Op::CreateDirAll(name),
            Op::RemoveFile(name),
            Op::RemoveDir(name),
            Op::RemoveDirAll(name),
            Op::ReadLink(name),
            Op::Canonicalize(name),
            Op::ReadDir(name),
            Op::Rename(name, "b"),
            Op::Rename("a", name),
            Op::Copy("a", name),
        ];
        ops.extend([0, 1, 5000].map(|size| Op::WriteAll(name, size)));
        ops.extend(MODES.map(|mode| Op::SetMode(name, mode)));
        ops
    })
}

fn on_pairs(names: &'static [Name]) -> impl Iterator<Item = Op> {
    let targets = ["a", "d", "d/e", "e/../a", "l", "missing"];
    let symlinks = targets.into_iter().flat_map(|target| names.iter().map(move |n| (target, n)));
    let pairs = names.iter().flat_map(|one| names.iter().map(move |other| (*one, *other)));
    let of_pair = |(one, other)| [Op::Rename(one, other), Op::HardLink(one, other)];
    pairs.flat_map(of_pair).chain(symlinks.map(|(target, link)| Op::Symlink(target, link)))
}
