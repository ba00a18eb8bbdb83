//! The free functions. Each makes std's own call: at once if that does not wait, otherwise on a
//! thread that may block.

use super::facts;
use super::file::into_text;
use super::handle::PIECE;
use super::{OpenOptions, ReadDir, in_task};
use crate::driver::request::*;
use crate::driver::{CURSOR, request};
use crate::{sched, task};
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The permissions of a new directory, from which the umask is removed.
pub(super) const MODE: u32 = 0o777;
/// The number of bytes copied between two checks for cancellation.
const PORTION: u64 = 64 << 20;

/// Makes a call on a thread that may block.
pub(super) fn on_blocking_thread<T: Send>(
    call: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    task::begin_wait()?;
    if in_task() { sched::unblock(call) } else { call() }
}

/// Makes a call about the last name of each path. The call runs on the worker if the directories of
/// these names are in memory.
pub(super) fn inline_if_in_memory<T: Send>(
    paths: &[&Path],
    call: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    task::begin_wait()?;
    if !in_task() || paths.iter().all(|path| facts::in_memory(path).is_some()) {
        return call();
    }
    sched::unblock(call)
}

/// Reads a whole file.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let path = std::env::temp_dir().join(format!("ecru-whole-{}", std::process::id()));
/// ecru::run(|| {
///     fs::write(&path, "undyed")?;
///     assert_eq!(fs::read(&path)?, b"undyed");
///     assert_eq!(fs::read_to_string(&path)?, "undyed");
///     fs::remove_file(&path)?;
///     assert!(!fs::exists(&path)?);
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// Returns the errors of [`OpenOptions::open`] and of reading.
///
/// # Cancellation
/// This is a cancellation point, and so is each boundary between two pieces.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    task::begin_wait()?;
    if !in_task() {
        return request(ReadFile { path });
    }
    // The handle is not shared, so no turn at the cursor is needed.
    let handle = OpenOptions::new().read(true).open_handle(path)?;
    let hint = usize::try_from(handle.facts()?.size).unwrap_or(0);
    let mut bytes = Vec::new();
    handle.read_to_end(&mut bytes, hint)?;
    Ok(bytes)
}

/// Reads a whole file as UTF-8 text.
///
/// # Errors
/// Returns `InvalidData` if the contents are not UTF-8, and the errors of [`read`].
///
/// # Cancellation
/// This is a cancellation point, and so is each boundary between two pieces.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let path = std::env::temp_dir().join(format!("ecru-text-{}", std::process::id()));
/// fs::write(&path, "one\ntwo\n")?;
/// assert_eq!(fs::read_to_string(&path)?.lines().count(), 2);
/// # fs::remove_file(&path)?;
/// # std::io::Result::Ok(())
/// ```
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    into_text(read(path)?)
}

/// Writes a whole file. The file is created, or emptied first. See [`read`] for an example.
///
/// # Errors
/// Returns the errors of [`OpenOptions::open`] and of writing. The file may then be empty or
/// incomplete.
///
/// # Cancellation
/// This is a cancellation point, and so is each boundary between two pieces. The file may then be
/// empty or incomplete.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    task::begin_wait()?;
    if !in_task() {
        return request(WriteFile { path, contents });
    }
    if contents.len() <= PIECE && facts::in_memory(path).is_none() {
        // One way to another thread and back, instead of one for each call.
        return sched::unblock(|| request(WriteFile { path, contents }));
    }
    // The handle is not shared, so no turn at the cursor is needed.
    let handle = OpenOptions::new().write(true).create(true).truncate(true).open_handle(path)?;
    let mut left = contents;
    while !left.is_empty() {
        match handle.write(left, CURSOR)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => left = &left[count..],
        }
    }
    Ok(())
}

/// Copies a file's contents and permissions. Returns the number of bytes copied.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let folder = std::env::temp_dir().join(format!("ecru-copy-{}", std::process::id()));
/// fs::create_dir_all(&folder)?;
/// fs::write(folder.join("one"), "undyed")?;
/// assert_eq!(fs::copy(folder.join("one"), folder.join("other"))?, 6);
/// fs::rename(folder.join("other"), folder.join("third"))?;
/// fs::hard_link(folder.join("third"), folder.join("fourth"))?;
/// assert_eq!(fs::read_to_string(folder.join("fourth"))?, "undyed");
/// # fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// Returns the errors of [`std::fs::copy`]. The target may then be incomplete.
///
/// # Cancellation
/// This is a cancellation point, also after each 64 MiB. The target may then be incomplete.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let small = |metadata: &Metadata| metadata.is_file() && metadata.len() <= PORTION;
    if !in_task() || metadata(from).as_ref().is_ok_and(small) {
        return on_blocking_thread(|| request(CopyFile { from, to }));
    }
    let mut copying = on_blocking_thread(|| request(BeginCopy { from, to }))?;
    let mut copied = 0;
    loop {
        let portion = || request(CopyPortion { copying: &mut copying, most: PORTION });
        match on_blocking_thread(portion)? {
            0 => break,
            count => copied += count,
        }
    }
    Ok(copied)
}

