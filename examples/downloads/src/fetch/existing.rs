//! Decides whether an existing file of the target's name is the requested file.

use std::io;
use std::path::Path;

use super::index::{Entry, Indexes};
use super::target::About;
use super::trouble::Trouble;
use crate::runtime::fs;

/// What to do about existing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Compare them with the record and the server.
    Compare,
    /// Keep them unchanged.
    Keep,
    /// Replace them.
    Overwrite,
}

pub(super) const DECIDE: &str =
    "use --overwrite to replace it, --keep to leave it, or another folder (-o)";

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    /// The name is free.
    Nothing,
    /// A file that may be replaced.
    Replaceable,
    /// A file that must be kept.
    Kept,
    /// A file that an earlier run downloaded from this URL, unchanged since then.
    Ours(Entry),
    /// A file without a record.
    Unrecorded { bytes: u64 },
}

/// Looks at the file system and the index. Reads the disk.
pub(super) fn look(
    path: &Path,
    url: &str,
    existing: Existing,
    indexes: &Indexes,
) -> Result<Found, Trouble> {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_err() {
                return Ok(Found::Nothing);
            }
            if existing == Existing::Overwrite {
                return Ok(Found::Replaceable);
            }
            return Err(Trouble::never(format!("{shown} is a link to nowhere"), DECIDE));
        }
        Err(error) => return Err(Trouble::disk(&format!("looking at {shown}"), &error)),
    };
    if metadata.is_dir() {
        return Err(Trouble::never(
            format!("{shown} is a folder"),
            "move it away, or choose another folder (-o)",
        ));
    }
    if !metadata.is_file() {
        return Err(Trouble::never(
            format!("{shown} exists and is not a regular file"),
            "move it away, or choose another folder (-o)",
        ));
    }
    match existing {
        Existing::Overwrite => return Ok(Found::Replaceable),
        Existing::Keep => return Ok(Found::Kept),
        Existing::Compare => {}
    }
    let Some(entry) = indexes.find(path) else {
        return Ok(Found::Unrecorded { bytes: metadata.len() });
    };
    match (entry.url == url, entry.describes(&metadata)) {
        (true, true) => Ok(Found::Ours(entry)),
        (true, false) => {
            Err(Trouble::never(format!("{shown} was changed since it was downloaded"), DECIDE))
        }
        (false, true) => {
            Err(Trouble::never(format!("{shown} is there and came from {}", entry.url), DECIDE))
        }
        (false, false) => Ok(Found::Unrecorded { bytes: metadata.len() }),
    }
}

/// Compares a file without a record with the server's answer.
pub(super) fn compare(path: &Path, bytes: u64, about: &About) -> Result<(), Trouble> {
    let shown = path.display();
    match about.length {
        Some(length) if length == bytes => Ok(()),
        Some(length) => Err(Trouble::never(
            format!("{shown} is there with {bytes} bytes, but the server has {length}"),
            DECIDE,
        )),
        None => Err(Trouble::never(
            format!("{shown} is there, and the server does not tell whether it is the same"),
            DECIDE,
        )),
    }
}
