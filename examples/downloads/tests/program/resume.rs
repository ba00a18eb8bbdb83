//! Parts: when they are kept and continued, and that an incomplete file never has its final name.

use std::sync::mpsc;

use crate::support::{
    Folder, Running, Server, body, eventually, program, run, send, send_short, serve,
};

const LENGTH: usize = 300_000;
const HALF: usize = 150_000;

/// If a server closes early, the rest of the same file is requested, and the result is exact.
#[test]
fn closes_early_then_continues() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH),
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")]).succeeded();
    assert_eq!(folder.read("x.bin"), body(LENGTH));
    assert_eq!(folder.names(), ["x.bin"]);
    assert_eq!(server.request(1).header("range"), Some(format!("bytes={HALF}-").as_str()));
    assert_eq!(server.request(1).header("if-range"), Some("\"v1\""));
}

/// The next run continues what a failed run left; `--no-resume` starts from the beginning instead.
#[test]
fn continues_in_another_run() {
    for afresh in [false, true] {
        let server = Server::start(|asked, stream| match asked.number {
            0 => send_short(
                stream,
                "200 OK",
                &[("Last-Modified", DATE)],
                &body(LENGTH)[..HALF],
                LENGTH,
            ),
            _ => serve(asked, stream, DATE, &body(LENGTH)),
        });
        let folder = Folder::new();
        let url = server.url("/x.bin");
        run(&folder, &["--retries", "0", &url])
            .failed(1, &[&url, "closed after 150000 of 300000", "x.bin.part"]);
        assert_eq!(folder.names(), ["x.bin.part", "x.bin.part.about"]);
        assert_eq!(folder.read("x.bin.part"), &body(LENGTH)[..HALF]);
        let arguments: &[&str] = if afresh { &["--no-resume", &url] } else { &[&url] };
        run(&folder, arguments).succeeded();
        assert_eq!(folder.read("x.bin"), body(LENGTH));
        assert_eq!(folder.names(), ["x.bin"]);
        assert_eq!(server.request(1).header("range").is_none(), afresh);
        assert_eq!(server.request(1).header("if-range"), (!afresh).then_some(DATE));
    }
}

const DATE: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

/// A file that changed between two attempts is downloaded from the beginning, from a server that
/// supports `If-Range` and from one that does not.
#[test]
fn changed_file_starts_afresh() {
    for knows in [true, false] {
        let changed: Vec<u8> = body(LENGTH).iter().rev().copied().collect();
        let server = Server::start(move |asked, stream| match asked.number {
            0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH),
            1 if !knows => {
                let range = format!("bytes {HALF}-{}/{LENGTH}", LENGTH - 1);
                let headers = [("ETag", "\"v2\""), ("Content-Range", range.as_str())];
                send(stream, "206 Partial Content", &headers, &changed[HALF..]);
            }
            _ => serve(asked, stream, "\"v2\"", &changed),
        });
        let folder = Folder::new();
        run(&folder, &[&server.url("/x.bin")]).succeeded();
        let expected: Vec<u8> = body(LENGTH).iter().rev().copied().collect();
        assert_eq!(folder.read("x.bin"), expected);
        assert_eq!(server.count(), if knows { 2 } else { 3 });
    }
}

/// A server that sends another range than requested is not trusted.
#[test]
fn wrong_range_starts_afresh() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH),
        1 => {
            let headers = [("ETag", "\"v1\""), ("Content-Range", "bytes 100000-299999/300000")];
            send(stream, "206 Partial Content", &headers, &body(LENGTH)[100_000..]);
        }
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")]).succeeded();
    assert_eq!(folder.read("x.bin"), body(LENGTH));
    assert_eq!(server.request(2).header("range"), None);
}

