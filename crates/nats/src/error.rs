//! The error of every call.

use std::error;
use std::fmt;
use std::io;
use std::path::Path;

use ecru::{Cancelled, Elapsed};

/// What kind of failure an [`Error`] is.
///
/// # Examples
/// ```
/// use ecru_nats::{Client, Error, ErrorKind};
///
/// /// Returns `None` if there is no such service.
/// fn ask(client: &Client, service: &str) -> Result<Option<usize>, Error> {
///     match client.request(service, "")?.get() {
///         Ok(answer) => Ok(Some(answer.payload().len())),
///         Err(error) if error.kind() == ErrorKind::NoResponders => Ok(None),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is malformed: a URL, a subject, a header, a credential. Nothing was sent.
    InvalidInput,
    /// The message is larger than the server accepts. Nothing was sent.
    TooLarge,
    /// No server could be reached.
    Connect,
    /// The server's TLS is missing or its certificate is not trusted.
    Tls,
    /// The server refused the credentials, or does not permit the user to publish to the subject of a
    /// request. A request that was refused was not processed.
    Authorization,
    /// The server sent something that is not NATS.
    Protocol,
    /// The connection was lost after the request was sent, so it may have been processed.
    Disconnected,
    /// No answer came in time. The request may have been processed.
    TimedOut,
    /// Nothing subscribes to the subject of a request, so it was not processed.
    NoResponders,
    /// JetStream refused the operation. [`Error::code`] has its number.
    JetStream,
    /// The wait was cancelled. What had been sent may have been processed.
    Cancelled,
    /// The client has ended, by [`Client::close`](crate::Client::close) or with its scope.
    Closed,
}

