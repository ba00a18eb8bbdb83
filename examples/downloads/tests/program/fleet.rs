//! A fleet: a coordinator and workers as processes, a real `nats-server`, and processes that are
//! killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use crate::nats::Server as Nats;
use crate::support::{
    Asked, Folder, Ran, Running, Server, body, eventually, program, send_short, serve,
};
use rustix::process::Signal;

const LENGTH: usize = 600_000;
/// More than a download keeps in memory, so the beginning of the file is on the disk for certain.
const HALF: usize = 300_000;
const ETAG: &str = "\"v1\"";

/// What a server waits for before it goes on.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |open| !*open).unwrap());
    }
}

/// Sends the first half of a file, and the second half when the gate is open.
fn serve_halves(asked: &Asked, stream: &mut TcpStream, gate: &Gate) {
    if asked.header("range").is_some() {
        return serve(asked, stream, ETAG, &body(LENGTH));
    }
    send_short(stream, "200 OK", &[("ETag", ETAG)], &body(LENGTH)[..HALF], LENGTH);
    gate.wait();
    let _ = stream.write_all(&body(LENGTH)[HALF..]);
}

fn coordinator(fleet: &str, run: &str, flags: &[&str], urls: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downloads"));
    command.args(["--fleet", fleet, "--run", run]).args(flags).args(urls).stdin(Stdio::null());
    command
}

fn worker(fleet: &str, folder: &Folder, flags: &[&str]) -> Command {
    let mut command = program();
    command.args(["--fleet", fleet, "--worker", "--timeout", "600", "-o"]).arg(&folder.0);
    command.args(flags);
    command
}

fn urls(server: &Server, paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| server.url(path)).collect()
}

/// Runs a command to its end.
fn end(command: Command) -> Ran {
    finish(Running::start(command))
}

/// Waits for the end of a process, which prints little. A process that waits for ever is a failure.
fn finish(mut running: Running) -> Ran {
    eventually("the process ends", || running.0.try_wait().unwrap().is_some());
    running.finish()
}

/// Sends SIGTERM to a worker, and returns when it takes no more files.
fn drain(worker: &mut Running) {
    worker.catches_interrupts();
    worker.signal(Signal::TERM);
    let mut said = BufReader::new(worker.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("once more stops at once") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it says that it stops");
    }
}

/// The coordinator and the workers may start in any order, and a worker works for several runs. A
/// failure is reported by the coordinator, and a run that has ended is only reported again.
#[test]
fn any_order_slow() {
    let Some(nats) = Nats::start("") else { return };
    let fleet = nats.url();
    let server = Server::start(|asked, stream| match asked.path() {
        "/missing" => send_short(stream, "404 Not Found", &[], b"", 0),
        _ => serve(asked, stream, ETAG, &body(LENGTH)),
    });
    let folder = Folder::new();
    let first = urls(&server, &["/a", "/b", "/missing"]);
    let early = Running::start(coordinator(&fleet, "first", &[], &first));
    let mut one = Running::start(worker(&fleet, &folder, &[]));
    let ran = finish(early).failed(1, &["/missing: the server answered 404", "check the URL"]);
    assert!(ran.out.contains("2 of 3 files") && ran.out.contains("another --run"), "{ran:?}");
    assert_eq!(server.count(), 3);
    // Nothing is asked for a second time.
    end(coordinator(&fleet, "first", &[], &first)).failed(1, &["404"]);
    assert_eq!(server.count(), 3);

    let mut other = Running::start(worker(&fleet, &folder, &["-c", "1"]));
    let second = urls(&server, &["/b", "/c", "/d"]);
    let ran = end(coordinator(&fleet, "second", &["--json"], &second)).succeeded();
    let summary: serde_json::Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["files"], &summary["not_finished"]), (&3.into(), &0.into()), "{ran:?}");
    let files = summary["workers"].as_array().unwrap().iter();
    assert_eq!(files.map(|worker| worker["files"].as_u64().unwrap()).sum::<u64>(), 3, "{ran:?}");
    for name in ["a", "b", "c", "d"] {
        assert_eq!(folder.read(name), body(LENGTH), "{name}");
    }
    for worker in [&mut one, &mut other] {
        drain(worker);
    }
    assert_eq!((finish(one).status, finish(other).status), (Some(0), Some(0)));
    assert_eq!(folder.names(), ["a", "b", "c", "d"]);
}

