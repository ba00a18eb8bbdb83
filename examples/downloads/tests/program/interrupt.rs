//! Ctrl-C.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use crate::support::{Folder, Running, Server, body, eventually, program, run, send_short, serve};
use rustix::process::Signal;

const LENGTH: usize = 600_000;
/// More than a download keeps in memory, so the beginning of the file is on the disk for certain.
const HALF: usize = 300_000;

/// The first Ctrl-C stops in order: it reports what is done and what can be resumed, and the same
/// command continues from there.
#[test]
fn once() {
    let server = Server::start(|asked, stream| match (asked.number, asked.path()) {
        // Later runs get all the bytes.
        (3.., _) | (_, "/done") => serve(asked, stream, "\"v1\"", &body(LENGTH)),
        _ => {
            send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH);
            let _ = stream.read(&mut [0]);
        }
    });
    let folder = Folder::new();
    let urls = ["/done", "/half", "/other", "/later", "/latest"].map(|path| server.url(path));
    let mut command = program();
    command.args(["-c", "2", "-o"]).arg(&folder.0).args(&urls);
    let child = Running::start(command);
    eventually("one done and two begun", || {
        folder.length("done") > 0
            && folder.length("half.part") > 0
            && folder.length("other.part") > 0
    });
    child.signal(Signal::INT);
    child
        .finish()
        .failed(130, &["interrupted: 1 done, 2 can be resumed, 2 to be started", "same command"]);
    assert_eq!(
        folder.names(),
        ["done", "half.part", "half.part.about", "other.part", "other.part.about"]
    );
    assert!(body(LENGTH).starts_with(&folder.read("half.part")));

    run(&folder, &urls.each_ref().map(String::as_str)).succeeded();
    for name in ["done", "half", "other", "later", "latest"] {
        assert_eq!(folder.read(name), body(LENGTH), "{name}");
    }
    assert_eq!(folder.names().len(), 5);
    // Three requests of the first run, four of the second, and its request about the file that was
    // complete.
    assert_eq!(server.count(), 8);
}

/// The mode without URLs stops as well, with its server.
#[test]
fn own_job() {
    let mut command = program();
    command.args(["--files", "50", "--size", "1G"]);
    let child = Running::start(command);
    child.catches_interrupts();
    child.signal(Signal::INT);
    child.finish().failed(130, &["0 of 50 files done"]);
}

/// The second Ctrl-C does not wait for what cannot be cancelled. Here that is a read of a pipe
/// without a writer.
#[test]
fn twice() {
    let folder = Folder::new();
    std::fs::write(folder.path("x.part"), b"some").unwrap();
    let pipe = folder.path("x.part.about");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let mut command = program();
    command.arg("-o").arg(&folder.0).arg(server.url("/x"));
    let mut child = Running::start(command);
    // A pipe can be opened for writing at once only if it is open for reading.
    let mut open = OpenOptions::new();
    open.write(true).custom_flags(libc::O_NONBLOCK);
    let mut writer = None;
    eventually("the program reads the pipe", || {
        writer = open.open(&pipe).ok();
        writer.is_some()
    });
    child.signal(Signal::INT);
    let mut said = String::new();
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("once more stops at once"), "{said}");
    assert!(child.0.try_wait().unwrap().is_none(), "it waits for the pipe");
    child.signal(Signal::INT);
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.finish().status, Some(130), "{said}");
    drop(writer);
}
