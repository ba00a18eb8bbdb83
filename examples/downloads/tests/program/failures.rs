//! For every fault of a server or a disk there is a clear line with the URL, the reason and what to
//! do, and an exit status.

use std::io::{Read as _, Write as _};

use crate::support::{Folder, Server, body, exists, run, send, send_short, serve};

/// A wrong address is requested only once.
#[test]
fn not_found() {
    let server = Server::start(|_, stream| send(stream, "404 Not Found", &[], b"nothing"));
    let folder = Folder::new();
    let url = server.url("/x.bin");
    let ran = run(&folder, &[&url]).failed(1, &[&url, "404 Not Found", "check the URL"]);
    assert!(ran.out.contains("1 failed"), "{ran:?}");
    assert_eq!(server.count(), 1);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

/// A server with a temporary error is asked again.
#[test]
fn unavailable_twice_then_there() {
    let server = Server::start(|asked, stream| match asked.number {
        0 | 1 => send(stream, "503 Service Unavailable", &[("Retry-After", "0")], b""),
        _ => serve(asked, stream, "\"v1\"", &body(5000)),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")]).succeeded();
    assert_eq!(folder.read("x.bin"), body(5000));
    assert_eq!(server.count(), 3);
}

/// The retries end at their limit.
#[test]
fn unavailable_for_ever() {
    let server = Server::start(|_, stream| send(stream, "500 Internal Server Error", &[], b""));
    let folder = Folder::new();
    run(&folder, &["--retries", "2", &server.url("/x")])
        .failed(1, &["500", "3 attempts", "try again later"]);
    assert_eq!(server.count(), 3);
}

/// One failure does not stop the other downloads, and determines the exit status.
#[test]
fn one_of_many() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/7" => send(stream, "404 Not Found", &[], b""),
        _ => serve(asked, stream, "\"v1\"", &body(2000)),
    });
    let folder = Folder::new();
    let urls: Vec<String> = (0..20).map(|number| server.url(&format!("/{number}"))).collect();
    let arguments: Vec<&str> =
        ["-c", "4"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let ran = run(&folder, &arguments).failed(1, &[&urls[7]]);
    assert!(ran.out.contains("19 of 20 files"), "{ran:?}");
    assert_eq!(folder.names().len(), 19);
}

/// A server that never answers.
#[test]
fn silence() {
    let server = Server::start(|_, stream| {
        let _ = stream.read(&mut [0]);
    });
    let folder = Folder::new();
    let arguments = ["--timeout", "0.1", "--retries", "1", &server.url("/x")];
    run(&folder, &arguments).failed(1, &["silent for 0.1 s", "--timeout", "2 attempts"]);
    assert_eq!(server.count(), 2);
}

/// A server that falls silent in the middle of a body: the part is kept.
#[test]
fn silence_in_the_middle() {
    let server = Server::start(|_, stream| {
        send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(4000), 8000);
        let _ = stream.read(&mut [0]);
    });
    let folder = Folder::new();
    let arguments = ["--timeout", "0.1", "--retries", "0", &server.url("/x")];
    run(&folder, &arguments).failed(1, &["silent for 0.1 s", "4.0 kB stay in x.part"]);
    assert_eq!(folder.read("x.part"), body(4000));
}

/// A server that sends more than it announced: the file is not accepted.
#[test]
fn too_much() {
    let server = Server::start(|_, stream| send_short(stream, "200 OK", &[], &body(3000), 2000));
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")])
        .failed(1, &["more than the 2000 bytes it announced", "owner"]);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

/// A server that does not speak HTTP.
#[test]
fn garbage() {
    let server = Server::start(|_, stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n");
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x.bin")])
        .failed(1, &["no HTTP came back", "check the host and port"]);
    assert_eq!(server.count(), 1);
}

/// A server that accepts and closes.
#[test]
fn closes_at_once() {
    let server = Server::start(|_, _| {});
    let folder = Folder::new();
    run(&folder, &["--retries", "1", &server.url("/x.bin")])
        .failed(1, &["server closed before an answer", "2 attempts"]);
}

/// Redirects are followed. The name is that of the requested URL.
#[test]
fn redirect() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/old.bin" => send(stream, "302 Found", &[("Location", "/new.bin")], b""),
        _ => serve(asked, stream, "\"v1\"", &body(5000)),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/old.bin")]).succeeded();
    assert_eq!(folder.read("old.bin"), body(5000));
}

/// Circular redirects and redirects to nowhere are refused.
#[test]
fn redirect_in_circles() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/nowhere" => send(stream, "302 Found", &[("Location", "http://")], b""),
        _ => send(stream, "302 Found", &[("Location", "/x")], b""),
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x")]).failed(1, &["redirected too often"]);
    run(&folder, &[&server.url("/nowhere")]).failed(1, &["/nowhere", "check"]);
}

