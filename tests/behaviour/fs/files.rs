//! Whole files and parts of files, compared with std.

use super::{Refusal, each_root, everywhere, pattern, told};
use ecru::fs::{self, File, OpenOptions};
use std::collections::BTreeSet;
use std::io::{
    self, BufRead, BufReader, BufWriter, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom,
    Write,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A length of more than one piece of a transfer, and not a multiple of a piece.
const LONG: usize = (2 << 20) + 7;

/// - given: a folder
/// - when: small and large files are written and read as a whole
/// - then: they contain what was written, and nothing of their earlier contents
#[test]
fn fs_01_whole_files() {
    everywhere(|folder| {
        let path = folder.at("file");
        for length in [0, 1, 4, 4096, LONG, 17] {
            let bytes = pattern(length);
            fs::write(&path, &bytes).unwrap();
            assert!(fs::read(&path).unwrap() == bytes, "{length} bytes");
            assert!(std::fs::read(&path).unwrap() == bytes, "{length} bytes");
        }
        // The kernel has dropped it from its cache, so the disk has to be read.
        fs::write(&path, pattern(LONG)).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(fs::read(&path).unwrap() == pattern(LONG));
        fs::write(&path, "undyed cloth: écru").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "undyed cloth: écru");
    });
}

/// - given: files
/// - when: `BufReader`, `BufWriter`, `io::copy`, `Seek` are used on `File` and on `&File`
/// - then: the same as with std's
#[test]
fn fs_02_traits() {
    everywhere(|folder| {
        let path = folder.at("file");
        let mut writer = BufWriter::new(File::create(&path).unwrap());
        for line in 0..1000 {
            writeln!(writer, "line {line}").unwrap();
        }
        writer.into_inner().unwrap().sync_data().unwrap();
        let file = File::open(&path).unwrap();
        let lines: Vec<_> = BufReader::new(&file).lines().collect::<Result<_, _>>().unwrap();
        assert_eq!(lines.len(), 1000);
        assert_eq!(lines[999], "line 999");
        (&file).rewind().unwrap();
        let mut copy = File::create_new(folder.at("copy")).unwrap();
        let copied = io::copy(&mut &file, &mut copy).unwrap();
        assert_eq!(copied, std::fs::metadata(&path).unwrap().len());
        assert_eq!(copy.seek(SeekFrom::End(-4)).unwrap(), copied - 4);
        let mut tail = String::new();
        copy.read_to_string(&mut tail).unwrap();
        assert_eq!(tail, "999\n");
        assert!(format!("{copy:?}").starts_with("File"));
    });
}

