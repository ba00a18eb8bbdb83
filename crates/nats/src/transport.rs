//! A connection's bytes, encrypted or not.
//!
//! One task reads and one task writes. With TLS, both use the state of the encryption, under a lock
//! that is never held while either waits for the socket. Only the writer sends records, in the
//! order in which they were made.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru::Cancelled;
use ecru::net::TcpStream;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, ErrorKind};

/// How much is read from a socket at once.
const CHUNK: usize = 64 * 1024;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Transport {
    tcp: TcpStream,
    tls: Option<Mutex<ClientConnection>>,
}

/// What only the reader needs.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// Plain bytes for the caller.
    plain: Box<[u8]>,
    /// Encrypted bytes, of which those in the range have not been decrypted.
    cipher: Box<[u8]>,
    rest: std::ops::Range<usize>,
}

impl ReadBuffer {
    pub(crate) fn new() -> ReadBuffer {
        ReadBuffer { plain: vec![0; CHUNK].into(), cipher: Box::default(), rest: 0..0 }
    }
}

impl Transport {
    pub(crate) fn plain(tcp: TcpStream) -> Transport {
        Transport { tcp, tls: None }
    }

    /// Encrypts the connection.
    pub(crate) fn encrypt(
        self,
        config: Option<&Arc<ClientConfig>>,
        name: &str,
    ) -> Result<Transport, Error> {
        let failed = |why: String| Error::new(ErrorKind::Tls, why);
        let certified = ServerName::try_from(name.to_owned())
            .map_err(|_| failed(format!("{name} cannot be the name in a certificate")))?;
        let config = match config {
            Some(config) => Arc::clone(config),
            None => web_config().map_err(|error| failed(error.to_string()))?,
        };
        let mut tls = ClientConnection::new(config, certified)
            .map_err(|error| failed(format!("TLS cannot be set up: {error}")))?;
        let mut socket = &self.tcp;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).map_err(|error| {
                let what = format!("the TLS handshake for the name {name} failed");
                Error::io(ErrorKind::Tls, &what, error)
            })?;
        }
        Ok(Transport { tcp: self.tcp, tls: Some(Mutex::new(tls)) })
    }

    /// Sets how long a read waits before it fails with `WouldBlock`.
    pub(crate) fn set_patience(&self, limit: Option<Duration>) -> io::Result<()> {
        self.tcp.set_read_timeout(limit)
    }

    /// Reads what has arrived. At the end of the stream nothing is returned. `owes` is called if
    /// the encryption has something to send.
    pub(crate) fn read<'a>(
        &self,
        buffer: &'a mut ReadBuffer,
        owes: impl Fn(),
    ) -> io::Result<&'a [u8]> {
        let Some(tls) = &self.tls else {
            let count = (&self.tcp).read(&mut buffer.plain)?;
            return Ok(&buffer.plain[..count]);
        };
        if buffer.cipher.is_empty() {
            buffer.cipher = vec![0; CHUNK].into();
        }
        loop {
            {
                let mut tls = lock(tls);
                match tls.reader().read(&mut buffer.plain) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result.map(|count| &buffer.plain[..count]),
                }
                if !buffer.rest.is_empty() {
                    let mut records = &buffer.cipher[buffer.rest.clone()];
                    let taken = tls.read_tls(&mut records)?;
                    buffer.rest.start += taken;
                    let state = tls
                        .process_new_packets()
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    if tls.wants_write() {
                        drop(tls);
                        owes();
                    }
                    if taken > 0 || state.plaintext_bytes_to_read() > 0 {
                        continue;
                    }
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            let count = (&self.tcp).read(&mut buffer.cipher)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer.rest = 0..count;
        }
    }

    /// Writes all of `bytes`, and what the encryption has to send. If the task is cancelled during
    /// the write, the rest is written within `grace`, because a part of a frame is worth nothing.
    pub(crate) fn write_all(&self, bytes: &[u8], grace: Option<Duration>) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.send(bytes, grace) };
        let mut rest = bytes;
        loop {
            let mut records = Vec::new();
            {
                let mut tls = lock(tls);
                // The encryption's own buffer is limited, so this may take a part.
                let taken = tls.writer().write(rest)?;
                rest = &rest[taken..];
                while tls.wants_write() {
                    tls.write_tls(&mut records)?;
                }
            }
            self.send(&records, grace)?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn send(&self, mut bytes: &[u8], grace: Option<Duration>) -> io::Result<()> {
        let mut socket = &self.tcp;
        while !bytes.is_empty() {
            match socket.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => match grace {
                    Some(grace) if Cancelled::find(&error).is_some() => {
                        return ecru::shield_for(grace, || socket.write_all(bytes));
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Says that nothing more comes.
    pub(crate) fn end_sending(&self) -> io::Result<()> {
        self.tcp.shutdown(Shutdown::Write)
    }

    /// Says that nothing more comes, and waits until the peer has read everything and closes its
    /// side. Returns whether it has. If a socket is closed while it has unread bytes, the system
    /// resets the connection and discards what the peer has not received.
    pub(crate) fn finish(&self, buffer: &mut ReadBuffer) -> bool {
        if self.end_sending().is_err() {
            return false;
        }
        loop {
            match (&self.tcp).read(&mut buffer.plain) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends both directions. Waits in progress return.
    pub(crate) fn shut_down(&self) {
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

fn lock(tls: &Mutex<ClientConnection>) -> MutexGuard<'_, ClientConnection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the Web's authorities.
fn web() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// Returns settings that trust and show what files have: see
/// [`Options::tls_files`](crate::Options::tls_files).
pub(crate) fn config_of_files(
    authorities: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, Error> {
    let roots = match authorities {
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| unfit(file, &error))?;
            }
            roots
        }
        None => web(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let secret =
                PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unfit(key, &error))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| unfit(key, &error))?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    ecru::fs::read(file).map_err(|error| {
        let text = format!("the file {} cannot be read: {error}", file.display());
        Error::invalid(text).with_source(error)
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| unfit(file, &error))?;
    if found.is_empty() {
        return Err(unfit(file, &"it has no certificate"));
    }
    Ok(found)
}

fn unfit(file: &Path, why: &dyn fmt::Display) -> Error {
    Error::invalid(format!("the file {} cannot be used for TLS: {why}", file.display()))
}

/// Returns settings that trust the Web's authorities.
fn web_config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let roots = web();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
