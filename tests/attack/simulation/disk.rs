//! Files at the edge of what they can do.

use super::{SECOND, run};
use ecru::channel;
use ecru::fs::{self, File};
use ecru::sim::{self, Faults, Simulation};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

#[test]
fn a_file_of_four_exbibytes() {
    run(1, || {
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open("f").unwrap();
        for size in [1_u64 << 40, 1 << 62, i64::MAX as u64] {
            // Linux has `FileTooLarge` here for most file systems.
            if let Err(error) = file.set_len(size) {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::FileTooLarge | ErrorKind::StorageFull | ErrorKind::InvalidInput
                    ),
                    "{error}"
                );
                continue;
            }
            assert_eq!(file.metadata().unwrap().len(), size);
            let mut buffer = [1; 16];
            assert_eq!(file.read_at(&mut buffer, size - 8).unwrap(), 8);
            assert_eq!(buffer[..8], [0; 8]);
            let _ = file.write_at(b"end", size - 3);
            file.sync_all().unwrap();
        }
        let _ = file.write_at(b"x", 1 << 61);
        assert!(file.set_len(u64::MAX).is_err());
        assert!(file.write_at(b"xyz", u64::MAX - 1).is_err());
        let _ = file.write_at(b"xyz", i64::MAX as u64 - 1);
        assert!(file.read_at(&mut [0], u64::MAX).is_err());
        assert!(file.seek(SeekFrom::Current(i64::MIN)).is_err());
        let _ = file.seek(SeekFrom::End(i64::MAX));
        let _ = file.write(b"x");
        file.set_len(3).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3);
    });
}

#[test]
fn a_huge_sparse_file_is_written_twice_and_loses_its_power() {
    let (tx, rx) = channel::bounded::<u64>(9);
    run(1, || {
        let tx = tx.clone();
        let host = sim::host("host", move || {
            let _ = tx.send(fs::metadata("f").map_or(0, |facts| facts.len()));
            let file =
                File::options().create(true).truncate(false).read(true).write(true).open("f")?;
            file.set_len(1 << 50)?;
            file.write_at(b"x", 1 << 45)?;
            ecru::sleep(60 * SECOND)?;
            Ok(())
        });
        for _ in 0..3 {
            ecru::sleep(SECOND).unwrap();
            host.power_fail();
            host.restart();
        }
        ecru::sleep(SECOND).unwrap();
    });
    assert_eq!(rx.len(), 4);
}

#[test]
fn loops_of_links_and_paths_that_go_up() {
    run(1, || {
        fs::symlink("a", "b").unwrap();
        fs::symlink("b", "a").unwrap();
        fs::symlink("self", "self").unwrap();
        fs::symlink(".", "here").unwrap();
        for path in ["a", "b", "self", "a/x", "self/../x"] {
            assert!(File::open(path).is_err(), "{path}");
            assert!(fs::write(path, "x").is_err(), "{path}");
            assert!(fs::canonicalize(path).is_err(), "{path}");
            assert!(fs::create_dir(path).is_err(), "{path}");
        }
        fs::write(format!("{}f", "here/".repeat(30)), "x").unwrap();
        assert!(fs::read(format!("{}f", "here/".repeat(200))).is_err(), "more than 40 links");
        assert_eq!(fs::read("f").unwrap(), b"x");
        assert_eq!(
            fs::read(format!(
                "{}tmp/../tmp/./../{}",
                "../".repeat(50),
                fs::canonicalize("f").unwrap().display()
            ))
            .unwrap(),
            b"x"
        );
        assert_eq!(fs::canonicalize("/../../..").unwrap().to_str(), Some("/"));
        assert!(fs::remove_dir("/").is_err());
        assert!(fs::remove_dir_all("/nonexistent").is_err());
        assert!(fs::remove_dir(".").is_err());
        assert!(fs::remove_file("..").is_err());
        assert!(fs::rename("/", "/tmp/x").is_err());
        assert!(fs::rename(".", "x").is_err());
        assert!(fs::write("f/", "x").is_err());
        assert!(File::open("").is_err());
        assert!(fs::create_dir("").is_err());
        assert!(File::open("a\0b").is_err());
    });
}