/// A port without a listener.
#[test]
fn refused() {
    let folder = Folder::new();
    // No other test can get this port.
    let url = "http://127.0.0.1:1/x";
    run(&folder, &["--retries", "1", url])
        .failed(1, &[url, "connection refused", "host and port", "2 attempts"]);
}

/// A host that does not exist: `.invalid` is reserved.
#[test]
fn unknown_host() {
    let folder = Folder::new();
    run(&folder, &["--retries", "0", "http://no-such-host.invalid/x"])
        .failed(1, &["host was not found", "check the host's name"]);
}

/// A body in chunks, without a length beforehand.
#[test]
fn chunked() {
    let server = Server::start(|asked, stream| {
        let last: &[u8] = if asked.number == 0 { b"" } else { b"3\r\nghi\r\n0\r\n\r\n" };
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n";
        let _ = stream.write_all(&[&head[..], last].concat());
    });
    let folder = Folder::new();
    run(&folder, &[&server.url("/x")]).succeeded();
    assert_eq!(folder.read("x"), b"abcdefghi");
    assert_eq!(server.count(), 2, "chunks that end early are noticed");
}

/// An empty file is downloaded as a file.
#[test]
fn empty() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", b""));
    let folder = Folder::new();
    run(&folder, &[&server.url("/x")]).succeeded();
    assert_eq!(folder.read("x"), b"");
    assert_eq!(folder.names(), ["x"]);
}

/// A disk that accepts nothing. `/dev/full` stands for it.
#[test]
fn full_device() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(200_000)));
    let folder = Folder::new();
    std::os::unix::fs::symlink("/dev/full", folder.path("x.part")).unwrap();
    run(&folder, &[&server.url("/x")]).failed(1, &["x.part", "No space left", "make room"]);
    assert_eq!(server.count(), 1);
    assert!(!exists(&folder.path("x")));
}

/// A disk that fills up: the bytes that fitted are kept, and the download continues when there is
/// room. Mounting one needs root. Without root, [`full_device`] is the test.
#[test]
fn full_disk_then_room() {
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder, "256k") else {
        eprintln!("skipped: a small disk cannot be mounted here");
        return;
    };
    let length = 1_000_000;
    let server = Server::start(move |asked, stream| serve(asked, stream, "\"v1\"", &body(length)));
    run(&folder, &[&server.url("/x")])
        .failed(1, &["No space left", "make room", "will be resumed"]);
    let kept = folder.length("x.part");
    assert!(kept > 0 && body(length).starts_with(&folder.read("x.part")));
    disk.resize("4m");
    run(&folder, &[&server.url("/x")]).succeeded();
    assert_eq!(server.request(1).header("range"), Some(format!("bytes={kept}-").as_str()));
    assert_eq!(folder.read("x"), body(length));
}

/// A folder that cannot be created, and one that cannot be written to.
#[test]
fn bad_folder() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    std::fs::write(folder.path("file"), b"").unwrap();
    let inside = Folder(folder.path("file").join("inside"));
    run(&inside, &[&server.url("/x")]).failed(2, &["cannot make the folder", "inside"]);
    assert_eq!(server.count(), 0);
    run(&Folder("/proc".into()), &[&server.url("/x")]).failed(1, &["/proc/x.part", "-o"]);
}

struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(folder: &Folder, size: &str) -> Option<Self> {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "downloads-test"])
            .arg(&folder.0)
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(folder.0.clone()))
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        let resized =
            std::process::Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        assert!(resized.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
