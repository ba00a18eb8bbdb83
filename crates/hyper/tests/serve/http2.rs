//! HTTP/2, by hyper's client.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Mutex;

use ecru::Scope;
use ecru::channel;
use ecru::net::TcpStream;
use ecru_hyper::{EcruIo, RequestBody, ScopeExecutor, direct, serve};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};

use crate::client::{Client, hello, listen, page};
use crate::common::{HOUR, each_run, ms, quiet_panic};

type Sender = SendRequest<Full<Bytes>>;

/// Connects, and drives the connection in the scope.
fn connect<'scope>(s: &'scope Scope<'scope, '_>, address: SocketAddr) -> Sender {
    let io = EcruIo::new(TcpStream::connect(address).unwrap()).unwrap();
    let (sender, connection) =
        ecru::block_on(handshake(ScopeExecutor::new(s), io)).unwrap().unwrap();
    s.spawn_future(async {
        let _ = connection.await;
    });
    sender
}

/// Sends a request, and returns the status and the body.
fn ask(sender: &Sender, path: &str, body: impl Into<Bytes>) -> hyper::Result<(u16, Bytes)> {
    let request = Request::post(format!("http://here{path}")).body(Full::new(body.into())).unwrap();
    ecru::block_on(async {
        let answer: hyper::Response<Incoming> = sender.clone().send_request(request).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    })
    .unwrap()
}

/// Many streams of one connection, in direct style, with bodies. HTTP/1.1 is spoken beside it.
#[test]
fn both_protocols_on_one_port() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let echo = |request: Request<RequestBody>| -> io::Result<_> {
            ecru::sleep(ms(1))?;
            Ok(page(request.into_body().bytes()?))
        };
        ecru::scope(|s| {
            let server =
                s.spawn(|| serve(&listener, direct(echo)).http1().http2().stop_when(stopped).run());
            ecru::scope(|s| {
                let sender = &connect(s, address);
                ecru::scope(|s| {
                    for number in 0..20 {
                        s.spawn(move || {
                            let body = vec![b'x'; number * 10_000];
                            assert_eq!(ask(sender, "/", body.clone()).unwrap(), (200, body.into()));
                        });
                    }
                });
                s.cancel();
            });
            for request in
                ["GET / HTTP/1.1\r\nHost: here\r\n\r\n", "PRI / HTTP/1.1\r\nHost: h\r\n\r\n"]
            {
                let mut client = Client::connect(address);
                assert_eq!(client.ask(request).unwrap().0, "HTTP/1.1 200 OK");
            }
            // A client that leaves before it has said what it speaks.
            drop(Client::connect(address));
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A panic ends its stream and no other.
#[test]
fn a_handler_that_panics() {
    each_run(|| {
        let errors = Mutex::new(Vec::new());
        let (listener, address, stop, stopped) = listen();
        let router = axum::Router::new()
            .route("/panics", axum::routing::post(async || -> &str { quiet_panic("a stream") }))
            .route("/", axum::routing::post(async || "fine"));
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, router)
                    .http2()
                    .on_error(|error, peer| errors.lock().unwrap().push((error, peer)))
                    .stop_when(stopped)
                    .run()
            });
            ecru::scope(|s| {
                let sender = connect(s, address);
                assert!(ask(&sender, "/panics", "").is_err());
                assert_eq!(ask(&sender, "/", "").unwrap(), (200, "fine".into()));
                s.cancel();
            });
            drop(stop);
            server.join().unwrap().unwrap();
        });
        let errors = errors.into_inner().unwrap();
        assert!(!errors.is_empty() && errors.iter().all(|(_, peer)| peer.is_some()), "{errors:?}");
    });
}

/// The stop lets streams in progress end, and then closes the connection, also one that is idle.
#[test]
fn a_stop_with_streams_in_progress() {
    each_run(|| {
        let (begun, has_begun) = channel::bounded::<()>(1);
        let (go_on, may_go_on) = channel::bounded::<()>(1);
        let waits = move |_: Request<RequestBody>| -> io::Result<_> {
            begun.send(()).unwrap();
            may_go_on.recv().map_err(io::Error::from)?;
            Ok(page("finished"))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server =
                s.spawn(|| serve(&listener, direct(waits)).http2().stop_when(stopped).run());
            let idle = connect(s, address);
            let sender = connect(s, address);
            let answer = s.spawn(move || ask(&sender, "/", ""));
            has_begun.recv().unwrap();
            drop(stop);
            go_on.send(()).unwrap();
            assert_eq!(answer.join().unwrap().unwrap(), (200, "finished".into()));
            server.join().unwrap().unwrap();
            drop(idle);
        });
    });
}

/// An idle connection is closed after the limit, and one that never says what it speaks.
#[test]
fn idle_connections() {
    each_run(|| {
        let errors = Mutex::new(Vec::new());
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(hello))
                    .http1()
                    .http2()
                    .header_timeout(ms(20))
                    .on_error(|error, _| errors.lock().unwrap().push(error.kind()))
                    .stop_when(stopped)
                    .run()
            });
            let io = EcruIo::new(TcpStream::connect(address).unwrap()).unwrap();
            let handshake = handshake::<_, _, Full<Bytes>>(ScopeExecutor::new(s), io);
            let (sender, connection) = ecru::block_on(handshake).unwrap().unwrap();
            // It ends because the server closes it.
            let _ = ecru::timeout(HOUR, || ecru::block_on(connection)).unwrap().unwrap();
            drop(sender);
            let mut silent = Client::connect(address);
            let mut partial = Client::connect(address);
            std::io::Write::write_all(&mut partial.0, b"PRI * HT").unwrap();
            assert!(silent.is_closed() && partial.is_closed());
            drop(stop);
            server.join().unwrap().unwrap();
        });
        // On a slow machine, the first client may not have said in time what it speaks.
        let errors = errors.into_inner().unwrap();
        assert!(matches!(*errors, [ErrorKind::TimedOut, ErrorKind::TimedOut, ..]), "{errors:?}");
    });
}

/// A stream whose client resets it is dropped, and its handler cancelled.
#[test]
fn a_stream_that_is_reset() {
    each_run(|| {
        let (begun, has_begun) = channel::bounded::<()>(1);
        let (ended, has_ended) = channel::bounded::<bool>(1);
        let waits = move |_: Request<RequestBody>| -> Result<_, Infallible> {
            begun.send(()).unwrap();
            let was_cancelled = ecru::sleep(HOUR).is_err();
            ecru::shield(|| ended.send(was_cancelled)).unwrap();
            Ok(page("late"))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server =
                s.spawn(|| serve(&listener, direct(waits)).http2().stop_when(stopped).run());
            ecru::scope(|s| {
                let sender = connect(s, address);
                let asking = s.spawn(move || {
                    let request = Request::get("http://here/").body(Full::<Bytes>::default());
                    let mut sender = sender;
                    // Cancelled, which drops the request and resets its stream.
                    assert!(ecru::block_on(sender.send_request(request.unwrap())).is_err());
                    sender
                });
                has_begun.recv().unwrap();
                asking.cancel();
                assert_eq!(has_ended.recv(), Ok(true));
                drop(asking.join());
                s.cancel();
            });
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}
