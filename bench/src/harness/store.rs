//! Result files: `bench/results/<processor>/<date>-<topic>.json`, and a page beside each.
//!
//! A file is created once, and only the run that created it writes to it again, after each row. A
//! second run of the same day and topic gets a number after the name.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::header::{Header, ROOT};
use super::report::page;
use super::result::{FORMAT, Results};

/// Creates the file of a new run, empty.
///
/// # Errors
///
/// Returns an error if the topic is no file name, or the file cannot be created.
pub(crate) fn create(header: &Header, topic: &str) -> Result<PathBuf, String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if topic.is_empty() || !topic.chars().all(word) {
        return Err(format!("`{topic}` is no topic: letters, digits and `-` only"));
    }
    let folder = Path::new(ROOT).join("bench/results").join(folder_name(&header.processor));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    create_in(&folder, header, topic)
}

/// Creates the file in this folder, under the first name that is free.
fn create_in(folder: &Path, header: &Header, topic: &str) -> Result<PathBuf, String> {
    let profile = match &*header.profile {
        "release" => String::new(),
        other => format!("-{other}"),
    };
    let suffixes = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    for suffix in suffixes {
        let name = format!("{}-{topic}{profile}{suffix}.json", header.date);
        let path = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    unreachable!("there is always a higher number")
}

/// Writes the results so far, and the page beside them.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub(crate) fn save(path: &Path, results: &Results) -> Result<(), String> {
    let text = serde_json::to_string(results).expect("names and numbers make JSON");
    replace(path, &(text + "\n"))?;
    replace(&path.with_extension("md"), &page(results))
}

/// Writes a file so that an interruption leaves either the old file or the new one.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the results of a run that was interrupted.
///
/// # Errors
///
/// Returns an error if the file is not one of this edition, or the run was complete.
pub(crate) fn load(path: &Path) -> Result<Results, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let results: Results =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if results.format != FORMAT {
        return Err(format!("{}: format {}, not {FORMAT}", path.display(), results.format));
    }
    if results.complete {
        return Err(format!("{}: that run is complete", path.display()));
    }
    Ok(results)
}

/// Returns the folder of a processor. For `AMD EPYC 7763 64-Core Processor` that is
/// `amd-epyc-7763-64-core-processor`.
fn folder_name(processor: &str) -> String {
    let plain = processor.replace("(R)", "").replace("(TM)", "").to_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::header::tests::header;

    /// A folder that exists while this value lives.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("ecru-bench-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn results(complete: bool) -> Results {
        Results {
            format: FORMAT,
            header: header(),
            complete,
            least_spin: Some(2.5e6),
            rows: vec![],
        }
    }

    #[test]
    fn no_file_is_overwritten() {
        let folder = Folder::new("names");
        let name = |profile: &str| {
            let header = Header { profile: profile.into(), ..header() };
            let path = create_in(&folder.0, &header, "channels").unwrap();
            path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("release"), "2026-11-23-channels.json");
        assert_eq!(name("release"), "2026-11-23-channels-2.json");
        assert_eq!(name("release"), "2026-11-23-channels-3.json");
        assert_eq!(name("fat"), "2026-11-23-channels-fat.json");
    }

    #[test]
    fn an_interrupted_run_is_read_back_and_a_complete_one_is_not_gone_on_with() {
        let folder = Folder::new("resume");
        let path = create_in(&folder.0, &header(), "all").unwrap();
        save(&path, &results(false)).unwrap();
        let read = load(&path).unwrap();
        assert_eq!((read.header, read.least_spin), (header(), Some(2.5e6)));
        assert!(path.with_extension("md").exists());
        save(&path, &results(true)).unwrap();
        assert!(load(&path).unwrap_err().contains("complete"));
        fs::write(&path, "{}").unwrap();
        assert!(load(&path).is_err());
    }

    #[test]
    fn processors_have_plain_names() {
        assert_eq!(folder_name("AMD EPYC"), "amd-epyc");
        assert_eq!(folder_name("Intel(R) Xeon(R) Processor"), "intel-xeon-processor");
    }

    #[test]
    fn topics_are_file_names() {
        assert!(create(&header(), "../up").is_err());
        assert!(create(&header(), "").is_err());
    }
}