/// - given: a file at its end
/// - when: it is read
/// - then: `Ok(0)`, repeatedly, also beyond the end and for an empty buffer
#[test]
fn fs_03_end_is_0() {
    everywhere(|folder| {
        let path = folder.at("file");
        fs::write(&path, "four").unwrap();
        let mut file = File::open(&path).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(file.read(&mut []).unwrap(), 0);
        assert_eq!(file.read(&mut buffer).unwrap(), 4);
        for _ in 0..3 {
            assert_eq!(file.read(&mut buffer).unwrap(), 0);
        }
        assert_eq!(file.read_at(&mut buffer, 4).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
        file.seek(SeekFrom::Start(100)).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
        assert_eq!(file.stream_position().unwrap(), 100);
        assert_eq!(
            file.read_exact_at(&mut buffer, 0).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(file.read_to_end(&mut Vec::new()).unwrap(), 0);
        // The file grows after its end was seen.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b" five").unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b" five");
    });
}

/// - given: a file and its clone
/// - when: they are read, written and sought in
/// - then: both share one cursor, which `read_at` and `write_at` do not move
#[test]
fn fs_04_cursor() {
    everywhere(|folder| {
        let mut file = File::create_new(folder.at("file")).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        assert_eq!(file.write_at(b"ab", 3).unwrap(), 2);
        file.write_all_at(b"z", 12).unwrap();
        let mut buffer = [9; 2];
        assert_eq!(file.read_at(&mut buffer, 2).unwrap(), 2);
        assert_eq!(&buffer, b"2a");
        assert_eq!(file.stream_position().unwrap(), 10);
        let mut clone = file.try_clone().unwrap();
        clone.seek(SeekFrom::Start(1)).unwrap();
        file.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"12");
        assert_eq!(clone.seek(SeekFrom::Current(1)).unwrap(), 4);
        assert_eq!(clone.seek(SeekFrom::Current(-9)).unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"b56789\0\0z");
        for offset in [u64::MAX, u64::MAX - 1, 1 << 63] {
            assert_eq!(
                file.read_at(&mut buffer, offset).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
            assert_eq!(file.write_at(&buffer, offset).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

/// - given: every combination of `OpenOptions`
/// - when: a file that exists, one that does not, and a directory are opened
/// - then: std's result and effect for each, including the text of the error
#[test]
fn fs_05_options_as_std() {
    everywhere(|folder| {
        for bits in 0..64 {
            let [read, write, append, truncate, create, create_new] =
                [1, 2, 4, 8, 16, 32].map(|bit| bits & bit != 0);
            let mut ours = OpenOptions::new();
            ours.read(read).write(write).append(append);
            ours.truncate(truncate).create(create).create_new(create_new);
            let mut std = std::fs::OpenOptions::new();
            std.read(read).write(write).append(append);
            std.truncate(truncate).create(create).create_new(create_new);
            for target in ["old", "new", "folder", "link"] {
                let effect = |open: &dyn Fn(&Path) -> Result<(), Refusal>| {
                    let inside = folder.at("inside");
                    std::fs::create_dir(&inside).unwrap();
                    std::fs::write(inside.join("old"), "old").unwrap();
                    std::fs::create_dir(inside.join("folder")).unwrap();
                    std::os::unix::fs::symlink("old", inside.join("link")).unwrap();
                    let result = open(&inside.join(target));
                    let left = std::fs::read(inside.join(target)).ok();
                    std::fs::remove_dir_all(&inside).unwrap();
                    (result, left)
                };
                let expected = effect(&|path| told(std.open(path).and_then(use_std)));
                let got = effect(&|path| told(ours.open(path).and_then(use_ours)));
                assert_eq!(got, expected, "{target}: {ours:?}");
            }
        }
        let mode = OpenOptions::new().mode(0o640).write(true).create(true).clone();
        let file = mode.open(folder.at("mode")).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        let not_followed =
            OpenOptions::new().read(true).custom_flags(rustix_nofollow()).open("/proc/self/exe");
        let refused = not_followed.unwrap_err().raw_os_error();
        assert_eq!(refused, Some(rustix::io::Errno::LOOP.raw_os_error()));
    });
}

fn rustix_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

fn use_std(mut file: std::fs::File) -> io::Result<()> {
    let written = file.write(b"12").map(drop);
    let _ = file.read(&mut [0; 1]);
    written
}

fn use_ours(mut file: File) -> io::Result<()> {
    let written = file.write(b"12").map(drop);
    let _ = file.read(&mut [0; 1]);
    written
}

/// - given: several tasks, each with the file opened for appending
/// - when: they write lines
/// - then: every line is whole
#[test]
fn fs_06_append() {
    each_root(|folder| {
        let path = folder.at("log");
        ecru::scope(|s| {
            for writer in 0..4 {
                let path = &path;
                s.spawn(move || {
                    let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
                    for line in 0..50 {
                        writeln!(log, "{writer} {line}").unwrap();
                        ecru::yield_now().unwrap();
                    }
                    // Appending ignores the offset.
                    log.write_all_at(format!("{writer} end\n").as_bytes(), 0).unwrap();
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let lines: BTreeSet<&str> = text.lines().collect();
        // `writeln!` writes each part separately, so only lines that were written in one call are
        // whole.
        assert_eq!(text.matches('\n').count(), 4 * 51);
        assert!((0..4).all(|writer| text.contains(&format!("{writer} end\n"))), "{lines:?}");
    });
}

/// - given: a sparse file
/// - when: it is written, read, truncated and sought at 5 GiB
/// - then: the bytes are there and nowhere else
#[test]
fn fs_07_beyond_4_gib() {
    const FAR: u64 = 5 << 30;
    everywhere(|folder| {
        let mut file = File::create_new(folder.at("sparse")).unwrap();
        file.write_all_at(b"far", FAR).unwrap();
        assert_eq!(file.metadata().unwrap().len(), FAR + 3);
        let mut buffer = [1; 3];
        file.read_exact_at(&mut buffer, FAR & 0xffff_ffff).unwrap();
        assert_eq!(buffer, [0; 3], "the offset was cut");
        assert_eq!(file.seek(SeekFrom::End(-3)).unwrap(), FAR);
        file.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"far");
        file.write_all(b"ther").unwrap();
        assert_eq!(file.stream_position().unwrap(), FAR + 7);
        file.set_len(FAR + 5).unwrap();
        file.seek(SeekFrom::Start(FAR)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "farth");
    });
}

/// - given: two tasks with one cursor
/// - when: both write, then both read records
/// - then: no record is overwritten, and each is read once
#[test]
fn fs_18_clones_take_turns() {
    const RECORDS: usize = 200;
    each_root(|folder| {
        let file = File::create_new(folder.at("file")).unwrap();
        let record = |writer: usize, number: usize| format!("{writer} {number:04}\n");
        ecru::scope(|s| {
            for writer in 0..2 {
                let mut file = file.try_clone().unwrap();
                s.spawn(move || {
                    for number in 0..RECORDS {
                        file.write_all(record(writer, number).as_bytes()).unwrap();
                        if number % 8 == writer {
                            ecru::yield_now().unwrap();
                        }
                    }
                });
            }
        });
        (&file).rewind().unwrap();
        let seen = std::sync::Mutex::new(BTreeSet::new());
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut bytes = [0; 7];
                    while (&file).read(&mut bytes).unwrap() == 7 {
                        let text = String::from_utf8(bytes.to_vec()).unwrap();
                        assert!(seen.lock().unwrap().insert(text), "read twice");
                    }
                });
            }
        });
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 2 * RECORDS);
        assert!((0..RECORDS).all(|number| seen.contains(&record(1, number))));
    });
}

/// - given: several buffers, some empty
/// - when: they are read and written at once
/// - then: the bytes are transferred in order, as far as there are bytes or room
#[test]
fn fs_21_vectored() {
    everywhere(|folder| {
        let mut file = File::create_new(folder.at("file")).unwrap();
        let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")];
        assert_eq!(file.write_vectored(&parts).unwrap(), 7);
        file.rewind().unwrap();
        let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 9]);
        let mut parts = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
        assert_eq!(file.read_vectored(&mut parts).unwrap(), 7);
        assert_eq!((&a, &c[..4]), (b"one", &b" two"[..]));
        assert_eq!(file.read_vectored(&mut [IoSliceMut::new(&mut a)]).unwrap(), 0);
        assert_eq!(file.read_vectored(&mut []).unwrap(), 0);
        let large = pattern(LONG);
        assert_eq!(
            file.write_vectored(&[IoSlice::new(&large), IoSlice::new(b"!")]).unwrap(),
            LONG + 1
        );
        let mut back = vec![0; LONG + 1];
        file.read_exact_at(&mut back, 7).unwrap();
        assert!(back[..LONG] == large && back[LONG] == b'!');
        file.seek(SeekFrom::Start(7)).unwrap();
        let (first, rest) = back.split_at_mut(LONG / 2);
        first.fill(0);
        rest.fill(0);
        let read =
            file.read_vectored(&mut [IoSliceMut::new(first), IoSliceMut::new(rest)]).unwrap();
        assert_eq!(read, LONG + 1);
        assert!(back[..LONG] == large);
    });
}

/// - given: a std file, a descriptor
/// - when: it is converted to ecru's type and back
/// - then: it is the same open file, with its cursor
#[test]
fn fs_22_conversions() {
    everywhere(|folder| {
        std::fs::write(folder.at("file"), "0123456789").unwrap();
        let mut std = std::fs::File::open(folder.at("file")).unwrap();
        std.read_exact(&mut [0; 2]).unwrap();
        let fd = std.as_raw_fd();
        let mut ours = File::from(std);
        assert_eq!(ours.as_raw_fd(), fd);
        let mut two = [0; 2];
        ours.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"23");
        let mut ours = File::from(OwnedFd::from(ours));
        ours.read_exact(&mut two).unwrap();
        let mut std = std::fs::File::from(ours);
        std.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"67");
    });
}

/// - given: procfs files, whose reported size is zero
/// - when: they are read as a whole
/// - then: everything is read
#[test]
fn fs_24_unknown_size() {
    everywhere(|_| {
        let text = fs::read_to_string("/proc/self/status").unwrap();
        assert!(text.starts_with("Name:") && text.ends_with('\n'), "{text}");
        let mut maps = Vec::new();
        File::open("/proc/self/maps").unwrap().read_to_end(&mut maps).unwrap();
        assert!(maps.ends_with(b"\n") && maps.len() > 1000);
    });
}

/// - given: a string that is not empty
/// - when: a file that is text, or is not, is read to its end
/// - then: the text is appended, or the string is unchanged and the error is `InvalidData`
#[test]
fn fs_25_read_to_string_keeps() {
    everywhere(|folder| {
        fs::write(folder.at("text"), "cloth").unwrap();
        fs::write(folder.at("bytes"), [b'a', 0xff]).unwrap();
        let mut text = String::from("undyed ");
        assert_eq!(File::open(folder.at("text")).unwrap().read_to_string(&mut text).unwrap(), 5);
        assert_eq!(text, "undyed cloth");
        let refused = File::open(folder.at("bytes")).unwrap().read_to_string(&mut text);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text, "undyed cloth");
        let mut bytes = b"a".to_vec();
        File::open(folder.at("text")).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"acloth");
    });
}