/// Returns the length, permissions, times, and so on of the file at a path. A link is followed.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let folder = std::env::temp_dir().join(format!("ecru-metadata-{}", std::process::id()));
/// fs::create_dir_all(&folder)?;
/// fs::write(folder.join("file"), "undyed")?;
/// fs::symlink("file", folder.join("link"))?;
/// assert_eq!(fs::metadata(folder.join("link"))?.len(), 6);
/// assert!(fs::symlink_metadata(folder.join("link"))?.is_symlink());
/// assert_eq!(fs::read_link(folder.join("link"))?.to_str(), Some("file"));
/// assert!(fs::canonicalize(folder.join("link"))?.ends_with("file"));
/// # fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// Returns the errors of [`std::fs::metadata`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    let path = path.as_ref();
    cached_metadata(path, true)
        .unwrap_or_else(|| on_blocking_thread(|| request(MetadataAt { path })))
}

/// Returns the metadata of the file at a path. A link is not followed. See [`metadata`] for an
/// example.
///
/// # Errors
/// Returns the errors of [`std::fs::symlink_metadata`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    let path = path.as_ref();
    cached_metadata(path, false)
        .unwrap_or_else(|| on_blocking_thread(|| request(LinkMetadataAt { path })))
}

/// Returns the metadata, or `NotFound`, if the kernel knows it without accessing a device. Returns
/// `None` if that is not known, and outside a task.
fn cached_metadata(path: &Path, follow: bool) -> Option<io::Result<Metadata>> {
    if let Err(cancelled) = task::begin_wait() {
        return Some(Err(cancelled.into()));
    }
    if !in_task() {
        return None;
    }
    if let Some(fd) = facts::name_cached(path, follow) {
        return Some(request(MetadataOf { file: &fd }));
    }
    // The kernel seldom remembers that a name is missing. But a directory in memory answers without
    // a wait.
    let error = facts::facts_of_name(path, facts::in_memory(path)?).err()?;
    (error.kind() == io::ErrorKind::NotFound).then_some(Err(error))
}

/// Returns whether the path exists. Returns `false` for a link whose target does not exist. See
/// [`read`] for an example.
///
/// # Errors
/// Returns the errors of [`metadata`], except `NotFound`.
///
/// # Cancellation
/// This is a cancellation point.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the absolute path without links, dots and double dots. See [`metadata`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::canonicalize`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn canonicalize<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    let path = path.as_ref();
    on_blocking_thread(|| request(Canonicalize { path }))
}

/// Returns the target of a symbolic link. See [`metadata`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::read_link`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn read_link<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    let path = path.as_ref();
    inline_if_in_memory(&[path], || request(ReadLink { path }))
}

/// Creates an empty directory. The parent must exist. See [`create_dir_all`] for missing parents.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let folder = std::env::temp_dir().join(format!("ecru-folders-{}", std::process::id()));
/// fs::create_dir(&folder)?;
/// fs::create_dir_all(folder.join("a/b/c"))?;
/// fs::remove_dir(folder.join("a/b/c"))?;
/// let names: Vec<_> =
///     fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
/// assert_eq!(names, ["a"]);
/// fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// Returns the errors of [`std::fs::create_dir`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    inline_if_in_memory(&[path], || request(CreateDirectory { path, recursive: false, mode: MODE }))
}

/// Creates a directory and its missing parents. See [`create_dir`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::create_dir_all`].
///
/// # Cancellation
/// This is a cancellation point. An operation that has begun is completed.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let path = std::env::temp_dir().join(format!("ecru-all-{}", std::process::id()));
/// fs::create_dir_all(path.join("a/b"))?;
/// assert!(fs::metadata(path.join("a/b"))?.is_dir());
/// fs::remove_dir_all(&path)?;
/// # std::io::Result::Ok(())
/// ```
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    on_blocking_thread(|| request(CreateDirectory { path, recursive: true, mode: MODE }))
}

