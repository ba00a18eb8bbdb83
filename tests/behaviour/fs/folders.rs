//! Folders, and the functions that take a path.

use super::{each_root, everywhere, is_cancelled};
use crate::support::{HOUR, begin};
use ecru::fs::{self, DirBuilder, File, FileTimes};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// - given: a folder with 300 files
/// - when: it is listed, also across a cancellation
/// - then: std's names and kinds, each once
#[test]
fn fs_19_directories() {
    each_root(|folder| {
        for number in 0..300 {
            std::fs::write(folder.at(&format!("{number}")), "").unwrap();
        }
        std::fs::create_dir(folder.at("folder")).unwrap();
        std::os::unix::fs::symlink("0", folder.at("link")).unwrap();
        let expected: BTreeSet<_> = std::fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.path(), entry.ino()))
            .collect();
        let mut listing = fs::read_dir(&folder.0).unwrap();
        let mut got = BTreeSet::new();
        let mut take = |entry: fs::DirEntry| {
            let metadata = entry.metadata().unwrap();
            assert_eq!(metadata.file_type(), entry.file_type().unwrap());
            assert_eq!(metadata.is_dir(), entry.file_name() == "folder");
            assert_eq!(metadata.is_symlink(), entry.file_name() == "link");
            assert!(got.insert((entry.file_name(), entry.path(), entry.ino())), "listed twice");
        };
        take(listing.next().unwrap().unwrap());
        // The task is cancelled while no fetched entries are left.
        listing = ecru::scope(|s| {
            let task = begin(s, move || {
                let fetched: Vec<_> =
                    listing.by_ref().take(127).map(|entry| entry.unwrap()).collect();
                ecru::sleep(HOUR).unwrap_err();
                let error = listing.next().unwrap().unwrap_err();
                assert!(is_cancelled(&error), "{error}");
                (listing, fetched)
            });
            task.cancel();
            let (listing, fetched) = task.join().unwrap();
            fetched.into_iter().for_each(&mut take);
            listing
        });
        for entry in listing.by_ref() {
            take(entry.unwrap());
        }
        assert!(listing.next().is_none());
        assert_eq!(got, expected);
    });
}

/// - given: paths
/// - when: every free function is called
/// - then: std's effect
#[test]
fn fs_20_functions_as_std() {
    everywhere(|folder| {
        let at = |name: &str| folder.at(name);
        fs::create_dir(at("a")).unwrap();
        fs::create_dir_all(at("a/b/c")).unwrap();
        fs::create_dir_all(at("a/b/c")).unwrap();
        DirBuilder::new().recursive(true).mode(0o700).create(at("a/d/e")).unwrap();
        assert_eq!(std::fs::metadata(at("a/d/e")).unwrap().mode() & 0o777, 0o700);
        fs::write(at("file"), "contents").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fs::copy(at("file"), at("copy")).unwrap(), 8);
        assert_eq!(std::fs::metadata(at("copy")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(at("copy")).unwrap(), "contents");
        fs::hard_link(at("file"), at("hard")).unwrap();
        assert_eq!(std::fs::metadata(at("file")).unwrap().nlink(), 2);
        fs::symlink("file", at("soft")).unwrap();
        assert_eq!(fs::read_link(at("soft")).unwrap(), Path::new("file"));
        let real = std::fs::canonicalize(at("file")).unwrap();
        assert_eq!(fs::canonicalize(at("a/../soft")).unwrap(), real);
        assert_eq!(fs::metadata(at("soft")).unwrap().len(), 8);
        assert!(fs::symlink_metadata(at("soft")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("soft")).unwrap(), "contents");
        fs::write(at("soft"), "through the link").unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "through the link");
        fs::rename(at("file"), at("renamed")).unwrap();
        assert!(!fs::exists(at("file")).unwrap() && fs::exists(at("renamed")).unwrap());
        assert!(!fs::exists(at("soft")).unwrap(), "the link leads nowhere now");
        assert!(fs::symlink_metadata(at("soft")).is_ok());
        fs::remove_file(at("soft")).unwrap();
        fs::chown(at("renamed"), None, None).unwrap();
        fs::lchown(at("renamed"), None, None).unwrap();
        fs::fchown(File::open(at("renamed")).unwrap(), None, None).unwrap();
        fs::remove_dir(at("a/d/e")).unwrap();
        assert_eq!(fs::remove_dir(at("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs::remove_dir_all(at("a")).unwrap();
        let left: BTreeSet<_> =
            std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, BTreeSet::from(["copy".into(), "hard".into(), "renamed".into()]));
    });
}

/// - given: an open file
/// - when: its length, permissions and times are set
/// - then: its metadata has them, as std's does
#[test]
fn fs_23_attributes() {
    everywhere(|folder| {
        let file = File::create_new(folder.at("file")).unwrap();
        (&file).write_all(b"0123456789").unwrap();
        file.set_len(4).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_234_567_890);
        file.set_times(FileTimes::new().set_accessed(then)).unwrap();
        file.set_modified(then).unwrap();
        let (ours, std) = (file.metadata().unwrap(), std::fs::metadata(folder.at("file")).unwrap());
        assert_eq!((ours.len(), ours.mode() & 0o777), (4, 0o600));
        assert_eq!((ours.modified().unwrap(), ours.accessed().unwrap()), (then, then));
        assert_eq!((ours.len(), ours.ino(), ours.mode()), (std.len(), std.ino(), std.mode()));
        assert_eq!(file.set_len(u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
    });
}
