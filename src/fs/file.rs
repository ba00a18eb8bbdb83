//! An open file and its cursor.

use super::OpenOptions;
use super::facts::MayBlock;
use super::handle::Handle;
use crate::driver::request::{MetadataOf, MoveCursor, SetPermissionsOf, SetTimes, SizeAndCursor};
use crate::driver::{CURSOR, request};
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// An open file: [`std::fs::File`] with waits that park the task.
///
/// Outside a runtime the same calls block the thread. The file is closed when it is dropped.
/// Several tasks or threads may use it at once through `&File`, which also implements [`Read`],
/// [`Write`] and [`Seek`]. They share one cursor and take turns at it. [`read_at`](File::read_at)
/// and [`write_at`](File::write_at) need neither the cursor nor a turn.
///
/// # Examples
/// ```
/// use ecru::fs::File;
/// use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
///
/// # let path = std::env::temp_dir().join(format!("ecru-file-{}", std::process::id()));
/// ecru::run(|| {
///     let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
///     file.write_all(b"undyed\ncloth\n")?;
///     file.seek(SeekFrom::Start(0))?;
///     let lines: Vec<String> = BufReader::new(&file).lines().collect::<Result<_, _>>()?;
///     assert_eq!(lines, ["undyed", "cloth"]);
///
///     let mut word = [0; 5];
///     file.read_exact_at(&mut word, 7)?;
///     assert_eq!(&word, b"cloth");
///     assert_eq!(file.read(&mut word)?, 0); // the cursor is at the end
///     std::io::Result::Ok(())
/// })?;
/// # ecru::fs::remove_file(&path)?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Cancellation
/// A call that is cancelled before it has moved a byte fails, and the cursor stays. If bytes were
/// already moved, the call returns `Ok(n)`, and the next wait fails. Functions that loop over
/// these, such as `read_exact` and `write_all`, may have done a part of their work when they fail,
/// as with any other error. The [module's documentation](crate::fs) has a table of all calls.
pub struct File {
    pub(super) handle: Handle,
    /// Held by the call that moves the cursor. Clones share the cursor and this lock.
    cursor: Arc<Mutex<()>>,
}

impl File {
    pub(super) fn from_handle(handle: Handle) -> File {
        File { handle, cursor: Arc::new(Mutex::new(())) }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Returns the errors of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// This is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{self, File};
    /// use std::io::Read;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-open-{}", std::process::id()));
    /// fs::write(&path, "ecru")?;
    /// let mut text = String::new();
    /// File::open(&path)?.read_to_string(&mut text)?;
    /// assert_eq!(text, "ecru");
    /// # fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing. The file is created if it does not exist, and emptied if it does.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{self, File};
    /// use std::io::Write;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-create-{}", std::process::id()));
    /// File::create(&path)?.write_all(b"ecru")?;
    /// assert_eq!(fs::read(&path)?, b"ecru");
    /// assert!(File::create_new(&path).is_err());
    /// # fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A file that was already created or emptied stays so.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing. Fails if the file already exists. See
    /// [`create`](File::create) for an example.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if the file exists, and the errors of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A file that was already created stays.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Returns a new set of options, like [`OpenOptions::new`].
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until the file's contents and metadata have been written to the device.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::File;
    /// use std::io::Write;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-sync-{}", std::process::id()));
    /// let mut file = File::create(&path)?;
    /// file.write_all(b"to be kept")?;
    /// file.sync_data()?;
    /// file.sync_all()?;
    /// # ecru::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of fsync(2). Data that could not be written may be lost.
    ///
    /// # Cancellation
    /// This is a cancellation point. The call may be repeated.
    pub fn sync_all(&self) -> io::Result<()> {
        self.handle.sync(false)
    }

    /// Waits until the file's contents, and the metadata that is needed to read them, have been
    /// written to the device. See [`sync_all`](File::sync_all).
    ///
    /// # Errors
    /// Returns the errors of fdatasync(2). Data that could not be written may be lost.
    ///
    /// # Cancellation
    /// This is a cancellation point. The call may be repeated.
    pub fn sync_data(&self) -> io::Result<()> {
        self.handle.sync(true)
    }

    /// Truncates the file, or extends it with zeros, to this length. The cursor stays.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{self, File};
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-length-{}", std::process::id()));
    /// fs::write(&path, "undyed")?;
    /// let file = File::options().write(true).open(&path)?;
    /// file.set_len(2)?;
    /// assert_eq!(file.metadata()?.len(), 2);
    /// assert_eq!(fs::read_to_string(&path)?, "un");
    /// # fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `InvalidInput` if the file was not opened for writing or the length is too large.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.handle.set_len(size)
    }

