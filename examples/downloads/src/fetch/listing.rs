//! The contents of a folder when a long list begins: one listing instead of several queries for
//! each file.
//!
//! A name that is not listed did not exist at that moment. A file that another program creates
//! later is noticed when the download is complete, because its name is then taken only if it is
//! free.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::runtime::{self, OnceLock, fs};

/// The number of files from which a listing is worthwhile. For fewer files it is cheaper to look
/// for each.
const WORTHWHILE: usize = 32;

/// A folder with more names than this for each file of the list is not listed.
const NAMES_FOR_EACH: usize = 8;

/// The listings of all folders of a run.
#[derive(Debug)]
pub(crate) struct Listings {
    jobs: usize,
    folders: Mutex<HashMap<PathBuf, Arc<Listing>>>,
}

/// The names in a folder, or `None` if they are not known.
type Listing = OnceLock<Option<HashSet<OsString>>>;

impl Listings {
    /// Creates the listings. `jobs` is the length of the list.
    pub(crate) fn new(jobs: usize) -> Self {
        Self { jobs, folders: Mutex::default() }
    }

    /// Returns whether there was certainly neither a file of this name nor a part that an earlier
    /// run left for it.
    pub(super) fn is_new(&self, file: &Path) -> bool {
        if self.jobs < WORTHWHILE {
            return false;
        }
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return false };
        let listing = {
            let mut all = self.folders.lock().expect("no panic under this lock");
            match all.get(folder) {
                Some(listing) => Arc::clone(listing),
                None => Arc::clone(all.entry(folder.to_path_buf()).or_default()),
            }
        };
        let names = match listing.get() {
            Some(names) => names,
            None => runtime::unblock(|| listing.get_or_init(|| self.list(folder))),
        };
        let Some(names) = names else { return false };
        ["", ".part", ".part.about"].iter().all(|suffix| {
            let mut name = name.to_os_string();
            name.push(suffix);
            !names.contains(&name)
        })
    }

    fn list(&self, folder: &Path) -> Option<HashSet<OsString>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(HashSet::new()),
            entries => entries.ok()?,
        };
        let most = self.jobs * NAMES_FOR_EACH;
        let mut names = HashSet::new();
        for entry in entries {
            names.insert(entry.ok()?.file_name());
            if names.len() > most {
                return None;
            }
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a name that certainly does not exist counts as new.
    #[test]
    fn new_names() {
        let folder = std::env::temp_dir().join(format!("downloads-listing-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["a", "b.part", "c.part.about"] {
            fs::write(folder.join(name), b"").unwrap();
        }
        let long = Listings::new(WORTHWHILE);
        assert!(!long.is_new(&folder.join("a")));
        assert!(!long.is_new(&folder.join("b")));
        assert!(!long.is_new(&folder.join("c")));
        assert!(long.is_new(&folder.join("d")));
        assert!(long.is_new(&folder.join("none/d")));
        assert!(!Listings::new(1).is_new(&folder.join("d")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
