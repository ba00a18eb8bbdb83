//! The settings of a connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ecru::sync::Semaphore;
use rustls::ClientConfig;

use crate::auth::{self, Login};
use crate::client::Client;
use crate::error::Error;
use crate::secret::Secret;
use crate::transport;
use ecru::Daemons;

/// The settings of a connection, before it is made.
///
/// # Examples
/// ```no_run
/// use ecru_nats::Options;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let client = Options::new().name("mill").token("hush").connect(s, "nats://a,nats://b")?;
///         client.publish("flour", "ground")
///     })
/// })
/// # .unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) name: Option<String>,
    pub(crate) login: Option<Login>,
    pub(crate) echo: bool,
    pub(crate) require_tls: bool,
    pub(crate) tls_first: bool,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) reconnect_delay: (Duration, Duration),
    pub(crate) max_reconnects: Option<u32>,
    pub(crate) flush_timeout: Duration,
    pub(crate) send_buffer: usize,
    pub(crate) max_message: usize,
    pub(crate) max_pending: usize,
}

/// The longest ping interval, because the system's time limits of sockets end somewhere.
const MAX_INTERVAL: Duration = Duration::from_secs(1 << 30);

impl Options {
    /// Creates the default settings: see the methods.
    #[must_use]
    pub fn new() -> Options {
        Options {
            name: None,
            login: None,
            echo: true,
            require_tls: false,
            tls_first: false,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(20),
            reconnect_delay: (Duration::from_millis(50), Duration::from_secs(4)),
            max_reconnects: None,
            flush_timeout: Duration::from_secs(2),
            send_buffer: 4 << 20,
            max_message: 8 << 20,
            max_pending: 256,
        }
    }

    /// Sets the name that the server's lists of connections show.
    #[must_use]
    pub fn name(mut self, name: &str) -> Options {
        self.name = Some(name.to_owned());
        self
    }

    /// Logs in with a user and a password. This takes precedence over the URL's.
    #[must_use]
    pub fn user(mut self, user: &str, password: &str) -> Options {
        self.login = Some(Login::User(user.to_owned(), Secret::new(password.to_owned())));
        self
    }

    /// Logs in with a token. This takes precedence over the URL's.
    #[must_use]
    pub fn token(mut self, token: &str) -> Options {
        self.login = Some(Login::Token(Secret::new(token.to_owned())));
        self
    }

    /// Logs in with an nkey, whose seed this is. The seed signs a text of the server's and is never
    /// sent.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the seed is malformed.
    pub fn nkey(mut self, seed: &str) -> Result<Options, Error> {
        self.login = Some(Login::Nkey(auth::key_pair(seed)?));
        Ok(self)
    }

    /// Logs in with the text of a credentials file, which has a JWT and the seed of its nkey.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the text is malformed.
    pub fn credentials(mut self, text: &str) -> Result<Options, Error> {
        self.login = Some(auth::credentials(text)?);
        Ok(self)
    }

    /// Logs in with a credentials file.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the file cannot be read or is
    /// malformed.
    pub fn credentials_file(self, path: impl AsRef<Path>) -> Result<Options, Error> {
        let path = path.as_ref();
        let text = ecru::fs::read_to_string(path).map_err(|error| {
            let text = format!("the credentials file {} cannot be read: {error}", path.display());
            Error::invalid(text).with_source(error)
        })?;
        self.credentials(&text).map_err(|error| error.in_file(path))
    }

    /// Logs in with an nkey, whose seed a file has.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the file cannot be read or the
    /// seed is malformed.
    pub fn nkey_file(self, path: impl AsRef<Path>) -> Result<Options, Error> {
        let path = path.as_ref();
        let text = ecru::fs::read_to_string(path).map_err(|error| {
            let text = format!("the file {} cannot be read: {error}", path.display());
            Error::invalid(text).with_source(error)
        })?;
        self.nkey(text.trim()).map_err(|error| error.in_file(path))
    }

    /// Requires TLS for all servers, as the scheme `tls` does for one. If a server does not offer
    /// it, the connection fails. By default TLS is used if the server requires it.
    #[must_use]
    pub fn require_tls(mut self, require: bool) -> Options {
        self.require_tls = require;
        self
    }

    /// Starts TLS before the server has said anything, for servers with `handshake_first`.
    #[must_use]
    pub fn tls_first(mut self, first: bool) -> Options {
        self.tls_first = first;
        self.require_tls |= first;
        self
    }

