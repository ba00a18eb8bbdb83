//! Waits that park: locks, FIFOs, long transfers; and their cancellation.

use super::{Folder, each_root, everywhere, is_cancelled, roots};
use crate::support::{HOUR, begin, run_on, settle, until};
use ecru::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

/// - given: one file opened several times
/// - when: locks are taken, tried, changed and released
/// - then: as with std: shared locks together, an exclusive lock alone, for each open file and not
///   for each task
#[test]
fn fs_11_locks() {
    everywhere(|folder| {
        let path = folder.at("file");
        let one = File::create(&path).unwrap();
        let other = File::open(&path).unwrap();
        one.lock().unwrap();
        one.lock().unwrap(); // it has it already
        one.try_clone().unwrap().try_lock().unwrap(); // so do its clones
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        assert!(matches!(other.try_lock_shared(), Err(TryLockError::WouldBlock)));
        let std = std::fs::File::open(&path).unwrap();
        assert!(matches!(std.try_lock(), Err(TryLockError::WouldBlock)));
        one.lock_shared().unwrap();
        other.lock_shared().unwrap();
        other.try_lock_shared().unwrap();
        assert!(matches!(one.try_lock(), Err(TryLockError::WouldBlock)));
        other.unlock().unwrap();
        one.try_lock().unwrap();
        drop(one);
        // This waits, because a process that another test is starting has this file open until its
        // exec.
        other.lock().unwrap();
        other.unlock().unwrap();
        std.try_lock().unwrap();
    });
}

/// - given: a task that waits for a lock
/// - when: the lock is released; or the task is cancelled
/// - then: other tasks of the worker run meanwhile; the task gets the lock, or `Cancelled` without
///   the lock
#[test]
fn fs_12_lock_waits_parked() {
    for root in roots() {
        let path = Folder::on(&root);
        let path = &path.at("file");
        run_on(1, || {
            let held = File::create(path).unwrap();
            held.lock().unwrap();
            ecru::scope(|s| {
                let patient = begin(s, || {
                    let file = File::open(path).unwrap();
                    file.lock().unwrap();
                    file
                });
                let impatient = begin(s, || {
                    let file = File::open(path).unwrap();
                    (file.lock_shared().unwrap_err(), file)
                });
                assert!(!patient.is_finished() && !impatient.is_finished());
                impatient.cancel();
                let (error, without) = impatient.join().unwrap();
                assert!(is_cancelled(&error), "{error}");
                held.unlock().unwrap();
                let locked = patient.join().unwrap();
                assert!(matches!(held.try_lock_shared(), Err(TryLockError::WouldBlock)));
                drop(locked);
                // As in `fs_11`: it does not succeed at once if a process is being started.
                held.lock().unwrap();
                drop(without);
            });
        });
    }
}

