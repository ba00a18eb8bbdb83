//! TLS: rustls, unchanged, over the same sockets.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::{Folder, body, run};

/// A server with a certificate of its own is trusted when that is named, and its bytes arrive whole.
#[test]
fn own_certificate() {
    let (address, certificate) = server();
    let folder = Folder::new();
    let ca = Folder::new();
    std::fs::write(ca.path("ca.pem"), certificate).unwrap();
    let url = format!("https://localhost:{}/x.bin", address.port());
    run(&folder, &["--ca", ca.path("ca.pem").to_str().unwrap(), &url]).succeeded();
    assert_eq!(folder.read("x.bin"), body(1_000_000));
}

/// Otherwise it is not, and the line says what to do.
#[test]
fn unknown_certificate() {
    let (address, _) = server();
    let folder = Folder::new();
    let url = format!("https://localhost:{}/x.bin", address.port());
    run(&folder, &[&url]).failed(1, &[&url, "no trust", "--ca"]);
    assert!(folder.names().is_empty());
}

/// A plain server behind https is no TLS server.
#[test]
fn plain_server() {
    let server = support::Server::start(|_, _| {});
    let folder = Folder::new();
    run(&folder, &["--retries", "0", "--timeout", "1", &format!("https://{}/x", server.address)])
        .failed(1, &["failed: https://"]);
}

fn server() -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let mut stream =
                    StreamOwned::new(ServerConnection::new(config).unwrap(), stream.unwrap());
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                let body = body(1_000_000);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    (address, made.cert.pem())
}
