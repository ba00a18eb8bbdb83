//! Vectored calls with odd lists of buffers, files in non-blocking mode, and simulated sockets that
//! are shut.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ecru::fs::File;
use ecru::net::UnixStream;
use ecru::sim::Simulation;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};

use super::{OnDrop, on_each_driver};
use crate::common::{begin, ms, pair, run_on, settle};

/// Writes `bytes` in slices of odd lengths, of which many are empty.
fn write_in_slices(mut writer: impl Write, bytes: &[u8]) {
    let mut left = bytes;
    while !left.is_empty() {
        let (mut slices, mut rest) = (Vec::new(), left);
        for n in 0..3000 {
            let (slice, more) = rest.split_at((n % 4).min(rest.len()));
            slices.push(IoSlice::new(slice));
            rest = more;
        }
        let count = writer.write_vectored(&slices).unwrap();
        assert!(count > 0 && count <= left.len() - rest.len());
        left = &left[count..];
    }
}

fn read_in_slices(mut reader: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut bytes = vec![0; 1500];
        let mut rest = &mut bytes[..];
        let mut slices = Vec::new();
        for n in 0.. {
            let (slice, more) = rest.split_at_mut((n % 4).min(rest.len()));
            slices.push(IoSliceMut::new(slice));
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        let count = reader.read_vectored(&mut slices).unwrap();
        if count == 0 {
            return all;
        }
        all.extend(&bytes[..count]);
    }
}

/// All bytes arrive in order, whatever the lists look like.
#[test]
fn lists_of_thousands_of_slices_slow() {
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let bytes = &bytes[..];
    on_each_driver(2, || {
        for capacity in [0, 1, 7, 4096, usize::MAX] {
            let (reader, writer) = ecru::io::memory_pipe(capacity);
            let some = if capacity < 4096 { &bytes[..200] } else { bytes };
            ecru::scope(|s| {
                s.spawn(move || write_in_slices(writer, some));
                assert_eq!(read_in_slices(&reader), some);
            });
        }
        let (reader, writer) = ecru::io::pipe().unwrap();
        ecru::scope(|s| {
            s.spawn(|| write_in_slices(writer, bytes));
            assert_eq!(read_in_slices(&reader), bytes);
        });
        let (ours, theirs) = pair();
        ecru::scope(|s| {
            s.spawn(move || write_in_slices(ours, bytes));
            assert_eq!(read_in_slices(&theirs), bytes);
        });
        let (ours, theirs) = UnixStream::pair().unwrap();
        ecru::scope(|s| {
            s.spawn(move || write_in_slices(ours, bytes));
            assert_eq!(read_in_slices(&theirs), bytes);
        });
    });
}

/// Nothing is asked for, so nothing is waited for, although there is no data and no room.
#[test]
fn empty_lists_do_not_wait() {
    fn ask(mut reader: impl Read, mut writer: impl Write) {
        assert_eq!(reader.read_vectored(&mut []).unwrap(), 0);
        let (mut a, mut b) = ([], []);
        let mut none = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(reader.read_vectored(&mut none).unwrap(), 0);
        assert_eq!(reader.read(&mut []).unwrap(), 0);
        assert_eq!(writer.write_vectored(&[]).unwrap(), 0);
        assert_eq!(writer.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&[])]).unwrap(), 0);
        assert_eq!(writer.write(&[]).unwrap(), 0);
    }
    let all = || {
        let (reader, mut writer) = ecru::io::memory_pipe(1);
        writer.write_all(&[1]).unwrap();
        let (empty, _writer) = ecru::io::memory_pipe(1);
        ask(&empty, &writer);
        drop(reader);
        let (empty, mut full) = (ecru::io::pipe().unwrap(), ecru::io::pipe().unwrap());
        full.1.write_all(&[1; 1 << 16]).unwrap();
        ask(&empty.0, &full.1);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        while (&ours).write(&[1; 4096]).is_ok() {}
        ours.set_nonblocking(false).unwrap();
        ask(&ours, &ours);
        let (ours, _theirs) = pair();
        ask(&ours, &ours);
    };
    on_each_driver(1, all);
    all();
}

static FIFOS: AtomicUsize = AtomicUsize::new(0);

