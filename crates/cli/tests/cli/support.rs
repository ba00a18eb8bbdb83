//! Programs in processes of their own, and the command.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::programs;

/// How long anything may take, even on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is removed when this is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("ecru-cli-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program, which is killed when this is dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) socket: PathBuf,
    pub(crate) folder: Folder,
    /// What it says after that it is ready. It stays open, so that the program can say it.
    pub(crate) said: Lines<BufReader<ChildStdout>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts one of the programs, and waits until it says that it is ready.
pub(crate) fn start(program: &str) -> Program {
    let folder = Folder::new();
    let socket = folder.0.join("socket");
    start_with(program, folder, socket.clone(), |command| {
        command.env("ECRU_INSPECT", &socket);
    })
}

pub(crate) fn start_with(
    program: &str,
    folder: Folder,
    socket: PathBuf,
    set: impl FnOnce(&mut Command),
) -> Program {
    start_copy(&std::env::current_exe().unwrap(), program, folder, socket, set)
}

/// Starts one of the programs from a copy of this executable.
pub(crate) fn start_copy(
    executable: &Path,
    program: &str,
    folder: Folder,
    socket: PathBuf,
    set: impl FnOnce(&mut Command),
) -> Program {
    let mut command = Command::new(executable);
    command
        .args(["--exact", "programs::is_a_program", "--nocapture", "--test-threads=1"])
        .env(programs::VARIABLE, program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    set(&mut command);
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut program = Program { child, socket, folder, said };
    let is_ready = program.said.any(|line| line.unwrap().contains("ready"));
    assert!(is_ready, "{:?}", program.child.wait());
    program
}

/// Runs the command.
pub(crate) fn ecru(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ecru")).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns what the command prints if it succeeds.
#[track_caller]
pub(crate) fn said(arguments: &[&str]) -> String {
    let output = ecru(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the path as an argument.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns what `look` returns, when it is right.
#[track_caller]
pub(crate) fn until(look: impl Fn() -> String, is_right: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let seen = look();
        if is_right(&seen) {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "{seen}");
        std::thread::yield_now();
    }
}

/// Returns what was printed between two markers.
#[track_caller]
pub(crate) fn part<'o>(output: &'o str, name: &str) -> &'o str {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let rest = output.split_once(&begin).unwrap_or_else(|| panic!("{output}")).1;
    rest.split_once(&end).unwrap_or_else(|| panic!("{output}")).0
}
