//! Messages and the names of subjects.

use std::fmt;
use std::str;

use bytes::Bytes;

use crate::error::Error;
use crate::headers::{Headers, Status};

/// UTF-8 in a part of a shared buffer.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(Bytes);

impl Text {
    /// Returns the bytes as text if they are UTF-8.
    pub(crate) fn checked(bytes: Bytes) -> Option<Text> {
        // Nearly all subjects are visible ASCII, which is quicker to check.
        let is_text = bytes.iter().all(u8::is_ascii_graphic) || str::from_utf8(&bytes).is_ok();
        is_text.then_some(Text(bytes))
    }

    /// Wraps text of the program itself.
    pub(crate) fn fixed(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// A message, received or about to be sent. A clone shares the payload.
///
/// # Examples
/// ```
/// let message = ecru_nats::Message::new("orders.new", "one loaf")
///     .with_header("Trace", "5a")?
///     .with_reply("answers");
/// assert_eq!(message.subject(), "orders.new");
/// assert_eq!(&message.payload()[..], b"one loaf");
/// # Ok::<(), ecru_nats::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) subject: Text,
    pub(crate) reply: Option<Text>,
    pub(crate) status: Option<Status>,
    pub(crate) headers: Headers,
    pub(crate) payload: Bytes,
}

impl Message {
    /// Creates a message. The subject is checked when the message is sent.
    #[must_use]
    pub fn new(subject: &str, payload: impl Into<Bytes>) -> Message {
        Message::to(subject.into(), payload.into())
    }

    /// Creates a message whose subject is shared.
    pub(crate) fn to(subject: Text, payload: Bytes) -> Message {
        Message { subject, reply: None, status: None, headers: Headers::new(), payload }
    }

    /// Adds a header.
    ///
    /// # Errors
    /// Returns the errors of [`Headers::append`].
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Message, Error> {
        self.headers.append(name, value)?;
        Ok(self)
    }

    /// Sets the subject on which an answer is expected.
    #[must_use]
    pub fn with_reply(mut self, reply: &str) -> Message {
        self.reply = Some(reply.into());
        self
    }

    /// Returns the subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.subject.as_str()
    }

    /// Returns the subject on which an answer is expected.
    #[must_use]
    pub fn reply(&self) -> Option<&str> {
        self.reply.as_ref().map(Text::as_str)
    }

    /// Returns the status, if the server sent one in place of a message.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the payload, without the rest.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.payload
    }

    /// Returns the bytes that count towards the server's limit.
    pub(crate) fn size(&self) -> usize {
        self.headers.wire_len() + self.payload.len()
    }
}

/// The payload is left out, because it may be long or confidential.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Message");
        shown.field("subject", &self.subject());
        if let Some(reply) = self.reply() {
            shown.field("reply", &reply);
        }
        if let Some(status) = &self.status {
            shown.field("status", status);
        }
        shown.field("payload", &format_args!("{} bytes", self.payload.len())).finish()
    }
}

/// The longest subject. A server's control line has room for 4096 bytes by default.
const MAX_SUBJECT: usize = 1024;

/// Returns whether a subject is the usual kind: tokens of visible ASCII, and no wildcards. Every
/// message is checked, so this is one pass over bytes.
fn is_plain(subject: &str) -> bool {
    let mut last = b'.';
    for byte in subject.bytes() {
        let is_empty_token = byte == b'.' && last == b'.';
        if !byte.is_ascii_graphic() || matches!(byte, b'*' | b'>') || is_empty_token {
            return false;
        }
        last = byte;
    }
    last != b'.' && subject.len() <= MAX_SUBJECT
}

/// Checks a subject for publishing: no wildcards.
pub(crate) fn check_subject(subject: &str) -> Result<(), Error> {
    if is_plain(subject) {
        return Ok(());
    }
    check_pattern(subject)?;
    if subject.split('.').any(|token| token == "*" || token == ">") {
        let text = format!("the subject {subject:?} has a wildcard; only subscriptions may");
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// Checks a subject for subscribing.
pub(crate) fn check_pattern(subject: &str) -> Result<(), Error> {
    if is_plain(subject) {
        return Ok(());
    }
    let why = if subject.is_empty() {
        "it is empty"
    } else if subject.len() > MAX_SUBJECT {
        "it is longer than 1024 bytes"
    } else if subject.chars().any(|c| c.is_whitespace() || c.is_control()) {
        "it contains white space or a control character"
    } else if subject.split('.').any(str::is_empty) {
        "it has an empty token: two dots in a row, or one at an end"
    } else if subject.split('.').rev().skip(1).any(|token| token == ">") {
        "`>` is not its last token"
    } else {
        return Ok(());
    };
    let shown: String = subject.chars().take(80).collect();
    Err(Error::invalid(format!("the subject {shown:?} is malformed: {why}")))
}

/// Checks the name of a stream, consumer, bucket or queue group, which becomes a token of a
/// subject.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let is_bad =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '*' | '>' | '/' | '\\');
    if name.is_empty() || name.len() > 255 || name.chars().any(is_bad) {
        let shown: String = name.chars().take(80).collect();
        return Err(Error::invalid(format!(
            "the name {shown:?} of a {what} is malformed; use letters, digits, `-` and `_`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_SUBJECT, check_pattern, check_subject, is_plain};

    #[test]
    fn subjects() {
        let longest = "s".repeat(MAX_SUBJECT);
        for good in ["a", "a.b", "$JS.ACK.S.C.1.20.3.4.5", "a-b_c.d=", &longest] {
            assert!(is_plain(good) && check_subject(good).is_ok(), "{good}");
        }
        // Not plain, but good: one has wildcards, the others are not ASCII or have a star in a token.
        for good in ["größe.ß", "a*.b", ">a"] {
            assert!(!is_plain(good) && check_subject(good).is_ok(), "{good}");
        }
        for pattern in ["*", "a.*.b", "a.>", ">"] {
            assert!(check_pattern(pattern).is_ok() && check_subject(pattern).is_err(), "{pattern}");
        }
        let too_long = "s".repeat(MAX_SUBJECT + 1);
        for bad in
            ["", ".", ".a", "a.", "a..b", "a b", "a\r\nPUB", "a\t", "a\u{a0}b", "a.>.b", &too_long]
        {
            assert!(!is_plain(bad) && check_pattern(bad).is_err(), "{bad:?}");
            assert!(check_subject(bad).is_err(), "{bad:?}");
        }
    }
}
