//! Requests: the heads that arrive on a kept-alive connection, and what the server needs of each.

use std::io::{self, Read};
use std::ops::Range;

/// The maximum length of a head, and the maximum number of headers.
const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 32;

/// The parts of a request that this server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) range: Option<String>,
    pub(super) if_range: Option<String>,
    pub(super) keep_alive: bool,
}

/// The reason why there is no request.
#[derive(Debug)]
pub(super) enum Unreadable {
    Io(io::Error),
    /// The status of the refusal.
    Bad(&'static str),
}

/// The heads that arrive on one connection.
#[derive(Debug)]
pub(super) struct Heads<R> {
    from: R,
    /// On the heap: a task's stack is small.
    buffer: Vec<u8>,
}

impl<R: Read> Heads<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: Vec::new() }
    }

    /// Returns the next request, or `None` if the client has closed the connection between two
    /// requests.
    pub(super) fn next(&mut self) -> Result<Option<Request>, Unreadable> {
        let mut chunk = [0; 1024];
        loop {
            if let Some((request, length)) = parse(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(Some(request));
            }
            if self.buffer.len() >= HEAD_MAX {
                return Err(Unreadable::Bad("431 Request Header Fields Too Large"));
            }
            match self.from.read(&mut chunk) {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => return Err(Unreadable::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Unreadable::Io(error)),
            }
        }
    }
}

/// Returns a request and the length of its head, once the head is complete.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Unreadable> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Unreadable::Bad("431 Request Header Fields Too Large"));
        }
        Err(_) => return Err(Unreadable::Bad("400 Bad Request")),
    };
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(found.value).trim().to_string())
    };
    // A body sent to a file server would be read as the next request.
    if header("transfer-encoding").is_some()
        || header("content-length").is_some_and(|length| length != "0")
    {
        return Err(Unreadable::Bad("413 Content Too Large"));
    }
    let connection = header("connection").unwrap_or_default().to_ascii_lowercase();
    let keep_alive = match head.version {
        Some(1) => !connection.contains("close"),
        _ => connection.contains("keep-alive"),
    };
    let request = Request {
        method: head.method.unwrap_or_default().to_string(),
        path: head.path.unwrap_or_default().to_string(),
        range: header("range"),
        if_range: header("if-range"),
        keep_alive,
    };
    Ok(Some((request, length)))
}

/// What a `Range` header requests of a file of `size` bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The whole file: there is no range, or none that this server understands (which it may
    /// ignore).
    All,
    Part(Range<u64>),
    /// The range is beyond the end of the file.
    Beyond,
}

/// Parses one range of bytes: `bytes=A-B`, `bytes=A-` or `bytes=-N`. Several ranges are answered
/// with the whole file.
pub(super) fn range(header: &str, size: u64) -> Asked {
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|spec| spec.split_once('-'))
    else {
        return Asked::All;
    };
    let part = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => return Asked::All,
        (Ok(first), Ok(last)) => first..size.min(last.saturating_add(1)),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(count)) if first.is_empty() => size.saturating_sub(count)..size,
        _ => return Asked::All,
    };
    if part.start >= part.end { Asked::Beyond } else { Asked::Part(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads may be split anywhere, and two may come in one piece.
    #[test]
    fn heads_in_pieces() {
        let text = b"GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=5-\r\n\r\nHEAD /b HTTP/1.0\r\n\r\n";
        for piece in 1..text.len() {
            let pieces = Pieces(text, piece);
            let mut heads = Heads::new(pieces);
            let first = heads.next().unwrap().unwrap();
            assert_eq!(
                (first.method.as_str(), first.path.as_str(), first.keep_alive),
                ("GET", "/a", true)
            );
            assert_eq!(first.range.as_deref(), Some("bytes=5-"));
            let second = heads.next().unwrap().unwrap();
            assert_eq!(
                (second.method.as_str(), second.path.as_str(), second.keep_alive),
                ("HEAD", "/b", false)
            );
            assert!(heads.next().unwrap().is_none());
        }
    }

    /// Garbage, endless heads and bodies are refused, each with its own status.
    #[test]
    fn what_is_no_request() {
        let status = |text: &[u8]| match Heads::new(text).next() {
            Err(Unreadable::Bad(status)) => status,
            other => panic!("{other:?}"),
        };
        assert!(status(b"\x00\x01 garbage\r\n\r\n").starts_with("400"));
        assert!(status(&[&b"GET /"[..], &[b'a'; HEAD_MAX]].concat()).starts_with("431"));
        assert!(status(b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").starts_with("413"));
    }

    /// The ranges of RFC 9110 that apply to one file.
    #[test]
    fn ranges() {
        assert_eq!(range("bytes=0-", 10), Asked::Part(0..10));
        assert_eq!(range("bytes=3-5", 10), Asked::Part(3..6));
        assert_eq!(range("bytes=3-99", 10), Asked::Part(3..10));
        assert_eq!(range("bytes=-4", 10), Asked::Part(6..10));
        assert_eq!(range("bytes=-40", 10), Asked::Part(0..10));
        assert_eq!(range("bytes=10-", 10), Asked::Beyond);
        assert_eq!(range("bytes=-0", 10), Asked::Beyond);
        assert_eq!(range("bytes=5-3", 10), Asked::All);
        assert_eq!(range("bytes=1-2,4-5", 10), Asked::All);
        assert_eq!(range("lines=1-2", 10), Asked::All);
    }

    struct Pieces<'a>(&'a [u8], usize);
    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }
}
