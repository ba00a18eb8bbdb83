//! TLS: rustls, unchanged, over the same sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use crate::support::{Folder, Ran, Server, body, run};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Runs the program against a server with `certificate`, trusting what is in the file `ca`.
fn run_with(certificate: Made, host: &str, ca: &str) -> (Ran, Folder) {
    let server = server(certificate);
    let (folder, file) = (Folder::new(), Folder::new());
    std::fs::write(file.path("ca.pem"), ca).unwrap();
    let url = format!("https://{host}:{}/x.bin", server.address.port());
    (run(&folder, &["--ca", file.path("ca.pem").to_str().unwrap(), &url]), folder)
}

/// A server with its own certificate is trusted if that certificate is named, and its bytes arrive
/// intact.
#[test]
fn own_certificate() {
    let made = self_signed(|_| {});
    let ca = made.pem.clone();
    let (ran, folder) = run_with(made, "localhost", &ca);
    ran.succeeded();
    assert_eq!(folder.read("x.bin"), body(1_000_000));
}

/// The same holds for one that is marked as an authority's, as `openssl req -x509` makes them.
#[test]
fn own_certificate_of_an_authority() {
    let made = self_signed(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let ca = made.pem.clone();
    run_with(made, "localhost", &ca).0.succeeded();
}

/// A common name counts if there is no alternative name, and only then.
#[test]
fn common_name() {
    let named = |alternative: &[&str], name: &str| {
        let made = self_signed(|params| {
            params.subject_alt_names = alternative
                .iter()
                .map(|name| SanType::DnsName((*name).try_into().unwrap()))
                .collect();
            params.distinguished_name.push(DnType::CommonName, name);
        });
        let ca = made.pem.clone();
        run_with(made, "localhost", &ca).0
    };
    named(&[], "LocalHost").succeeded();
    named(&[], "other").failed(1, &["not trusted", "name"]);
    named(&["other"], "localhost").failed(1, &["not trusted", "name"]);
}

/// A named certificate is still checked for its dates and its host.
#[test]
fn dates_and_hosts_of_a_named_certificate() {
    let expired = self_signed(|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let ca = expired.pem.clone();
    run_with(expired, "localhost", &ca).0.failed(1, &["not trusted", "xpired"]);
    let future = self_signed(|params| params.not_before = rcgen::date_time_ymd(2901, 1, 1));
    let ca = future.pem.clone();
    run_with(future, "localhost", &ca).0.failed(1, &["not trusted"]);
    let made = self_signed(|_| {});
    let ca = made.pem.clone();
    run_with(made, "127.0.0.1", &ca).0.failed(1, &["not trusted", "name"]);
}

/// A certificate that an authority signed is trusted if the authority's certificate, or the
/// certificate itself, is named. Another certificate of the same name does not help.
#[test]
fn an_authority() {
    let key = || KeyPair::generate().unwrap();
    let (authority, other) = (key(), key());
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let root = params.self_signed(&authority).unwrap().pem();
    let impostor = params.self_signed(&other).unwrap().pem();
    let issuer = Issuer::new(params, authority);
    let made = || {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Made { pem: certificate.pem(), certificate: certificate.der().clone(), key }
    };
    run_with(made(), "localhost", &root).0.succeeded();
    let itself = made();
    let pem = itself.pem.clone();
    run_with(itself, "localhost", &pem).0.succeeded();
    run_with(made(), "localhost", &pem).0.failed(1, &["not trusted"]);
    run_with(made(), "localhost", &impostor).0.failed(1, &["not trusted"]);
}

/// `--insecure` trusts every server, and warns.
#[test]
fn insecure() {
    let expired = self_signed(|params| params.not_after = rcgen::date_time_ymd(2002, 1, 1));
    let server = server(expired);
    let url = format!("https://127.0.0.1:{}/x.bin", server.address.port());
    let folder = Folder::new();
    let ran = run(&folder, &["--insecure", &url]).succeeded();
    assert!(ran.err.contains("warning: --insecure"), "{ran:?}");
    assert_eq!(folder.read("x.bin"), body(1_000_000));
    run(&folder, &["--insecure", "--ca", "/nowhere", &url]).failed(2, &["--ca"]);
}

/// Without these flags an unknown certificate is not trusted, and the line says what to do.
#[test]
fn unknown_certificate() {
    let server = server(self_signed(|_| {}));
    let folder = Folder::new();
    let url = format!("https://localhost:{}/x.bin", server.address.port());
    run(&folder, &[&url]).failed(1, &[&url, "not trusted", "--ca", "--insecure"]);
    assert!(folder.names().is_empty());
}

/// A body without a length ends with a close notification. Without one, it may have been cut.
#[test]
fn a_body_without_a_length() {
    let cut = |stream: &mut Stream| {
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nabc").and_then(|()| stream.flush());
    };
    for is_cut in [true, false] {
        let made = self_signed(|_| {});
        let (folder, file) = (Folder::new(), Folder::new());
        std::fs::write(file.path("ca.pem"), &made.pem).unwrap();
        let server = if is_cut {
            server_that(made, cut)
        } else {
            server_that(made, |stream| {
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nabc");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            })
        };
        let url = format!("https://localhost:{}/x", server.address.port());
        let ca = file.path("ca.pem");
        let ran = run(&folder, &["--retries", "0", "--ca", ca.to_str().unwrap(), &url]);
        if is_cut {
            ran.failed(1, &["server closed", "close_notify"]);
            assert!(!folder.names().contains(&"x".to_string()));
        } else {
            ran.succeeded();
            assert_eq!(folder.read("x"), b"abc");
        }
    }
}

/// A plain HTTP server is not accepted for https.
#[test]
fn plain_server() {
    let server = Server::start(|_, _| {});
    let folder = Folder::new();
    run(&folder, &["--retries", "0", "--timeout", "1", &format!("https://{}/x", server.address)])
        .failed(1, &["failed: https://"]);
}

/// A certificate and its key.
struct Made {
    pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Made {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    change(&mut params);
    let certificate = params.self_signed(&key).unwrap();
    Made { pem: certificate.pem(), certificate: certificate.der().clone(), key }
}

fn server(made: Made) -> Server {
    server_that(made, |stream| {
        let body = body(1_000_000);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Starts a server that calls `answer` when it has read a head.
fn server_that(made: Made, answer: fn(&mut Stream)) -> Server {
    let key = PrivateKeyDer::try_from(made.key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.certificate], key)
            .unwrap();
    let config = Arc::new(config);
    Server::accept(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        answer(&mut stream);
    })
}
