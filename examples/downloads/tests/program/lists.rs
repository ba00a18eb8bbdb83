//! Lists of URLs, and the command line.

use std::collections::HashSet;
use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Folder, Ran, Server, body, program, run, run_alone, serve};

/// `-i FILE`, with comments, empty lines and duplicates.
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

/// Two URLs with the same name are two files.
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

/// A wrong URL on the command line stops everything before it starts.
#[test]
fn no_url() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    run(&folder, &[&server.url("/a"), "ftp://h/x"])
        .failed(2, &["`ftp://h/x`", "neither http nor https", "nothing was started"]);
    assert_eq!(server.count(), 0);
    assert!(folder.names().is_empty());
}

/// A bad line of a list is reported at the end, with its place, and does not stop the others.
#[test]
fn bad_lines() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    let list = Folder::new();
    let mut text = format!(
        "\u{feff}{}\nexample.org/x\nhttp://u:secret@h:99999/\n{}\n",
        server.url("/a"),
        server.url("/b")
    )
    .into_bytes();
    text.extend_from_slice(b"http://h/\xff\n");
    std::fs::write(list.path("list"), text).unwrap();
    let ran = run(&folder, &["-i", list.path("list").to_str().unwrap()]).failed(
        1,
        &["list:2: `example.org/x`", "missing at the front", "list:3", "port", "list:5", "UTF-8"],
    );
    assert!(ran.out.contains("2 of 2 files") && ran.out.contains("3 bad lines"), "{ran:?}");
    assert!(!ran.err.contains("secret"), "{ran:?}");
    assert_eq!(folder.names(), ["a", "b"]);

    std::fs::write(list.path("list"), "x\n").unwrap();
    run(&folder, &["-i", list.path("list").to_str().unwrap()]).failed(1, &["list:1: `x`"]);
    std::fs::write(list.path("list"), "# nothing\n").unwrap();
    run(&folder, &["-i", list.path("list").to_str().unwrap()])
        .failed(2, &["the list contains no URL"]);
}

/// Thousands of URLs with the same name get a name each.
#[test]
fn many_namesakes_slow() {
    let folder = Folder::new();
    let list = Folder::new();
    // No other test can get this port.
    let closed = "127.0.0.1:1";
    let text: String = (0..2_000).map(|n| format!("http://{closed}/image.jpg?{n}\n")).collect();
    std::fs::write(list.path("list"), text).unwrap();
    let mut command = program();
    command.args(["--retries", "0", "--json", "-q", "-i"]).arg(list.path("list"));
    let output = command.arg("-o").arg(&folder.0).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let names: HashSet<&str> = lines
        .lines()
        .filter_map(|line| line.split_once("\"name\":\"")?.1.split('"').next())
        .collect();
    assert_eq!(names.len(), 2_000);
    assert!(names.contains("image.jpg") && names.contains("image-2000.jpg"));
}

/// `--keep-directories`: equal names in different directories are not renamed.
#[test]
fn keep_directories() {
    let server =
        Server::start(|asked, stream| serve(asked, stream, "\"v1\"", asked.path().as_bytes()));
    let folder = Folder::new();
    let urls = [server.url("/one/x.bin"), server.url("/two/x.bin"), server.url("/%2e%2e/x.bin")];
    let arguments: Vec<&str> =
        ["--keep-directories"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    run(&folder, &arguments).succeeded();
    let host = format!("127.0.0.1_{}", server.address.port());
    assert_eq!(folder.names(), [host.as_str()]);
    assert_eq!(folder.read(&format!("{host}/one/x.bin")), b"/one/x.bin");
    assert_eq!(folder.read(&format!("{host}/two/x.bin")), b"/two/x.bin");
    assert_eq!(folder.read(&format!("{host}/_./x.bin")), b"/%2e%2e/x.bin");
    let ran = run(&folder, &arguments).succeeded();
    assert!(ran.out.contains("3 already there"), "each folder has its index: {ran:?}");
}

/// Missing files, and invalid numbers.
#[test]
fn bad_arguments() {
    let folder = Folder::new();
    run(&folder, &["-i", "/nowhere/list"]).failed(2, &["cannot read the list /nowhere/list"]);
    run_alone(&["-c", "0"]).failed(2, &["at least 1"]);
    run_alone(&["--workers", "0"]).failed(2, &["at least 1"]);
    run_alone(&["--size", "6X"]).failed(2, &["`X`"]);
    run(&folder, &["--ca", "/nowhere/ca.pem", "http://127.0.0.1:1/"])
        .failed(2, &["--ca /nowhere/ca.pem"]);
}