/// Returns the ends of a FIFO in non-blocking mode.
fn fifo() -> (File, File) {
    let (id, number) = (std::process::id(), FIFOS.fetch_add(1, SeqCst));
    let path = std::env::temp_dir().join(format!("ecru-attack-fifo-{id}-{number}"));
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _remove = OnDrop(|| std::fs::remove_file(&path).unwrap());
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let open = |write: bool| {
        let mut options = OpenOptions::new();
        File::from(options.read(!write).write(write).custom_flags(flags).open(&path).unwrap())
    };
    let reader = open(false);
    (reader, open(true))
}

/// Files in non-blocking mode say `WouldBlock`, as with std, and wait again in blocking mode.
#[test]
fn files_in_non_blocking_mode() {
    let refused = || {
        let (mut reader, mut writer) = fifo();
        for _ in 0..3 {
            assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let mut bytes = [0; 2];
            let list = &mut [IoSliceMut::new(&mut bytes)];
            assert_eq!(reader.read_vectored(list).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        writer.write_all(b"abc").unwrap();
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 3);
        let error = writer.write_all(&[1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let error = writer.write_vectored(&[IoSlice::new(&[1; 1 << 16])]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 1 << 16);
    };
    on_each_driver(1, || {
        refused();
        ecru::scope(|s| s.spawn(refused).join().unwrap());
        ecru::unblock(refused);
        // The mode changes while a task waits.
        let (mut reader, mut writer) = fifo();
        let mode = fcntl_getfl(&reader).unwrap();
        fcntl_setfl(&reader, mode - OFlags::NONBLOCK).unwrap();
        let other = reader.try_clone().unwrap();
        ecru::scope(|s| {
            let read = begin(s, move || reader.read(&mut [0; 4]));
            ecru::sleep(ms(2)).unwrap();
            fcntl_setfl(&other, mode).unwrap();
            settle();
            writer.write_all(b"x").unwrap();
            match read.join().unwrap() {
                Ok(count) => assert_eq!(count, 1),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        });
    });
    refused();
}

/// A simulated socket ends its sends in the same way.
#[test]
fn a_simulated_socket_is_shut() {
    for seed in 0..20 {
        let report = Simulation::new(seed).run(|| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            while (&ours).write(&[1; 4096]).is_ok() {}
            while (&ours).write(&[1]).is_ok() {}
            ours.set_nonblocking(false).unwrap();
            ecru::scope(|s| {
                let sends: Vec<_> = (0..4).map(|_| s.spawn(|| (&ours).write(&[1]))).collect();
                let clone = ours.try_clone().unwrap();
                let shut = s.spawn(move || clone.shutdown(Shutdown::Write).unwrap());
                sends[0].cancel();
                shut.join().unwrap();
                for (index, send) in sends.iter().enumerate() {
                    match send.join() {
                        Ok(Err(error)) if error.kind() == ErrorKind::BrokenPipe => {}
                        other => assert_eq!(index, 0, "{other:?}"),
                    }
                }
            });
            theirs.read_to_end(&mut Vec::new()).unwrap();
        });
        report.unwrap();
    }
}

/// A write to a pipe that is cancelled half-way says how much was taken. No byte is lost or sent
/// twice.
#[test]
fn vectored_writes_that_are_cancelled() {
    run_on(2, || {
        for round in 0..20 {
            let (mut reader, writer) = ecru::io::pipe().unwrap();
            let big = vec![round; 1 << 15];
            ecru::scope(|s| {
                let write = s.spawn(|| {
                    let mut taken = 0;
                    let slices = [IoSlice::new(&big[..1]), IoSlice::new(&big), IoSlice::new(&big)];
                    while let Ok(count) = (&writer).write_vectored(&slices) {
                        taken += count;
                    }
                    taken
                });
                (0..round).for_each(|_| ecru::yield_now().unwrap());
                let mut got = 0;
                if round % 3 == 0 {
                    got = reader.read(&mut vec![0; 1 << 14]).unwrap();
                }
                ecru::sleep(ms(1)).unwrap();
                write.cancel();
                let Ok(taken) = write.join() else { return };
                rustix::io::ioctl_fionbio(&reader, true).unwrap();
                let mut rest = vec![0; 1 << 20];
                let left = rustix::io::read(&reader, &mut rest).unwrap_or(0);
                assert_eq!(got + left, taken);
            });
        }
    });
}
