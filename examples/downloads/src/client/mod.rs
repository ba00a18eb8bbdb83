//! The HTTP client: `ureq`, unchanged, over ecru's sockets.
//!
//! - [`transport`] opens the sockets and moves the bytes; TLS is ureq's own rustls connector chained over it.
//! - [`resolver`] looks names up on the blocking pool.
//! - [`excess`] notices a server that sends more than it announced.
//!
//! A [`Client`] is borrowed from [`Clients`] for the length of one download. So a connection that is kept alive is used
//! again by the next download, while what goes wrong on it is still known to belong to one download.

mod excess;
mod resolver;
mod transport;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector as _, RustlsConnector};

use excess::{Excess, WatchExcess};

/// A head longer than a few KiB is unheard of, and a body passes through in pieces: small buffers keep a thousand
/// connections cheap.
const INPUT_BUFFER: usize = 16 * 1024;
const OUTPUT_BUFFER: usize = 4 * 1024;

/// ureq's agent with its one idle connection, and what was seen on it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) agent: Agent,
    excess: Excess,
}

impl Client {
    /// Forgets what was seen on the connection so far.
    pub(crate) fn forget_excess(&self) {
        self.excess.forget();
    }

    /// Whether the server has sent more than the body it announced, as far as that had arrived when the body ended.
    pub(crate) fn saw_excess(&self) -> bool {
        self.excess.seen()
    }
}

/// Makes clients, and keeps the idle ones.
#[derive(Debug)]
pub(crate) struct Clients {
    timeout: Duration,
    tls: TlsConfig,
    rustls: Arc<RustlsConnector>,
    /// The one used last comes first: its connection is the likeliest to be open still.
    idle: Mutex<Vec<Client>>,
}

impl Clients {
    /// `timeout` limits connecting and every single read and write; `ca` replaces the Web's roots.
    pub(crate) fn new(timeout: Duration, ca: Option<&Path>) -> anyhow::Result<Self> {
        let roots = match ca {
            Some(file) => certificates(file).with_context(|| format!("--ca {}", file.display()))?,
            None => RootCerts::WebPki,
        };
        let tls = TlsConfig::builder().root_certs(roots).build();
        Ok(Self { timeout, tls, rustls: Arc::default(), idle: Mutex::default() })
    }

    /// Lends a client to `body`.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&Client) -> T) -> T {
        let idle = self.idle.lock().expect("no code of ours panics under this lock").pop();
        let client = idle.unwrap_or_else(|| self.make());
        let out = body(&client);
        self.idle.lock().expect("no code of ours panics under this lock").push(client);
        out
    }

    fn make(&self) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects_will_error(true)
            .proxy(None)
            .timeout_connect(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .input_buffer_size(INPUT_BUFFER)
            .output_buffer_size(OUTPUT_BUFFER)
            .accept_encoding("identity")
            .user_agent(concat!("ecru-downloads/", env!("CARGO_PKG_VERSION")))
            .tls_config(self.tls.clone())
            .build();
        let excess = Excess::default();
        let connector =
            ().chain(transport::EcruConnector::new(excess.clone()))
                .chain(transport::Shared(Arc::clone(&self.rustls)))
                .chain(WatchExcess(excess.clone()));
        Client { agent: Agent::with_parts(config, connector, resolver::PoolResolver), excess }
    }
}

fn certificates(file: &Path) -> anyhow::Result<RootCerts> {
    let text = std::fs::read(file).context("cannot read it; name a file of PEM certificates")?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let ureq::tls::PemItem::Certificate(certificate) = item.context("it is not PEM")? {
            found.push(Certificate::to_owned(&certificate));
        }
    }
    anyhow::ensure!(
        !found.is_empty(),
        "there is no certificate in it; it must hold `-----BEGIN CERTIFICATE-----`"
    );
    Ok(RootCerts::new_with_certs(&found))
}
