//! The system's pipes.

use super::{bytes, cancelled, read_all};
use crate::streams::{assert_cancelled, byte_at};
use crate::support::{Side, Watchdog, begin, each_run, everywhere, ms, now, run_on, since, until};
use ecru::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// - given: a pipe, and a task at each end
/// - when: 1 MB is written
/// - then: it arrives unchanged, then `Ok(0)`
#[test]
fn io_01_pipe() {
    everywhere(|side| {
        let (reader, mut writer) = io::pipe().unwrap();
        let all = bytes(1 << 20);
        let (read, ()) = side.both(
            || read_all(reader),
            || {
                writer.write_all(&all).unwrap();
                drop(writer);
            },
        );
        assert!(read == all);
    });
}

/// - given: a pipe
/// - when: it is used as `Read` and `Write`, by value and by `&`
/// - then: it behaves as std's
#[test]
fn io_02_pipe_traits() {
    everywhere(|_| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert_eq!(writer.write(b"by value").unwrap(), 8);
        assert_eq!((&writer).write(b" by reference").unwrap(), 13);
        writer.flush().unwrap();
        let mut word = [0; 8];
        reader.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"by value");
        drop(writer);
        assert_eq!(io::read_to_string(&reader).unwrap(), " by reference");
        assert_eq!(reader.read(&mut word).unwrap(), 0);
        // Converted to std's type and back, it also works in blocking mode.
        let (reader, writer) = io::pipe().unwrap();
        let reader = io::PipeReader::from(std::os::fd::OwnedFd::from(reader));
        let mut writer = io::PipeWriter::from(std::os::fd::OwnedFd::from(writer));
        assert!(ecru::timeout(ms(1), || (&reader).read(&mut word)).is_err());
        writer.write_all(b"round").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(&reader).unwrap(), "round");
    });
}

/// - given: a pipe, of this process alone or shared
/// - when: several slices are written in one call, and read into several buffers in one call
/// - then: all of them are used, empty ones are skipped, and a read waits for bytes
#[test]
fn io_33_pipe_vectored() {
    fn check(side: Side, mut reader: impl Read + Send, mut writer: impl Write + Send) {
        let (mut first, mut second) = ([0; 3], [0; 10]);
        let mut buffers = [&mut [][..], &mut first, &mut second].map(IoSliceMut::new);
        let parts = [b"".as_slice(), b"ab", b"", b"cde", b"fgh"].map(IoSlice::new);
        let (read, written) = side.both(
            || reader.read_vectored(&mut buffers).unwrap(),
            || writer.write_vectored(&parts).unwrap(),
        );
        assert_eq!((read, written), (8, 8));
        assert_eq!((&first, &second[..5]), (b"abc", b"defgh".as_slice()));
        assert_eq!(writer.write_vectored(&[]).unwrap(), 0);
        assert_eq!(reader.read_vectored(&mut []).unwrap(), 0);
    }
    everywhere(|side| {
        let (reader, writer) = io::pipe().unwrap();
        check(side, &reader, &writer);
        let (shared_reader, shared_writer) =
            (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        check(side, &reader, &writer);
        check(side, shared_reader, shared_writer);
    });
}

/// - given: a pipe whose reader has been dropped
/// - when: it is written to
/// - then: `BrokenPipe`
#[test]
fn io_03_broken_pipe() {
    everywhere(|_| {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(writer.write(b"nobody").unwrap_err().kind(), ErrorKind::BrokenPipe);
        // A writer waits for room when the reader is dropped.
        let (reader, mut writer) = io::pipe().unwrap();
        let error = std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(ms(3));
                drop(reader);
            });
            writer.write_all(&bytes(1 << 20)).unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

/// - given: a parked read of a pipe
/// - when: its task is cancelled, then bytes come
/// - then: the read returns a cancellation, and the next read gets the bytes
#[test]
fn io_04_cancelled_read_loses_nothing() {
    each_run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        // A shared pipe is read by the kernel itself if there is a ring.
        let (shared, mut to_shared) = io::pipe().unwrap();
        let _clone = shared.try_clone().unwrap();
        ecru::scope(|s| {
            for reader in [&reader, &shared] {
                let waits = begin(s, move || {
                    let mut reader = reader;
                    cancelled(reader.read(&mut [0; 10]));
                    cancelled(reader.read(&mut [0; 10]));
                });
                assert!(!waits.is_finished());
                waits.cancel();
                waits.join().unwrap();
            }
        });
        for (mut reader, writer) in [(&reader, &mut writer), (&shared, &mut to_shared)] {
            writer.write_all(b"word").unwrap();
            let mut word = [0; 10];
            assert_eq!(reader.read(&mut word).unwrap(), 4);
            assert_eq!(&word[..4], b"word");
        }
    });
}

