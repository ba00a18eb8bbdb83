//! The HTTP client: `ureq`, unchanged, over ecru's sockets.
//!
//! - [`transport`] opens the sockets and moves the bytes.
//! - [`tls`] is rustls over it, and [`verify`] decides which certificates to trust.
//! - [`resolver`] looks up names on the blocking pool.
//! - [`watch`] notices what ureq hides: cut bodies, excess bytes, kept connections that are closed.
//!
//! A download borrows a [`Client`] from [`Clients`]. The next download from the same host can reuse
//! a connection that is kept alive, and a failure on it can still be attributed to one download.

mod resolver;
mod tls;
mod transport;
mod verify;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ureq::Agent;
use ureq::unversioned::transport::Connector as _;

pub(crate) use tls::Trust;
use watch::{Watch, WatchConnector};

/// The buffer for requests, which are short.
const OUTPUT_BUFFER: usize = 4 * 1024;

/// ureq's agent with its one idle connection, and the flags of its connections.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) agent: Agent,
    host: String,
    watch: Watch,
}

impl Client {
    /// Resets the flag for excess bytes on the connection.
    pub(crate) fn forget_excess(&self) {
        self.watch.forget_excess();
    }

    /// Returns whether the server has sent more than the announced body, as far as the bytes had
    /// arrived when the body ended.
    pub(crate) fn saw_excess(&self) -> bool {
        self.watch.saw_excess()
    }

    /// Returns whether a connection that was kept from an earlier request ended before anything of
    /// the response had arrived. Resets the flag.
    pub(crate) fn take_stale(&self) -> bool {
        self.watch.take_stale()
    }
}

/// Makes clients, and keeps the idle ones.
#[derive(Debug)]
pub(crate) struct Clients {
    timeout: Duration,
    input_buffer: usize,
    tls: Arc<rustls::ClientConfig>,
    most: usize,
    kept: Mutex<Kept>,
}

/// The clients that are not lent, and the number of all clients.
#[derive(Debug, Default)]
struct Kept {
    /// The client used last is at the end, because its connection is most likely still open.
    idle: Vec<Client>,
    all: usize,
}

impl Clients {
    /// Creates the clients. `timeout` limits connecting and every single read and write. Each
    /// connection reads in pieces of up to `input_buffer`. At most `most` clients are kept, each
    /// with one connection.
    pub(crate) fn new(
        timeout: Duration,
        trust: Trust<'_>,
        input_buffer: usize,
        most: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            timeout,
            input_buffer,
            tls: tls::configure(trust)?,
            most,
            kept: Mutex::default(),
        })
    }

    /// Lends a client to `body`, preferably one whose idle connection is to `host`.
    pub(crate) fn with<T>(&self, host: &str, body: impl FnOnce(&Client) -> T) -> T {
        let (found, given_up) = self.kept().take(host, self.most);
        // The connection is closed outside the lock.
        drop(given_up);
        let client = found.unwrap_or_else(|| self.make(host));
        let out = body(&client);
        self.kept().idle.push(client);
        out
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no code of ours panics under this lock")
    }

    fn make(&self, host: &str) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .input_buffer_size(self.input_buffer)
            .output_buffer_size(OUTPUT_BUFFER)
            .accept_encoding("identity")
            .user_agent(concat!("ecru-downloads/", env!("CARGO_PKG_VERSION")))
            .build();
        let watch = Watch::default();
        let connector =
            ().chain(transport::EcruConnector::new(watch.clone()))
                .chain(tls::TlsConnector(Arc::clone(&self.tls)))
                .chain(WatchConnector(watch.clone()));
        let agent = Agent::with_parts(config, connector, resolver::PoolResolver);
        Client { agent, host: host.to_string(), watch }
    }
}

impl Kept {
    /// Returns an idle client for `host`. If there is none, and the limit is reached, also returns
    /// an idle client that is given up for the new one.
    fn take(&mut self, host: &str, most: usize) -> (Option<Client>, Option<Client>) {
        if let Some(at) = self.idle.iter().rposition(|client| client.host == host) {
            return (Some(self.idle.remove(at)), None);
        }
        if self.all >= most && !self.idle.is_empty() {
            return (None, Some(self.idle.remove(0)));
        }
        self.all += 1;
        (None, None)
    }
}
