//! Lists of URLs, and the command line.

mod support;

use std::io::Write as _;
use std::process::Stdio;

use support::{Folder, Ran, Server, body, program, run, serve};

/// `-i FILE`, with comments, empty lines and doubles.
#[test]
fn list_in_a_file() {
    let server =
        Server::start(|asked, stream| serve(asked, stream, "\"v1\"", asked.path().as_bytes()));
    let folder = Folder::new();
    let list = Folder::new();
    let text = format!(
        "# some files\n\n{}\n  {}  \r\n{}\n",
        server.url("/a"),
        server.url("/b"),
        server.url("/a")
    );
    std::fs::write(list.path("list"), text).unwrap();
    run(&folder, &["-i", list.path("list").to_str().unwrap(), &server.url("/c")]).succeeded();
    assert_eq!(folder.names(), ["a", "b", "c"]);
    assert_eq!(folder.read("b"), b"/b");
    assert_eq!(server.count(), 3);
}

/// `-i -` is standard input.
#[test]
fn list_on_standard_input() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    let mut command = program();
    command
        .args(["-i", "-", "-o"])
        .arg(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(server.url("/a").as_bytes()).unwrap();
    Ran::from(child.wait_with_output().unwrap()).succeeded();
    assert_eq!(folder.names(), ["a"]);
}

/// Two URLs with one name are two files.
#[test]
fn namesakes() {
    let server =
        Server::start(|asked, stream| serve(asked, stream, "\"v1\"", asked.path().as_bytes()));
    let folder = Folder::new();
    let urls = [server.url("/one/x.bin"), server.url("/two/x.bin"), server.url("/three/x.bin?y=1")];
    run(&folder, &urls.each_ref().map(String::as_str)).succeeded();
    assert_eq!(folder.names(), ["x-2.bin", "x-3.bin", "x.bin"]);
    assert_eq!(folder.read("x.bin"), b"/one/x.bin");
    assert_eq!(folder.read("x-2.bin"), b"/two/x.bin");
    assert_eq!(folder.read("x-3.bin"), b"/three/x.bin?y=1");
}

/// What is no URL stops everything before it starts, with its place in the list.
#[test]
fn no_url() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    let list = Folder::new();
    std::fs::write(list.path("list"), "# one\nexample.org/x\n").unwrap();
    let list = list.path("list");
    let list = list.to_str().unwrap();
    run(&folder, &[&server.url("/a"), "ftp://h/x", "-i", list]).failed(
        2,
        &[
            "`ftp://h/x`",
            "neither http nor https",
            "list:2",
            "missing at the front",
            "nothing was started",
        ],
    );
    assert_eq!(server.count(), 0);
    assert!(folder.names().is_empty());
}

/// Files that are not there, and numbers that make no sense.
#[test]
fn bad_arguments() {
    let folder = Folder::new();
    run(&folder, &["-i", "/nowhere/list"]).failed(2, &["cannot read the list /nowhere/list"]);
    run(&folder, &["-c", "0"]).failed(2, &["at least 1"]);
    run(&folder, &["--workers", "0"]).failed(2, &["at least 1"]);
    run(&folder, &["--size", "6X"]).failed(2, &["`X`"]);
    run(&folder, &["--ca", "/nowhere/ca.pem", "http://127.0.0.1:1/"])
        .failed(2, &["--ca /nowhere/ca.pem"]);
}
