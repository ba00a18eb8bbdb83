//! Settings from the environment.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ecru::net::TcpListener;
use ecru_hyper::{client_tls, server_tls};
use ecru_postgres::tokio_postgres::Config as Database;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ServerConfig};

/// The settings of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: String,
    /// The PostgreSQL.
    pub database: Database,
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
    /// Whether clients are refused after the stop, because the listener ends with the process.
    /// Otherwise they wait for the next server on the listener.
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

impl Config {
    /// Reads the settings, whose names begin with `SERVICE_`, for instance from
    /// [`std::env::var_os`]. What is not set has its default.
    ///
    /// # Errors
    /// Returns an error that names the setting or the file, if one cannot be used.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> io::Result<Config> {
        let text = |name: &str| {
            let text = variable(&format!("SERVICE_{name}")).map(OsString::into_string);
            text.transpose().map_err(|_| bad(name, "the value is not Unicode"))
        };
        let or = |name: &str, default: &str| text(name).map(|text| text.unwrap_or(default.into()));
        // Two settings that belong together.
        let both = |first: &str, other: &str| match (text(first)?, text(other)?) {
            (Some(one), Some(two)) => Ok(Some((one, two))),
            (None, None) => Ok(None),
            _ => Err(bad(first, format!("SERVICE_{other} has to be set together with it"))),
        };
        let positive = |name: &str, default: u32| {
            let Some(text) = text(name)? else { return Ok(default) };
            let number = text.parse().map(NonZeroU32::get);
            number.map_err(|error| bad(name, format!("`{text}`: {error}")))
        };
        let url = or("DATABASE", "postgres://postgres@127.0.0.1/postgres")?;
        Ok(Config {
            listen: or("LISTEN", "127.0.0.1:8080")?,
            // The text may have a password, so it is not part of the error.
            database: url.parse().map_err(|error| bad("DATABASE", error))?,
            tls: match both("CERTIFICATE", "KEY")? {
                Some((chain, key)) => Some(server_tls(default_provider(), chain, key)?),
                None => None,
            },
            hook: match both("HOOK", "HOOK_ROOTS")? {
                Some((url, ca)) => Some(Hook { url, tls: client_tls(default_provider(), ca)? }),
                None => None,
            },
            connections: positive("CONNECTIONS", 10_000)? as usize,
            request: Duration::from_secs(positive("REQUEST_S", 10)?.into()),
            grace: Duration::from_secs(positive("GRACE_S", 20)?.into()),
            refuses_late: true,
        })
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// Returns an error that names the address.
    pub fn listen(&self) -> io::Result<TcpListener> {
        let address = &self.listen;
        TcpListener::bind(address).map_err(|error| bad("LISTEN", format!("`{address}`: {error}")))
    }
}

fn bad(name: &str, reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("SERVICE_{name}: {reason}"))
}