/// If a worker is killed in the middle of a file, another one continues it.
#[test]
fn a_killed_worker_slow() {
    let Some(nats) = Nats::start("") else { return };
    let fleet = nats.url();
    let server = Server::start(|asked, stream| match (asked.path(), asked.header("range")) {
        ("/big", None) => {
            send_short(stream, "200 OK", &[("ETag", ETAG)], &body(LENGTH)[..HALF], LENGTH);
            let _ = stream.read(&mut [0]);
        }
        _ => serve(asked, stream, ETAG, &body(LENGTH)),
    });
    let folder = Folder::new();
    let lease = ["--lease", "2"];
    let all = urls(&server, &["/a", "/big", "/b"]);
    let collecting = Running::start(coordinator(&fleet, "night", &lease, &all));
    let first = Running::start(worker(&fleet, &folder, &lease));
    eventually("the beginning of the big file", || folder.length("big.part") > 0);
    first.signal(Signal::KILL);
    let _second = Running::start(worker(&fleet, &folder, &lease));
    let ran = finish(collecting).succeeded();
    assert!(ran.out.contains("of 3 files"), "{ran:?}");
    for name in ["a", "b", "big"] {
        assert_eq!(folder.read(name), body(LENGTH), "{name}");
    }
    let asked = server.asked.lock().unwrap();
    let mut ranges = asked.iter().filter(|asked| asked.path() == "/big" && asked.method() == "GET");
    let last = ranges.next_back().unwrap().header("range").unwrap_or_default();
    let from = last.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
    assert!(from.is_some_and(|from| from.parse::<usize>().unwrap() > 0), "{last:?}");
}

/// A coordinator that is killed goes on under the same name. No file is downloaded twice.
#[test]
fn a_killed_coordinator_slow() {
    let Some(nats) = Nats::start("") else { return };
    let fleet = nats.url();
    let gate = Gate::default();
    let server = Server::start({
        let gate = gate.clone();
        move |asked, stream| match asked.path() {
            "/late" => serve_halves(asked, stream, &gate),
            _ => serve(asked, stream, ETAG, &body(LENGTH)),
        }
    });
    let folder = Folder::new();
    let all = urls(&server, &["/a", "/late", "/b", "/c"]);
    let killed = Running::start(coordinator(&fleet, "night", &[], &all));
    let _worker = Running::start(worker(&fleet, &folder, &[]));
    eventually("three files and the beginning of one", || {
        ["a", "b", "c", "late.part"].iter().all(|name| folder.length(name) > 0)
    });
    killed.signal(Signal::KILL);
    drop(killed);
    end(coordinator(&fleet, "night", &[], &all[1..]))
        .failed(2, &["`night` was begun with another list (of 4 files; this one has 3)"]);
    let again = Running::start(coordinator(&fleet, "night", &[], &all));
    gate.open();
    let ran = finish(again).succeeded();
    assert!(ran.out.contains("4 of 4 files, 2.4 MB"), "{ran:?}");
    assert!(ran.out.contains(": 4 files"), "{ran:?}");
    for name in ["a", "b", "c", "late"] {
        assert_eq!(folder.read(name), body(LENGTH), "{name}");
    }
    assert_eq!(server.count(), 4);
    end(coordinator(&fleet, "night", &[], &all)).succeeded();
    assert_eq!(server.count(), 4);
}

