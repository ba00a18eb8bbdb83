//! The protocol's text: what a server sends is parsed, and what a client sends is written.
//!
//! The parser keeps what has arrived of an unfinished frame, and nothing else. A line is at most
//! [`MAX_LINE`] bytes long, and a message at most as long as the user allows, so a server cannot
//! make the buffer grow beyond that.

use std::fmt;
use std::ops::Range;
use std::str;

use bytes::{Buf, Bytes, BytesMut};

use crate::error::tame;
use crate::headers::{Headers, Status};
use crate::message::{Message, Text};
use crate::server::ServerInfo;

/// The longest line that is accepted from a server. The longest lines are `INFO` of large clusters.
pub(crate) const MAX_LINE: usize = 64 * 1024;

/// Frames below this size are copied out of the read buffer, so that a message that is kept does
/// not keep the whole buffer.
const COPIED: usize = 16 * 1024;

/// One protocol message of the server.
#[derive(Debug)]
pub(crate) enum Frame {
    Info(Box<ServerInfo>),
    Message(u64, Message),
    Ping,
    Pong,
    Ok,
    Error(String),
}

/// What a server sent is not NATS.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    LineTooLong,
    UnknownVerb,
    Arguments(&'static str),
    NotUtf8,
    Info(String),
    MessageTooLong { length: usize, limit: usize },
    Unterminated,
    Headers(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::LineTooLong => write!(f, "a line is longer than {MAX_LINE} bytes"),
            WireError::UnknownVerb => f.write_str("a line begins with an unknown verb"),
            WireError::Arguments(verb) => write!(f, "the arguments of {verb} are malformed"),
            WireError::NotUtf8 => f.write_str("a line is not UTF-8"),
            WireError::Info(why) => write!(f, "the server's INFO is malformed: {why}"),
            WireError::MessageTooLong { length, limit } => write!(
                f,
                "a message of {length} bytes is longer than the limit of {limit}; raise it by \
                 `Options::max_message_size`"
            ),
            WireError::Unterminated => f.write_str("a message does not end where its length says"),
            WireError::Headers(why) => write!(f, "a message's headers are malformed: {why}"),
        }
    }
}

/// The parsed first line of a message whose body has not arrived.
#[derive(Debug)]
struct Head {
    sid: u64,
    subject: Range<usize>,
    reply: Option<Range<usize>>,
    /// The length of the line, with its end.
    line: usize,
    headers: usize,
    /// The length of headers and payload.
    total: usize,
}

/// The parser of what a server sends.
#[derive(Debug)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    /// How much of the buffer has no end of a line.
    scanned: usize,
    head: Option<Head>,
    max_message: usize,
}

impl Decoder {
    pub(crate) fn new(max_message: usize) -> Decoder {
        Decoder { buffer: BytesMut::new(), scanned: 0, head: None, max_message }
    }

    /// Appends what was read. The caller takes all frames before it reads again.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns whether there are bytes of a frame that is not complete, or has not been taken.
    pub(crate) fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns how many bytes are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the next frame that is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, WireError> {
        if self.head.is_none() {
            let Some(end) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n')
            else {
                self.scanned = self.buffer.len();
                let too_long = self.scanned > MAX_LINE;
                return if too_long { Err(WireError::LineTooLong) } else { Ok(None) };
            };
            let length = self.scanned + end + 1;
            if length > MAX_LINE {
                return Err(WireError::LineTooLong);
            }
            self.scanned = 0;
            let line = &self.buffer[..length];
            match parse_line(line)? {
                Line::Frame(frame) => {
                    self.buffer.advance(length);
                    return Ok(Some(frame));
                }
                Line::Head(head) => {
                    if head.total > self.max_message {
                        let (length, limit) = (head.total, self.max_message);
                        return Err(WireError::MessageTooLong { length, limit });
                    }
                    self.head = Some(head);
                }
            }
        }
        self.body()
    }

    /// Returns the message whose head has been parsed, if its body is complete.
    fn body(&mut self) -> Result<Option<Frame>, WireError> {
        let Some(head) = self.head.take_if(|head| self.buffer.len() >= head.line + head.total + 2)
        else {
            return Ok(None);
        };
        let length = head.line + head.total + 2;
        let frame = if length < COPIED {
            let copy = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            copy
        } else {
            self.buffer.split_to(length).freeze()
        };
        if frame[length - 2..] != *b"\r\n" {
            return Err(WireError::Unterminated);
        }
        let body = head.line + head.headers;
        let (status, headers) = if head.headers == 0 {
            (None, Headers::new())
        } else {
            parse_headers(&frame.slice(head.line..body))?
        };
        let message = Message {
            subject: subject(&frame, head.subject)?,
            reply: head.reply.map(|reply| subject(&frame, reply)).transpose()?,
            status,
            headers,
            payload: frame.slice(body..length - 2),
        };
        Ok(Some(Frame::Message(head.sid, message)))
    }
}

/// Reads a subject. Control characters are refused, because a program may publish to it.
fn subject(frame: &Bytes, range: Range<usize>) -> Result<Text, WireError> {
    if frame[range.clone()].iter().any(u8::is_ascii_control) {
        return Err(WireError::Arguments("MSG"));
    }
    Text::checked(frame.slice(range)).ok_or(WireError::NotUtf8)
}

enum Line {
    Frame(Frame),
    Head(Head),
}

