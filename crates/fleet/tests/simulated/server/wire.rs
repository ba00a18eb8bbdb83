//! The frames of the protocol: what a client sends is read, and what a server sends is written.

use std::io::{self, BufRead, Read};

/// A message, with the block of its headers as it is on the wire, or without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) reply: Option<String>,
    pub(super) headers: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Message {
    pub(super) fn new(subject: &str, payload: impl Into<Vec<u8>>) -> Message {
        Message { subject: subject.to_owned(), payload: payload.into(), ..Message::default() }
    }

    /// Creates a message that is only a status, with headers after it.
    pub(super) fn status(subject: &str, status: &str, headers: &str) -> Message {
        let headers = format!("NATS/1.0 {status}\r\n{headers}\r\n").into_bytes();
        Message { headers, ..Message::new(subject, "") }
    }

    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = str::from_utf8(&self.headers).expect("the headers are UTF-8").lines();
        let mut headers = lines.filter_map(|line| line.split_once(": "));
        headers.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Appends the message as it goes to a subscription.
    pub(super) fn write(&self, sid: u64, out: &mut Vec<u8>) {
        let Message { subject, reply, headers, payload } = self;
        let reply = reply.as_ref().map(|reply| format!("{reply} ")).unwrap_or_default();
        let total = headers.len() + payload.len();
        let line = match headers.len() {
            0 => format!("MSG {subject} {sid} {reply}{total}\r\n"),
            length => format!("HMSG {subject} {sid} {reply}{length} {total}\r\n"),
        };
        for part in [line.as_bytes(), headers, payload, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

/// What a client says.
#[derive(Debug)]
pub(super) enum Frame {
    Connect,
    Ping,
    Pong,
    Subscribe { subject: String, sid: u64 },
    Unsubscribe { sid: u64 },
    Publish(Message),
}

/// Reads the next frame, or `None` at the end of the stream.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    Ok(Some(match *words {
        ["CONNECT", ..] => Frame::Connect,
        ["PING"] => Frame::Ping,
        ["PONG"] => Frame::Pong,
        ["SUB", subject, sid] => Frame::Subscribe { subject: subject.into(), sid: number(sid) },
        ["UNSUB", sid] => Frame::Unsubscribe { sid: number(sid) },
        ["PUB", subject, length] => publish(input, subject, None, 0, number(length))?,
        ["PUB", subject, reply, length] => publish(input, subject, Some(reply), 0, number(length))?,
        ["HPUB", subject, headers, total] => {
            publish(input, subject, None, number(headers), number(total))?
        }
        ["HPUB", subject, reply, headers, total] => {
            publish(input, subject, Some(reply), number(headers), number(total))?
        }
        _ => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, line)),
    }))
}

/// Reads a number. A line that was cut off with its connection has none.
fn number<T: std::str::FromStr + Default>(word: &str) -> T {
    word.parse().unwrap_or_default()
}

fn publish(
    input: &mut impl Read,
    subject: &str,
    reply: Option<&str>,
    headers: usize,
    total: usize,
) -> io::Result<Frame> {
    let mut body = vec![0; total + 2];
    input.read_exact(&mut body)?;
    body.truncate(total);
    let payload = body.split_off(headers);
    let (subject, reply) = (subject.to_owned(), reply.map(str::to_owned));
    Ok(Frame::Publish(Message { subject, reply, headers: body, payload }))
}