/// The first signal lets a worker finish what it has begun. The rest is left to others.
#[test]
fn a_worker_that_is_stopped_slow() {
    let Some(nats) = Nats::start("") else { return };
    let fleet = nats.url();
    let gate = Gate::default();
    let server = Server::start({
        let gate = gate.clone();
        move |asked, stream| serve_halves(asked, stream, &gate)
    });
    let folder = Folder::new();
    let all = urls(&server, &["/a", "/b", "/c"]);
    let collecting = Running::start(coordinator(&fleet, "night", &[], &all));
    let mut stopped = Running::start(worker(&fleet, &folder, &["-c", "1"]));
    eventually("the beginning of a file", || {
        folder.names().iter().any(|name| name.ends_with(".part") && folder.length(name) > 0)
    });
    drain(&mut stopped);
    gate.open();
    finish(stopped).succeeded();
    assert_eq!((folder.names().len(), server.count()), (1, 1), "{:?}", folder.names());
    let _other = Running::start(worker(&fleet, &folder, &[]));
    let ran = finish(collecting).succeeded();
    assert!(ran.out.contains("3 of 3 files"), "{ran:?}");
    assert_eq!(folder.names(), ["a", "b", "c"]);
}

/// Ctrl-C ends a coordinator, and the same command goes on.
#[test]
fn a_coordinator_that_is_stopped_slow() {
    let Some(nats) = Nats::start("") else { return };
    let fleet = nats.url();
    let server = Server::start(|asked, stream| serve(asked, stream, ETAG, &body(LENGTH)));
    let folder = Folder::new();
    let all = urls(&server, &["/a", "/b"]);
    // There is no worker, so it waits.
    let stopped = Running::start(coordinator(&fleet, "night", &[], &all));
    stopped.catches_interrupts();
    stopped.signal(Signal::INT);
    finish(stopped).failed(130, &["interrupted", "the same command"]);
    let _worker = Running::start(worker(&fleet, &folder, &[]));
    end(coordinator(&fleet, "night", &[], &all)).succeeded();
    assert_eq!(folder.names(), ["a", "b"]);
}

/// Each error says what was wrong, and what to do.
#[test]
fn errors() {
    let secret = ["http://user:secret@127.0.0.1:1/x".to_owned()];
    let ran = end(coordinator("nats://127.0.0.1:1", "r", &[], &secret))
        .failed(2, &["has credentials", "--header @FILE", "nothing was started"]);
    assert!(!ran.err.contains("secret"), "{ran:?}");
    end(coordinator("nats://127.0.0.1:1", "r", &[], &[])).failed(2, &["write URLs", "-i"]);
    let folder = Folder::new();
    // Nothing listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (gone, plain) = (format!("nats://{free}"), ["http://127.0.0.1:1/x".to_owned()]);
    let words = ["--fleet", &free.to_string(), "`nats-server -js`"];
    end(coordinator(&gone, "r", &[], &plain)).failed(2, &words);
    end(worker(&gone, &folder, &[])).failed(2, &words);
    std::fs::write(folder.path("address"), format!("{gone}\n")).unwrap();
    let file = format!("@{}", folder.path("address").display());
    end(worker(&file, &folder, &[])).failed(2, &words);
    end(worker("@/nowhere/address", &folder, &[])).failed(2, &["cannot read /nowhere/address"]);

    let Some(nats) = Nats::start("") else { return };
    let mut one = Running::start(worker(&nats.url(), &folder, &[]));
    let mut line = String::new();
    let mut said = BufReader::new(one.0.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("8 files at a time"), "{line}");
    // A worker with another lease changes it for all, which the others tell.
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = said.lines().map_while(Result::ok);
        let _ = tell.send(lines.find(|line| line.contains("the lease was 30s and is 5s")));
    });
    let other = Running::start(worker(&nats.url(), &folder, &["--lease", "5"]));
    let warning = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it warns in time");
    assert!(warning.is_some(), "the worker ends without a warning");
    drop((one, other));
    reader.join().unwrap();
    let long = "r".repeat(600);
    end(coordinator(&nats.url(), &long, &[], &plain)).failed(2, &["--run", "too long"]);
}