/// - given: a cancelled task
/// - when: it calls each function and method
/// - then: `Cancelled`, and nothing has happened; `try_lock` and `unlock` work
#[test]
fn fs_13_cancelled_does_nothing() {
    each_root(|folder| {
        let [file, new, empty] = ["file", "new", "empty"].map(|name| folder.at(name));
        fs::write(&file, "contents").unwrap();
        fs::create_dir(&empty).unwrap();
        let open = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let other = File::open(&file).unwrap();
        open.lock().unwrap();
        let listing = fs::read_dir(&folder.0).unwrap();
        let permissions = open.metadata().unwrap().permissions();
        ecru::scope(|s| {
            let task = begin(s, || {
                ecru::sleep(HOUR).unwrap_err();
                let (mut open, mut listing) = (&open, listing);
                let mut bytes = [7; 4];
                let errors: Vec<(&str, io::Error)> = vec![
                    ("read", open.read(&mut bytes).unwrap_err()),
                    ("read_at", open.read_at(&mut bytes, 0).unwrap_err()),
                    (
                        "read_vectored",
                        open.read_vectored(&mut [IoSliceMut::new(&mut [0; 2])]).unwrap_err(),
                    ),
                    ("read_to_end", open.read_to_end(&mut Vec::new()).unwrap_err()),
                    ("write", open.write(b"no").unwrap_err()),
                    ("write_at", open.write_at(b"no", 0).unwrap_err()),
                    ("write_vectored", open.write_vectored(&[IoSlice::new(b"no")]).unwrap_err()),
                    ("seek", open.seek(SeekFrom::Start(3)).unwrap_err()),
                    ("sync_all", open.sync_all().unwrap_err()),
                    ("sync_data", open.sync_data().unwrap_err()),
                    ("set_len", open.set_len(1).unwrap_err()),
                    ("metadata", open.metadata().unwrap_err()),
                    ("set_permissions", open.set_permissions(permissions.clone()).unwrap_err()),
                    ("set_modified", open.set_modified(SystemTime::UNIX_EPOCH).unwrap_err()),
                    ("lock", other.lock_shared().unwrap_err()),
                    ("open", File::open(&file).unwrap_err()),
                    ("create", File::create(&file).unwrap_err()),
                    ("create_new", File::create_new(&new).unwrap_err()),
                    ("fs::read", fs::read(&file).unwrap_err()),
                    ("fs::read_to_string", fs::read_to_string(&file).unwrap_err()),
                    ("fs::write", fs::write(&new, "no").unwrap_err()),
                    ("fs::copy", fs::copy(&file, &new).unwrap_err()),
                    ("fs::rename", fs::rename(&file, &new).unwrap_err()),
                    ("fs::hard_link", fs::hard_link(&file, &new).unwrap_err()),
                    ("fs::symlink", fs::symlink(&file, &new).unwrap_err()),
                    ("fs::create_dir", fs::create_dir(&new).unwrap_err()),
                    ("fs::create_dir_all", fs::create_dir_all(new.join("er")).unwrap_err()),
                    ("DirBuilder", DirBuilder::new().create(&new).unwrap_err()),
                    ("fs::remove_file", fs::remove_file(&file).unwrap_err()),
                    ("fs::remove_dir", fs::remove_dir(&empty).unwrap_err()),
                    ("fs::remove_dir_all", fs::remove_dir_all(&empty).unwrap_err()),
                    ("fs::metadata", fs::metadata(&file).unwrap_err()),
                    ("fs::symlink_metadata", fs::symlink_metadata(&file).unwrap_err()),
                    ("fs::exists", fs::exists(&file).unwrap_err()),
                    ("fs::canonicalize", fs::canonicalize(&file).unwrap_err()),
                    ("fs::read_link", fs::read_link(&file).unwrap_err()),
                    ("fs::read_dir", fs::read_dir(&folder.0).unwrap_err()),
                    ("ReadDir", listing.next().unwrap().unwrap_err()),
                    ("fs::chown", fs::chown(&file, None, None).unwrap_err()),
                    ("fs::set_permissions", fs::set_permissions(&file, permissions).unwrap_err()),
                ];
                for (name, error) in &errors {
                    assert!(is_cancelled(error), "{name}: {error}");
                }
                // Calls that never wait still work.
                assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
                open.unlock().unwrap();
                other.try_lock().unwrap();
                other.unlock().unwrap();
                assert_eq!(bytes, [7; 4]);
            });
            task.cancel();
            task.join().unwrap();
        });
        other.try_lock().unwrap();
        assert_eq!((&open).stream_position().unwrap(), 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "contents");
        let names: BTreeSet<_> =
            fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, BTreeSet::from(["file".into(), "empty".into()]));
    });
}

