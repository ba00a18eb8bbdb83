//! A test certificate for loopback, and rustls's settings for both ends.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{StreamOwned, crypto::ring};

use ecru::net::TcpStream;

/// A server's stream, encrypted.
pub type ServerStream = StreamOwned<ServerConnection, TcpStream>;

/// A client's stream, encrypted.
pub type ClientStream = StreamOwned<ClientConnection, TcpStream>;

/// Both ends' settings. The server has a new certificate, and the client trusts no other.
#[derive(Clone, Debug)]
pub struct Identity {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    certificate: CertificateDer<'static>,
    text: [String; 2],
}

impl Identity {
    /// Creates a new certificate for `localhost` and `127.0.0.1`.
    ///
    /// # Panics
    /// Panics if rcgen or rustls refuse their own defaults.
    #[must_use]
    pub fn new() -> Identity {
        let names = ["localhost", "127.0.0.1"].map(String::from);
        let made = rcgen::generate_simple_self_signed(names).expect("plain names");
        let certificate = made.cert.der().clone();
        let text = [made.cert.pem(), made.signing_key.serialize_pem()];
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a fresh key");
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("the key is the certificate's");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate made just now");
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Identity { server: Arc::new(server), client: Arc::new(client), certificate, text }
    }

    /// Returns the certificate itself.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the certificate and its key as text, for other programs.
    #[must_use]
    pub fn text(&self) -> [&str; 2] {
        self.text.each_ref().map(String::as_str)
    }

    /// Returns the settings of a client that trusts no other certificate.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// Creates the server's side of a connection. The handshake happens with its first bytes.
    ///
    /// # Panics
    /// Panics if rustls refuses its settings.
    #[must_use]
    pub fn accept(&self, stream: TcpStream) -> ServerStream {
        let connection =
            ServerConnection::new(Arc::clone(&self.server)).expect("settings are good");
        StreamOwned::new(connection, stream)
    }

    /// Creates the client's side of a connection. The handshake happens with its first bytes.
    ///
    /// # Panics
    /// Panics if rustls refuses its settings.
    #[must_use]
    pub fn connect(&self, stream: TcpStream) -> ClientStream {
        let name = ServerName::try_from("localhost").expect("a plain name");
        let connection =
            ClientConnection::new(Arc::clone(&self.client), name).expect("settings are good");
        StreamOwned::new(connection, stream)
    }
}

impl Default for Identity {
    fn default() -> Identity {
        Identity::new()
    }
}
