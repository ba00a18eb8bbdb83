//! Directories: a call that was cancelled has done nothing or everything, and a failed one can be
//! repeated.

use super::{everywhere, everywhere_with_faults};
use ecru::fs;
use ecru::{Cancelled, shield};
use std::io;

/// Repeats a call that may be the one that fails. No second one does.
#[track_caller]
fn insist<T>(call: impl Fn() -> io::Result<T>) -> T {
    shield(|| call().or_else(|_| call())).expect("only one operation fails")
}

#[test]
fn a_cancelled_call_has_done_nothing() {
    everywhere(|| {
        let made = fs::create_dir_all("one/two/three");
        assert_eq!(insist(|| fs::exists("one/two/three")), made.is_ok());
        assert_eq!(insist(|| fs::exists("one")), made.is_ok());
        if made.is_ok() {
            // A cancelled write may leave a part of the file.
            insist(|| fs::write("one/two/file", "text"));
            let linked = fs::hard_link("one/two/file", "link");
            assert_eq!(insist(|| fs::exists("link")), linked.is_ok());
            let moved = fs::rename("one/two", "two");
            assert_eq!(insist(|| fs::exists("two")), moved.is_ok());
            assert_eq!(insist(|| fs::exists("one/two")), moved.is_err());
            let removed = fs::remove_dir_all("one");
            assert_eq!(insist(|| fs::exists("one")), removed.is_err());
        }
    });
}

#[test]
fn a_failed_call_can_be_repeated() {
    everywhere_with_faults(|| {
        insist(|| fs::create_dir_all("one/two/three"));
        for name in ["one/a", "one/two/b", "one/two/three/c"] {
            insist(|| fs::write(name, name));
        }
        assert!(insist(|| fs::metadata("one/two/three/c")).is_file());
        insist(|| match fs::remove_dir_all("one") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        });
        assert!(!insist(|| fs::exists("one")));
    });
}

/// A listing that is cancelled goes on later, with the names that are missing.
#[test]
fn a_listing_gives_each_name_once_slow() {
    everywhere(|| {
        let names: Vec<String> = (0..5).map(|n| format!("name {n}")).collect();
        insist(|| fs::create_dir_all("folder"));
        names.iter().for_each(|name| insist(|| fs::write(format!("folder/{name}"), "")));
        let mut found = Vec::new();
        let mut listing = match fs::read_dir("folder") {
            Ok(listing) => listing,
            Err(error) => {
                assert!(Cancelled::find(&error).is_some(), "{error}");
                return;
            }
        };
        let mut list = || {
            for entry in listing.by_ref() {
                match entry {
                    Ok(entry) => found.push(entry.file_name().into_string().unwrap()),
                    Err(error) => assert!(Cancelled::find(&error).is_some(), "{error}"),
                }
                let _ = ecru::yield_now();
            }
        };
        list();
        shield(list);
        assert_eq!(found, names);
    });
}
