//! What a server reports of clients that leave, of nonsense, and of its own service.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use axum::routing::{get, post};
use ecru::net::SocketAddr;
use ecru_hyper::{RequestBody, direct, serve};
use hyper::Request;

use crate::client::{Client, Page, listen, page};
use crate::common::{HOUR, each_run, until};

/// The kinds that say that a client has left.
const LEFT: [ErrorKind; 3] =
    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
const SERVICE: [ErrorKind; 1] = [ErrorKind::Other];
const NONSENSE: [ErrorKind; 1] = [ErrorKind::InvalidData];

fn send(address: SocketAddr, text: &str) -> Client {
    let mut client = Client::connect(address);
    client.0.write_all(text.as_bytes()).unwrap();
    client
}

/// Reads the beginning of a response, and resets the connection.
fn reset_in_the_response(address: SocketAddr, text: &str) {
    let mut client = send(address, text);
    client.0.read_exact(&mut [0; 12]).unwrap();
    client.0.set_linger(Some(Duration::ZERO)).unwrap();
}

/// The kind of an error tells whether a client has left, wherever it was, or the service has failed.
#[test]
fn what_is_reported() {
    let plain = |request: Request<RequestBody>| -> io::Result<Page> {
        match request.uri().path() {
            "/waits" => ecru::sleep(HOUR)?,
            "/long" => return Ok(page(vec![b'x'; 16 << 20])),
            "/upstream" => return Err(ErrorKind::ConnectionReset.into()),
            _ => {}
        }
        Ok(page("plain"))
    };
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let errors = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(plain))
                    .on_error(|error, _| errors.lock().unwrap().push(error.kind()))
                    .stop_when(stopped)
                    .run()
            });
            let expect = |kinds: &[ErrorKind], what: &str| {
                until(|| !errors.lock().unwrap().is_empty());
                let seen = std::mem::take(&mut *errors.lock().unwrap());
                assert!(seen.len() == 1 && kinds.contains(&seen[0]), "{what}: {seen:?}");
            };
            drop(send(address, "GET / HT"));
            expect(&LEFT, "in the head");
            drop(send(address, "GET /waits HTTP/1.1\r\nHost: here\r\n\r\n"));
            expect(&LEFT, "before the response");
            reset_in_the_response(address, "GET /long HTTP/1.1\r\nHost: here\r\n\r\n");
            expect(&LEFT, "in the response");
            drop(send(address, "no HTTP at all\r\n\r\n"));
            expect(&NONSENSE, "nonsense");
            let mut client = send(address, "GET /upstream HTTP/1.1\r\nHost: here\r\n\r\n");
            expect(&SERVICE, "a service whose own connection was reset");
            assert!(client.is_closed());
            // Between two requests, a client may leave.
            let mut client = Client::connect(address);
            assert_eq!(client.get("/").unwrap().1, "plain");
            drop(client);
            drop(Client::connect(address));
            drop(stop);
            server.join().unwrap().unwrap();
        });
        assert_eq!(errors.into_inner().unwrap(), []);
    });
}

/// A client that leaves in its body is no failure of a router, which answers it. It may be too late
/// for that.
#[test]
fn a_body_that_ends_too_early() {
    each_run(|| {
        let router = axum::Router::new()
            .route("/", post(async |body: String| body))
            .route("/", get(async || "here"));
        let (listener, address, stop, stopped) = listen();
        let errors = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, router)
                    .on_error(|error, _| errors.lock().unwrap().push(error.kind()))
                    .stop_when(stopped)
                    .run()
            });
            drop(send(address, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nfour"));
            assert_eq!(Client::connect(address).get("/").unwrap().1, "here");
            drop(stop);
            server.join().unwrap().unwrap();
        });
        let errors = errors.into_inner().unwrap();
        assert!(errors.iter().all(|kind| LEFT.contains(kind)), "{errors:?}");
    });
}
