//! Settings from the environment.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The settings of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: String,
    /// The settings of TLS, or none.
    pub tls: Option<Arc<ServerConfig>>,
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

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: "127.0.0.1:8080".into(),
            tls: None,
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
        let tls = match (text("CERTIFICATE"), text("KEY")) {
            (Some(certificate), Some(key)) => Some(tls(&certificate, &key)?),
            (None, None) => None,
            _ => return Err(bad("SERVICE_CERTIFICATE and SERVICE_KEY are set together")),
        };
        Ok(Config {
            listen: text("LISTEN").unwrap_or(default.listen),
            tls,
            connections: number("CONNECTIONS")?.unwrap_or(default.connections),
            request: number("REQUEST_S")?.map_or(default.request, Duration::from_secs),
            grace: number("GRACE_S")?.map_or(default.grace, Duration::from_secs),
            // The listener ends with the process.
            refuses_late: true,
        })
    }
}

fn text(name: &str) -> Option<String> {
    std::env::var(format!("SERVICE_{name}")).ok()
}

fn number<N: FromStr>(name: &str) -> io::Result<Option<N>> {
    let parse = |text: String| {
        text.parse().map_err(|_| bad(format!("SERVICE_{name} is `{text}`, which is no number")))
    };
    text(name).map(parse).transpose()
}

fn bad(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// Reads a chain of certificates and its key.
fn tls(certificate: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| bad(format!("{certificate}: {error}")))?;
    let key_der = PrivateKeyDer::from_pem_file(key);
    let key_der = key_der.map_err(|error| bad(format!("{key}: {error}")))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key_der);
    Ok(Arc::new(config.map_err(|error| bad(format!("{certificate}: {error}")))?))
}
