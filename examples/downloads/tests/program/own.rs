//! The mode without URLs: the embedded server's files are downloaded and checked.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::support::{Folder, Ran, Server, own_server, program, run, run_alone};

/// All files are downloaded and checked, and the summary says so.
#[test]
fn all_files() {
    let ran = run_alone(&["--files", "30", "--size", "70k", "--rate", "1M"]).succeeded();
    for words in [
        "30 of 30 files, 2.1 MB in",
        "every byte checked",
        "one after another",
        "peak tasks",
        "peak memory",
    ] {
        assert!(ran.out.contains(words), "`{words}` is missing in {ran:?}");
    }
}

/// The window limits the downloads that run at a time.
#[test]
fn window() {
    let server = answers_together(3);
    let folder = Folder::new();
    let urls = urls(&server, 39);
    let ran = run(&folder, &[&["-c", "3"][..], &strs(&urls)].concat()).succeeded();
    assert!(ran.out.contains("39 of 39 files") && ran.out.contains("peak tasks 3,"), "{ran:?}");
}

/// 2000 files under a hard limit of 256 open files: a smaller window, one line about it, and no
/// failure.
#[test]
fn few_open_files() {
    let ran = limited("ulimit -n 256", &["--files", "2000", "--size", "1k", "--rate", "100M"])
        .succeeded();
    assert!(ran.out.contains("2000 of 2000 files") && !ran.out.contains("failed"), "{ran:?}");
    assert_eq!(ran.err.matches("the limit of 256 allows").count(), 1, "{ran:?}");
}

/// A soft limit below the hard one is raised, with a line about it.
#[test]
fn soft_limit_is_raised() {
    let server = answers_together(300);
    let folder = Folder::new();
    let urls = urls(&server, 300);
    let to = ["-o", folder.0.to_str().unwrap()];
    let ran =
        limited("ulimit -Sn 100 && ulimit -Hn 1500", &[&to[..], &strs(&urls)].concat()).succeeded();
    assert!(ran.err.contains("raised the limit from 100 to 1500"), "{ran:?}");
    assert!(ran.out.contains("300 of 300 files") && ran.out.contains("peak tasks 300,"), "{ran:?}");
}

/// The measuring mode prints its ratios.
#[test]
fn measure() {
    let arguments = [
        "--measure",
        "--files",
        "10",
        "--many",
        "20",
        "-c",
        "10",
        "--size",
        "5k",
        "--rate",
        "100k",
    ];
    let ran = run_alone(&arguments).succeeded();
    for words in [
        "1 file alone: ",
        "10 files at once",
        "20 files with window 10",
        "of 2 rounds",
        "client's peak memory",
    ] {
        assert!(ran.out.contains(words), "`{words}` is missing in {ran:?}");
    }
}

/// The embedded server's files can be downloaded like any others, including parts of files.
#[test]
fn serve() {
    let (server, url) = own_server(&["--files", "3", "--size", "100k", "--rate", "100M"]);
    let folder = Folder::new();
    let urls: Vec<String> = (0..3).map(|index| format!("{url}/file-{index}.bin")).collect();
    run(&folder, &strs(&urls)).succeeded();
    assert_eq!(folder.names().len(), 3);
    let whole = folder.read("file-1.bin");
    assert_eq!(whole.len(), 100_000);
    assert_ne!(whole, folder.read("file-2.bin"));

    // A run that was killed would have shortened the part; the test does it by hand.
    std::fs::rename(folder.path("file-1.bin"), folder.path("file-1.bin.part")).unwrap();
    let part =
        std::fs::OpenOptions::new().write(true).open(folder.path("file-1.bin.part")).unwrap();
    part.set_len(33_333).unwrap();
    let note = format!("downloads 1\n{}\n\"1-100000\"\n100000\nend\n", urls[1]);
    std::fs::write(folder.path("file-1.bin.part.about"), note).unwrap();
    let ran = run(&folder, &[&urls[1]]).succeeded();
    assert!(ran.out.contains("66.7 kB"), "only the rest comes: {ran:?}");
    assert_eq!(folder.read("file-1.bin"), whole);

    run(&folder, &[&format!("{url}/file-3.bin")]).failed(1, &["404"]);
    server.signal(rustix::process::Signal::INT);
    assert_eq!(server.finish().status, Some(130));
}

/// One connection with several requests: everything that an HTTP client may send to the embedded
/// server.
#[test]
fn requests() {
    let (_server, url) = own_server(&["--files", "1", "--size", "100", "--rate", "100M"]);
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let mut ask = |request: &str, body: usize| {
        stream.write_all(format!("{request}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") {
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{request} after {answer:?}");
            answer.push(byte[0]);
        }
        let mut bytes = vec![0; body];
        stream.read_exact(&mut bytes).unwrap();
        (String::from_utf8(answer).unwrap(), bytes)
    };
    let get = "GET /file-0.bin HTTP/1.1\r\nHost: x";
    let (head, whole) = ask(get, 100);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("ETag: \"0-100\"\r\n"), "{head}");
    let (head, _) = ask("HEAD /file-0.bin HTTP/1.1\r\nHost: x", 0);
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 100\r\n"),
        "{head}"
    );
    let (head, part) = ask(&format!("{get}\r\nRange: bytes=90-\r\nIf-Range: \"0-100\""), 10);
    assert!(head.starts_with("HTTP/1.1 206 ") && head.contains("bytes 90-99/100\r\n"), "{head}");
    assert_eq!(part, whole[90..]);
    let (head, again) = ask(&format!("{get}\r\nRange: bytes=90-\r\nIf-Range: \"other\""), 100);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(again, whole);
    let (head, _) = ask(&format!("{get}\r\nRange: bytes=100-"), 0);
    assert!(head.starts_with("HTTP/1.1 416 ") && head.contains("bytes */100\r\n"), "{head}");
    let (head, _) = ask("GET /file-1.bin HTTP/1.1\r\nHost: x", 0);
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let (head, _) = ask("DELETE /file-0.bin HTTP/1.1\r\nHost: x", 0);
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    let (head, _) = ask("nonsense", 0);
    assert!(head.starts_with("HTTP/1.1 400 ") && head.contains("Connection: close"), "{head}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// No response is faster than its rate.
#[test]
fn rate() {
    let (_server, url) = own_server(&["--files", "1", "--size", "20k", "--rate", "200k"]);
    let folder = Folder::new();
    let start = Instant::now();
    run(&folder, &[&format!("{url}/file-0.bin")]).succeeded();
    assert!(start.elapsed() >= Duration::from_millis(100));
}

/// The error names an address that is taken.
#[test]
fn serve_on_a_taken_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    serve_alone(&address).failed(2, &["cannot serve on", &address, "in use"]);
}

fn serve_alone(address: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downloads"));
    Ran::from(command.args(["--serve", address]).output().unwrap())
}

/// A server that answers once `number` requests have arrived, and then the next `number`.
fn answers_together(number: usize) -> Server {
    let together = Barrier::new(number);
    Server::start(move |asked, stream| {
        together.wait();
        crate::support::serve(asked, stream, "\"v1\"", asked.path().as_bytes());
    })
}

fn urls(server: &Server, number: usize) -> Vec<String> {
    (0..number).map(|index| server.url(&format!("/{index}"))).collect()
}

fn strs(strings: &[String]) -> Vec<&str> {
    strings.iter().map(String::as_str).collect()
}

fn limited(limit: &str, arguments: &[&str]) -> Ran {
    let inner = program();
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(inner.get_program());
    Ran::from(command.args(inner.get_args()).args(arguments).output().unwrap())
}
