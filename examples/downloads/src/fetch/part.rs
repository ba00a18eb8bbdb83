//! A file on its way: `NAME.part` grows, `NAME.part.about` says what it is the beginning of, and `NAME` appears by one
//! rename when all is there.
//!
//! The order of things is what keeps a crash harmless:
//! 1. afresh: `NAME.part` is emptied, then `NAME.part.about` is written (its last line tells that it is whole), then bytes
//!    are appended. An empty or orphaned part, or an `about` cut short, is simply not resumed.
//! 2. bytes only ever are appended, so whatever length the part has after a crash is a beginning of the file;
//! 3. complete: the data is synced to the disk, then the rename, then `about` goes. So even after a power cut `NAME` is never
//!    half a file. (The folder itself is not synced: after a power cut the file may still be called `NAME.part`.)
//!
//! A lock on `NAME.part` keeps two runs from writing the same file. All calls to the file system go to the blocking pool, in
//! pieces of [`BUFFER`].

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::target::{About, Have, Target};
use super::trouble::Trouble;
use crate::runtime;

/// Bytes are gathered on the heap until there are so many, then written at once.
const BUFFER: usize = 64 * 1024;

/// The first and the last line of an `about` file.
const ABOUT_FIRST: &str = "downloads 1";
const ABOUT_LAST: &str = "end";

/// One file on its way.
#[derive(Debug)]
pub(crate) struct Part {
    url: String,
    name: PathBuf,
    part: PathBuf,
    about: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
    /// Whether what an earlier run left may be used.
    resume: bool,
}

impl Part {
    pub(crate) fn new(url: &str, folder: &Path, name: &str, resume: bool) -> Self {
        let beside = |suffix: &str| folder.join(format!("{name}{suffix}"));
        Self {
            url: url.to_string(),
            name: folder.join(name),
            part: beside(".part"),
            about: beside(".part.about"),
            file: None,
            buffer: Vec::new(),
            resume,
        }
    }

    /// After the last attempt: how many bytes a later run can resume from. A part with nothing in it is not left about.
    pub(crate) fn leave(self) -> Option<u64> {
        runtime::unblock(|| {
            if self.file.is_some() && self.part.metadata().is_ok_and(|metadata| metadata.len() == 0)
            {
                let _ = remove(&self.about).and_then(|()| remove(&self.part));
            }
            self.look().ok().flatten().map(|have| have.bytes)
        })
    }

    fn look(&self) -> io::Result<Option<Have>> {
        let Some(about) = read_about(&self.about)? else { return Ok(None) };
        let bytes = match self.part.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let useful =
            about.url == self.url && bytes > 0 && about.length.is_none_or(|length| bytes <= length);
        Ok(useful.then_some(Have { bytes, validator: about.validator }))
    }

    /// Opens and locks the part; `Ok(false)` if there is none and none is to be made.
    fn open(&mut self, create: bool) -> Result<bool, Trouble> {
        if self.file.is_some() {
            return Ok(true);
        }
        let file = match runtime::unblock(|| {
            OpenOptions::new().create(create).append(true).open(&self.part)
        }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(false),
            opened => opened.map_err(|error| self.disk("opening", &error))?,
        };
        match file.try_lock() {
            // Some file systems know no locks; that is no reason not to download.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("{} is being written by another run", self.part.display());
                return Err(Trouble::never(
                    what,
                    "wait for that one to end, or choose another folder (-o)",
                ));
            }
        }
        self.file = Some(file);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = &self.buffer;
        let written = runtime::unblock(|| file.write_all(bytes));
        self.buffer.clear();
        written.map_err(|error| self.disk("writing", &error))
    }

    fn disk(&self, doing: &str, error: &io::Error) -> Trouble {
        Trouble::disk(&format!("{doing} {}", self.part.display()), error)
    }
}

impl Target for Part {
    fn have(&mut self) -> Result<Option<Have>, Trouble> {
        let resume = std::mem::replace(&mut self.resume, true);
        if !self.open(false)? || !resume {
            return Ok(None);
        }
        runtime::unblock(|| self.look()).map_err(|error| self.disk("looking at", &error))
    }

    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble> {
        self.open(true)?;
        if offset > 0 {
            return Ok(());
        }
        let file = self.file.as_ref().expect("opened a line ago");
        let emptied = runtime::unblock(|| {
            remove(&self.about)?;
            // What cannot be truncated, such as a device, is not; what is written then says what is wrong with it.
            if file.metadata()?.len() > 0 {
                file.set_len(0)?;
            }
            match &about.validator {
                Some(validator) => write_about(&self.about, &self.url, validator, about.length),
                None => Ok(()),
            }
        });
        emptied.map_err(|error| self.disk("starting", &error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Trouble> {
        self.flush()?;
        let file = self.file.take();
        let done = runtime::unblock(|| {
            if let Some(file) = &file {
                file.sync_data()?;
            }
            std::fs::rename(&self.part, &self.name)?;
            remove(&self.about)
        });
        done.map_err(|error| self.disk("completing", &error))
    }

    fn pause(&mut self) -> Result<(), Trouble> {
        self.flush()
    }

    fn discard(&mut self) -> Result<(), Trouble> {
        self.buffer.clear();
        self.file = None;
        let gone = runtime::unblock(|| remove(&self.about).and_then(|()| remove(&self.part)));
        gone.map_err(|error| self.disk("removing", &error))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Noted {
    url: String,
    validator: String,
    length: Option<u64>,
}

fn write_about(path: &Path, url: &str, validator: &str, length: Option<u64>) -> io::Result<()> {
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    std::fs::write(path, format!("{ABOUT_FIRST}\n{url}\n{validator}\n{length}\n{ABOUT_LAST}\n"))
}

/// `None` where there is none, or none that is whole.
fn read_about(path: &Path) -> io::Result<Option<Noted>> {
    let text = match std::fs::read(path) {
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
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
