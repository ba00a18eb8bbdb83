//! An open file, and its cursor.

use super::OpenOptions;
use super::facts::MayBlock;
use super::handle::Handle;
use crate::driver::CURSOR;
use crate::sync::{Mutex, MutexGuard};
use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// An open file: [`std::fs::File`], on which a wait parks the task.
///
/// Outside a runtime the same calls block the thread. The file is closed when it is dropped. Several tasks or threads may use it at
/// once through `&File`, which implements [`Read`], [`Write`] and [`Seek`] too; they share one cursor, and take turns at it. [`read_at`](File::read_at) and
/// [`write_at`](File::write_at) need neither.
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
/// A call that is cancelled before it has moved a byte fails, and the cursor stays. Bytes that were moved by then are reported as `Ok(n)`, and the
/// next wait fails. So `read_exact`, `write_all` and the like may have done a part of their work when they fail, as with any
/// other error. The whole table is in [the module's page](crate::fs).
pub struct File {
    pub(super) handle: Handle,
    /// Whoever has it moves the cursor. Clones have the same cursor.
    cursor: Arc<Mutex<()>>,
}

impl File {
    pub(super) fn from_handle(handle: Handle) -> File {
        File { handle, cursor: Arc::new(Mutex::new(())) }
    }

    /// Opens a file for reading. See [`File`] for an example.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing; it is created, or emptied.
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
    /// Those of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point; a file that was created or emptied by then stays so.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing, and fails if there is one. See [`create`](File::create) for an example.
    ///
    /// # Errors
    /// `AlreadyExists`, and those of [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point; a file that was created by then stays.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// As [`OpenOptions::new`].
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until the device has the file's contents and metadata.
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
    /// Those of fsync(2): what could not be written may be lost.
    ///
    /// # Cancellation
    /// A cancel point; it may be called again.
    pub fn sync_all(&self) -> io::Result<()> {
        self.handle.sync(false)
    }

    /// Waits until the device has the file's contents, and the metadata that is needed to get at them. See [`sync_all`](File::sync_all).
    ///
    /// # Errors
    /// Those of fdatasync(2): what could not be written may be lost.
    ///
    /// # Cancellation
    /// A cancel point; it may be called again.
    pub fn sync_data(&self) -> io::Result<()> {
        self.handle.sync(true)
    }

    /// Cuts the file off, or fills it up with zeros, to this length. The cursor stays.
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
    /// `InvalidInput` if the file was not opened for writing or the length is too large.
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.handle.set_len(size)
    }

    /// The file's length, permissions, times, and so on. See [`set_len`](File::set_len) for an example.
    ///
    /// # Errors
    /// Those of statx(2).
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.handle.ask_std(std::fs::File::metadata)
    }

    /// Another value for the same open file: with the same cursor and the same locks.
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
    /// The process has as many open files as it may.
    ///
    /// # Cancellation
    /// Does not wait.
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
    /// `PermissionDenied` if the file is somebody else's.
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        self.handle.with_std(|file| file.set_permissions(perm))
    }

    /// Sets the times of the last access and the last change.
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
    /// `PermissionDenied` if the file is somebody else's.
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.handle.with_std(|file| file.set_times(times))
    }

    /// Sets the time of the last change. See [`set_times`](File::set_times).
    ///
    /// # Errors
    /// `PermissionDenied` if the file is somebody else's.
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Reads from this offset on; the cursor plays no part and stays. `Ok(0)` at the end of the file, or behind it.
    ///
    /// This and the following methods are also there by [`FileExt`].
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
    /// Those of pread(2).
    ///
    /// # Cancellation
    /// A cancel point; nothing is lost.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.handle.read(buf, check_offset(offset)?)
    }

    /// Fills the buffer from this offset on. See [`read_at`](File::read_at).
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; else those of [`read_at`](File::read_at).
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }

    /// Writes at this offset; the cursor plays no part and stays. (A file opened with `append` is written to at its end all the same.) See
    /// [`read_at`](File::read_at).
    ///
    /// # Errors
    /// Those of pwrite(2): `StorageFull`, `FileTooLarge`, and so on.
    ///
    /// # Cancellation
    /// A cancel point; what has been written is the result.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.handle.write(buf, check_offset(offset)?)
    }

    /// Writes all of it at this offset. See [`read_at`](File::read_at).
    ///
    /// # Errors
    /// Those of [`write_at`](File::write_at); a part may have been written.
    ///
    /// # Cancellation
    /// A cancel point.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, buf, offset)
    }

    /// Waits for a turn at the cursor, where there is one.
    fn turn(&self) -> io::Result<Option<MutexGuard<'_, ()>>> {
        if !self.handle.facts()?.is_regular() {
            return Ok(None);
        }
        Ok(Some(self.cursor.lock_cancellable()?))
    }

    /// How much there probably is from the cursor to the end.
    fn rest(&self) -> usize {
        let Ok(facts) = self.handle.facts() else { return 0 };
        if facts.may_block == MayBlock::Always {
            return 0;
        }
        let size = rustix::fs::fstat(self).map_or(0, |found| found.st_size.cast_unsigned());
        let cursor = rustix::fs::seek(self, rustix::fs::SeekFrom::Current(0)).unwrap_or(0);
        usize::try_from(size.saturating_sub(cursor)).unwrap_or(0)
    }
}

/// Refuses what the kernel would; the largest number stands for the cursor.
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
            // Its memory may be used: nothing has to be kept.
            let mut bytes = std::mem::take(buf).into_bytes();
            let outcome = self.read_to_end(&mut bytes);
            return match into_text(bytes) {
                Ok(text) => {
                    *buf = text;
                    outcome
                }
                // An error that has cut a character off comes first.
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

    /// Nothing is kept back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        let _turn = self.turn()?;
        self.handle.ask_std(|mut file| file.seek(pos))
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

    /// Nothing is kept back.
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
        use std::os::fd::AsRawFd;
        f.debug_struct("File").field("fd", &self.as_raw_fd()).finish_non_exhaustive()
    }
}