    /// Returns the file's length, permissions, times, and so on. See [`set_len`](File::set_len) for
    /// an example.
    ///
    /// # Errors
    /// Returns the errors of statx(2).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.handle.query(|file| request(MetadataOf { file }))
    }

    /// Returns another handle to the same open file, which shares the cursor and the locks.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{self, File};
    /// use std::io::{Read, Seek};
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-clone-{}", std::process::id()));
    /// fs::write(&path, "undyed cloth")?;
    /// let mut one = File::open(&path)?;
    /// let mut other = one.try_clone()?;
    /// one.read_exact(&mut [0; 7])?;
    /// assert_eq!(other.stream_position()?, 7);
    /// # fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File { handle: self.handle.duplicate()?, cursor: Arc::clone(&self.cursor) })
    }

    /// Sets the permissions.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::File;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-permissions-{}", std::process::id()));
    /// let file = File::create(&path)?;
    /// let mut permissions = file.metadata()?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions)?;
    /// assert!(file.metadata()?.permissions().readonly());
    /// # ecru::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `PermissionDenied` if the process does not own the file.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        self.handle.change(|file| request(SetPermissionsOf { file, permissions: perm }))
    }

    /// Sets the times of the last access and the last modification.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{File, FileTimes};
    /// use std::time::{Duration, SystemTime};
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-times-{}", std::process::id()));
    /// let file = File::create(&path)?;
    /// let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    /// file.set_times(FileTimes::new().set_accessed(then).set_modified(then))?;
    /// assert_eq!(file.metadata()?.modified()?, then);
    /// # ecru::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `PermissionDenied` if the process does not own the file.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.handle.change(|file| request(SetTimes { file, times }))
    }

    /// Sets the time of the last modification. See [`set_times`](File::set_times).
    ///
    /// # Errors
    /// Returns `PermissionDenied` if the process does not own the file.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Reads from the given offset. The cursor is neither used nor moved. Returns `Ok(0)` at or
    /// past the end of the file.
    ///
    /// This and the following methods are also available through [`FileExt`].
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::{self, File};
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-positions-{}", std::process::id()));
    /// fs::write(&path, "undyed cloth")?;
    /// let file = File::options().read(true).write(true).open(&path)?;
    /// file.write_all_at(b"dyed", 7)?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(file.read_at(&mut buffer, 7)?, 5);
    /// assert_eq!(&buffer[..5], b"dyedh");
    /// # fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of pread(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.handle.read(buf, check_offset(offset)?)
    }

    /// Fills the buffer from the given offset. See [`read_at`](File::read_at).
    ///
    /// # Errors
    /// Returns `UnexpectedEof` if the file ends too early, and the errors of
    /// [`read_at`](File::read_at).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }

    /// Writes at the given offset. The cursor is neither used nor moved. If the file was opened
    /// with `append`, the data is still written at its end. See [`read_at`](File::read_at).
    ///
    /// # Errors
    /// Returns the errors of pwrite(2), such as `StorageFull` and `FileTooLarge`.
    ///
    /// # Cancellation
    /// This is a cancellation point. The call returns the number of bytes that were written.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::File;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-write-at-{}", std::process::id()));
    /// let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    /// assert_eq!(file.write_at(b"cloth", 7)?, 5);
    /// assert_eq!(file.write_at(b"undyed ", 0)?, 7);
    /// let mut text = [0; 12];
    /// file.read_exact_at(&mut text, 0)?;
    /// assert_eq!(&text, b"undyed cloth");
    /// # ecru::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.handle.write(buf, check_offset(offset)?)
    }

    /// Writes the whole buffer at the given offset. See [`read_at`](File::read_at).
    ///
    /// # Errors
    /// Returns the errors of [`write_at`](File::write_at). A part may have been written.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, buf, offset)
    }

    /// Waits for a turn at the cursor. Returns `None` for a file that is not regular and so has no
    /// cursor.
    fn turn(&self) -> io::Result<Option<MutexGuard<'_, ()>>> {
        if !self.handle.facts()?.is_regular() {
            return Ok(None);
        }
        Ok(Some(self.cursor.lock_cancellable()?))
    }

    /// Returns how many bytes there probably are between the cursor and the end.
    fn rest(&self) -> usize {
        let Ok(facts) = self.handle.facts() else { return 0 };
        if facts.may_block == MayBlock::Always {
            return 0;
        }
        let answer = request(SizeAndCursor { file: self.handle.fd() });
        let (size, cursor) = answer.unwrap_or_default();
        usize::try_from(size.saturating_sub(cursor)).unwrap_or(0)
    }
}

/// Rejects the offsets that the kernel rejects. One of them, `u64::MAX`, stands for the cursor
/// here.
fn check_offset(offset: u64) -> io::Result<u64> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        File::read_at(self, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        File::write_at(self, buf, offset)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let _turn = self.turn()?;
        self.handle.read(buf, CURSOR)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let _turn = self.turn()?;
        self.handle.read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let _turn = self.turn()?;
        self.handle.read_to_end(buf, self.rest())
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        if buf.is_empty() {
            // The string is empty, so its memory can be used and nothing has to be kept.
            let mut bytes = std::mem::take(buf).into_bytes();
            let outcome = self.read_to_end(&mut bytes);
            return match into_text(bytes) {
                Ok(text) => {
                    *buf = text;
                    outcome
                }
                // A read error comes first, because it may have cut a character in two.
                Err(error) => outcome.and(Err(error)),
            };
        }
        let mut bytes = Vec::new();
        let outcome = self.read_to_end(&mut bytes);
        match into_text(bytes) {
            Ok(text) => {
                buf.push_str(&text);
                outcome
            }
            Err(error) => outcome.and(Err(error)),
        }
    }
}

pub(super) fn into_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let _turn = self.turn()?;
        self.handle.write(buf, CURSOR)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let _turn = self.turn()?;
        self.handle.write_vectored(bufs)
    }

    /// Does nothing, because no data is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        let _turn = self.turn()?;
        self.handle.query(|file| request(MoveCursor { file, to: pos }))
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    /// Does nothing, because no data is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        (&*self).seek(pos)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("fd", &self.handle.fd().name().shown()).finish_non_exhaustive()
    }
}
