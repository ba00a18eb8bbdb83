//! `serve` with axum's router and with plain functions, by clients that know nothing of ecru.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use axum::extract::{Json, Path, State};
use axum::routing::{get, post};
use common::{each_run, ms, quiet_panic, until};
use ecru::Cancelled;
use ecru::Source as _;
use ecru::channel::{self, Receiver, Sender};
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::{direct, serve};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

/// Sends requests on one connection, and reads their answers.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        Client(TcpStream::connect(address).unwrap())
    }

    /// Returns the status line and the body.
    fn ask(&mut self, request: &str) -> io::Result<(String, String)> {
        self.0.write_all(request.as_bytes())?;
        self.answer()
    }

    fn get(&mut self, path: &str) -> io::Result<(String, String)> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"))
    }

    fn answer(&mut self) -> io::Result<(String, String)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
        });
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body)?;
        Ok((head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap()))
    }

    /// Returns whether the server closes the connection without an answer.
    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// A server that stops when the sender is dropped, and its address.
fn listen() -> (TcpListener, SocketAddr, Sender<()>, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = channel::bounded(0);
    (listener, address, stop, stopped)
}

/// axum's router, unchanged: paths, state, JSON, errors, several connections.
#[test]
fn an_axum_router() {
    #[derive(Clone)]
    struct Counter(std::sync::Arc<AtomicUsize>);
    async fn count(State(counter): State<Counter>) -> String {
        format!("{}", counter.0.fetch_add(1, SeqCst))
    }
    async fn double(Json(numbers): Json<Vec<u32>>) -> Json<Vec<u32>> {
        Json(numbers.into_iter().map(|number| 2 * number).collect())
    }
    async fn slow(Path(length): Path<u64>) -> String {
        let (tx, rx) = channel::bounded::<u64>(1);
        let other = ecru::spawn(move || {
            ecru::sleep(Duration::from_millis(length)).unwrap();
            tx.send(length).unwrap();
        });
        let received = rx.to_future().await.unwrap();
        other.into_future().await.unwrap();
        format!("after {received}")
    }
    each_run(|| {
        let router = axum::Router::new()
            .route("/count", get(count))
            .route("/double", post(double))
            .route("/slow/{length}", get(slow))
            .with_state(Counter(std::sync::Arc::default()));
        let (listener, address, stop, stopped) = listen();
        let served = ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let (mut one, mut other) = (Client::connect(address), Client::connect(address));
            for number in 0..5 {
                let client = if number % 2 == 0 { &mut one } else { &mut other };
                let (status, body) = client.get("/count").unwrap();
                assert_eq!((status.as_str(), body), ("HTTP/1.1 200 OK", number.to_string()));
            }
            let body = "[1,2,3]";
            let request = format!(
                "POST /double HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            assert_eq!(one.ask(&request).unwrap().1, "[2,4,6]");
            assert_eq!(one.get("/nothing").unwrap().0, "HTTP/1.1 404 Not Found");
            assert_eq!(other.get("/slow/2").unwrap().1, "after 2");
            drop(stop);
            // Idle connections are closed at once.
            assert!(one.is_closed() && other.is_closed());
            server.join().unwrap()
        });
        assert_eq!(served.unwrap().connections(), 2);
    });
}

/// A plain function waits in direct style, fails, panics, and is cancelled with its connection.
#[test]
fn a_plain_function() {
    each_run(|| {
        let cancelled = std::sync::Arc::new(AtomicUsize::new(0));
        let own = std::sync::Arc::clone(&cancelled);
        let (begun, has_begun) = channel::bounded::<()>(1);
        let handler = move |request: Request<Incoming>| {
            match request.uri().path() {
                "/panics" => quiet_panic("the handler"),
                "/fails" => return Err(io::Error::other("no")),
                "/waits" => {
                    begun.try_send(()).unwrap();
                    let waited = ecru::sleep(common::HOUR);
                    own.fetch_add(usize::from(waited.is_err()), SeqCst);
                    waited?;
                }
                _ => ecru::sleep(ms(1))?,
            }
            Ok(Response::new(Full::new(Bytes::from("direct"))))
        };
        let (listener, address, stop, stopped) = listen();
        let errors = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(handler))
                    .on_error(|error, peer| errors.lock().unwrap().push((error, peer)))
                    .stop_when(stopped)
                    .run()
            });
            let mut client = Client::connect(address);
            assert_eq!(client.get("/").unwrap().1, "direct");
            assert_eq!(client.get("/again").unwrap().1, "direct");
            for path in ["/panics", "/fails"] {
                assert!(Client::connect(address).get(path).is_err(), "{path}");
            }
            let mut waiting = Client::connect(address);
            waiting.0.write_all(b"GET /waits HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            has_begun.recv().unwrap();
            drop(waiting);
            until(|| cancelled.load(SeqCst) == 1);
            drop(stop);
            server.join().unwrap().unwrap();
        });
        let errors = errors.into_inner().unwrap();
        assert!(errors.len() >= 2 && errors.iter().all(|(_, peer)| peer.is_some()), "{errors:?}");
    });
}

