//! The same calls to std's types and to ecru's.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use ecru::fs::{self, File, OpenOptions};
use ecru::process::Command;

use crate::{each_place, each_run, std_pipe};

fn told<T>(outcome: io::Result<T>) -> Result<T, (ErrorKind, Option<i32>, String)> {
    outcome.map_err(|error| (error.kind(), error.raw_os_error(), error.to_string()))
}

#[test]
fn positions_of_what_has_none_are_refused_as_by_std() {
    each_run(|| {
        let (reader, writer) = std_pipe();
        let std_reader = std::fs::File::from(reader.try_clone().unwrap());
        let std_writer = std::fs::File::from(writer.try_clone().unwrap());
        let (reader, writer) = (File::from(reader), File::from(writer));
        let mut word = [0; 4];
        for _ in 0..2 {
            // First with an empty pipe, then with bytes in it.
            let theirs = std::os::unix::fs::FileExt::read_at(&std_reader, &mut word, 7);
            assert_eq!(told(reader.read_at(&mut word, 7)), told(theirs));
            let theirs = std::os::unix::fs::FileExt::write_at(&std_writer, b"ecru", 7);
            assert_eq!(told(writer.write_at(b"ecru", 7)), told(theirs));
            assert_eq!(
                told((&reader).seek(SeekFrom::Start(1))),
                told((&std_reader).seek(SeekFrom::Start(1)))
            );
            (&std_writer).write_all(b"dyed").unwrap();
        }
        (&reader).read_exact(&mut word).unwrap();
        assert_eq!(&word, b"dyed");
    });
}

#[test]
fn a_command_is_shown_as_std_s() {
    let mut ours = Command::new("grep");
    ours.args(["-c", "a b"]).env("LANG", "C").current_dir("/");
    let mut theirs = process::Command::new("grep");
    theirs.args(["-c", "a b"]).env("LANG", "C").current_dir("/");
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

/// The same calls for both types, so that their errors can be compared.
macro_rules! errors {
    ($name:ident: $($module:tt)*) => {
        fn $name(folder: &Path) -> Vec<String> {
            use $($module)*::*;
            let mut said: Vec<String> = vec![];
            macro_rules! say {
                ($path:expr, $call:expr) => {
                    said.push(format!("{:?}, {}: {:?}", $path, stringify!($call), told($call)))
                };
            }
            let p = |name: &str| folder.join(name);
            let long = "x".repeat(300);
            let names = [
                "missing", "dir", "file", "file/x", "file/", "loop", "", "a\0b", "dangling", "to_dir", "to_file",
                "dir/", ".", "dir/..", "missing/x", "full", &long,
            ];
            for name in names {
                let path = if name.is_empty() { PathBuf::new() } else { p(name) };
                say!(name, read(&path));
                say!(name, read_to_string(&path));
                say!(name, read_dir(&path).map(|entries| entries.count()));
                say!(name, read_link(&path));
                say!(name, metadata(&path).map(|m| (m.len() > 0, m.is_dir(), m.is_file())));
                say!(name, symlink_metadata(&path).map(|m| (m.is_dir(), m.is_symlink())));
                say!(name, exists(&path));
                say!(name, canonicalize(&path).map(|path| path.file_name().map(|n| n.to_owned())));
                say!(name, File::open(&path).map(drop));
                say!(name, File::open(&path).and_then(|mut file| file.read(&mut [0; 4])));
                say!(name, File::open(&path).and_then(|mut file| file.read_vectored(&mut [])));
                say!(name, File::open(&path).and_then(|mut file| file.write(b"xyz")));
                say!(name, File::open(&path).and_then(|mut file| file.write(b"")));
                say!(name, File::open(&path).and_then(|mut file| file.seek(SeekFrom::Current(-1))));
                say!(name, File::open(&path).and_then(|mut file| file.seek(SeekFrom::Start(u64::MAX))));
                say!(name, File::open(&path).and_then(|file| file.set_len(3)));
                say!(name, File::open(&path).and_then(|file| file.sync_all()));
                let mut writes = OpenOptions::new();
                writes.write(true);
                say!(name, writes.open(&path).and_then(|mut file| file.read(&mut [0; 4])));
                say!(name, writes.open(&path).and_then(|mut file| file.read(&mut [])));
                say!(name, writes.open(&path).and_then(|mut file| file.read_to_end(&mut vec![])));
                say!(name, writes.open(&path).and_then(|file| file.set_len(u64::MAX)));
                say!(name, writes.open(&path).and_then(|file| std::os::unix::fs::FileExt::read_at(&file, &mut [1], u64::MAX)));
                let mut appends = OpenOptions::new();
                appends.append(true);
                say!(name, appends.open(&path).and_then(|mut file| {
                    let before = file.stream_position()?;
                    file.write_all(b"more")?;
                    Ok((before, file.stream_position()?))
                }));
                let mut reads = OpenOptions::new();
                reads.read(true);
                say!(name, reads.custom_flags(libc::O_NOFOLLOW).open(&path).map(drop));
                say!(name, reads.custom_flags(libc::O_DIRECTORY).open(&path).map(drop));
                say!(name, File::create_new(&path).map(drop));
                say!(name, create_dir(&path));
                say!(name, create_dir_all(&path));
                say!(name, copy(&path, p("copied")));
                say!(name, copy(p("file"), &path));
                say!(name, hard_link(&path, p("linked")));
                say!(name, hard_link(p("file"), &path));
                say!(name, rename(p("nothing"), &path));
                say!(name, rename(p("dir"), &path));
                say!(name, set_permissions(&path, std::fs::Permissions::from_mode(0o755)));
                say!(name, remove_dir(&path));
                say!(name, remove_file(p("linked")));
                say!(name, remove_dir_all(&path));
                fill(folder);
            }
            said
        }
    };
}

errors!(errors_of_ours: ecru::fs);

errors!(errors_of_theirs: std::fs);

/// Restores the contents of the folder, whatever has been done to it.
fn fill(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder.join("dir")).unwrap();
    std::fs::create_dir_all(folder.join("full/x")).unwrap();
    std::fs::write(folder.join("file"), "undyed").unwrap();
    for (name, target) in
        [("loop", "loop"), ("dangling", "nowhere"), ("to_dir", "dir"), ("to_file", "file")]
    {
        std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
    }
}