    /// Sets what TLS trusts and shows. By default the Web's authorities are trusted, and there is
    /// no client certificate.
    #[must_use]
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Options {
        self.tls = Some(config);
        self
    }

    /// Sets what TLS trusts and shows by files in the form of PEM: `authorities` has the certificates
    /// that are trusted instead of the Web's authorities, and `identity` names the file of the
    /// client's certificate and that of its key.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput), with the name of the file, if one
    /// cannot be read, is malformed or has no certificate, or if the key does not fit.
    pub fn tls_files(
        self,
        authorities: Option<&Path>,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Options, Error> {
        let config = transport::config_of_files(authorities, identity)?;
        Ok(self.tls_config(config))
    }

    /// Sets whether the client's own messages come back to its subscriptions. The default is true.
    #[must_use]
    pub fn echo(mut self, echo: bool) -> Options {
        self.echo = echo;
        self
    }

    /// Sets how long one attempt to connect may take, with the login. The default is 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Options {
        self.connect_timeout = limit;
        self
    }

    /// Sets how long a request waits for its answer. The default is 5 s.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Options {
        self.request_timeout = limit;
        self
    }

    /// Sets after how much silence the server is asked whether it is there. If it is silent for two
    /// more such periods, the connection counts as lost. The default is 20 s.
    ///
    /// # Panics
    /// Panics if the interval is zero.
    #[must_use]
    pub fn ping_interval(mut self, interval: Duration) -> Options {
        assert!(!interval.is_zero(), "the ping interval is zero; pass a positive one");
        self.ping_interval = interval.min(MAX_INTERVAL);
        self
    }

    /// Sets the pauses between rounds over all servers when a connection is lost. They double from
    /// `first`, at least 1 ms, to `longest`, and each is shortened by a random part of up to a half.
    /// There is no pause before the first round if the client had been connected for at least
    /// `longest`, or had never lost a connection. The default is 50 ms to 4 s.
    #[must_use]
    pub fn reconnect_delay(mut self, first: Duration, longest: Duration) -> Options {
        self.reconnect_delay = (first, longest.max(first));
        self
    }

    /// Sets after how many rounds over all servers a lost client ends. By default it never does.
    #[must_use]
    pub fn max_reconnects(mut self, rounds: u32) -> Options {
        self.max_reconnects = Some(rounds);
        self
    }

    /// Sets how long a client may take, when its scope ends, to send what has been published, and
    /// to wait until the server has received it. The default is 2 s.
    #[must_use]
    pub fn flush_timeout(mut self, limit: Duration) -> Options {
        self.flush_timeout = limit;
        self
    }

    /// Sets after how many unsent bytes `publish` waits. While the connection is lost, as much is
    /// kept for the next one. The default is 4 MiB.
    #[must_use]
    pub fn send_buffer(mut self, bytes: usize) -> Options {
        self.send_buffer = bytes.max(1);
        self
    }

    /// Sets how long a message of the server may be, headers and payload. A longer one ends the
    /// connection. The default is 8 MiB.
    #[must_use]
    pub fn max_message_size(mut self, bytes: usize) -> Options {
        // The largest that any server can be configured to accept.
        self.max_message = bytes.min(64 << 20);
        self
    }

    /// Sets how many messages may be published to streams without an answer so far. The default is
    /// 256.
    #[must_use]
    pub fn max_pending_acks(mut self, count: usize) -> Options {
        self.max_pending = count.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Connects to the first of the servers that accepts the client. `urls` is a comma-separated
    /// list like `nats://user:password@host:4222,tls://host`. The tasks of the connection are
    /// daemons of the scope `s`.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) for a malformed URL, and otherwise
    /// the error of the last server: [`Connect`](crate::ErrorKind::Connect),
    /// [`Tls`](crate::ErrorKind::Tls), [`Authorization`](crate::ErrorKind::Authorization) or
    /// [`Protocol`](crate::ErrorKind::Protocol).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled attempt leaves nothing behind.
    pub fn connect<'scope>(
        self,
        s: &'scope impl Daemons<'scope>,
        urls: &str,
    ) -> Result<Client, Error> {
        Client::connect_with(s, urls, self)
    }

    pub(crate) fn acks(&self) -> Semaphore {
        Semaphore::new(self.max_pending)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}