/// The error of the calls of this crate. Its text names the server, the stream or the subject, and
/// what to do. It never contains a password, a token, a key or a payload.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    server: Option<String>,
    code: Option<u32>,
    description: Option<String>,
    cancelled: Option<Cancelled>,
    unknown: bool,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        let unknown = matches!(kind, ErrorKind::Disconnected | ErrorKind::TimedOut);
        Error(Box::new(Inner {
            kind,
            text: text.into(),
            server: None,
            code: None,
            description: None,
            cancelled: None,
            unknown,
            source: None,
        }))
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidInput, text)
    }

    pub(crate) fn closed() -> Error {
        Error::new(
            ErrorKind::Closed,
            "the client has ended, by `close` or with its scope; connect again",
        )
    }

    pub(crate) fn at(mut self, server: &str) -> Error {
        self.0.server.get_or_insert_with(|| server.to_owned());
        self
    }

    /// Names the file whose contents the text is about.
    pub(crate) fn in_file(mut self, path: &Path) -> Error {
        self.0.text = format!("the file {}: {}", path.display(), self.0.text);
        self
    }

    pub(crate) fn with_code(mut self, code: u32, description: &str) -> Error {
        self.0.code = Some(code);
        self.with_words(description)
    }

    pub(crate) fn with_words(mut self, words: &str) -> Error {
        self.0.description = Some(words.to_owned());
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Marks the error of a request that was sent before the wait for its answer was cancelled.
    pub(crate) fn after_sending(mut self) -> Error {
        self.0.unknown = true;
        self
    }

    /// Marks the error of a request that has no effect without a later one.
    pub(crate) fn without_effect(mut self) -> Error {
        self.0.unknown = false;
        self
    }

    /// An error of a socket, which may be a cancellation or the end of a time limit.
    pub(crate) fn io(kind: ErrorKind, what: &str, error: io::Error) -> Error {
        match Cancelled::find(&error) {
            Some(cancelled) => cancelled.into(),
            None => Error::new(kind, format!("{what}: {error}")).with_source(error),
        }
    }

    /// Returns what kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the address of the server that is concerned, as `host:port`.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Returns JetStream's number for the error (`err_code`), for instance 10059: stream not found.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        self.0.code
    }

    /// Returns the server's own words for an error of JetStream or of permissions. Some codes stand for several errors, which only
    /// the words tell apart. For instance, 10077 stands for each limit of a stream.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Returns the cancellation, if the wait was cancelled.
    #[must_use]
    pub fn cancelled(&self) -> Option<Cancelled> {
        self.0.cancelled
    }

    /// Returns whether the request may have been processed although there is no answer. If so,
    /// repeat it only if processing it twice does no harm, for instance because it has a message
    /// id.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)?;
        if let Some(code) = self.0.code {
            write!(f, " (error {code})")?;
        }
        match &self.0.server {
            Some(server) => write!(f, " [server {server}]"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        let cancelled = self.0.cancelled.as_ref().map(|cancelled| cancelled as _);
        self.0.source.as_deref().map(|source| source as _).or(cancelled)
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Error {
        let mut error = Error::new(ErrorKind::Cancelled, cancelled.to_string());
        error.0.cancelled = Some(cancelled);
        error
    }
}

impl From<Elapsed> for Error {
    fn from(elapsed: Elapsed) -> Error {
        Error::new(ErrorKind::TimedOut, elapsed.to_string())
    }
}

/// Returns std's kind of an error of JetStream.
fn of_jetstream(error: &Error) -> io::ErrorKind {
    let is_limit = || error.description().is_some_and(|words| words.contains("maximum"));
    match error.code() {
        Some(10002 | 10023 | 10028 | 10047) => io::ErrorKind::StorageFull,
        Some(10026 | 10027) => io::ErrorKind::QuotaExceeded,
        // Each failure to store has this code. That of a limit says which maximum is exceeded.
        Some(10077) if is_limit() => io::ErrorKind::QuotaExceeded,
        Some(10077) => io::ErrorKind::StorageFull,
        Some(10014 | 10037 | 10057 | 10059 | 10149) => io::ErrorKind::NotFound,
        Some(10013 | 10058 | 10148) => io::ErrorKind::AlreadyExists,
        Some(10008) => io::ErrorKind::ResourceBusy,
        Some(10039 | 10076) => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    }
}

/// The most characters of a peer's words in an error or an event.
const MAX_WORDS: usize = 300;

/// Returns a peer's words for people: cut, and with control characters escaped, because they could
/// rule a terminal or forge lines of a log.
pub(crate) fn tame(words: &str) -> String {
    let mut shown = String::new();
    for c in words.chars().take(MAX_WORDS) {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    if words.chars().nth(MAX_WORDS).is_some() {
        shown.push_str("..");
    }
    shown
}

/// A cancellation is kept: [`Cancelled::find`] finds it in the error.
///
/// An error of JetStream has a kind of std's by its [code](Error::code):
///
/// | code | kind |
/// |---|---|
/// | 10002, 10023, 10028, 10047: no room in the account, in the cluster, in memory, in files; 10077, if a disk or a store is full | `StorageFull` |
/// | 10077, if a limit of a stream is reached; 10026, 10027: consumers, streams | `QuotaExceeded` |
/// | 10014, 10059, 10149: no such consumer, no such stream; 10037, 10057: no such message | `NotFound` |
/// | 10013, 10058, 10148: the name is taken by something with other settings | `AlreadyExists` |
/// | 10008: no leader at the moment | `ResourceBusy` |
/// | 10039, 10076: JetStream is not enabled | `Unsupported` |
/// | others | `Other` |
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        if let Some(cancelled) = error.0.cancelled {
            return cancelled.into();
        }
        let kind = match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::TooLarge => io::ErrorKind::InvalidInput,
            ErrorKind::Connect => io::ErrorKind::ConnectionRefused,
            ErrorKind::Tls | ErrorKind::Protocol => io::ErrorKind::InvalidData,
            ErrorKind::Authorization => io::ErrorKind::PermissionDenied,
            ErrorKind::Disconnected => io::ErrorKind::ConnectionReset,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::NoResponders => io::ErrorKind::NotFound,
            ErrorKind::Closed => io::ErrorKind::NotConnected,
            ErrorKind::JetStream => of_jetstream(&error),
            ErrorKind::Cancelled => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