/// The stop lets a request in progress end, and the grace ends one that takes too long.
#[test]
fn a_graceful_stop() {
    each_run(|| {
        for grace in [None, Some(ms(5))] {
            let (begun, has_begun) = channel::bounded::<()>(1);
            let (go_on, may_go_on) = channel::bounded::<()>(1);
            let handler = move |_: Request<Incoming>| {
                begun.send(()).unwrap();
                may_go_on.recv().map_err(io::Error::from)?;
                io::Result::Ok(Response::new(Full::new(Bytes::from("finished"))))
            };
            let (listener, address, stop, stopped) = listen();
            ecru::scope(|s| {
                let server = s.spawn(|| {
                    let server = serve(&listener, direct(handler)).stop_when(stopped);
                    match grace {
                        Some(grace) => server.grace(grace).run(),
                        None => server.run(),
                    }
                });
                let mut client = Client::connect(address);
                client.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
                has_begun.recv().unwrap();
                drop(stop);
                if grace.is_some() {
                    assert!(client.answer().is_err());
                } else {
                    go_on.send(()).unwrap();
                    assert_eq!(client.answer().unwrap().1, "finished");
                }
                assert_eq!(server.join().unwrap().unwrap().connections(), 1);
            });
        }
    });
}

/// A client that does not send the head of its request in time is closed, and the limit of
/// connections lets the next one in.
#[test]
fn limits() {
    each_run(|| {
        let handler = |_: Request<Incoming>| io::Result::Ok(Response::new(Full::new(Bytes::new())));
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(handler))
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
            assert_eq!(Client::connect(address).get("/").unwrap().0, "HTTP/1.1 200 OK");
            drop(stop);
            assert_eq!(server.join().unwrap().unwrap().connections(), 3);
        });
        let nothing = serve(&listener, direct(handler)).limit(0).run().unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::InvalidInput);
    });
}

/// A server that is cancelled closes its connections.
#[test]
fn a_cancelled_server() {
    each_run(|| {
        let handler = |_: Request<Incoming>| io::Result::Ok(Response::new(Full::new(Bytes::new())));
        let (listener, address, _stop, _stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(handler)).run());
            let mut client = Client::connect(address);
            client.get("/").unwrap();
            server.cancel();
            assert!(client.is_closed());
            let error = server.join().unwrap().unwrap_err();
            assert!(Cancelled::find(&error).is_some(), "{error:?}");
        });
    });
}

/// The stop reaches clients that have sent nothing, and those that wait for room, while an idle one
/// has it.
#[test]
fn a_stop_while_clients_wait_for_room() {
    each_run(|| {
        let handler = |_: Request<Incoming>| io::Result::Ok(Response::new(Full::new(Bytes::new())));
        for asks in [false, true] {
            let (listener, address, stop, stopped) = listen();
            ecru::scope(|s| {
                let server =
                    s.spawn(|| serve(&listener, direct(handler)).limit(1).stop_when(stopped).run());
                let mut idle = Client::connect(address);
                if asks {
                    idle.get("/").unwrap();
                }
                let mut waiting = Client::connect(address);
                waiting.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
                common::settle();
                drop(stop);
                assert!(idle.is_closed() && waiting.is_closed());
                server.join().unwrap().unwrap();
            });
        }
    });
}
