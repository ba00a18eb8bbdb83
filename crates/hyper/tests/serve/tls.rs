//! TLS: rustls at both ends, handshakes that fail, and those that never end.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ecru::net::TcpStream;
use ecru_hyper::{RequestBody, direct, serve};
use hyper::Request;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::client::{Client, hello, listen, page};
use crate::common::{each_run, ms, settle, until};

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// The settings of both ends, for `localhost`.
pub(crate) struct Identity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: ClientConfig,
}

impl Identity {
    pub(crate) fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key);
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Identity { server: Arc::new(server.unwrap()), client }
    }

    /// Connects, and offers these protocols.
    fn connect(&self, address: SocketAddr, protocols: &[&[u8]]) -> TlsStream {
        let mut config = self.client.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(session, TcpStream::connect(address).unwrap())
    }
}

const CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A request and its answer over TLS, with bodies that need many records.
#[test]
fn requests_over_tls() {
    each_run(|| {
        const LARGE: usize = 1 << 20;
        let identity = Identity::new();
        let doubles = |request: Request<RequestBody>| -> io::Result<_> {
            let body = request.into_body().bytes()?;
            Ok(page([&body[..], &body[..]].concat()))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let tls = Arc::clone(&identity.server);
            let server =
                s.spawn(|| serve(&listener, direct(doubles)).tls(tls).stop_when(stopped).run());
            let mut client = identity.connect(address, &[]);
            let head = format!(
                "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
            );
            let body: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
            client.write_all(head.as_bytes()).unwrap();
            client.write_all(&body).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            let start = answer.len() - 2 * LARGE;
            assert!(answer[start..start + LARGE] == body && answer[start + LARGE..] == body);
            // An idle connection ends with the server, and its session is closed as it should be.
            let mut idle = identity.connect(address, &[]);
            idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut status = [0; 15];
            idle.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 200 OK");
            drop(stop);
            idle.read_to_end(&mut Vec::new()).unwrap();
            server.join().unwrap().unwrap();
        });
    });
}

/// What a client offers, and what is chosen.
type Case<'c> = (&'c [&'c [u8]], Option<&'c [u8]>);

/// ALPN chooses between the protocols, and a client without it speaks HTTP/1.1.
#[test]
fn protocols_are_negotiated() {
    each_run(|| {
        let identity = Identity::new();
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let tls = Arc::clone(&identity.server);
            let server = serve(&listener, direct(hello)).tls(tls).http1().http2();
            let server = s.spawn(|| server.stop_when(stopped).run());
            let cases: [Case<'_>; 4] = [
                (&[], None),
                (&[b"http/1.1"], Some(b"http/1.1")),
                (&[b"http/1.1", b"h2"], Some(b"h2")),
                (&[b"h2"], Some(b"h2")),
            ];
            for (offered, chosen) in cases {
                let mut client = identity.connect(address, offered);
                if chosen == Some(b"h2") {
                    // The client's preface and its settings, which are empty.
                    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
                    client.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
                    let mut frame = [0; 9];
                    client.read_exact(&mut frame).unwrap();
                    assert_eq!(frame[3], 4, "the server's settings come first");
                } else {
                    client.write_all(CLOSE).unwrap();
                    let mut answer = String::new();
                    client.read_to_string(&mut answer).unwrap();
                    assert!(answer.ends_with("hello"), "{answer}");
                }
                assert_eq!(client.conn.alpn_protocol(), chosen);
            }
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// Clients whose handshake fails are reported, and others are served.
#[test]
fn handshakes_that_fail() {
    each_run(|| {
        let (identity, other) = (Identity::new(), Identity::new());
        let errors = Mutex::new(Vec::new());
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let tls = Arc::clone(&identity.server);
            let server = s.spawn(|| {
                serve(&listener, direct(hello))
                    .tls(tls)
                    .on_error(|error, _| errors.lock().unwrap().push(error.kind()))
                    .stop_when(stopped)
                    .run()
            });
            let expect = |kinds: &[ErrorKind]| {
                until(|| !errors.lock().unwrap().is_empty());
                let seen = std::mem::take(&mut *errors.lock().unwrap());
                assert!(seen.len() == 1 && kinds.contains(&seen[0]), "{seen:?}");
            };
            // It does not speak TLS.
            let mut plain = Client::connect(address);
            let _ = plain.0.write_all(CLOSE);
            let _ = plain.0.read_to_end(&mut Vec::new());
            expect(&[ErrorKind::InvalidData]);
            // It does not trust the server.
            let mut distrustful = other.connect(address, &[]);
            assert!(distrustful.write_all(CLOSE).is_err() || distrustful.flush().is_err());
            expect(&[ErrorKind::InvalidData]);
            // It leaves.
            let mut leaves = Client::connect(address);
            leaves.0.write_all(&[0x16, 3, 1]).unwrap();
            drop(leaves);
            expect(&[ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset]);
            let mut client = identity.connect(address, &[]);
            client.write_all(CLOSE).unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
            // It closes the connection without closing its session.
            let mut client = identity.connect(address, &[]);
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            client.read_exact(&mut [0; 15]).unwrap();
            client.sock.shutdown(ecru::net::Shutdown::Write).unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
            drop(stop);
            server.join().unwrap().unwrap();
        });
        assert_eq!(errors.into_inner().unwrap(), []);
    });
}

/// A handshake that never ends is ended by the limit of heads, or by the stop.
#[test]
fn handshakes_that_never_end_slow() {
    each_run(|| {
        let identity = Identity::new();
        for limited in [true, false] {
            let (listener, address, stop, stopped) = listen();
            ecru::scope(|s| {
                let tls = Arc::clone(&identity.server);
                let server = s.spawn(|| {
                    let server = serve(&listener, direct(hello)).tls(tls).stop_when(stopped);
                    if limited { server.header_timeout(ms(10)).run() } else { server.run() }
                });
                let mut silent = Client::connect(address);
                let mut partial = Client::connect(address);
                partial.0.write_all(&[0x16, 3, 1]).unwrap();
                if limited {
                    assert!(silent.is_closed() && partial.is_closed());
                }
                settle();
                drop(stop);
                assert!(silent.is_closed() && partial.is_closed());
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// A WebSocket over TLS.
#[test]
fn a_web_socket_over_tls() {
    each_run(|| {
        let identity = Identity::new();
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let tls = Arc::clone(&identity.server);
            let sockets = direct(crate::upgrades::web_socket);
            let server = s.spawn(|| serve(&listener, sockets).tls(tls).stop_when(stopped).run());
            let stream = identity.connect(address, &[]);
            let (mut socket, _) = tungstenite::client("ws://localhost/", stream).unwrap();
            let text = tungstenite::Message::from("x".repeat(100_000));
            socket.send(text.clone()).unwrap();
            assert_eq!(socket.read().unwrap(), text);
            drop((stop, socket));
            server.join().unwrap().unwrap();
        });
    });
}
