//! An incomplete file on disk: `NAME.part` grows, `NAME.part.about` says which file it is the
//! beginning of, and `NAME` appears by one rename when the file is complete.
//!
//! The order of these steps makes a crash harmless:
//! 1. To start from the beginning, an old `NAME.part.about` is removed and `NAME.part` is emptied.
//!    Then a new `NAME.part.about` is written, whose last line shows that it is complete. Then
//!    bytes are appended. An empty part, a part without an `about`, and an `about` cut short are
//!    simply not resumed.
//! 2. Bytes are only ever appended, so a part of any length after a crash is a beginning of the
//!    file.
//! 3. When the file is complete, the data is synced to the disk, then the part is renamed, then
//!    `about` is removed. Even after a power cut, `NAME` is therefore never half a file. (The
//!    folder itself is not synced: after a power cut the file may still be called `NAME.part`.)
//!
//! A lock on `NAME.part` keeps two runs from writing the same file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::existing::DECIDE;
use super::index::Entry;
use super::target::{About, Have};
use super::trouble::Trouble;
use crate::runtime::fs::{self, File, OpenOptions, TryLockError};
use crate::runtime::{is_same_file, rename_to_free};

/// The first and the last line of an `about` file.
const ABOUT_FIRST: &str = "downloads 1";
const ABOUT_LAST: &str = "end";

/// The files of one download. All its methods may block the thread.
#[derive(Debug)]
pub(super) struct Disk {
    url: String,
    name: PathBuf,
    part: PathBuf,
    about: PathBuf,
    file: Option<File>,
    pub(super) state: State,
    /// Whether the part is known to be empty.
    empty: bool,
    /// Whether a file of this name may be replaced.
    pub(super) replace: bool,
}

/// What is known of the part and its `about`, apart from the open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Unknown,
    /// Neither is there.
    Nothing,
    /// There is no `about`.
    NoAbout,
}

impl Disk {
    pub(super) fn new(url: &str, name: PathBuf) -> Self {
        let beside = |suffix: &str| {
            let mut path = name.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let (part, about) = (beside(".part"), beside(".part.about"));
        Self {
            url: url.to_string(),
            name,
            part,
            about,
            file: None,
            state: State::Unknown,
            empty: false,
            replace: false,
        }
    }

    /// Called after the last attempt. Returns how many bytes a later run can resume from. An empty
    /// part is removed.
    pub(super) fn leave(&mut self) -> Option<u64> {
        if self.state == State::Nothing {
            return None;
        }
        let empty = || fs::metadata(&self.part).is_ok_and(|metadata| metadata.len() == 0);
        if self.file.is_some() && empty() {
            let _ = remove(&self.about).and_then(|()| remove(&self.part));
        }
        self.look().ok().flatten().map(|have| have.bytes)
    }

    /// Returns what an earlier attempt or run left of this URL's file.
    pub(super) fn look(&self) -> io::Result<Option<Have>> {
        let Some(about) = read_about(&self.about)? else { return Ok(None) };
        let bytes = match fs::metadata(&self.part) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let useful =
            about.url == self.url && bytes > 0 && about.length.is_none_or(|length| bytes <= length);
        Ok(useful.then_some(Have { bytes, validator: about.validator, length: about.length }))
    }

    /// Opens and locks the part. Returns `Ok(false)` if there is none and `create` is false.
    pub(super) fn open(&mut self, create: bool) -> Result<bool, Trouble> {
        if self.state == State::Nothing && create {
            self.open_new()?;
        }
        while self.file.is_none() {
            let opened = match OpenOptions::new().create(create).append(true).open(&self.part) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && create => self
                    .make_folder()
                    .and_then(|()| OpenOptions::new().create(true).append(true).open(&self.part)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if fs::symlink_metadata(&self.about).is_err() {
                        self.state = State::Nothing;
                    }
                    return Ok(false);
                }
                opened => opened,
            };
            let file = opened.map_err(|error| self.trouble("opening", &error))?;
            self.lock(&file)?;
            // Another run may have completed and renamed this file before the lock was free.
            if let (Ok(here), Ok(there)) = (file.metadata(), fs::metadata(&self.part))
                && is_same_file(&here, &there)
            {
                self.file = Some(file);
            }
        }
        Ok(true)
    }

