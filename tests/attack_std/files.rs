//! The wrong kind of file, links, folders that move, and locks.

use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::process;
use std::thread;
use std::time::Duration;

use ecru::Cancelled;
use ecru::fs::{self, File, OpenOptions};

use crate::until;
use crate::{Folder, alone, each_place, each_run, std_pipe};

/// Makes the call in a task that has been cancelled.
fn cancelled<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    ecru::cancel_scope(|c| {
        c.cancel();
        call()
    })
}

#[test]
fn a_listing_in_a_cancelled_task_ends_for_those_who_ignore_errors() {
    each_run(|| {
        let folder = Folder::new("/dev/shm");
        for name in ["a", "b", "c"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let mut listing = fs::read_dir(&folder.0).unwrap();
        let (entries, errors) = cancelled(|| {
            let mut errors = 0;
            let entries = listing.by_ref().take(1000).filter_map(|entry| {
                errors += usize::from(entry.is_err());
                entry.ok()
            });
            (entries.count(), errors)
        });
        assert_eq!((entries, errors), (0, 1));
        // No entry is lost.
        assert_eq!(listing.filter_map(Result::ok).count(), 3);
    });
}

#[test]
fn trying_a_lock_is_no_cancel_point() {
    each_run(|| {
        each_place(|folder| {
            let file = File::create(folder.join("file")).unwrap();
            let other = File::open(folder.join("file")).unwrap();
            cancelled(|| file.try_lock().unwrap());
            cancelled(|| {
                assert!(matches!(other.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
            });
            cancelled(|| file.unlock().unwrap());
            other.try_lock_shared().unwrap();
            // A call that waits returns the cancellation.
            let error = cancelled(|| other.lock_shared().unwrap_err());
            assert!(Cancelled::find(&error).is_some());
        });
    });
}

#[test]
fn a_text_that_is_cut_off_by_an_error_gives_that_error() {
    each_run(|| {
        let (reader, writer) = std_pipe();
        let (mut reader, mut writer) = (File::from(reader), std::fs::File::from(writer));
        for mut text in [String::new(), String::from("kept")] {
            writer.write_all("ecr\u{00fb}".as_bytes().split_last().unwrap().1).unwrap();
            let before = text.clone();
            let outcome = ecru::timeout(Duration::from_millis(5), || {
                let error = reader.read_to_string(&mut text).unwrap_err();
                assert!(Cancelled::find(&error).is_some(), "{error:?}");
            });
            assert!(outcome.is_err());
            assert_eq!(text, before);
        }
    });
}

#[test]
fn a_large_copy_is_as_private_as_its_source_from_the_beginning() {
    each_run(|| {
        let folder = Folder::new("/dev/shm");
        let (source, target) = (folder.join("source"), folder.join("target"));
        let file = std::fs::File::create(&source).unwrap();
        file.set_len(130 << 20).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let is_cut_off = || {
            std::fs::write(&target, "").unwrap();
            std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o666)).unwrap();
            let outcome = ecru::cancel_scope(|c| {
                thread::scope(|s| {
                    s.spawn(|| {
                        // The first piece has begun. The second one is not wanted any more.
                        while std::fs::metadata(&target).unwrap().len() == 0 {
                            thread::yield_now();
                        }
                        c.cancel();
                    });
                    fs::copy(&source, &target)
                })
            });
            let found = std::fs::metadata(&target).unwrap();
            assert_ne!(found.len(), 0);
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
            let cut_off = outcome.err();
            if let Some(error) = &cut_off {
                assert!(Cancelled::find(error).is_some(), "{error:?}");
            }
            cut_off.is_some()
        };
        // On a busy machine the copy may be over before the thread has seen that it began.
        until(is_cut_off);
    });
}

#[test]
fn a_file_without_a_name_has_a_cursor_with_turns() {
    each_run(|| {
        each_place(|folder| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_TMPFILE);
            let file = match options.open(&folder.0) {
                Err(error) if error.kind() == ErrorKind::Unsupported => return,
                file => file.unwrap(),
            };
            ecru::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| (0..200).for_each(|_| (&file).write_all(b"word").unwrap()));
                }
            });
            (&file).rewind().unwrap();
            let mut all = String::new();
            (&file).read_to_string(&mut all).unwrap();
            assert_eq!(all, "word".repeat(800));
        });
    });
}

#[test]
fn a_link_to_a_folder_is_removed_and_what_it_leads_to_stays() {
    each_run(|| {
        each_place(|folder| {
            fs::create_dir_all(folder.join("kept/inner")).unwrap();
            fs::write(folder.join("kept/file"), "kept").unwrap();
            fs::create_dir(folder.join("gone")).unwrap();
            fs::symlink(folder.join("kept"), folder.join("gone/link")).unwrap();
            fs::symlink(folder.join("kept"), folder.join("link")).unwrap();
            fs::remove_dir_all(folder.join("link")).unwrap();
            fs::remove_dir_all(folder.join("gone")).unwrap();
            assert!(!fs::exists(folder.join("gone")).unwrap());
            assert!(fs::symlink_metadata(folder.join("link")).is_err());
            assert_eq!(fs::read(folder.join("kept/file")).unwrap(), b"kept");
            assert!(fs::metadata(folder.join("kept/inner")).unwrap().is_dir());
        });
    });
}

#[test]
fn a_path_that_changes_its_kind_is_opened_as_what_it_is_now() {
    each_run(|| {
        each_place(|folder| {
            let path = folder.join("x");
            for _ in 0..3 {
                fs::write(&path, "file").unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"file");
                fs::remove_file(&path).unwrap();
                let status = process::Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(status.success());
                // The other end can be opened on one worker, too.
                ecru::scope(|s| {
                    let reader = s.spawn(|| fs::read(&path));
                    let writer = s.spawn(|| fs::write(&path, "through"));
                    writer.join().unwrap().unwrap();
                    assert_eq!(reader.join().unwrap().unwrap(), b"through");
                });
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
                assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
                fs::remove_dir(&path).unwrap();
                std::os::unix::fs::symlink("y", &path).unwrap();
                fs::write(&path, "by the link").unwrap();
                assert_eq!(fs::read(folder.join("y")).unwrap(), b"by the link");
                fs::remove_file(&path).unwrap();
                fs::remove_file(folder.join("y")).unwrap();
            }
        });
    });
}

#[test]
fn a_relative_path_means_what_the_folder_of_the_process_says() {
    // The test needs a process of its own, because all its threads share the working directory.
    alone("files::a_relative_path_means_what_the_folder_of_the_process_says", || {
        each_run(|| {
            let (memory, disk) =
                (Folder::new("/dev/shm"), Folder::new(env!("CARGO_TARGET_TMPDIR")));
            for round in 0..4 {
                let place = if round % 2 == 0 { &memory } else { &disk };
                std::env::set_current_dir(&place.0).unwrap();
                fs::write("here", format!("{round}")).unwrap();
                assert_eq!(std::fs::read_to_string(place.join("here")).unwrap(), round.to_string());
                assert_eq!(fs::read_to_string("here").unwrap(), round.to_string());
                assert!(!fs::exists(if round % 2 == 0 { "disk" } else { "memory" }).unwrap());
                fs::write(if round % 2 == 0 { "memory" } else { "disk" }, "").unwrap();
            }
        });
    });
}