#[test]
fn names_of_ten_thousand_bytes_and_bytes_that_are_no_text_slow() {
    use std::os::unix::ffi::OsStrExt;
    run(1, || {
        let long = "x".repeat(10_000);
        assert_eq!(fs::write(&long, "x").unwrap_err().kind(), ErrorKind::InvalidFilename);
        assert!(fs::create_dir(&long).is_err());
        assert!(fs::symlink(&long, "link").is_err());
        assert!(fs::rename("nothing", &long).is_err());
        assert!(fs::metadata(&long).is_err());
        fs::write("y".repeat(255), "x").unwrap();
        assert!(fs::write("y".repeat(256), "x").is_err());
        let path = "d/".repeat(3_000);
        assert!(fs::metadata(path).is_err());
        let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe\n");
        fs::write(odd, "x").unwrap();
        assert!(fs::read_dir(".").unwrap().any(|entry| entry.unwrap().file_name() == odd));
        // A tree deeper than any path.
        let deep = ecru::scope(|s| {
            s.spawn(|| {
                let mut path = std::path::PathBuf::from("/tmp/deep");
                fs::create_dir(&path).unwrap();
                while path.as_os_str().len() < 1_000 {
                    path.push("d");
                    fs::create_dir(&path).unwrap();
                }
                fs::remove_dir_all("/tmp/deep")
            })
            .join()
            .unwrap()
        });
        deep.unwrap();
        assert!(fs::metadata("/tmp/deep").is_err());
    });
}

