//! Limits of time, size and number, with clients that are slow, silent or too large.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use axum::routing::post;
use ecru_hyper::{RequestBody, direct, serve};
use hyper::Request;

use crate::client::{Client, hello, listen, page};
use crate::common::{HOUR, each_run, ms};

const TOO_LARGE: &str = "HTTP/1.1 413 Payload Too Large";

/// What a server has reported.
#[derive(Default)]
struct Errors(Mutex<Vec<ErrorKind>>);

impl Errors {
    fn note(&self, error: io::Error, _: Option<SocketAddr>) {
        self.0.lock().unwrap().push(error.kind());
    }

    fn all(&self) -> Vec<ErrorKind> {
        self.0.lock().unwrap().clone()
    }
}

/// A client that does not send the head of its request in time is closed, and the limit of
/// connections lets the next one in.
#[test]
fn heads_and_connections() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(hello))
                    .limit(1)
                    .header_timeout(ms(5))
                    .stop_when(stopped)
                    .run()
            });
            let mut silent = Client::connect(address);
            let mut slow = Client::connect(address);
            slow.0.write_all(b"GET / HT").unwrap();
            assert!(silent.is_closed());
            assert!(slow.is_closed());
            // A slow machine may pass the limit before the request is sent. Then another client tries.
            let tries = (1..).find(|_| Client::connect(address).get("/").is_ok());
            drop(stop);
            assert_eq!(server.join().unwrap().unwrap().connections(), 2 + tries.unwrap());
        });
        let nothing = serve(&listener, direct(hello)).limit(0).run().unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::InvalidInput);
    });
}

/// A client that sends its head one byte after another is closed as well, also in a later request.
#[test]
fn a_head_that_drips() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let errors = Errors::default();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(hello))
                    .header_timeout(ms(20))
                    .idle_timeout(HOUR)
                    .on_error(|error, peer| errors.note(error, peer))
                    .stop_when(stopped)
                    .run()
            });
            let mut first = Client::connect(address);
            let mut later = Client::connect(address);
            // Unless the machine is slow, it is answered.
            let answered = later.get("/").is_ok();
            for client in [&mut first, &mut later] {
                let mut head = b"GET / HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
                while client.0.write_all(&[*head.next().unwrap()]).is_ok() {
                    let waited = ecru::timeout(ms(1), || client.0.read(&mut [0; 512]));
                    if matches!(waited, Ok(Ok(0) | Err(_))) {
                        break;
                    }
                }
            }
            drop(stop);
            assert_eq!(server.join().unwrap().unwrap().connections(), 2);
            assert!(answered || errors.all().len() == 2);
        });
        assert!(errors.all().iter().all(|kind| *kind == ErrorKind::TimedOut), "{:?}", errors.all());
        assert_eq!(errors.all().len(), 2);
    });
}

/// A connection that waits for its next request is closed without an error, and one whose handler
/// takes long is not.
#[test]
fn an_idle_connection() {
    each_run(|| {
        let slow = |_: Request<RequestBody>| -> io::Result<_> {
            ecru::sleep(ms(30))?;
            Ok(page("slow"))
        };
        let (listener, address, stop, stopped) = listen();
        let errors = Errors::default();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(slow))
                    .header_timeout(HOUR)
                    .idle_timeout(ms(10))
                    .on_error(|error, peer| errors.note(error, peer))
                    .stop_when(stopped)
                    .run()
            });
            let mut client = Client::connect(address);
            assert_eq!(client.get("/").unwrap().1, "slow");
            assert!(client.is_closed());
            drop(stop);
            server.join().unwrap().unwrap();
        });
        assert_eq!(errors.all(), []);
    });
}

