//! TLS: rustls, unchanged, over the transport before it in the chain of connectors.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use super::verify::{Everything, Named};

/// The servers to trust.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trust<'a> {
    /// Servers with a certificate of the Web's authorities.
    Web,
    /// Servers with a certificate that the certificates in this file vouch for.
    File(&'a Path),
    /// All servers.
    All,
}

/// Creates the configuration that all connections share, with its cache of TLS sessions.
pub(super) fn configure(trust: Trust<'_>) -> anyhow::Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Web => builder.with_root_certificates(RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        }),
        Trust::File(file) => {
            let named = certificates(file).with_context(|| format!("--ca {}", file.display()))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Named::new(named, provider)))
        }
        Trust::All => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Everything(provider)))
        }
    };
    Ok(Arc::new(builder.with_no_client_auth()))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = std::fs::read(file).context("cannot read it; name a file of PEM certificates")?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let ureq::tls::PemItem::Certificate(certificate) = item.context("it is not PEM")? {
            found.push(CertificateDer::from(certificate.der().to_vec()));
        }
    }
    anyhow::ensure!(
        !found.is_empty(),
        "there is no certificate in it; it must hold `-----BEGIN CERTIFICATE-----`"
    );
    Ok(found)
}

/// The link of the chain that adds TLS for `https`.
#[derive(Debug)]
pub(super) struct TlsConnector(pub(super) Arc<ClientConfig>);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_string())
            .map_err(|_| Error::Tls("the host's name cannot be in a certificate"))?;
        let mut tls = ClientConnection::new(Arc::clone(&self.0), name)?;
        let boxed: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(boxed, Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        tls.complete_io(&mut socket)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned::new(tls, socket) })))
    }
}

/// One connection under TLS.
pub(super) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