/// - given: a long read or write
/// - when: its task is cancelled meanwhile
/// - then: `Ok(n)` with the bytes that were transferred, the cursor after them, and the next call
///   fails
#[test]
fn fs_14_cancel_between_pieces() {
    const MANY: usize = 64 << 20;
    for root in roots() {
        let folder = Folder::on(&root);
        run_on(1, || {
            let file = File::create_new(folder.at("file")).unwrap();
            file.set_len(MANY as u64).unwrap();
            let mut bytes = vec![1; MANY];
            let in_memory = root.starts_with("/dev/shm");
            // This makes the file's residence known.
            (&file).read_exact(&mut [0; 1]).unwrap();
            for writes in [false, true] {
                (&file).rewind().unwrap();
                let (begun, bytes) = (AtomicBool::new(false), &mut bytes);
                let moved = ecru::scope(|s| {
                    let task = s.spawn(|| {
                        begun.store(true, SeqCst);
                        let mut file = &file;
                        let moved = if writes { file.write(bytes) } else { file.read(bytes) };
                        let again = file.read(&mut [0; 1]).unwrap_err();
                        assert!(is_cancelled(&again), "{again}");
                        // On a disk the transfer may not have begun.
                        moved
                            .or_else(|error| is_cancelled(&error).then_some(0).ok_or(error))
                            .unwrap()
                    });
                    until(|| begun.load(SeqCst));
                    task.cancel();
                    task.join().unwrap()
                });
                assert!(moved < MANY, "it was not cancelled");
                assert!(moved > 0 || !in_memory, "it was cancelled before it began");
                assert_eq!((&file).stream_position().unwrap(), moved as u64);
            }
        });
    }
}

/// - given: one worker, and another task that is always ready
/// - when: 64 MiB of a file in memory are read
/// - then: the other task runs at least 16 times during the read
#[test]
fn fs_26_a_transfer_shares_the_worker_by_its_length() {
    const MANY: usize = 64 << 20;
    let folder = Folder::on(Path::new("/dev/shm"));
    run_on(1, || {
        let file = File::create_new(folder.at("file")).unwrap();
        file.set_len(MANY as u64).unwrap();
        let mut bytes = vec![1; MANY];
        // This makes the file's residence known.
        (&file).read_exact(&mut [0; 1]).unwrap();
        let (turns, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn(|| {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    ecru::yield_now().unwrap();
                }
            });
            until(|| turns.load(SeqCst) > 0);
            (&file).rewind().unwrap();
            ecru::yield_now().unwrap();
            let before = turns.load(SeqCst);
            (&file).read_exact(&mut bytes).unwrap();
            assert!(turns.load(SeqCst) - before >= 16, "a long read lets the others run");
            over.store(true, SeqCst);
        });
    });
}

/// - given: a long read under a time limit, on one worker
/// - when: the limit passes after some of its bytes have been moved
/// - then: the read returns these bytes, and so does the limit
#[test]
fn fs_27_a_limit_passes_within_a_read_slow() {
    const MANY: usize = 64 << 20;
    const LIMIT: Duration = Duration::from_millis(50);
    for root in roots() {
        let folder = Folder::on(&root);
        run_on(1, || {
            let file = File::create_new(folder.at("file")).unwrap();
            file.set_len(MANY as u64).unwrap();
            let mut bytes = vec![1; MANY];
            let begun = AtomicBool::new(false);
            let mut read_until_late = || {
                (&file).rewind().unwrap();
                begun.store(false, SeqCst);
                ecru::scope(|s| {
                    s.spawn(|| {
                        until(|| begun.load(SeqCst));
                        // The reader goes on when its limit has passed.
                        let since = Instant::now();
                        while since.elapsed() < 2 * LIMIT {
                            std::hint::spin_loop();
                        }
                    });
                    let read = ecru::timeout(LIMIT, || {
                        begun.store(true, SeqCst);
                        (&file).read(&mut bytes)
                    });
                    // What has been read is told, also if the limit passes before the first byte.
                    let told = read.map_or(0, |read| read.unwrap_or(0));
                    assert_eq!(told as u64, (&file).stream_position().unwrap());
                    told
                })
            };
            // A busy machine may be late in another way.
            while !(1..MANY).contains(&read_until_late()) {}
        });
    }
}

