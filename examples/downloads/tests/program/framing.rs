//! Where a body ends, and where a response begins: cut bodies, interim responses, chunks, and kept
//! connections.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Folder, Server, body, eventually, read_head, run, send_short, serve};
use rustix::net::sockopt::set_socket_linger;

/// More than the client reads of a head.
const LONG: usize = 200_000;

/// Makes the close of the connection a reset.
fn reset(stream: &TcpStream) {
    set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

/// A reset is not the end of a body, however the body's end is marked.
#[test]
fn a_reset_is_not_the_end() {
    for head in [
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
    ] {
        let folder = Folder::new();
        let part = folder.path("x.bin.part");
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(&[head.as_bytes(), &body(100_000)].concat());
            // Without a length, the client writes its first 64 KiB at once. A reset before that
            // could come before the head.
            if !head.contains("Content-Length") {
                eventually("a part", || part.metadata().is_ok_and(|part| part.len() > 0));
            }
            reset(stream);
        });
        run(&folder, &["--retries", "0", &server.url("/x.bin")])
            .failed(1, &["server closed", "try again later"]);
        assert!(!folder.names().contains(&"x.bin".to_string()), "{head}: {:?}", folder.names());
    }
}

/// An orderly close is the end of a body without a length.
#[test]
fn a_close_is_the_end_of_a_body_without_a_length() {
    for head in ["HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"] {
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(&[head.as_bytes(), &body(100_000)].concat());
        });
        let folder = Folder::new();
        run(&folder, &["--retries", "0", &server.url("/x.bin")]).succeeded();
        assert_eq!(folder.read("x.bin"), body(100_000), "{head}");
    }
}

/// A close before the last chunk, or inside one, or before the announced length.
#[test]
fn a_close_is_not_the_end_of_other_bodies() {
    for answer in [
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nab",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Content-Length: 4\r\n\r\nabc",
        "Content-Length: 4\r\n\r\n",
    ] {
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes());
        });
        let folder = Folder::new();
        run(&folder, &["--retries", "0", &server.url("/x")]).failed(1, &["failed:"]);
        assert!(!folder.names().contains(&"x".to_string()), "{answer}");
    }
}

/// Interim responses are skipped, with and without fields, one and several, beside a long body.
#[test]
fn interim_responses() {
    for interim in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n",
        "HTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 103 A\r\n\r\n",
    ] {
        for length in [0, 10, LONG] {
            let server = Server::start(move |asked, stream| {
                let _ = stream.write_all(interim.as_bytes());
                serve(asked, stream, "\"v1\"", &body(length));
            });
            let folder = Folder::new();
            run(&folder, &["--retries", "0", &server.url("/x")]).succeeded();
            assert_eq!(folder.read("x"), body(length), "{interim}");
        }
    }
}

/// A server that sends interim responses only is given up.
#[test]
fn endless_interim_responses() {
    let server =
        Server::start(
            |_, stream| {
                while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
            },
        );
    let folder = Folder::new();
    run(&folder, &["--retries", "0", &server.url("/x")]).failed(1, &["head has"]);
}

/// Chunks hold, whatever `Content-Length` says beside them.
#[test]
fn a_length_beside_chunks_is_ignored() {
    for length in ["Content-Length: 3", "Content-Length: 6", "Content-Length: 600"] {
        let server = Server::start(move |_, stream| {
            let head = format!("HTTP/1.1 200 OK\r\n{length}\r\nTransfer-Encoding: chunked\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(b"Connection: close\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n");
        });
        let folder = Folder::new();
        run(&folder, &["--retries", "0", &server.url("/x")]).succeeded();
        assert_eq!(folder.read("x"), b"abcdef", "{length}");
    }
}

/// A kept connection that the server closes while the next request is on its way costs no retry,
/// whether it is closed or reset.
#[test]
fn a_kept_connection_that_is_closed_costs_no_retry() {
    for is_reset in [false, true] {
        let server = Server::start(move |asked, stream| {
            if asked.number > 0 {
                return serve(asked, stream, "\"v1\"", &body(10));
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
            assert!(read_head(stream).is_some(), "the connection is used again");
            if is_reset {
                reset(stream);
            }
        });
        let folder = Folder::new();
        let (a, b) = (server.url("/a"), server.url("/b"));
        run(&folder, &["--retries", "0", "-c", "1", &a, &b]).succeeded();
        assert_eq!((folder.read("a"), folder.read("b")), (b"a".to_vec(), body(10)));
        assert_eq!(server.count(), 2);
    }
}

/// If some of the response had arrived on it, the attempt counts.
#[test]
fn a_kept_connection_that_is_cut_costs_a_retry() {
    let server = Server::start(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
        if read_head(stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 O");
        }
    });
    let folder = Folder::new();
    let (a, b) = (server.url("/a"), server.url("/b"));
    run(&folder, &["--retries", "0", "-c", "1", &a, &b]).failed(1, &["/b", "server closed"]);
    assert_eq!(server.count(), 1);
}

/// A part is not continued if the server has a file of another length, even if the answer has no
/// validator, or if it is not certain that the rest is the whole rest.
#[test]
fn a_part_of_another_length_starts_afresh() {
    for (status, range) in [
        ("206 Partial Content", "bytes 1000-2999/3000"),
        ("206 Partial Content", "bytes 1000-2999/*"),
        ("206 Partial Content", "bytes 900-1999/2000"),
        ("416 Range Not Satisfiable", "bytes */1000"),
        ("416 Range Not Satisfiable", "bytes */3000"),
    ] {
        let server = Server::start(move |asked, stream| match asked.number {
            0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(1000), 2000),
            1 => {
                let rest =
                    if status.starts_with("206") { body(3000)[1000..].to_vec() } else { vec![] };
                let headers = [("Content-Range", range)];
                send_short(stream, status, &headers, &rest, rest.len());
            }
            _ => serve(asked, stream, "\"v2\"", &body(3000)),
        });
        let folder = Folder::new();
        run(&folder, &["--retries", "1", &server.url("/x")]).succeeded();
        assert_eq!(folder.read("x"), body(3000), "{range}");
        assert_eq!(server.request(2).header("range"), None, "{range}");
    }
}

/// Multipart ranges were not requested.
#[test]
fn multipart_ranges_start_afresh() {
    let server = Server::start(move |asked, stream| match asked.number {
        0 => send_short(stream, "200 OK", &[("ETag", "\"v1\"")], &body(1000), 2000),
        1 => {
            let headers = [("Content-Type", "multipart/byteranges; boundary=x")];
            send_short(stream, "206 Partial Content", &headers, b"--x\r\n", 5);
        }
        _ => serve(asked, stream, "\"v1\"", &body(2000)),
    });
    let folder = Folder::new();
    run(&folder, &["--retries", "1", &server.url("/x")]).succeeded();
    assert_eq!(folder.read("x"), body(2000));
}

/// A redirect's body that is cut does not matter.
#[test]
fn a_redirect_with_a_cut_body() {
    let server = Server::start(|asked, stream| match asked.path() {
        "/x" => send_short(stream, "302 Found", &[("Location", "/y")], b"abc", 100),
        _ => serve(asked, stream, "\"v1\"", &body(10)),
    });
    let folder = Folder::new();
    run(&folder, &["--retries", "0", &server.url("/x")]).succeeded();
    assert_eq!(folder.read("x"), body(10));
}
