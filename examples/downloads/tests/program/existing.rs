//! Existing files: only the requested file counts as already downloaded.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Folder, INDEX, Server, body, run, send, send_short, serve};

fn plain() -> Server {
    Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(1000)))
}

/// A file from an earlier run is kept, after one request to the server.
#[test]
fn the_same_file() {
    let server = plain();
    let folder = Folder::new();
    let url = server.url("/x.bin");
    run(&folder, &[&url]).succeeded();
    let ran = run(&folder, &[&url]).succeeded();
    assert!(ran.out.contains("1 already there"), "{ran:?}");
    assert_eq!((server.count(), server.request(1).method()), (2, "HEAD"));
    let mode = folder.path(INDEX).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A folder of that name is refused, whatever the flags.
#[test]
fn a_folder() {
    let server = plain();
    let folder = Folder::new();
    std::fs::create_dir(folder.path("x.bin")).unwrap();
    for flags in [&[][..], &["--keep"], &["--overwrite"], &["--no-resume"]] {
        let url = server.url("/x.bin");
        let ran = run(&folder, &[flags, &[&url]].concat()).failed(1, &["x.bin is a folder", &url]);
        assert!(!ran.out.contains("already there"), "{ran:?}");
    }
    assert_eq!((server.count(), folder.names().len()), (0, 1));
}

/// A file without a record is compared by its length, and is refused if that differs.
#[test]
fn a_file_of_unknown_origin() {
    let server = plain();
    let folder = Folder::new();
    let url = server.url("/x.bin");
    std::fs::write(folder.path("x.bin"), b"mine").unwrap();
    run(&folder, &[&url]).failed(
        1,
        &["x.bin is there with 4 bytes, but the server has 1000", "--overwrite", "--keep"],
    );
    assert_eq!(folder.read("x.bin"), b"mine");
    let ran = run(&folder, &["--keep", &url]).succeeded();
    assert!(ran.out.contains("1 kept as it was, not compared"), "{ran:?}");
    assert_eq!(server.count(), 1);
    assert_eq!(folder.read("x.bin"), b"mine");
    run(&folder, &["--overwrite", &url]).succeeded();
    assert_eq!(folder.read("x.bin"), body(1000));
    std::fs::write(folder.path("x.bin"), b"mine").unwrap();
    run(&folder, &["--no-resume", &url]).succeeded();
    assert_eq!(folder.read("x.bin"), body(1000));

    let other = Folder::new();
    std::fs::write(other.path("x.bin"), body(1000)).unwrap();
    let ran = run(&other, &[&url]).succeeded();
    assert!(ran.out.contains("1 already there"), "{ran:?}");
}

/// A file from another URL is another file, even if its length is the same.
#[test]
fn a_file_from_another_url() {
    let server = plain();
    let folder = Folder::new();
    run(&folder, &[&server.url("/a/x.bin")]).succeeded();
    let from = format!("came from {}", server.url("/a/x.bin"));
    run(&folder, &[&server.url("/b/x.bin")]).failed(1, &[&from, "--overwrite"]);
    run(&folder, &["--overwrite", &server.url("/b/x.bin")]).succeeded();
    let ran = run(&folder, &[&server.url("/b/x.bin")]).succeeded();
    assert!(ran.out.contains("1 already there"), "{ran:?}");
}

/// A file that was changed locally after the download is not the downloaded file, even if its
/// length is the same.
#[test]
fn a_file_changed_here() {
    let server = plain();
    let folder = Folder::new();
    let url = server.url("/x.bin");
    run(&folder, &[&url]).succeeded();
    let mut changed = body(1000);
    changed[500] ^= 1;
    let before = folder.path("x.bin").metadata().unwrap().modified().unwrap();
    std::fs::write(folder.path("x.bin"), &changed).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(folder.path("x.bin")).unwrap();
    file.set_modified(before + std::time::Duration::from_nanos(1_000_000)).unwrap();
    run(&folder, &[&url]).failed(1, &["x.bin was changed since it was downloaded", "--keep"]);
    assert_eq!(folder.read("x.bin"), changed);
}

/// A file that has changed on the server, and not locally, is downloaded again.
#[test]
fn a_file_changed_there() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => serve(asked, stream, "\"v1\"", &body(1000)),
        _ => serve(asked, stream, "\"v2\"", &body(2000)[1000..]),
    });
    let folder = Folder::new();
    let url = server.url("/x.bin");
    run(&folder, &[&url]).succeeded();
    let ran = run(&folder, &[&url]).succeeded();
    assert!(ran.out.contains("1 of 1 files"), "{ran:?}");
    assert_eq!(folder.read("x.bin"), &body(2000)[1000..]);
    let ran = run(&folder, &[&url]).succeeded();
    assert!(ran.out.contains("1 already there"), "{ran:?}");
}