/// - given: one worker and a long read
/// - when: another task becomes ready
/// - then: it runs before the read has ended
#[test]
fn fs_15_worker_goes_on() {
    for root in roots() {
        let folder = Folder::on(&root);
        run_on(1, || {
            let path = folder.at("file");
            File::create(&path).unwrap().set_len(32 << 20).unwrap();
            let (begun, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
            ecru::scope(|s| {
                let reader = s.spawn(|| {
                    begun.store(true, SeqCst);
                    fs::read(&path).unwrap().len()
                });
                until(|| begun.load(SeqCst));
                while !reader.is_finished() {
                    seen.fetch_add(1, SeqCst);
                    ecru::yield_now().unwrap();
                }
                assert_eq!(reader.join().unwrap(), 32 << 20);
            });
            assert!(seen.load(SeqCst) > 3, "{seen:?}");
        });
    }
}

fn fifo(folder: &Folder) -> PathBuf {
    let path = folder.at("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

/// - given: a FIFO
/// - when: one task opens and reads it, another opens and writes it
/// - then: both wait parked, and the bytes arrive
#[test]
fn fs_16_fifo() {
    each_root(|folder| {
        let path = &fifo(folder);
        ecru::scope(|s| {
            let reader = begin(s, || {
                let mut text = String::new();
                File::open(path).unwrap().read_to_string(&mut text).unwrap();
                text
            });
            assert!(!reader.is_finished());
            let mut writer = OpenOptions::new().write(true).open(path).unwrap();
            settle();
            assert!(!reader.is_finished());
            writer.write_all(b"through ").unwrap();
            settle();
            writer.write_all(b"the pipe").unwrap();
            drop(writer);
            assert_eq!(reader.join().unwrap(), "through the pipe");
        });
    });
}

/// - given: a task that waits for a FIFO's bytes
/// - when: it is cancelled
/// - then: `Cancelled`; later bytes are not lost
#[test]
fn fs_17_fifo_cancelled() {
    each_root(|folder| {
        let path = &fifo(folder);
        // The open never waits, because it has both ends.
        let both = OpenOptions::new().read(true).write(true).open(path).unwrap();
        ecru::scope(|s| {
            let reader = begin(s, || (&both).read(&mut [0; 4]).unwrap_err());
            reader.cancel();
            let error = reader.join().unwrap();
            assert!(is_cancelled(&error), "{error}");
            (&both).write_all(b"four").unwrap();
            let mut bytes = [0; 4];
            (&both).read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"four");
        });
    });
}

/// - given: a pipe, a Unix socket or a FIFO in non-blocking mode as a `File`, set before or later
/// - when: it is read while it is empty, and written while it is full, in plain and vectored form
/// - then: `WouldBlock`, as with std, instead of a wait
#[test]
fn fs_28_non_blocking_mode() {
    fn would_block<T: std::fmt::Debug>(result: io::Result<T>) {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    fn set_later(fd: &impl std::os::fd::AsFd) {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap() | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(fd, flags).unwrap();
    }
    fn refuses(mut reader: File, mut writer: File) {
        let mut bytes = vec![0; 1 << 16];
        would_block(reader.read(&mut bytes));
        would_block(reader.read_vectored(&mut [IoSliceMut::new(&mut bytes)]));
        while writer.write(&bytes).is_ok() {}
        would_block(writer.write(&bytes));
        would_block(writer.write_vectored(&[IoSlice::new(&bytes)]));
        assert!(reader.read(&mut bytes).unwrap() > 0);
    }
    each_root(|folder| {
        let flags = rustix::pipe::PipeFlags::NONBLOCK | rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags).unwrap();
        refuses(File::from(reader), File::from(writer));
        let (reader, writer) = std::io::pipe().unwrap();
        set_later(&reader);
        set_later(&writer);
        refuses(
            File::from(std::os::fd::OwnedFd::from(reader)),
            File::from(std::os::fd::OwnedFd::from(writer)),
        );
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        set_later(&one);
        set_later(&other);
        refuses(
            File::from(std::os::fd::OwnedFd::from(one)),
            File::from(std::os::fd::OwnedFd::from(other)),
        );
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(fifo(folder))
            .unwrap();
        let other = both.try_clone().unwrap();
        refuses(both, other);
        let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
        let mut counter = File::from(rustix::event::eventfd(0, flags).unwrap());
        would_block(counter.read(&mut [0; 8]));
    });
}
