//! FIFOs and pipes, and the children that inherit them.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ecru::Cancelled;
use ecru::fs::{self, File};
use ecru::process::{Command, Stdio};

use crate::{Folder, alone, each_run, std_pipe};

#[test]
fn two_readers_of_a_fifo_can_be_cancelled_when_one_has_taken_all() {
    each_run(|| {
        let (reader, writer) = std_pipe();
        let (reader, mut writer) = (File::from(reader), std::fs::File::from(writer));
        for _ in 0..20 {
            let read = AtomicUsize::new(0);
            ecru::scope(|s| {
                let readers: Vec<_> = (0..4)
                    .map(|_| {
                        s.spawn(|| {
                            let mut word = [0; 8];
                            if let Ok(count) = (&reader).read(&mut word) {
                                read.fetch_add(count, Ordering::Relaxed);
                            }
                        })
                    })
                    .collect();
                while readers.iter().any(|reader| reader.is_finished()) {
                    ecru::yield_now().unwrap();
                }
                ecru::sleep(Duration::from_millis(1)).unwrap();
                writer.write_all(b"word").unwrap();
                while read.load(Ordering::Relaxed) == 0 {
                    ecru::yield_now().unwrap();
                }
                s.cancel();
            });
            assert_eq!(read.into_inner(), 4);
        }
    });
}

#[test]
fn files_and_our_standard_streams_are_given_to_children_as_std_s_are() {
    each_run(|| {
        let folder = Folder::new("/dev/shm");
        fs::write(folder.join("in"), "undyed\ncloth\n").unwrap();
        let status = Command::new("sort")
            .stdin(File::open(folder.join("in")).unwrap())
            .stdout(File::create(folder.join("out")).unwrap())
            .stderr(ecru::io::stderr())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(fs::read_to_string(folder.join("out")).unwrap(), "cloth\nundyed\n");
        let _: Stdio = ecru::io::stdout().into();
    });
}

#[test]
fn an_fd_s_own_mode_stays_when_it_only_passes_through() {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let (reader, writer) = std_pipe();
    let other = reader.try_clone().unwrap();
    // Foreign code's event loop relies on it.
    fcntl_setfl(&other, OFlags::NONBLOCK).unwrap();
    let back = OwnedFd::from(ecru::io::PipeReader::from(reader));
    assert!(fcntl_getfl(&other).unwrap().contains(OFlags::NONBLOCK));
    drop((back, writer));
    // The flag that ecru set is removed again, also through a duplicate.
    let (reader, _writer) = ecru::io::pipe().unwrap();
    let back = OwnedFd::from(reader.try_clone().unwrap());
    assert!(!fcntl_getfl(&back).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn no_byte_of_a_fifo_is_lost_or_written_late_however_often_its_reader_is_cancelled() {
    each_run(|| {
        let (reader, writer) = std_pipe();
        let (reader, mut writer) = (File::from(reader), std::fs::File::from(writer));
        const TOTAL: usize = 3000;
        thread::scope(|threads| {
            threads.spawn(move || {
                for number in 0..TOTAL {
                    writer.write_all(&[number as u8]).unwrap();
                    if number % 16 == 0 {
                        thread::sleep(Duration::from_micros(fastrand::u64(0..150)));
                    }
                }
            });
            let mut all = vec![];
            let mut buffers = vec![];
            loop {
                let mut buffer = vec![0xee; 8];
                let limit = Duration::from_micros(fastrand::u64(0..100));
                let mut outcome = Ok(0);
                let _ = ecru::timeout(limit, || outcome = (&reader).read(&mut buffer));
                let count = match outcome {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) => {
                        assert!(Cancelled::find(&error).is_some(), "{error:?}");
                        0
                    }
                };
                all.extend_from_slice(&buffer[..count]);
                assert!(buffer[count..].iter().all(|byte| *byte == 0xee));
                // The kernel has finished with the buffer, so nothing may change it any more.
                buffer.fill(0xdd);
                buffers.push(buffer);
            }
            let sent: Vec<_> = (0..TOTAL).map(|number| number as u8).collect();
            assert!(all == sent, "{} of {TOTAL}", all.len());
            assert!(buffers.iter().flatten().all(|byte| *byte == 0xdd));
        });
    });
}

#[test]
fn children_that_are_let_go_at_any_moment_leave_neither_fds_nor_zombies() {
    // The test needs a process of its own, because another test's run may open a descriptor that
    // stays, such as a worker's waker.
    alone(
        "pipes_and_children::children_that_are_let_go_at_any_moment_leave_neither_fds_nor_zombies",
        || {
            let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            each_run(|| {
                // The first rounds open the descriptors that stay.
                for round in 0..3 {
                    let before = count();
                    let mut pids = vec![];
                    for number in 0..12 {
                        let mut command = Command::new("cat");
                        command
                            .stdin(Stdio::piped())
                            .stdout(Stdio::piped())
                            .kill_on_drop(number % 2 == 0);
                        let mut child = command.spawn().unwrap();
                        pids.push(child.id());
                        let limit = Duration::from_micros(fastrand::u64(0..300));
                        let _ = ecru::timeout(limit, || match number % 3 {
                            0 => drop(child.wait()),
                            1 => drop(child.stdout.as_mut().unwrap().read(&mut [0])),
                            _ => drop(child.wait_with_output()),
                        });
                    }
                    let began = Instant::now();
                    while pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
                        assert!(began.elapsed() < Duration::from_secs(30), "zombies");
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                    }
                    while round == 2 && count() > before {
                        assert!(began.elapsed() < Duration::from_secs(30), "{} {before}", count());
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                    }
                }
            });
        },
    );
}

#[test]
fn a_child_inherits_no_descriptor_of_ours() {
    each_run(|| {
        // The descriptors with which the tests themselves were started are inherited throughout.
        let before = process::Command::new("ls").args(["-1", "/proc/self/fd"]).output().unwrap();
        let folder = Folder::new("/dev/shm");
        let _open = File::create(folder.join("file")).unwrap();
        let _pipe = ecru::io::pipe().unwrap();
        let _event = ecru::io::EventFd::new().unwrap();
        let _signal = ecru::signal::Signal::new(libc::SIGWINCH).unwrap();
        let mut other = Command::new("cat");
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        ecru::select! {
            wait(&other.exit()) -> _ => panic!("its input is open"),
            default(Duration::from_millis(1)) => {}
        }
        let output = Command::new("ls").args(["-1", "/proc/self/fd"]).output().unwrap();
        assert_eq!(output.stdout, before.stdout);
        other.kill().unwrap();
    });
}