/// Removes an empty directory. See [`create_dir`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::remove_dir`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    inline_if_in_memory(&[path], || request(RemoveDirectory { path }))
}

/// Removes a directory with all its contents. Links are not followed. See [`create_dir`] for an
/// example.
///
/// # Errors
/// Returns the errors of [`std::fs::remove_dir_all`].
///
/// # Cancellation
/// This is a cancellation point. An operation that has begun is completed.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    on_blocking_thread(|| request(RemoveTree { path }))
}

/// Removes a name of a file. The file itself is removed when its last name is removed and its last
/// handle is closed. See [`read`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::remove_file`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    inline_if_in_memory(&[path], || request(RemoveFile { path }))
}

/// Renames a file or a directory. A file that already has the new name is replaced. See [`copy`]
/// for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::rename`], such as `CrossesDevices` if the two paths are on
/// different file systems.
///
/// # Cancellation
/// This is a cancellation point.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    inline_if_in_memory(&[from, to], || request(Rename { from, to }))
}

/// Creates another name for a file. See [`copy`] for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::hard_link`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    inline_if_in_memory(&[original, link], || request(HardLink { original, link }))
}

/// Creates a symbolic link: [`std::os::unix::fs::symlink`]. See [`metadata`] for an example.
///
/// # Errors
/// Returns the errors of symlink(2).
///
/// # Cancellation
/// This is a cancellation point.
pub fn symlink<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    inline_if_in_memory(&[link], || request(SymbolicLink { original, link }))
}

/// Sets the permissions of a file or directory. See
/// [`File::set_permissions`](super::File::set_permissions) for an example.
///
/// # Errors
/// Returns the errors of [`std::fs::set_permissions`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn set_permissions<P: AsRef<Path>>(path: P, perm: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    on_blocking_thread(|| request(SetPermissionsAt { path, permissions: perm }))
}

/// Sets the owner and the group of a file or directory: [`std::os::unix::fs::chown`].
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let path = std::env::temp_dir().join(format!("ecru-owner-{}", std::process::id()));
/// fs::write(&path, "ours")?;
/// fs::chown(&path, None, None)?; // changes nothing
/// fs::fchown(fs::File::open(&path)?, None, None)?;
/// # fs::remove_file(&path)?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// Usually returns `PermissionDenied` unless the process is privileged.
///
/// # Cancellation
/// This is a cancellation point.
pub fn chown<P: AsRef<Path>>(dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = dir.as_ref();
    on_blocking_thread(|| request(SetOwnerAt { path, user: uid, group: gid }))
}

/// Sets the owner and the group of an open file: [`std::os::unix::fs::fchown`]. See [`chown`] for
/// an example.
///
/// # Errors
/// Returns the errors of [`chown`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn fchown<F: AsFd>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let fd = fd.as_fd();
    on_blocking_thread(|| request(SetOwnerOf { file: fd, user: uid, group: gid }))
}

/// Sets the owner and the group of a link itself: [`std::os::unix::fs::lchown`]. See [`chown`] for
/// an example.
///
/// # Errors
/// Returns the errors of [`chown`].
///
/// # Cancellation
/// This is a cancellation point.
pub fn lchown<P: AsRef<Path>>(dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = dir.as_ref();
    on_blocking_thread(|| request(SetLinkOwnerAt { path, user: uid, group: gid }))
}

/// Returns an iterator over a directory's entries, in no particular order.
///
/// # Errors
/// Returns the errors of [`std::fs::read_dir`].
///
/// # Cancellation
/// This is a cancellation point.
///
/// # Examples
/// ```
/// use ecru::fs;
///
/// # let path = std::env::temp_dir().join(format!("ecru-list-{}", std::process::id()));
/// fs::create_dir(&path)?;
/// fs::write(path.join("note"), "text")?;
/// for entry in fs::read_dir(&path)? {
///     assert_eq!(entry?.file_name(), "note");
/// }
/// # fs::remove_dir_all(&path)?;
/// # std::io::Result::Ok(())
/// ```
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    task::begin_wait()?;
    if !in_task() {
        return request(OpenDirectory { path }).map(|source| ReadDir::new(source, false));
    }
    let in_memory = facts::is_folder_in_memory(path);
    // The first entries come by the same way.
    let begin = || request(OpenDirectory { path }).map(|source| ReadDir::begun(source, in_memory));
    if in_memory { begin() } else { sched::unblock(begin) }
}
