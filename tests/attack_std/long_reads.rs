//! Long reads yield to other tasks.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ecru::fs::File;

use crate::{Folder, each_run, until};

/// Repeats `attempt` until another task of the same worker has had many turns meanwhile. On a busy
/// machine the worker may stand still while another thread carries the call out.
fn has_turns_meanwhile(attempt: impl Fn() -> usize) {
    until(|| attempt() > 10);
}

/// Returns how often another task of the same worker runs during `call`.
fn turns_meanwhile(call: impl FnOnce() + Send) -> usize {
    let (goes_on, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut turns = 0;
    ecru::scope(|s| {
        s.spawn_local(|| {
            goes_on.store(true, Ordering::Relaxed);
            call();
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            turns += usize::from(goes_on.load(Ordering::Relaxed));
            ecru::yield_now().unwrap();
        }
    });
    turns
}

#[test]
fn a_long_read_of_random_bytes_lets_others_run() {
    each_run(|| {
        has_turns_meanwhile(|| {
            let mut bytes = vec![0; 8 << 20];
            let mut file = File::open("/dev/urandom").unwrap();
            turns_meanwhile(|| file.read_exact(&mut bytes).unwrap())
        });
    });
}

#[test]
fn a_large_file_in_memory_is_cut_off_without_holding_up_others() {
    each_run(|| {
        let folder = Folder::new("/dev/shm");
        let bytes = vec![7; 32 << 20];
        has_turns_meanwhile(|| {
            std::fs::write(folder.join("large"), &bytes).unwrap();
            let file = File::options().write(true).open(folder.join("large")).unwrap();
            let turns = turns_meanwhile(|| file.set_len(1).unwrap());
            assert_eq!(file.metadata().unwrap().len(), 1);
            turns
        });
    });
}

#[test]
fn a_long_read_of_a_device_gives_all_that_was_asked_for() {
    each_run(|| {
        let mut bytes = vec![1; 3 << 20];
        let mut zero = File::open("/dev/zero").unwrap();
        // The reads are repeated, because the kernel ends a read that must not wait when other
        // processes want to run.
        zero.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        let mut null = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert_eq!(null.write(&bytes).unwrap(), bytes.len());
        assert_eq!(null.read(&mut bytes).unwrap(), 0);
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(full.write(&bytes).unwrap_err().kind(), ErrorKind::StorageFull);
    });
}
