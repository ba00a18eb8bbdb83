//! The hidden index of a folder: where each finished file came from, and its state when it was
//! finished.
//!
//! There is one JSON file, [`NAME`], for each folder. It is replaced by a rename, so it is always
//! complete. Runs that share a folder take turns by a lock on the folder itself, and each adds its
//! records to the existing ones. New records are written every few seconds and at the end. If a
//! crash loses a record, the file is later compared by its length.
//!
//! URLs are stored without credentials, and only the owner can read the index.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::target::About;
use crate::runtime;
use crate::runtime::fs::{self, File, Metadata, OpenOptions};

/// The name of the index, and of the file that replaces it.
const NAME: &str = ".downloads.json";
const NEW_NAME: &str = ".downloads.json.new";

const VERSION: u32 = 1;

const WRITE_EVERY: Duration = Duration::from_secs(5);

/// The record of one finished file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_modified: Option<String>,
    pub(crate) length: u64,
    /// The file's modification time, which shows that it has not been changed since.
    modified: (i64, i64),
}

impl Entry {
    /// Describes a file that has just been completed.
    pub(super) fn of(url: &str, about: &About, metadata: &Metadata) -> Self {
        Self {
            url: url.to_string(),
            etag: about.etag.clone(),
            last_modified: about.last_modified.clone(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Returns whether the file is unchanged since it was finished.
    pub(super) fn describes(&self, metadata: &Metadata) -> bool {
        self.length == metadata.len() && self.modified == (metadata.mtime(), metadata.mtime_nsec())
    }

    /// Returns whether the server still has this version, as far as its answer shows.
    pub(super) fn is_version(&self, about: &About) -> bool {
        if about.length.is_some_and(|length| length != self.length) {
            return false;
        }
        let etags =
            self.etag.as_deref().zip(about.etag.as_deref()).map(|(a, b)| weak(a) == weak(b));
        let dates =
            self.last_modified.as_ref().zip(about.last_modified.as_ref()).map(|(a, b)| a == b);
        // Servers behind one name may each have their own ETag, but the date belongs to the file.
        etags == Some(true) || dates == Some(true) || (etags.is_none() && dates.is_none())
    }
}

fn weak(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    downloads: u32,
    files: Entries,
}

type Entries = BTreeMap<String, Entry>;

/// The indexes of all folders of a run.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    folders: Mutex<HashMap<PathBuf, Arc<Folder>>>,
}

/// Each version of an index is a file of its own.
type Version = (u64, i64, i64, u64);

type Known = (Option<Version>, Arc<Entries>);

/// One folder's index.
#[derive(Debug, Default)]
struct Folder {
    /// The records that were read last, and from which version of the file.
    known: Mutex<Known>,
    /// The records to write.
    new: Mutex<Entries>,
}

impl Indexes {
    /// Returns the record of a file. Reads the disk.
    pub(super) fn find(&self, file: &Path) -> Option<Entry> {
        let (path, name) = split(file)?;
        let folder = self.folder(path);
        if let Some(entry) = folder.new.lock().expect("no panic under this lock").get(name) {
            return Some(entry.clone());
        }
        folder.known(path).get(name).cloned()
    }

    /// Records that a file is complete.
    pub(super) fn add(&self, file: &Path, entry: Entry) {
        let Some((path, name)) = split(file) else { return };
        let folder = self.folder(path);
        folder.new.lock().expect("no panic under this lock").insert(name.to_string(), entry);
    }

    /// Writes new records every few seconds, until it is cancelled.
    pub(crate) fn keep_writing(&self, say: impl Fn(&str)) {
        while runtime::sleep(WRITE_EVERY).is_ok() {
            self.write(&say);
        }
    }

    /// Writes new records. An error is reported, and only affects later comparisons.
    pub(crate) fn write(&self, say: impl Fn(&str)) {
        let folders: Vec<_> = {
            let all = self.folders.lock().expect("no panic under this lock");
            all.iter().map(|(path, folder)| (path.clone(), Arc::clone(folder))).collect()
        };
        for (path, folder) in folders {
            let new = std::mem::take(&mut *folder.new.lock().expect("no panic under this lock"));
            if new.is_empty() {
                continue;
            }
            if let Err(error) = runtime::unblock(|| write(&path, new)) {
                say(&format!(
                    "warning: cannot write {}: {error}; a later run can compare these files only by length",
                    path.join(NAME).display()
                ));
            }
        }
    }

    fn folder(&self, path: &Path) -> Arc<Folder> {
        let mut all = self.folders.lock().expect("no panic under this lock");
        match all.get(path) {
            Some(folder) => Arc::clone(folder),
            None => Arc::clone(all.entry(path.to_path_buf()).or_default()),
        }
    }
}

impl Folder {
    /// Returns the records in the index. It is read again after another run has replaced it.
    fn known(&self, path: &Path) -> Arc<Entries> {
        let version = fs::metadata(path.join(NAME)).ok().map(|metadata| {
            (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len())
        });
        let locked = || self.known.lock().expect("no panic under this lock");
        {
            let known = locked();
            if known.0 == version {
                return Arc::clone(&known.1);
            }
        }
        // If the index is replaced meanwhile, what is read is newer than its version here, and it
        // is read once more.
        let entries = Arc::new(read(path));
        *locked() = (version, Arc::clone(&entries));
        entries
    }
}

fn split(file: &Path) -> Option<(&Path, &str)> {
    Some((file.parent()?, file.file_name()?.to_str()?))
}

/// Reads an index. A file that is missing, unreadable or not an index has no records.
fn read(folder: &Path) -> Entries {
    let bytes = fs::read(folder.join(NAME)).unwrap_or_default();
    match serde_json::from_slice::<Content>(&bytes) {
        Ok(content) if content.downloads == VERSION => content.files,
        _ => Entries::default(),
    }
}

fn write(folder: &Path, new: Entries) -> io::Result<()> {
    let lock = File::open(folder)?;
    // Some file systems do not support locks. Two runs at once may then lose records.
    let _ = lock.lock();
    let mut files = read(folder);
    files.extend(new);
    let text = serde_json::to_vec(&Content { downloads: VERSION, files })?;
    let path = folder.join(NEW_NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(&text)?;
    file.sync_data()?;
    fs::rename(&path, folder.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(etag: Option<&str>, date: Option<&str>) -> Entry {
        Entry {
            url: "http://h/x".into(),
            etag: etag.map(str::to_string),
            last_modified: date.map(str::to_string),
            length: 10,
            modified: (1, 2),
        }
    }

    /// The same version has the same length, and a validator in common where both sides have one.
    #[test]
    fn versions() {
        let about = |length, etag: Option<&str>, date: Option<&str>| About {
            length,
            etag: etag.map(str::to_string),
            last_modified: date.map(str::to_string),
        };
        let ours = entry(Some("\"a\""), Some("monday"));
        assert!(ours.is_version(&about(Some(10), Some("W/\"a\""), None)));
        assert!(ours.is_version(&about(None, None, None)));
        assert!(ours.is_version(&about(Some(10), Some("\"b\""), Some("monday"))));
        assert!(!ours.is_version(&about(Some(11), Some("\"a\""), Some("monday"))));
        assert!(!ours.is_version(&about(Some(10), Some("\"b\""), None)));
        assert!(!ours.is_version(&about(Some(10), None, Some("tuesday"))));
        assert!(entry(None, None).is_version(&about(Some(10), Some("\"b\""), None)));
    }

    /// Two runs add to one index, and each sees what the other one has added. Garbage in its place
    /// counts as an empty index.
    #[test]
    fn shared_by_two_runs() {
        let folder = std::env::temp_dir().join(format!("downloads-index-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(NAME), b"{ garbage").unwrap();
        fs::write(folder.join(NEW_NAME), b"left by a crash").unwrap();
        let (one, two) = (Indexes::default(), Indexes::default());
        assert_eq!(one.find(&folder.join("x")), None);
        one.add(&folder.join("x"), entry(None, None));
        two.add(&folder.join("y"), entry(Some("\"a\""), None));
        one.write(|line| panic!("{line}"));
        two.write(|line| panic!("{line}"));
        assert_eq!(one.find(&folder.join("y")), Some(entry(Some("\"a\""), None)));
        let three = Indexes::default();
        assert_eq!(three.find(&folder.join("x")), Some(entry(None, None)));
        assert_eq!(three.find(&folder.join("y")), Some(entry(Some("\"a\""), None)));
        let mode = fs::metadata(folder.join(NAME)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!folder.join(NEW_NAME).exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