    /// Creates a part. If one exists after all, it is not opened.
    fn open_new(&mut self) -> Result<(), Trouble> {
        self.state = State::Unknown;
        let Ok(file) = OpenOptions::new().create_new(true).append(true).open(&self.part) else {
            return Ok(());
        };
        self.lock(&file)?;
        self.file = Some(file);
        self.state = State::NoAbout;
        self.empty = true;
        Ok(())
    }

    fn lock(&self, file: &File) -> Result<(), Trouble> {
        match file.try_lock() {
            // Some file systems do not support locks. The download works without.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Trouble::busy(&self.part)),
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        self.part.parent().map_or(Ok(()), fs::create_dir_all)
    }

    /// Empties the part, and writes its `about` if the part will exist for long.
    pub(super) fn start(&mut self, about: Option<&About>) -> Result<(), Trouble> {
        self.open(true)?;
        self.empty(about).map_err(|error| self.trouble("starting", &error))
    }

    fn empty(&mut self, about: Option<&About>) -> io::Result<()> {
        if self.state != State::NoAbout {
            remove(&self.about)?;
            self.state = State::NoAbout;
        }
        let file = self.file.as_ref().expect("it is open");
        // A file that cannot be truncated, such as a device, is not. A later write reports what is
        // wrong with it.
        if !self.empty && file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        if let Some((about, validator)) = about.and_then(|about| Some((about, about.validator()?)))
        {
            self.state = State::Unknown;
            write_about(&self.about, &self.url, validator, about.length)?;
        }
        Ok(())
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.empty = false;
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes));
        written.map_err(|error| self.trouble("writing", &error))
    }

    pub(super) fn complete(&mut self, about: &About) -> Result<Entry, Trouble> {
        let file = self.file.take().expect("a part that is complete is open");
        let synced = file.sync_data().and_then(|()| file.metadata());
        let metadata = synced.map_err(|error| self.trouble("completing", &error))?;
        match self.rename() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Without an `about` no later run could continue it.
                if self.state == State::NoAbout {
                    let _ = remove(&self.part);
                }
                let what = format!("{} has appeared in the meantime", self.name.display());
                return Err(Trouble::never(what, DECIDE));
            }
            renamed => renamed.map_err(|error| self.trouble("completing", &error))?,
        }
        if self.state != State::NoAbout {
            remove(&self.about).map_err(|error| self.trouble("completing", &error))?;
        }
        Ok(Entry::of(&self.url, about, &metadata))
    }

    /// Gives the part its final name, which must be free unless a file is to be replaced.
    fn rename(&self) -> io::Result<()> {
        if self.replace {
            fs::rename(&self.part, &self.name)
        } else {
            rename_to_free(&self.part, &self.name)
        }
    }

    pub(super) fn discard(&mut self) -> Result<(), Trouble> {
        self.file = None;
        self.empty = false;
        self.state = State::Nothing;
        let gone = remove(&self.about).and_then(|()| remove(&self.part));
        gone.map_err(|error| self.trouble("removing", &error))
    }

    pub(super) fn trouble(&self, doing: &str, error: &io::Error) -> Trouble {
        Trouble::disk(&format!("{doing} {}", self.part.display()), error)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Noted {
    url: String,
    validator: String,
    length: Option<u64>,
}

/// Writes an `about` that only its owner can read. The name must be free.
fn write_about(path: &Path, url: &str, validator: &str, length: Option<u64>) -> io::Result<()> {
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(
        format!("{ABOUT_FIRST}\n{url}\n{validator}\n{length}\n{ABOUT_LAST}\n").as_bytes(),
    )
}

/// Returns `None` if there is no `about`, or if it is incomplete.
fn read_about(path: &Path) -> io::Result<Option<Noted>> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines: Vec<&str> = text.lines().collect();
    Ok(match lines[..] {
        [ABOUT_FIRST, url, validator, length, ABOUT_LAST] if text.ends_with('\n') => Some(Noted {
            url: url.into(),
            validator: validator.into(),
            length: length.parse().ok(),
        }),
        _ => None,
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
