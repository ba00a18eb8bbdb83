//! Settings of TLS from PEM files: [`server_tls`] and [`client_tls`].

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Reads a server's chain of certificates and its private key from PEM files, for
/// [`Serve::tls`](crate::Serve::tls). The files are read by blocking calls, so this is for the start
/// of a program.
///
/// # Errors
/// Returns the error of a file that cannot be read, and `InvalidInput` if a file has no certificate
/// or no key, if they do not belong together, or if the provider has no version of TLS. The text
/// names the file.
///
/// # Examples
/// ```
/// use rustls::crypto::ring;
///
/// # let files = std::env::temp_dir().join(format!("ecru-hyper-pem-{}", std::process::id()));
/// # std::fs::create_dir_all(&files)?;
/// # let (chain, key) = (files.join("chain.pem"), files.join("key.pem"));
/// # let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
/// # std::fs::write(&chain, made.cert.pem())?;
/// # std::fs::write(&key, made.signing_key.serialize_pem())?;
/// let tls = ecru_hyper::server_tls(ring::default_provider(), &chain, &key)?;
/// let listener = ecru::net::TcpListener::bind("127.0.0.1:0")?;
/// let hello = |_: hyper::Request<ecru_hyper::RequestBody>| {
///     Ok::<_, std::io::Error>(hyper::Response::new(String::from("hello")))
/// };
/// let _server = ecru_hyper::serve(&listener, ecru_hyper::direct(hello)).tls(tls);
///
/// let error = ecru_hyper::server_tls(ring::default_provider(), &key, &key).unwrap_err();
/// assert!(error.to_string().contains("key.pem"), "{error}");
/// # std::fs::remove_dir_all(files)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn server_tls(
    provider: CryptoProvider,
    chain: impl AsRef<Path>,
    key: impl AsRef<Path>,
) -> io::Result<Arc<ServerConfig>> {
    let (chain, key) = (chain.as_ref(), key.as_ref());
    let certificates = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| bad(key, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, key));
    config.map(Arc::new).map_err(|error| bad(chain, error))
}

/// Reads the certificates that a client trusts from a PEM file, for
/// `ClientBuilder::tls`. The file is read by blocking calls, so this is
/// for the start of a program.
///
/// # Errors
/// Returns the error of a file that cannot be read, and `InvalidInput` if it has no certificate that
/// can be used, or if the provider has no version of TLS. The text names the file.
///
/// # Examples
/// ```
/// use rustls::crypto::ring;
///
/// # let roots = std::env::temp_dir().join(format!("ecru-hyper-roots-{}", std::process::id()));
/// # let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
/// # std::fs::write(&roots, made.cert.pem())?;
/// let tls = ecru_hyper::client_tls(ring::default_provider(), &roots)?;
/// ecru::run(|| {
///     ecru::scope(|s| drop(ecru_hyper::client(s).tls(tls).build()));
/// });
/// # std::fs::remove_file(&roots)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn client_tls(
    provider: CryptoProvider,
    roots: impl AsRef<Path>,
) -> io::Result<Arc<ClientConfig>> {
    let roots = roots.as_ref();
    let mut store = RootCertStore::empty();
    let (used, refused) = store.add_parsable_certificates(certificates(roots)?);
    if used == 0 {
        return Err(bad(roots, format!("none of {refused} certificates can be used")));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(roots, error))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match all {
        Ok(all) if all.is_empty() => Err(bad(path, "no certificate in PEM")),
        other => other.map_err(|error| bad(path, error)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    std::fs::read(path).map_err(named)
}

fn bad(path: &Path, error: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", path.display()))
}
