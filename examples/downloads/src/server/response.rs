//! Responses: the file or the requested part at the offered rate, or a refusal.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use super::pace::Pace;
use super::request::{Asked, Request, range};
use super::{Offer, path};
use crate::content;
use crate::runtime::{self, TcpStream};

/// Answers one request, including the body.
pub(super) fn answer(stream: &TcpStream, request: &Request, offer: Offer) -> io::Result<()> {
    let started = runtime::now();
    let keep = request.keep_alive;
    let mut to = stream;
    if request.method != "GET" && request.method != "HEAD" {
        return to.write_all(plain("405 Method Not Allowed", keep).as_bytes());
    }
    let Some(index) = find(&request.path, offer.files) else {
        return to.write_all(plain("404 Not Found", keep).as_bytes());
    };
    let etag = etag(index, offer.size);
    let asked = match &request.range {
        // The client has a part of another file, so it gets all of this one.
        Some(_) if request.if_range.as_ref().is_some_and(|validator| *validator != etag) => {
            Asked::All
        }
        Some(header) => range(header, offer.size),
        None => Asked::All,
    };
    let (status, part) = match asked {
        Asked::All => ("200 OK", 0..offer.size),
        Asked::Part(part) => ("206 Partial Content", part),
        Asked::Beyond => {
            let head = format!(
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{}\r\nContent-Length: 0\r\n{}\r\n",
                offer.size,
                connection(keep)
            );
            return to.write_all(head.as_bytes());
        }
    };
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nETag: {etag}\r\nAccept-Ranges: bytes\r\n{}",
        part.end - part.start,
        connection(keep)
    );
    if status.starts_with("206") {
        let _ =
            write!(head, "Content-Range: bytes {}-{}/{}\r\n", part.start, part.end - 1, offer.size);
    }
    head.push_str("\r\n");
    to.write_all(head.as_bytes())?;
    if request.method == "HEAD" {
        Ok(())
    } else {
        body(to, index, part, Pace::new(offer.rate, started))
    }
}

fn body(mut to: &TcpStream, index: u64, part: Range<u64>, mut pace: Pace) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let (piece, when) = pace.next(part.end - at);
        let pause = when.saturating_duration_since(runtime::now());
        if !pause.is_zero() {
            runtime::sleep(pause).map_err(io::Error::other)?;
        }
        let end = at + piece;
        while at < end {
            let bytes = content::slice(index, at, usize::try_from(end - at).unwrap_or(usize::MAX));
            to.write_all(bytes)?;
            at += bytes.len() as u64;
        }
        pace.sent(piece);
    }
    Ok(())
}

/// Sends a response without a body.
pub(super) fn plain(status: &str, keep: bool) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{}\r\n", connection(keep))
}

fn connection(keep: bool) -> &'static str {
    if keep { "" } else { "Connection: close\r\n" }
}

fn etag(index: u64, size: u64) -> String {
    format!("\"{index}-{size}\"")
}

fn find(path_asked: &str, files: u64) -> Option<u64> {
    let index = path_asked.strip_prefix("/file-")?.strip_suffix(".bin")?.parse().ok()?;
    (index < files && path(index) == path_asked).then_some(index)
}