#[test]
fn renames_over_what_is_there() {
    run(1, || {
        fs::create_dir_all("d/e").unwrap();
        fs::create_dir("empty").unwrap();
        fs::write("f", "f").unwrap();
        assert_eq!(fs::rename("f", "d").unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(fs::rename("d", "f").unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(fs::rename("empty", "d").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        assert!(fs::rename("d", "d/e/inside").is_err());
        assert!(fs::rename("d", "d/itself").is_err());
        fs::rename("d", "d").unwrap();
        fs::rename("f", "f").unwrap();
        fs::hard_link("f", "g").unwrap();
        fs::rename("f", "g").unwrap();
        assert!(fs::metadata("f").is_ok(), "two names of one file: nothing is done");
        fs::rename("d/e", "empty").unwrap();
        assert!(fs::hard_link("d", "h").is_err());
        fs::symlink("d", "l").unwrap();
        assert!(fs::remove_dir("l").is_err());
        fs::rename("l", "g").unwrap();
        assert!(fs::symlink_metadata("g").unwrap().file_type().is_symlink());
    });
}

#[test]
fn a_directory_changes_while_it_is_read() {
    run(1, || {
        fs::create_dir("d").unwrap();
        for n in 0..100 {
            fs::write(format!("d/{n}"), "x").unwrap();
        }
        let mut seen = Vec::new();
        for (n, entry) in fs::read_dir("d").unwrap().enumerate() {
            let entry = entry.unwrap();
            let _ = fs::remove_file(format!("d/{}", 99 - n));
            let _ = fs::write(format!("d/new{n}"), "x");
            let _ = (entry.metadata().is_ok(), entry.file_type().is_ok());
            seen.push(entry.file_name());
            assert!(seen.len() < 1000, "a listing without an end");
        }
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all, "a name comes twice");
        let listing = fs::read_dir("d").unwrap();
        fs::remove_dir_all("d").unwrap();
        assert!(listing.count() < 1000);
        // The current directory itself goes.
        let open = File::open(".").unwrap();
        open.sync_all().unwrap();
    });
}

#[test]
fn an_unlinked_open_file_and_a_power_failure() {
    for seed in 0..20 {
        let (tx, rx) = channel::bounded::<Vec<String>>(9);
        Simulation::new(seed)
            .run(|| {
                let tx = tx.clone();
                let host = sim::host("host", move || {
                    let names = fs::read_dir(".")?
                        .map(|entry| entry.map(|entry| entry.file_name().into_string().unwrap()))
                        .collect::<Result<Vec<_>, _>>()?;
                    let _ = tx.send(names);
                    let mut file = File::options()
                        .create(true)
                        .truncate(true)
                        .read(true)
                        .write(true)
                        .open("f")?;
                    File::open(".")?.sync_all()?;
                    file.write_all(b"kept")?;
                    file.sync_all()?;
                    fs::remove_file("f")?;
                    file.write_all(b" and lost")?;
                    file.sync_all()?;
                    file.rewind()?;
                    let mut text = String::new();
                    file.read_to_string(&mut text)?;
                    assert_eq!(text, "kept and lost");
                    File::open(".")?.sync_all()?;
                    ecru::sleep(60 * SECOND)?;
                    Ok(())
                });
                ecru::sleep(SECOND).unwrap();
                host.power_fail();
                host.restart();
                sim::settle();
            })
            .unwrap();
        assert_eq!(rx.recv().unwrap(), rx.recv().unwrap(), "seed {seed}: a removed file is back");
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_everything() {
    let faults = Faults::none().disk_capacity(3 * 4096).open_files(4);
    Simulation::new(1)
        .faults(faults)
        .run(|| {
            let mut file = File::create("f").unwrap();
            assert_eq!(file.write(&[7; 100_000]).unwrap(), 3 * 4096);
            assert_eq!(file.write(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
            // Names take nothing, an empty file neither.
            fs::create_dir("d").unwrap();
            fs::rename("f", "d/f").unwrap();
            File::create("empty").unwrap();
            file.set_len(1 << 40).unwrap();
            file.set_len(0).unwrap();
            fs::write("g", [7; 3 * 4096]).unwrap();
            fs::remove_file("g").unwrap();
            fs::write("h", [7; 3 * 4096]).unwrap();
            let open: Vec<_> = std::iter::from_fn(|| File::open("h").ok()).take(50).collect();
            assert_eq!(open.len(), 3, "and the one that is still open");
            let many = File::open("h").unwrap_err();
            assert_eq!(many.raw_os_error(), Some(libc_emfile()));
        })
        .unwrap();
}

fn libc_emfile() -> i32 {
    24
}

#[test]
fn permissions_and_kinds_that_do_not_fit() {
    use std::os::unix::fs::PermissionsExt;
    run(1, || {
        fs::write("f", "x").unwrap();
        fs::set_permissions("f", PermissionsExt::from_mode(0o000)).unwrap();
        assert_eq!(File::open("f").unwrap_err().kind(), ErrorKind::PermissionDenied);
        fs::set_permissions("f", PermissionsExt::from_mode(0o7777)).unwrap();
        fs::create_dir("d").unwrap();
        assert!(File::create("d").is_err());
        assert!(fs::read("d").is_err());
        assert!(fs::read_dir("f").is_err());
        assert!(fs::read_link("f").is_err());
        assert!(fs::remove_dir("f").is_err());
        assert!(fs::remove_file("d").is_err());
        assert!(fs::read("f/x").is_err());
        let mut dir = File::open("d").unwrap();
        assert!(dir.read(&mut [0]).is_err() && dir.write(b"x").is_err() && dir.set_len(0).is_err());
        let mut only_read = File::open("f").unwrap();
        assert!(only_read.write(b"x").is_err() && only_read.set_len(0).is_err());
        let mut only_write = File::options().write(true).open("f").unwrap();
        assert!(only_write.read(&mut [0]).is_err());
        assert!(File::options().open("f").is_err());
        assert!(File::options().read(true).truncate(true).open("f").is_err());
        assert!(fs::write("/proc/self/mem", "x").is_err());
        let _ = fs::copy("f", "f");
        let _ = fs::copy("f", "d");
        assert_eq!(
            fs::read("f").unwrap_or_default().len() as u64,
            fs::metadata("f").unwrap().len()
        );
    });
}