/// A server that does not answer `HEAD` is asked for the first byte.
#[test]
fn a_server_without_head() {
    for ranges in [true, false] {
        let server = Server::start(move |asked, stream| match (asked.method(), ranges) {
            ("HEAD", _) => send_short(stream, "405 Method Not Allowed", &[], b"", 9),
            (_, true) if asked.header("range") == Some("bytes=0-0") => {
                let headers = [("Content-Range", "bytes 0-0/1000")];
                send(stream, "206 Partial Content", &headers, &body(1));
            }
            _ => send(stream, "200 OK", &[], &body(1000)),
        });
        let folder = Folder::new();
        std::fs::write(folder.path("x"), body(1000)).unwrap();
        std::fs::write(folder.path("y"), body(999)).unwrap();
        let ran = run(&folder, &[&server.url("/x"), &server.url("/y")])
            .failed(1, &["999 bytes, but the server has 1000"]);
        assert!(ran.out.contains("1 already there"), "{ran:?}");
    }
}

/// If a server reports no length, the user has to decide. If a request fails, it is retried.
#[test]
fn a_server_that_does_not_tell() {
    let server = Server::start(|asked, stream| {
        use std::io::Write as _;
        let _ = match asked.number {
            0 => stream
                .write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            _ => stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
        };
    });
    let folder = Folder::new();
    std::fs::write(folder.path("x"), b"mine").unwrap();
    run(&folder, &[&server.url("/x")]).failed(1, &["does not tell", "--overwrite", "--keep"]);
    assert_eq!(server.count(), 2);
}

/// A long list also checks every file, and does not replace one that appears during its download.
#[test]
fn a_long_list() {
    let folder = Folder::new();
    let appears = folder.path("40");
    let server = Server::start(move |asked, stream| {
        if asked.path() == "/40" {
            std::fs::write(&appears, b"mine").unwrap();
        }
        serve(asked, stream, "\"v1\"", &body(1000));
    });
    std::fs::write(folder.path("7"), b"mine").unwrap();
    std::fs::create_dir(folder.path("8")).unwrap();
    let urls: Vec<String> = (0..50).map(|number| server.url(&format!("/{number}"))).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let ran = run(&folder, &urls).failed(
        1,
        &["7 is there with 4 bytes", "8 is a folder", "40 has appeared in the meantime"],
    );
    assert!(ran.out.contains("47 of 50 files"), "{ran:?}");
    assert_eq!((folder.read("7"), folder.read("40")), (b"mine".to_vec(), b"mine".to_vec()));
    assert_eq!(folder.names().len(), 50);
    let ran = run(&folder, &[&["--overwrite"], &urls[..8], &urls[40..41]].concat()).succeeded();
    assert!(ran.out.contains("9 of 9 files"), "{ran:?}");
    let ran = run(&folder, &urls).failed(1, &["8 is a folder"]);
    assert!(ran.out.contains("49 already there"), "{ran:?}");
}

/// A dangling link belongs to the user, and is replaced only on request.
#[test]
fn a_link_to_nowhere() {
    let server = plain();
    let folder = Folder::new();
    std::os::unix::fs::symlink("/nowhere/x", folder.path("x")).unwrap();
    let url = server.url("/x");
    run(&folder, &[&url]).failed(1, &["x is a link to nowhere", "--overwrite"]);
    run(&folder, &["--overwrite", &url]).succeeded();
    assert_eq!(folder.read("x"), body(1000));
    run(&folder, &["--keep", "--overwrite", &url]).failed(2, &["--keep"]);
}

/// An index that cannot be written causes a warning, and the files are compared by length.
#[test]
fn an_index_that_cannot_be_written() {
    let server = plain();
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path(INDEX).join("inside")).unwrap();
    let ran = run(&folder, &[&server.url("/x")]).succeeded();
    assert!(ran.err.contains("warning: cannot write") && ran.err.contains(INDEX), "{ran:?}");
    let ran = run(&folder, &[&server.url("/x")]).succeeded();
    assert!(ran.out.contains("1 already there"), "{ran:?}");
}