fn parse_line(line: &[u8]) -> Result<Line, WireError> {
    let content = line.strip_suffix(b"\n").unwrap_or(line);
    let content = content.strip_suffix(b"\r").unwrap_or(content);
    let verb = content.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let rest = || {
        let rest = str::from_utf8(&content[verb.len()..]).map_err(|_| WireError::NotUtf8)?;
        Ok(rest.trim())
    };
    Ok(Line::Frame(match verb {
        b"MSG" => return parse_head(content, line.len(), false).map(Line::Head),
        b"HMSG" => return parse_head(content, line.len(), true).map(Line::Head),
        b"PING" => Frame::Ping,
        b"PONG" => Frame::Pong,
        b"+OK" => Frame::Ok,
        b"-ERR" => Frame::Error(rest()?.trim_matches('\'').to_owned()),
        b"INFO" => {
            let info = serde_json::from_str(rest()?);
            Frame::Info(info.map_err(|error| WireError::Info(tame(&error.to_string())))?)
        }
        _ => return Err(WireError::UnknownVerb),
    }))
}

/// Parses `MSG subject sid [reply] length` or `HMSG subject sid [reply] headers length`.
fn parse_head(content: &[u8], line: usize, has_headers: bool) -> Result<Head, WireError> {
    let malformed = WireError::Arguments(if has_headers { "HMSG" } else { "MSG" });
    let mut words: [Range<usize>; 6] = Default::default();
    let mut count = 0;
    let mut at = 0;
    for word in content.split(|byte| *byte == b' ' || *byte == b'\t') {
        if !word.is_empty() {
            *words.get_mut(count).ok_or(WireError::Arguments("MSG"))? = at..at + word.len();
            count += 1;
        }
        at += word.len() + 1;
    }
    let lengths = 1 + usize::from(has_headers);
    let reply = match count.checked_sub(3 + lengths) {
        Some(0) => None,
        Some(1) => Some(words[3].clone()),
        _ => return Err(malformed),
    };
    let number = |word: &Range<usize>| number(&content[word.clone()]);
    let Some(sid) = number(&words[2]) else { return Err(malformed) };
    let length = |word: &Range<usize>| number(word).and_then(|n| usize::try_from(n).ok());
    let Some(total) = length(&words[count - 1]) else { return Err(malformed) };
    let headers = if has_headers { length(&words[count - 2]) } else { Some(0) };
    match headers {
        Some(headers) if headers <= total => {
            Ok(Head { sid, subject: words[1].clone(), reply, line, headers, total })
        }
        _ => Err(malformed),
    }
}

/// Reads a hexadecimal number as a client writes it: 16 digits, those above 9 in lower case.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.len() != 16 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

/// Reads a decimal number of at most 18 digits, which no addition of two of them overflows.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Parses `NATS/1.0[ status[ description]]`, the header lines and the empty line.
pub(crate) fn parse_headers(block: &Bytes) -> Result<(Option<Status>, Headers), WireError> {
    let version = b"NATS/1.0";
    if !block.starts_with(version) {
        return Err(WireError::Headers("they do not begin with NATS/1.0"));
    }
    if !block.ends_with(b"\r\n\r\n") {
        return Err(WireError::Headers("they do not end with an empty line"));
    }
    let end = block.windows(2).position(|two| two == b"\r\n").unwrap_or(block.len());
    let first = str::from_utf8(&block[version.len()..end]).map_err(|_| WireError::NotUtf8)?.trim();
    let status = match first.split_once(' ').unwrap_or((first, "")) {
        ("", _) => None,
        (code, description) => match (code.len(), code.parse()) {
            (3, Ok(code)) => Some(Status { code, description: description.trim().into() }),
            _ => return Err(WireError::Headers("the status is not a number of three digits")),
        },
    };
    if str::from_utf8(block).is_err() {
        return Err(WireError::NotUtf8);
    }
    let lines = block.slice(end + 2..block.len() - 2);
    Ok((status, Headers::of_lines(lines)))
}

/// Appends `PUB` or `HPUB`. The subjects have been checked.
pub(crate) fn write_publish(
    out: &mut Vec<u8>,
    subject: &[u8],
    reply: Option<&[u8]>,
    headers: &Headers,
    payload: &[u8],
) {
    out.extend_from_slice(if headers.is_empty() { b"PUB " } else { b"HPUB " });
    out.extend_from_slice(subject);
    if let Some(reply) = reply {
        out.push(b' ');
        out.extend_from_slice(reply);
    }
    if headers.is_empty() {
        write_number(out, payload.len());
    } else {
        write_number(out, headers.wire_len());
        write_number(out, headers.wire_len() + payload.len());
    }
    out.extend_from_slice(b"\r\n");
    if !headers.is_empty() {
        headers.write(out);
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends `SUB`. The names have been checked.
pub(crate) fn write_subscribe(out: &mut Vec<u8>, subject: &str, queue: Option<&str>, sid: u64) {
    out.extend_from_slice(b"SUB ");
    out.extend_from_slice(subject.as_bytes());
    if let Some(queue) = queue {
        out.push(b' ');
        out.extend_from_slice(queue.as_bytes());
    }
    out.extend_from_slice(format!(" {sid}\r\n").as_bytes());
}

/// Appends `UNSUB`.
pub(crate) fn write_unsubscribe(out: &mut Vec<u8>, sid: u64) {
    out.extend_from_slice(format!("UNSUB {sid}\r\n").as_bytes());
}

/// Appends a space and a decimal number, without an allocation.
fn write_number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(b' ');
    out.extend_from_slice(&digits[at..]);
}
