//! How a file is to be opened, and the opening.

use super::facts::{self, FileFacts, MayBlock};
use super::handle::{Handle, LARGE};
use super::{File, in_task};
use crate::task;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How a file is to be opened: [`std::fs::OpenOptions`].
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
    /// None set: at least one of `read`, `write` and `append` is needed.
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
        /// For reading.
        read: bool,
        /// For writing, at the cursor; what is there is overwritten.
        write: bool,
        /// For writing, always at the end, wherever that is by then.
        append: bool,
        /// Empties a file that exists; needs `write`.
        truncate: bool,
        /// Creates the file if there is none; needs `write` or `append`.
        create: bool,
        /// Creates the file, and fails if there is one; `create` and `truncate` do not matter then.
        create_new: bool,
        /// Further flags of open(2), but not for its access mode. As [`OpenOptionsExt::custom_flags`].
        custom_flags: i32,
        /// The permissions of a file that is created, less the process's umask; 0o666 if not set. As [`OpenOptionsExt::mode`].
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
    /// Those of [`std::fs::OpenOptions::open`]: `NotFound`, `PermissionDenied`, `AlreadyExists`, `InvalidInput` for options that contradict
    /// each other, and others.
    ///
    /// # Cancellation
    /// A cancel point; a file that was created or emptied by then stays so. An opening that waits, as for the other end of a FIFO, is not interrupted.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        self.open_handle(path.as_ref()).map(File::from_handle)
    }

    pub(super) fn open_handle(&self, path: &Path) -> io::Result<Handle> {
        task::begin_wait()?;
        let Some(flags) = self.flags().filter(|_| in_task()) else {
            return self.as_std().open(path).map(|file| Handle::new(file.into(), None));
        };
        if let Some(opened) = self.open_at_once(path, flags)? {
            return Ok(opened);
        }
        // Not on the ring: whatever waits there for the other end of a FIFO holds up other files' operations.
        let options = self.as_std();
        crate::sched::unblock(|| options.open(path)).map(|file| Handle::new(file.into(), None))
    }

    /// Opens the file if that waits for nothing. Nothing: it would, or nobody can tell.
    fn open_at_once(&self, path: &Path, flags: OFlags) -> io::Result<Option<Handle>> {
        let creates = flags.contains(OFlags::CREATE);
        let Some(directory) = facts::in_memory(path) else {
            if creates || flags.contains(OFlags::TRUNC) {
                return Ok(None);
            }
            let opened = facts::open_cached(path, flags);
            return Ok(opened.map(|(fd, facts)| Handle::new(fd, Some(facts))));
        };
        let facts = match facts::look(path, directory) {
            Ok(facts) => {
                let is_directory = facts.kind == rustix::fs::FileType::Directory;
                let is_file = facts.is_regular() && facts.may_block == MayBlock::Never;
                let empties = flags.contains(OFlags::TRUNC);
                // A FIFO waits for its other end, a link leads anywhere.
                if !(is_directory || is_file) || (empties && facts.size > LARGE) {
                    return Ok(None);
                }
                // What `O_TMPFILE` opens is not what the path names.
                let known = !flags.contains(OFlags::TMPFILE);
                known.then_some(FileFacts { size: if empties { 0 } else { facts.size }, ..facts })
            }
            // It will be created. Its facts are looked up later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return Ok(None),
        };
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.mode);
        let fd = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode))?;
        Ok(Some(Handle::new(fd, facts)))
    }

    /// Nothing: the options contradict each other.
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

    fn as_std(&self) -> std::fs::OpenOptions {
        let mut options = std::fs::OpenOptions::new();
        options.read(self.read).write(self.write).append(self.append).truncate(self.truncate);
        options.create(self.create).create_new(self.create_new);
        options.custom_flags(self.custom_flags).mode(self.mode);
        options
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
