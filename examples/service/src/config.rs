//! Settings from the environment.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The settings of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: String,
    /// The URL of the PostgreSQL.
    pub database: String,
    /// The settings of TLS, or none.
    pub tls: Option<Arc<ServerConfig>>,
    /// What is told of new notes.
    pub hook: Option<Hook>,
    /// How many connections may be open.
    pub connections: usize,
    /// How long a request may take.
    pub request: Duration,
    /// How long requests may take after the stop.
    pub grace: Duration,
    /// Whether clients are refused after the stop. Otherwise they wait for the next server on the
    /// listener.
    pub refuses_late: bool,
}

/// A server that is told of new notes.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Where to post them.
    pub url: String,
    /// Whom to trust.
    pub tls: Arc<ClientConfig>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: "127.0.0.1:8080".into(),
            database: "postgres://postgres@127.0.0.1/postgres".into(),
            tls: None,
            hook: None,
            connections: 10_000,
            request: Duration::from_secs(10),
            grace: Duration::from_secs(20),
            refuses_late: false,
        }
    }
}

impl Config {
    /// Reads the settings that begin with `SERVICE_`. What is not set has its default.
    ///
    /// # Errors
    /// Returns an error that names the setting, if one cannot be used.
    pub fn from_env() -> io::Result<Config> {
        let default = Config::default();
        Ok(Config {
            listen: setting("LISTEN", default.listen)?,
            database: setting("DATABASE", default.database)?,
            tls: both("CERTIFICATE", "KEY", tls)?,
            hook: both("HOOK", "HOOK_ROOTS", |url, roots| {
                Ok(Hook { url: url.into(), tls: trusting(roots)? })
            })?,
            connections: setting("CONNECTIONS", default.connections)?,
            request: Duration::from_secs(setting("REQUEST_S", default.request.as_secs())?),
            grace: Duration::from_secs(setting("GRACE_S", default.grace.as_secs())?),
            // The listener ends with the process.
            refuses_late: true,
        })
    }
}

fn text(name: &str) -> Option<String> {
    std::env::var(format!("SERVICE_{name}")).ok()
}

fn setting<T: FromStr>(name: &str, default: T) -> io::Result<T> {
    let Some(text) = text(name) else { return Ok(default) };
    text.parse().map_err(|_| bad(format!("SERVICE_{name} cannot be `{text}`")))
}

/// Makes a setting of two that belong together.
fn both<T>(
    first: &str,
    second: &str,
    make: impl FnOnce(&str, &str) -> io::Result<T>,
) -> io::Result<Option<T>> {
    match (text(first), text(second)) {
        (Some(one), Some(other)) => make(&one, &other).map(Some),
        (None, None) => Ok(None),
        _ => Err(bad(format!("SERVICE_{first} and SERVICE_{second} are set together"))),
    }
}

fn bad(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// Reads a chain of certificates and its key.
fn tls(certificate: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let key_der = PrivateKeyDer::from_pem_file(key);
    let key_der = key_der.map_err(|error| bad(format!("{key}: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, key_der);
    Ok(Arc::new(config.map_err(|error| bad(format!("{certificate}: {error}")))?))
}

/// Reads the certificates that a client trusts.
fn trusting(roots: &str) -> io::Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates(roots)?);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates(path: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    all.map_err(|error| bad(format!("{path}: {error}")))
}
