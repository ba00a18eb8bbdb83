//! The headers and the status of a message.

use std::fmt;
use std::str;

use bytes::Bytes;

use crate::error::Error;

/// The headers of a message: pairs of a name and a value, in order. A name may occur several times.
/// Names are compared with their case.
///
/// # Examples
/// ```
/// let mut headers = ecru_nats::Headers::new();
/// headers.append("Trace", "5a")?;
/// assert_eq!(headers.get("Trace"), Some("5a"));
/// assert!(headers.append("a name", "").is_err());
/// # Ok::<(), ecru_nats::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    /// `Name: value\r\n`, once for each header. It is UTF-8.
    lines: Bytes,
}

const FIRST: &[u8] = b"NATS/1.0\r\n";

impl Headers {
    /// Creates headers without any.
    #[must_use]
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Wraps lines that were received. They are UTF-8.
    pub(crate) fn of_lines(lines: Bytes) -> Headers {
        Headers { lines }
    }

    /// Adds a header.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is empty or has a
    /// character other than the visible ones of ASCII without the colon, or if the value contains
    /// the end of a line.
    pub fn append(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
            let shown: String = name.chars().take(80).collect();
            return Err(Error::invalid(format!(
                "the header name {shown:?} is malformed; use letters, digits and hyphens"
            )));
        }
        if value.contains(['\r', '\n', '\0']) {
            return Err(Error::invalid(format!(
                "the value of the header {name:.80} contains the end of a line; remove or encode it"
            )));
        }
        let mut lines = Vec::with_capacity(self.lines.len() + name.len() + value.len() + 4);
        lines.extend_from_slice(&self.lines);
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.trim().as_bytes());
        lines.extend_from_slice(b"\r\n");
        self.lines = lines.into();
        Ok(())
    }

    /// Returns the first value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Returns an iterator over the names and values. Lines without a colon are left out.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = str::from_utf8(&self.lines).unwrap_or_default();
        lines.split("\r\n").filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.trim()))
        })
    }

    /// Returns whether there is no header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the number of bytes that the headers take on the wire.
    pub(crate) fn wire_len(&self) -> usize {
        if self.is_empty() { 0 } else { FIRST.len() + self.lines.len() + 2 }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(FIRST);
        out.extend_from_slice(&self.lines);
        out.extend_from_slice(b"\r\n");
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The status that a server sends in place of a message, for instance `503`: no responders.
///
/// # Examples
/// ```
/// use ecru_nats::{Client, Error};
///
/// /// Returns whether a service has answered. The server answers 503 if there is none.
/// fn is_there(client: &Client, service: &str) -> Result<bool, Error> {
///     let answers = client.request_many(service, "")?;
///     let refuses = |status: &ecru_nats::Status| status.code() == 503;
///     Ok(answers.recv().is_ok_and(|answer| !answer.status().is_some_and(refuses)))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub(crate) code: u16,
    pub(crate) description: Box<str>,
}

impl Status {
    /// Returns the number, which has three digits.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns the server's words, which may be empty.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}