/// - given: a write to a full pipe
/// - when: its task is cancelled
/// - then: the bytes reported as written are the bytes that can be read
#[test]
fn io_05_cancelled_write_stays_whole() {
    each_run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let all = bytes(1 << 20);
        let written = AtomicUsize::new(0);
        ecru::scope(|s| {
            let writes = begin(s, || {
                let mut writer = &writer;
                loop {
                    let from = written.load(SeqCst);
                    match writer.write(&all[from..]) {
                        Ok(count) => written.fetch_add(count, SeqCst),
                        Err(error) => return assert_cancelled(&error),
                    };
                }
            });
            until(|| written.load(SeqCst) >= 65536);
            writes.cancel();
            writes.join().unwrap();
        });
        drop(writer);
        assert!(read_all(reader) == all[..written.load(SeqCst)]);
    });
}

/// - given: thousands of reads of a pipe, each cancelled at a random moment
/// - when: all have ended
/// - then: the bytes read are the bytes written
#[test]
fn io_06_cancelled_at_random_slow() {
    let _loud = crate::streams::loud();
    for (workers, shared) in [(1, false), (2, false), (1, true), (2, true)] {
        run_on(workers, || {
            let (mut reader, mut writer) = io::pipe().unwrap();
            let _clone = shared.then(|| reader.try_clone().unwrap());
            let writes = std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(7);
                let end = Instant::now() + ms(100);
                let mut sent = 0;
                while sent == 0 || Instant::now() < end {
                    let piece: Vec<u8> = (sent..sent + random.usize(1..200)).map(byte_at).collect();
                    writer.write_all(&piece).unwrap();
                    sent += piece.len();
                    for _ in 0..random.u32(0..10_000) {
                        std::hint::spin_loop();
                    }
                }
                sent
            });
            let mut random = fastrand::Rng::with_seed(8);
            let (mut position, mut cancellations, mut reads) = (0, 0, 0);
            let mut buffer = vec![0; 300];
            loop {
                buffer.fill(0);
                let mut outcome = None;
                let limit = std::time::Duration::from_micros(random.u64(0..60));
                let _ = ecru::timeout(limit, || outcome = Some(reader.read(&mut buffer)));
                match outcome.unwrap() {
                    Ok(0) => break,
                    Ok(count) => {
                        for (at, byte) in buffer[..count].iter().enumerate() {
                            assert_eq!(*byte, byte_at(position + at));
                        }
                        position += count;
                        reads += 1;
                    }
                    Err(error) => {
                        assert_cancelled(&error);
                        assert!(buffer.iter().all(|byte| *byte == 0));
                        cancellations += 1;
                    }
                }
            }
            assert_eq!(position, writes.join().unwrap());
            assert!(cancellations > 0 && reads > 0, "{cancellations} {reads}");
        });
    }
}

/// - given: clones of both ends
/// - when: they are used from tasks on both workers
/// - then: they act as one pipe, and the end comes when all writers have been dropped
#[test]
fn io_07_cloned_pipe() {
    everywhere(|side| {
        let (reader, writer) = io::pipe().unwrap();
        let readers = [reader.try_clone().unwrap(), reader];
        let writers: Vec<_> = (0..3).map(|_| writer.try_clone().unwrap()).collect();
        drop(writer);
        let writers = std::sync::Mutex::new(writers);
        let write = |_| {
            let mut writer = writers.lock().unwrap().pop().unwrap();
            (0..100).for_each(|_| writer.write_all(&[1; 1000]).unwrap());
        };
        let (_, read) = side.many(3, write, || {
            side.both(|| read_all(&readers[0]).len(), || read_all(&readers[1]).len())
        });
        assert_eq!(read.0 + read.1, 300_000);
    });
}

/// - given: a plain thread inside `timeout` and a silent pipe
/// - when: it reads
/// - then: `Elapsed`, in time
#[test]
fn io_25_pipe_on_a_thread_in_time() {
    let _watchdog = Watchdog::new();
    let (mut reader, _writer) = io::pipe().unwrap();
    let start = now();
    assert!(ecru::timeout(ms(3), || reader.read(&mut [0; 4])).is_err());
    assert!(since(start) >= ms(3));
}