/// A server that sends a part that was not requested is refused.
#[test]
fn unasked_part() {
    let server = Server::start(|_, stream| {
        send(stream, "206 Partial Content", &[("Content-Range", "bytes 0-9/20")], &body(10));
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")]).failed(1, &["sent a part (206)"]);
    assert!(folder.names().is_empty());
    assert_eq!(server.count(), 1);
}

/// A file that is complete but not renamed is renamed without another download.
#[test]
fn complete_part_only_needs_its_name() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH),
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    let url = server.url("/x.bin");
    run(&folder, &["--retries", "0", &url]).failed(1, &[]);
    std::fs::write(folder.path("x.bin.part"), body(LENGTH)).unwrap();
    run(&folder, &[&url]).succeeded();
    assert_eq!(folder.read("x.bin"), body(LENGTH));
    assert_eq!(server.request(1).header("range"), Some("bytes=300000-"));
}

/// Without a strong validator a download cannot be continued safely, and is not continued.
#[test]
fn no_validator_no_resume() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "W/\"weak\"")], &body(LENGTH)[..HALF], LENGTH),
        _ => serve(asked, stream, "W/\"weak\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")]).succeeded();
    assert_eq!(folder.read("x.bin"), body(LENGTH));
    assert_eq!(server.request(1).header("range"), None);
}

/// The part of one URL is not continued for another URL with the same name, and a part whose
/// `about` is cut short is not continued.
#[test]
fn foreign_parts_are_not_continued() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH),
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    run(&folder, &["--retries", "0", &server.url("/a/x.bin")]).failed(1, &[]);
    let note = folder.read("x.bin.part.about");
    run(&folder, &[&server.url("/b/x.bin")]).succeeded();
    assert_eq!(server.request(1).header("range"), None);
    assert_eq!(folder.read("x.bin"), body(LENGTH));

    let other = Folder::new();
    std::fs::write(other.path("x.bin.part"), b"not a beginning of anything").unwrap();
    std::fs::write(other.path("x.bin.part.about"), &note[..note.len() - 4]).unwrap();
    run(&other, &[&server.url("/a/x.bin")]).succeeded();
    assert_eq!(server.request(2).header("range"), None);
    assert_eq!(other.read("x.bin"), body(LENGTH));
}

/// A run that is killed without a chance to clean up leaves no final name, and the next run
/// continues the part.
#[test]
fn killed_in_the_middle() {
    let (killed, was_killed) = mpsc::channel::<()>();
    let was_killed = std::sync::Mutex::new(was_killed);
    let server = Server::start(move |asked, stream| match asked.number {
        0 => {
            send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH);
            let _ = was_killed.lock().unwrap().recv();
        }
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    let mut command = program();
    command.arg("-o").arg(&folder.0).arg(server.url("/x.bin"));
    let child = Running::start(command);
    eventually("some of the part on disk", || folder.length("x.bin.part") > 0);
    child.signal(rustix::process::Signal::KILL);
    assert_eq!(child.finish().status, None);
    drop(killed);
    let left = folder.read("x.bin.part");
    assert!(left.len() <= HALF && body(LENGTH).starts_with(&left));
    assert_eq!(folder.names(), ["x.bin.part", "x.bin.part.about"]);

    run(&folder, &[&server.url("/x.bin")]).succeeded();
    assert_eq!(folder.read("x.bin"), body(LENGTH));
    assert_eq!(server.request(1).header("range"), Some(format!("bytes={}-", left.len()).as_str()));
    assert_eq!(folder.names(), ["x.bin"]);
}

/// Two runs do not write the same part: the second one reports that the first one is writing it.
#[test]
fn two_runs_at_once() {
    let (let_go, go) = mpsc::channel::<()>();
    let go = std::sync::Mutex::new(go);
    let server = Server::start(move |asked, stream| match asked.number {
        0 => {
            send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(LENGTH)[..HALF], LENGTH);
            let _ = go.lock().unwrap().recv();
        }
        _ => serve(asked, stream, "\"v1\"", &body(LENGTH)),
    });
    let folder = Folder::new();
    let mut command = program();
    command.arg("-o").arg(&folder.0).arg(server.url("/x.bin"));
    let first = Running::start(command);
    eventually("some of the part on disk", || folder.length("x.bin.part") > 0);
    run(&folder, &[&server.url("/x.bin")]).failed(1, &["being written by another run"]);
    drop(let_go);
    assert_eq!(first.finish().status, Some(0));
    assert_eq!(folder.read("x.bin"), body(LENGTH));
}
