//! Connections for a client: name lookup, TCP and TLS.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ecru::net::{TcpStream, ToSocketAddrs};
use ecru::time::Sleep;
use ecru::{Cancelled, RuntimeHandle};
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

use crate::EcruIo;
use crate::direct::{DirectError, Handling};
#[cfg(feature = "tls")]
use crate::tls::TlsIo;
use crate::wire::Wire;

/// Opens the connections of a client.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) run: RuntimeHandle,
    /// The time for a lookup, a connection and a handshake together.
    pub(crate) limit: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let limit = connector.limit;
            within(limit, connector.open(&uri)).await
        })
    }
}

impl Connector {
    async fn open(self, uri: &Uri) -> io::Result<Wire> {
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => {
                return Err(invalid(format!("the scheme {other:?} is neither http nor https")));
            }
            None => return Err(invalid("a client's URL needs a scheme, http or https")),
        };
        let host = uri.host().unwrap_or_default();
        // An address of IPv6 is in brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(invalid("a client's URL needs a host"));
        }
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        if !secure {
            return Ok(Wire::Plain(self.connect(host, port).await?));
        }
        #[cfg(feature = "tls")]
        {
            let Some(config) = self.tls.clone() else {
                return Err(invalid("https needs settings for TLS; pass them to `client(..).tls`"));
            };
            let name = rustls::pki_types::ServerName::try_from(host.clone())
                .map_err(|_| invalid(format!("{host:?} is no name that a certificate can have")))?;
            let session = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
            let mut stream = Box::new(TlsIo::new(session.into(), self.connect(host, port).await?));
            poll_fn(|cx| stream.poll_handshake(cx)).await?;
            Ok(Wire::Tls(stream))
        }
        #[cfg(not(feature = "tls"))]
        Err(invalid("https needs the feature `tls` of ecru-hyper"))
    }

    /// Connects in a task with a stack, because a lookup and a connection wait in direct style.
    async fn connect(self, host: String, port: u16) -> io::Result<EcruIo> {
        let limit = self.limit;
        let stream = Handling::begin_in(&self.run, move || connect_any(&host, port, limit)).await;
        let stream = stream.map_err(|error| match error {
            DirectError::Handler(error) => error,
            other => io::Error::other(other.to_string()),
        })?;
        stream.set_nodelay(true)?;
        EcruIo::new(stream)
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        #[cfg(all(feature = "tls", feature = "http2"))]
        if self.alpn() == Some(b"h2") {
            return Connected::new().negotiated_h2();
        }
        Connected::new()
    }
}

fn invalid(text: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// Connects to the first address that answers. A silent one has its share of the time, so that the
/// others are tried as well.
fn connect_any(host: &str, port: u16, limit: Option<Duration>) -> io::Result<TcpStream> {
    let Some(limit) = limit else { return TcpStream::connect((host, port)) };
    let deadline = ecru::time::now() + limit;
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    let mut last = io::Error::new(ErrorKind::NotFound, format!("{host} has no address"));
    for (left, address) in (1..=addresses.len()).rev().zip(&addresses) {
        let time = deadline.saturating_duration_since(ecru::time::now());
        let share = time / u32::try_from(left).unwrap_or(u32::MAX);
        if share.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) if Cancelled::find(&error).is_some() => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Drops the future if it takes longer.
async fn within<T>(
    limit: Option<Duration>,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let Some(limit) = limit else { return future.await };
    let mut future = std::pin::pin!(future);
    let mut sleep = Sleep::new(limit);
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        let text = "no connection within the time limit for connecting";
        Pin::new(&mut sleep).poll(cx).map(|_| Err(io::Error::new(ErrorKind::TimedOut, text)))
    })
    .await
}
