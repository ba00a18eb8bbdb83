//! The rows of `doc/behaviour/fs.md`.

mod errors;
mod files;
mod folders;
mod waits;

use crate::simulated;
use crate::support::{Watchdog, run_on};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn on(root: &Path) -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ecru-fs-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = root.join(name);
        ecru::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The disk of a simulation ends with it.
        if !ecru::sim::is_simulated() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Returns a folder in memory, and one on the file system of the build. A simulation has one disk,
/// with a folder for temporary files.
fn roots() -> [PathBuf; 2] {
    if simulated::is_on() {
        return [std::env::temp_dir(), std::env::temp_dir()];
    }
    let memory = PathBuf::from("/dev/shm");
    assert!(memory.is_dir(), "these tests need a tmpfs at /dev/shm");
    [memory, PathBuf::from(env!("CARGO_TARGET_TMPDIR"))]
}

/// Runs `body` with an empty folder on each root, on one worker and on two.
fn each_root(body: impl Fn(&Folder) + Sync) {
    for root in roots() {
        for workers in 1..=2 {
            run_on(workers, || body(&Folder::on(&root)));
        }
    }
}

/// Runs `body` as [`each_root`] does, and on a plain thread.
fn everywhere(body: impl Fn(&Folder) + Sync) {
    each_root(&body);
    if simulated::is_on() {
        return;
    }
    let _watchdog = Watchdog::new();
    for root in roots() {
        body(&Folder::on(&root));
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ecru::Cancelled>())
}

/// The properties of a failed call: the error's number, its kind and its text.
type Refusal = (Option<i32>, ErrorKind, String);

/// Returns the comparable parts of a result: the error's number, kind and text.
fn told<T>(result: io::Result<T>) -> Result<(), Refusal> {
    result.map(drop).map_err(|error| (error.raw_os_error(), error.kind(), error.to_string()))
}
