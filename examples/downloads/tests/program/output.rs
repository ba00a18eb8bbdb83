//! What the program prints: `--json`, `-q`, `--version`, and errors about flags.

use std::process::Stdio;

use crate::support::{Folder, Ran, Server, body, program, run, run_alone, send, serve};
use serde_json::Value;

fn objects(ran: &Ran) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
}

/// `--json`: one object for each file and each bad line, and a summary.
#[test]
fn json() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/none" => send(stream, "404 Not Found", &[], b""),
        _ => serve(asked, stream, "\"v1\"", &body(1000)),
    });
    let (folder, list) = (Folder::new(), Folder::new());
    std::fs::write(list.path("list"), "nonsense\n").unwrap();
    let list = list.path("list");
    let (good, none) = (server.url("/x"), server.url("/none"));
    let ran = run(&folder, &["--json", &good, &none, "-i", list.to_str().unwrap()]).failed(1, &[]);
    let all = objects(&ran);
    let file = |url: &str| all.iter().find(|object| object["url"] == url).unwrap();
    assert_eq!((&file(&good)["outcome"], &file(&good)["name"]), (&"done".into(), &"x".into()));
    assert_eq!(file(&good)["path"], folder.path("x").to_str().unwrap());
    let failed = file(&none);
    assert_eq!((&failed["outcome"], &failed["attempts"]), (&"failed".into(), &1.into()));
    assert!(failed["error"].as_str().unwrap().contains("404"));
    let bad = all.iter().find(|object| object["type"] == "bad_line").unwrap();
    assert!(bad["place"].as_str().unwrap().ends_with("list:1"));
    let summary = all.last().unwrap();
    assert_eq!(summary["type"], "summary");
    for (name, value) in
        [("files", 2), ("done", 1), ("failed", 1), ("bad_lines", 1), ("bytes", 1000)]
    {
        assert_eq!(summary[name], value, "{name}");
    }
    let again = objects(&run(&folder, &["--json", &good]).succeeded());
    assert_eq!(again[0]["outcome"], "already there");
    let own = run_alone(&["--json", "-q", "--files", "2", "--size", "10", "--rate", "1M"]);
    assert_eq!(objects(&own.succeeded()).last().unwrap()["done"], 2);
}

/// An error of standard output is an error: one line about it, and an exit status. The files are
/// downloaded all the same. The same holds for a pipe whose reader has gone, for the summary, and
/// for `--help`.
#[test]
fn output_that_cannot_be_written() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(1000)));
    for arguments in [&["--json"][..], &["--json", "-q"], &[], &["--help"], &["--version"]] {
        for is_pipe in [false, true] {
            let folder = Folder::new();
            let out = if is_pipe {
                Stdio::from(std::io::pipe().unwrap().1)
            } else {
                Stdio::from(std::fs::File::create("/dev/full").unwrap())
            };
            let url = server.url("/x");
            let mut command = program();
            command.args(arguments).arg("-o").arg(&folder.0).arg(&url).stdout(out);
            let ran = Ran::from(command.output().unwrap());
            ran.failed(
                1,
                &["cannot write to standard output", if is_pipe { "pipe" } else { "space" }],
            );
            let is_text = arguments.iter().any(|flag| ["--help", "--version"].contains(flag));
            assert_eq!(folder.length("x"), if is_text { 0 } else { 1000 });
        }
    }
}

/// A closed standard error does not end the program.
#[test]
fn errors_that_cannot_be_written() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(1000)));
    let folder = Folder::new();
    let mut command = program();
    command.args(["--insecure", "-i", "/dev/stdin", "-o"]).arg(&folder.0).arg(server.url("/x"));
    command.stdin(std::io::pipe().unwrap().0).stderr(std::fs::File::create("/dev/full").unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0));
    assert_eq!(folder.length("x"), 1000);
}

/// `-q` prints only failures.
#[test]
fn quiet() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/none" => send(stream, "404 Not Found", &[], b""),
        _ => serve(asked, stream, "\"v1\"", &body(1000)),
    });
    let folder = Folder::new();
    let ran = run(&folder, &["-q", &server.url("/x")]).succeeded();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let ran = run(&folder, &["-q", &server.url("/none")]).failed(1, &["404"]);
    assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1));
    let own = run_alone(&["-q", "--files", "2", "--size", "10", "--rate", "1M"]).succeeded();
    assert_eq!((own.out.as_str(), own.err.as_str()), ("", ""));
}

/// `--version` names the program and its version.
#[test]
fn version() {
    let ran = run_alone(&["--version"]).succeeded();
    assert_eq!(ran.out, concat!("downloads ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// A flag that would be ignored is an error, and nothing starts.
#[test]
fn flags_that_do_not_apply() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    let url = server.url("/x");
    run(&folder, &["--rate", "100k", &url]).failed(2, &["--rate does not apply", "--limit-rate"]);
    run(&folder, &["--files", "3", &url]).failed(2, &["--files does not apply"]);
    run(&folder, &["--files", "3"]).failed(2, &["--output does not apply"]);
    assert_eq!(server.count(), 0);
    assert!(folder.names().is_empty());
}