#[test]
fn every_error_is_std_s() {
    each_run(|| {
        each_place(|folder| {
            let (ours, theirs) = (folder.join("ours/base"), folder.join("theirs/base"));
            fill(&ours);
            fill(&theirs);
            let (ours, theirs) = (errors_of_ours(&ours), errors_of_theirs(&theirs));
            assert_eq!(ours.len(), theirs.len());
            let differ: Vec<_> = ours.iter().zip(&theirs).filter(|(a, b)| a != b).collect();
            assert!(differ.is_empty(), "{differ:#?}");
        });
    });
}

#[test]
fn any_sequence_of_calls_moves_the_cursor_as_std_s() {
    use std::os::unix::fs::FileExt;
    fn step(file: &mut (impl Read + Write + Seek + FileExt), random: &mut fastrand::Rng) -> String {
        let length = random.usize(0..40);
        let mut bytes = vec![b'.'; length];
        let at = random.u64(0..100);
        let outcome = match random.u8(0..10) {
            0 => told(file.read(&mut bytes)).map(|n| (n as u64, bytes)),
            1 => told(file.write(&bytes)).map(|n| (n as u64, vec![])),
            2 => told(file.seek(SeekFrom::Start(at))).map(|n| (n, vec![])),
            3 => told(file.seek(SeekFrom::Current(at as i64 - 50))).map(|n| (n, vec![])),
            4 => told(file.seek(SeekFrom::End(at as i64 - 50))).map(|n| (n, vec![])),
            5 => told(file.read_at(&mut bytes, at)).map(|n| (n as u64, bytes)),
            6 => told(file.write_at(&bytes, at)).map(|n| (n as u64, vec![])),
            7 => told(file.read_exact(&mut bytes)).map(|()| (0, bytes)),
            8 => {
                let mut all = vec![b'a'];
                told(file.read_to_end(&mut all)).map(|n| (n as u64, all))
            }
            _ => {
                let (one, other) = bytes.split_at(length / 3);
                let parts = [io::IoSlice::new(one), io::IoSlice::new(&[]), io::IoSlice::new(other)];
                told(file.write_vectored(&parts)).map(|n| (n as u64, vec![]))
            }
        };
        format!("{outcome:?} {:?}", told(file.stream_position()))
    }
    each_run(|| {
        each_place(|folder| {
            for seed in 0..40 {
                let append = seed % 4 == 0;
                let (mut ours, mut theirs) =
                    (fastrand::Rng::with_seed(seed), fastrand::Rng::with_seed(seed));
                std::fs::write(folder.join("ours"), "undyed cloth").unwrap();
                std::fs::write(folder.join("theirs"), "undyed cloth").unwrap();
                let mut our_file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .append(append)
                    .open(folder.join("ours"))
                    .unwrap();
                let mut their_file = std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .append(append)
                    .open(folder.join("theirs"))
                    .unwrap();
                for number in 0..60 {
                    let (one, other) =
                        (step(&mut our_file, &mut ours), step(&mut their_file, &mut theirs));
                    assert_eq!(one, other, "step {number} of {seed}");
                }
            }
        });
    });
}

#[test]
fn what_std_s_types_may_do_ours_may() {
    fn check<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe + Unpin>() {}
    check::<std::fs::File>();
    check::<File>();
    check::<std::fs::DirEntry>();
    check::<fs::DirEntry>();
    check::<std::fs::ReadDir>();
    check::<fs::ReadDir>();
    check::<OpenOptions>();
    check::<process::Child>();
    check::<ecru::process::Child>();
    check::<process::ChildStdout>();
    check::<ecru::process::ChildStdout>();
    check::<io::Stdout>();
    check::<ecru::io::Stdout>();
    check::<io::Stdin>();
    check::<ecru::io::Stdin>();
    check::<io::PipeReader>();
    check::<ecru::io::PipeReader>();
    fn sends<T: Send + Sync>() {}
    sends::<process::Command>();
    sends::<Command>();
}
