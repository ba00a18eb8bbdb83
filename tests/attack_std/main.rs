//! Attacks by hostile but safe code on files, processes, pipes and signals: the wrong kind of file,
//! cancellations at the worst moment, and errors at every step. The standard is the behaviour of
//! std's types in the same calls.

mod as_std;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod long_reads;
mod pipes_and_children;

use std::io::{self};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{alone, each_run, until};

/// A folder for one test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &str) -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(parent).join(format!("ecru-attack-{}-{number}", process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the test in memory, and on a disk.
fn each_place(test: impl Fn(&Folder)) {
    test(&Folder::new("/dev/shm"));
    test(&Folder::new(env!("CARGO_TARGET_TMPDIR")));
}

fn std_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = io::pipe().unwrap();
    (reader.into(), writer.into())
}
