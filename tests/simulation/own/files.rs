//! Files: what a call has reported is in the file, and what it has not is not.

use super::{everywhere, everywhere_with_faults};
use ecru::fs::{self, File, OpenOptions};
use ecru::shield;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

/// Repeats a call that may be the one that fails. No second one does.
#[track_caller]
fn insist<T>(call: impl Fn() -> io::Result<T>) -> T {
    shield(|| call().or_else(|_| call())).expect("only one operation fails")
}

/// Two tasks append. Each record is whole, and as often there as its write has succeeded.
#[test]
fn each_record_is_appended_once_slow() {
    everywhere_with_faults(|| {
        let Ok(file) = OpenOptions::new().append(true).create(true).open("log") else { return };
        let written = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let (file, written) = (&file, &written);
            for record in [b"one record\n", b"the other.\n"] {
                s.spawn(move || {
                    for _ in 0..2 {
                        if let Ok(count) = (&*file).write(record) {
                            assert_eq!(count, record.len());
                            written.lock().unwrap().push(record.as_slice());
                        }
                    }
                });
            }
        });
        let log = insist(|| fs::read("log"));
        let mut found: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
        let mut written = written.into_inner().unwrap();
        found.sort_unstable();
        written.sort_unstable();
        assert_eq!(found, written);
    });
}

/// Tasks that share a cursor get each byte once. What was not read, the next reader gets.
#[test]
fn a_shared_cursor_gives_each_byte_once_slow() {
    everywhere_with_faults(|| {
        let all: Vec<u8> = (0..20).collect();
        let Ok(()) = fs::write("file", &all) else { return };
        let Ok(file) = File::open("file") else { return };
        let got = Mutex::new(Vec::new());
        let read = |file: &File| -> io::Result<usize> {
            let mut buffer = [0; 3];
            let count = (&*file).read(&mut buffer)?;
            got.lock().unwrap().extend_from_slice(&buffer[..count]);
            Ok(count)
        };
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| while read(&file).is_ok_and(|count| count > 0) {});
            }
        });
        shield(|| while read(&file).map_or(true, |count| count > 0) {});
        let mut got = got.into_inner().unwrap();
        got.sort_unstable();
        assert_eq!(got, all);
    });
}

/// The cursor of a file is behind what a failed `read_exact` has read.
#[test]
fn read_exact_leaves_the_cursor_behind_what_it_took() {
    everywhere_with_faults(|| {
        let all: Vec<u8> = (0..200).collect();
        let Ok(()) = fs::write("file", &all) else { return };
        let Ok(mut file) = File::open("file") else { return };
        let mut buffer = [255; 150];
        let outcome = file.read_exact(&mut buffer);
        let place = shield(|| file.stream_position()).expect("a cursor's place is no operation");
        let place = place as usize;
        assert_eq!(buffer[..place], all[..place]);
        assert!(outcome.is_err() || place == 150);
        let rest = Mutex::new(Vec::new());
        insist(|| (&file).read_to_end(&mut rest.lock().unwrap()));
        assert_eq!(*rest.lock().unwrap(), all[place..]);
    });
}

/// A file that is replaced by a rename has its old content or the new one.
#[test]
fn a_replaced_file_is_the_old_or_the_new_one_slow() {
    everywhere_with_faults(|| {
        let (old, new) = ("old content", "another content, which is longer".repeat(100));
        insist(|| fs::write("file", old));
        let replace = || -> io::Result<()> {
            let mut writer = BufWriter::with_capacity(1000, File::create("file.new")?);
            writer.write_all(new.as_bytes())?;
            writer.flush()?;
            writer.get_ref().sync_all()?;
            fs::rename("file.new", "file")?;
            File::open(".")?.sync_all()
        };
        let outcome = replace();
        let found = insist(|| fs::read_to_string("file"));
        let has_new = found == new;
        assert!(has_new || found == old, "{} bytes", found.len());
        assert!(has_new || outcome.is_err());
        // What is left of a failed attempt does not hinder the next one.
        insist(replace);
        assert!(insist(|| fs::read_to_string("file")) == new);
    });
}

/// A file that is written in place may be incomplete: the old one, or a beginning of the new one.
#[test]
fn a_file_that_is_written_half_way_is_a_beginning_slow() {
    everywhere_with_faults(|| {
        insist(|| fs::write("file", "old"));
        // More than one piece.
        let new: Vec<u8> = (0..600_000).map(|n: u32| (n % 251) as u8).collect();
        let outcome = fs::write("file", &new);
        let found = insist(|| fs::read("file"));
        assert!(found == b"old" || new.starts_with(&found), "{} bytes", found.len());
        assert!(outcome.is_err() || found.len() == new.len());
    });
}

/// A copy that fails leaves a beginning, and the original as it was.
#[test]
fn a_copy_is_a_beginning_of_the_original_slow() {
    everywhere_with_faults(|| {
        let all: Vec<u8> = (0..300_000).map(|n: u32| (n % 251) as u8).collect();
        insist(|| fs::write("from", &all));
        let outcome = fs::copy("from", "to");
        let copied = insist(|| match fs::read("to") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        });
        assert!(all.starts_with(&copied), "{} bytes", copied.len());
        assert!(outcome.is_err() || copied.len() == all.len());
        assert!(insist(|| fs::read("from")) == all);
    });
}

/// A lock is released by the end of its holder, which is also how an open file would be noticed.
#[test]
fn a_lock_excludes_others_and_is_released_slow() {
    everywhere(|| {
        let counter = || -> io::Result<()> {
            let mut file = OpenOptions::new().read(true).write(true).open("counter")?;
            file.lock()?;
            let mut byte = [0];
            shield(|| -> io::Result<()> {
                file.read_exact(&mut byte)?;
                ecru::yield_now()?;
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&[byte[0] + 1])
            })
        };
        insist(|| fs::write("counter", [0]));
        let counted = ecru::scope(|s| {
            let tasks = [(); 3].map(|()| s.spawn(counter));
            tasks
                .iter()
                .filter(|task| shield(|| task.join()).is_ok_and(|done| done.is_ok()))
                .count()
        });
        let file = insist(|| File::open("counter"));
        assert!(file.try_lock().is_ok(), "a file is still open");
        assert_eq!(insist(|| fs::read("counter")), [counted as u8]);
    });
}

/// Lines of a file that several tasks read under time limits and cancellations come once.
#[test]
fn buffered_lines_of_a_file_come_once() {
    everywhere_with_faults(|| {
        use std::io::BufRead;
        let text = "one line\nanother line\nthe end\n";
        let Ok(()) = fs::write("file", text) else { return };
        let Ok(file) = File::open("file") else { return };
        let mut reader = BufReader::with_capacity(7, file);
        let mut lines = Vec::new();
        while reader.read_until(b'\n', &mut lines).is_ok_and(|count| count > 0) {}
        shield(|| while reader.read_until(b'\n', &mut lines).map_or(true, |count| count > 0) {});
        assert_eq!(String::from_utf8_lossy(&lines), text);
    });
}
