//! Credentials and the user's headers are sent only to their origin, and neither printed nor
//! stored.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Folder, INDEX, Ran, Server, body, run, send, send_short, serve};

/// `us@er:p:a/ss`, as it is sent.
const BASIC: &str = "Basic dXNAZXI6cDphL3Nz";
const ESCAPED: &str = "us%40er:p%3Aa%2Fss@";

fn with_credentials(url: &str) -> String {
    url.replace("http://", &format!("http://{ESCAPED}"))
}

#[track_caller]
fn is_secret(text: &str) {
    for word in ["us%40er", "us@er", "p%3Aa", "p:a/ss", "dXNAZXI6cDphL3Nz", "topsecret"] {
        assert!(!text.contains(word), "`{word}` is in {text}");
    }
}

#[track_caller]
fn nothing_leaks(ran: &Ran, folder: &Folder) {
    is_secret(&ran.out);
    is_secret(&ran.err);
    for entry in std::fs::read_dir(&folder.0).unwrap() {
        is_secret(&String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()));
    }
}

/// Credentials are decoded and sent as Basic authentication. The files on disk do not contain them.
#[test]
fn are_sent_and_not_kept() {
    let server = Server::start(|asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(80_000), 160_000),
        _ => serve(asked, stream, "\"v1\"", &body(160_000)),
    });
    let folder = Folder::new();
    let url = with_credentials(&server.url("/x.bin"));
    let ran = run(&folder, &["--retries", "0", &url]).failed(1, &[&server.url("/x.bin")]);
    nothing_leaks(&ran, &folder);
    let mode = |name| folder.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("x.bin.part.about"), 0o600);
    let ran = run(&folder, &["--json", &url]).succeeded();
    nothing_leaks(&ran, &folder);
    assert_eq!(folder.read("x.bin"), body(160_000));
    assert_eq!(mode(INDEX), 0o600);
    for number in 0..server.count() {
        assert_eq!(server.request(number).header("authorization"), Some(BASIC));
    }
    assert!(server.request(1).header("range").is_some(), "the URL is the same without them");
}

/// Failures do not show them, and say what to do if they are refused or missing.
#[test]
fn failures_do_not_show_them() {
    let server = Server::start(|_, stream| send(stream, "401 Unauthorized", &[], b""));
    let folder = Folder::new();
    let url = server.url("/x");
    let ran = run(&folder, &[&with_credentials(&url)]).failed(1, &["401", "refused the cred"]);
    nothing_leaks(&ran, &folder);
    run(&folder, &[&url]).failed(1, &["401", "user:password@", "--header"]);
    for bad in ["http://us%40er:topsecret@h:99999/", "us%40er:topsecret@h/x", "ftp://topsecret@h/"]
    {
        let ran = run(&folder, &[bad]).failed(2, &["***@h"]);
        nothing_leaks(&ran, &folder);
    }
    let ran = run(&folder, &["--rate", "1k", &with_credentials(&url)]).failed(2, &["--rate"]);
    nothing_leaks(&ran, &folder);
}

/// A redirect to another origin gets neither credentials nor the user's headers. A redirect to the
/// same origin does.
#[test]
fn stay_with_their_origin() {
    let other = Server::start(|asked, stream| match asked.path() {
        "/private" => send(stream, "401 Unauthorized", &[], b""),
        _ => serve(asked, stream, "\"v1\"", &body(10)),
    });
    let (there, private) = (other.url("/there"), other.url("/private"));
    let server = Server::start(move |asked, stream| match asked.path() {
        "/here" => send(stream, "302 Found", &[("Location", "/again")], b"moved"),
        "/again" => send(stream, "307 Temporary Redirect", &[("Location", &there)], b""),
        _ => send(stream, "301 Moved", &[("Location", &private)], b""),
    });
    let folder = Folder::new();
    let header = ["--header", "X-Key: topsecret", "-H", "Cookie: topsecret"];
    let url = with_credentials(&server.url("/here"));
    let ran = run(&folder, &[&header[..], &[&url]].concat()).succeeded();
    nothing_leaks(&ran, &folder);
    for number in 0..2 {
        let asked = server.request(number);
        assert_eq!(asked.header("authorization"), Some(BASIC));
        assert_eq!(asked.header("x-key"), Some("topsecret"));
        assert_eq!(asked.header("cookie"), Some("topsecret"));
    }
    for name in ["authorization", "x-key", "cookie"] {
        assert_eq!(other.request(0).header(name), None, "{name}");
    }
    assert_eq!(folder.read("here"), body(10));
    let url = with_credentials(&server.url("/elsewhere"));
    run(&folder, &[&url]).failed(1, &["401", "gets no credentials"]);
}

/// `--header` works on the command line and from a file. The user's own `Authorization` takes
/// precedence.
#[test]
fn headers() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(10)));
    let folder = Folder::new();
    let file = Folder::new();
    std::fs::write(file.path("headers"), "Authorization: Bearer topsecret\n\nX-B: 2\n").unwrap();
    let file = format!("@{}", file.path("headers").display());
    let url = with_credentials(&server.url("/x"));
    run(&folder, &["-H", "User-Agent: me", "--header", &file, &url]).succeeded();
    let asked = server.request(0);
    assert_eq!(asked.header("authorization"), Some("Bearer topsecret"));
    assert_eq!((asked.header("x-b"), asked.header("user-agent")), (Some("2"), Some("me")));
    assert_eq!(asked.head.to_lowercase().matches("authorization").count(), 1);

    for (bad, words) in [
        ("X-Key topsecret", "no colon"),
        ("Range: topsecret", "`range`"),
        ("X\u{1}: topsecret", "not a valid header name"),
        ("@/nowhere", "cannot read /nowhere"),
    ] {
        let ran = run(&folder, &["-H", bad, &url]).failed(2, &["--header", words]);
        nothing_leaks(&ran, &folder);
    }
}
