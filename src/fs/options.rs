//! The options for opening a file, and the call that opens it.

use super::facts::{self, FileFacts, MayBlock};
use super::handle::{Handle, LARGE};
use super::{File, in_task};
use crate::driver::request;
use crate::driver::request::{FileKind, OFlags, OpenByFlags, OpenFile, Opening};
use crate::{sched, task};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The options for opening a file: [`std::fs::OpenOptions`].
///
/// # Examples
/// ```
/// use ecru::fs::OpenOptions;
/// use std::io::Write;
///
/// # let folder = std::env::temp_dir().join(format!("ecru-options-{}", std::process::id()));
/// # ecru::fs::create_dir_all(&folder)?;
/// # let path = folder.join("log");
/// let mut log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
/// log.write_all(b"a line\n")?;
/// assert_eq!(ecru::fs::read_to_string(&path)?, "a line\n");
/// # ecru::fs::remove_dir_all(&folder)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    custom_flags: i32,
    mode: u32,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, $name: $type) -> &mut OpenOptions {
            self.$name = $name;
            self
        }
    )* };
}

impl OpenOptions {
    /// Creates options of which none is set. At least one of `read`, `write` and `append` must be
    /// set.
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            custom_flags: 0,
            mode: 0o666,
        }
    }

    setters! {
        /// Sets whether the file is opened for reading.
        read: bool,
        /// Sets whether the file is opened for writing at the cursor, over existing data.
        write: bool,
        /// Sets whether the file is opened for writing that always appends, at the end that the
        /// file has at that moment.
        append: bool,
        /// Sets whether an existing file is emptied. Requires `write`.
        truncate: bool,
        /// Sets whether a missing file is created. Requires `write` or `append`.
        create: bool,
        /// Sets whether the file is created and must not exist yet. `create` and `truncate` are
        /// ignored then.
        create_new: bool,
        /// Sets further flags of open(2), except its access mode. See
        /// [`OpenOptionsExt::custom_flags`].
        custom_flags: i32,
        /// Sets the permissions of a file that is created, from which the process's umask is
        /// removed. The default is 0o666. See [`OpenOptionsExt::mode`].
        mode: u32,
    }

    /// Opens the file.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::OpenOptions;
    /// use std::io::ErrorKind;
    ///
    /// let refused = OpenOptions::new().read(true).open("/no/such/file").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::NotFound);
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`std::fs::OpenOptions::open`], such as `NotFound`,
    /// `PermissionDenied`, `AlreadyExists`, and `InvalidInput` for options that contradict each
    /// other.
    ///
    /// # FIFOs
    /// An open that waits for the other end of a FIFO occupies a thread of the pool of
    /// [`unblock`](crate::unblock), whose size is limited. While such opens occupy the whole
    /// pool, all other calls that need a thread of it wait, such as reads of files from a disk.
    ///
    /// # Cancellation
    /// This is a cancellation point. A file that was already created or emptied stays so. An open
    /// that waits, for instance for the other end of a FIFO, is not interrupted.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        self.open_handle(path.as_ref()).map(File::from_handle)
    }

    pub(super) fn open_handle(&self, path: &Path) -> io::Result<Handle> {
        task::begin_wait()?;
        let Some(flags) = self.flags().filter(|_| in_task()) else {
            return request(OpenFile { path, how: self.opening() }).map(|fd| Handle::new(fd, None));
        };
        if let Some(opened) = self.open_at_once(path, flags)? {
            return Ok(opened);
        }
        // This does not run on the ring, because an open that waits there for the other end of a
        // FIFO would delay the operations of other files.
        let how = self.opening();
        sched::unblock(|| request(OpenFile { path, how })).map(|fd| Handle::new(fd, None))
    }

    /// Opens the file if that does not wait. Returns `None` if it would wait, or if that is not
    /// known.
    fn open_at_once(&self, path: &Path, flags: OFlags) -> io::Result<Option<Handle>> {
        let creates = flags.contains(OFlags::CREATE);
        let Some(directory) = facts::in_memory(path) else {
            if creates || flags.contains(OFlags::TRUNC) {
                return Ok(None);
            }
            let opened = facts::open_cached(path, flags);
            return Ok(opened.map(|(fd, facts)| Handle::new(fd, Some(facts))));
        };
        let facts = match facts::facts_of_name(path, directory) {
            Ok(facts) => {
                let is_directory = facts.kind == FileKind::Directory;
                let is_file = facts.is_regular() && facts.may_block == MayBlock::Never;
                let empties = flags.contains(OFlags::TRUNC);
                // A FIFO waits for its other end, a link leads anywhere.
                if !(is_directory || is_file) || (empties && facts.size > LARGE) {
                    return Ok(None);
                }
                // With `O_TMPFILE` the opened file is not the one that the path names.
                let known = !flags.contains(OFlags::TMPFILE);
                known.then_some(FileFacts { size: if empties { 0 } else { facts.size }, ..facts })
            }
            // The file will be created, and its place is looked up later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return Ok(None),
        };
        let fd = request(OpenByFlags { path, flags, mode: self.mode })?;
        Ok(Some(Handle::new(fd, facts)))
    }

    /// Returns the flags of open(2), or `None` if the options contradict each other.
    fn flags(&self) -> Option<OFlags> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) => return None,
        };
        let changes = self.truncate || self.create || self.create_new;
        let contradicts = match (self.write, self.append) {
            (false, false) => changes,
            (_, true) => self.truncate && !self.create_new,
            (true, false) => false,
        };
        if contradicts {
            return None;
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
            (true, true, false) => OFlags::CREATE | OFlags::TRUNC,
            (true, false, false) => OFlags::CREATE,
            (false, true, false) => OFlags::TRUNC,
            (false, false, false) => OFlags::empty(),
        };
        let custom = self.custom_flags & !libc::O_ACCMODE;
        Some(access | creation | OFlags::from_bits_retain(custom.cast_unsigned()))
    }

    /// Returns the options for the driver.
    fn opening(&self) -> Opening {
        Opening {
            read: self.read,
            write: self.write,
            append: self.append,
            truncate: self.truncate,
            create: self.create,
            create_new: self.create_new,
            custom_flags: self.custom_flags,
            mode: self.mode,
        }
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        OpenOptions::mode(self, mode)
    }

    fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        OpenOptions::custom_flags(self, flags)
    }
}