/// A client that does not take its response is closed, and so is one that stops taking a long one.
#[test]
fn a_response_that_is_not_taken() {
    each_run(|| {
        let large = |_: Request<RequestBody>| io::Result::Ok(page(vec![b'x'; 16 << 20]));
        let (listener, address, stop, stopped) = listen();
        let errors = Errors::default();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(large))
                    .header_timeout(HOUR)
                    .idle_timeout(ms(20))
                    .on_error(|error, peer| errors.note(error, peer))
                    .stop_when(stopped)
                    .run()
            });
            let mut client = Client::connect(address);
            client.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            crate::common::until(|| !errors.all().is_empty());
            let mut all = Vec::new();
            let ended = client.0.read_to_end(&mut all);
            assert!(ended.is_err() || all.len() < 16 << 20);
            drop(stop);
            server.join().unwrap().unwrap();
        });
        assert_eq!(errors.all(), [ErrorKind::TimedOut]);
    });
}

/// A body that is announced as too large is refused before the service is called, and one that
/// turns out too large when it is read. Clients that send it all see the answer.
#[test]
fn a_body_that_is_too_large() {
    each_run(|| {
        let called = std::sync::Arc::new(AtomicUsize::new(0));
        let own = std::sync::Arc::clone(&called);
        let reads = move |request: Request<RequestBody>| -> io::Result<_> {
            own.fetch_add(1, SeqCst);
            let body = request.into_body().bytes()?;
            Ok(page(format!("{} bytes", body.len())))
        };
        let by_axum = axum::Router::new().route("/", post(async |body: String| body));
        let (plain, plain_address, stop_plain, plain_stopped) = listen();
        let (routed, routed_address, stop_routed, routed_stopped) = listen();
        ecru::scope(|s| {
            let servers = [
                s.spawn(|| {
                    serve(&plain, direct(reads)).body_limit(10).stop_when(plain_stopped).run()
                }),
                s.spawn(|| serve(&routed, by_axum).body_limit(10).stop_when(routed_stopped).run()),
            ];
            for address in [plain_address, routed_address] {
                let head = "POST / HTTP/1.1\r\nHost: here\r\n";
                let announced = format!("{head}Content-Length: 10\r\n\r\n0123456789");
                let mut client = Client::connect(address);
                assert_eq!(client.ask(&announced).unwrap().0, "HTTP/1.1 200 OK");
                let before = called.load(SeqCst);
                let body = "x".repeat(200_000);
                let too_large = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
                assert_eq!(client.ask(&too_large).unwrap().0, TOO_LARGE);
                assert_eq!(called.load(SeqCst), before);
                let mut client = Client::connect(address);
                let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}");
                assert_eq!(client.ask(&chunked).unwrap().0, TOO_LARGE);
            }
            drop((stop_plain, stop_routed));
            for server in servers {
                server.join().unwrap().unwrap();
            }
        });
    });
}

/// A body that comes too slowly ends its handler's read: one that drips, and one that stops.
#[test]
fn a_body_that_is_too_slow() {
    each_run(|| {
        for drips in [true, false] {
            let kinds = std::sync::Arc::new(Mutex::new(Vec::new()));
            let own = std::sync::Arc::clone(&kinds);
            let reads = move |request: Request<RequestBody>| -> io::Result<_> {
                let error = request.into_body().bytes().unwrap_err();
                own.lock().unwrap().push(error.kind());
                Err::<crate::client::Page, _>(error)
            };
            let (listener, address, stop, stopped) = listen();
            ecru::scope(|s| {
                let server = s.spawn(|| {
                    let server = serve(&listener, direct(reads)).header_timeout(HOUR);
                    let server = server.stop_when(stopped);
                    if drips {
                        server.body_timeout(ms(20)).idle_timeout(HOUR).run()
                    } else {
                        server.body_timeout(HOUR).idle_timeout(ms(20)).run()
                    }
                });
                let mut client = Client::connect(address);
                let head = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n";
                client.0.write_all(head).unwrap();
                while drips && client.0.write_all(b"x").is_ok() {
                    let waited = ecru::timeout(ms(1), || client.0.read(&mut [0; 512]));
                    if matches!(waited, Ok(Ok(0) | Err(_))) {
                        break;
                    }
                }
                assert!(client.is_closed());
                drop(stop);
                server.join().unwrap().unwrap();
            });
            assert_eq!(*kinds.lock().unwrap(), [ErrorKind::TimedOut]);
        }
    });
}
