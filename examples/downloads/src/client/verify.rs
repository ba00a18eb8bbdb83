//! Decides whether to trust a server's certificate, if the user names the certificates to trust
//! (`--ca`) or turns the check off (`--insecure`).
//!
//! `--ca` accepts what curl's `--cacert` does:
//! - a chain to a certificate of the file, whether or not that is a root;
//! - a server's own certificate that is in the file itself, self-signed or not, marked as an
//!   authority's or not;
//! - a certificate without any alternative name whose common name is the host's.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Trusts the certificates that the user named.
#[derive(Debug)]
pub(super) struct Named {
    certificates: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl Named {
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        Self { certificates, roots, provider }
    }
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        if self.certificates.contains(end_entity) {
            check_dates(&read(end_entity)?, now)?;
        } else {
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &self.roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        match verify_server_name(&parsed, server_name) {
            Err(_) if has_common_name(&read(end_entity)?, &server_name.to_str()) => {}
            checked => checked?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn read<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    X509Certificate::from_der(certificate)
        .map(|(_, certificate)| certificate)
        .map_err(|_| CertificateError::BadEncoding.into())
}

fn check_dates(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Returns whether the common name is the host's. It counts only if there is no alternative name.
fn has_common_name(certificate: &X509Certificate<'_>, host: &str) -> bool {
    if !matches!(certificate.subject_alternative_name(), Ok(None)) {
        return false;
    }
    let last = certificate.subject().iter_common_name().last();
    let Some(name) = last.and_then(|name| name.as_str().ok()) else { return false };
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    // `*` stands for one label. It never matches a part of an address, and never stands directly
    // below a top-level domain.
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(domain), Some((_, parent))) => {
            domain.contains('.')
                && domain.eq_ignore_ascii_case(parent)
                && host.parse::<std::net::IpAddr>().is_err()
        }
        _ => false,
    }
}

/// Trusts every server.
#[derive(Debug)]
pub(super) struct Everything(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for Everything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
