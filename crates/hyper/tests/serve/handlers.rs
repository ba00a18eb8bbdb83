//! Handlers of both kinds, and the ends of a server.

use std::io::{self, Read as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use axum::extract::{Json, Path, State};
use axum::response::IntoResponse as _;
use axum::routing::{get, get_service, post};
use ecru::Cancelled;
use ecru::Source as _;
use ecru::channel;
use ecru_hyper::{RequestBody, TimeoutLayer, direct, handler, serve};
use http_body_util::Full;
use hyper::body::{Body as _, Bytes};
use hyper::{Request, Response};

use crate::client::{Client, hello, listen, page};
use crate::common::{HOUR, each_run, ms, quiet_panic, settle, until};

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
        let handler = move |request: Request<RequestBody>| {
            match request.uri().path() {
                "/panics" => quiet_panic("the handler"),
                "/fails" => return Err(io::Error::other("no")),
                "/waits" => {
                    begun.try_send(()).unwrap();
                    let waited = ecru::sleep(HOUR);
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
            let handler = move |_: Request<RequestBody>| {
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

/// A server that is cancelled closes its connections.
#[test]
fn a_cancelled_server() {
    each_run(|| {
        let handler =
            |_: Request<RequestBody>| io::Result::Ok(Response::new(Full::new(Bytes::new())));
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
fn a_stop_while_clients_wait_for_room_slow() {
    each_run(|| {
        let handler =
            |_: Request<RequestBody>| io::Result::Ok(Response::new(Full::new(Bytes::new())));
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
                // Only then is it certain that the other client has the room: both may be accepted
                // at once, by two workers.
                if asks {
                    waiting.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
                }
                settle();
                drop(stop);
                assert!(idle.is_closed() && waiting.is_closed());
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// A function in direct style as a route of axum's, and the limit of a request's time.
#[test]
fn a_route_in_direct_style_and_a_time_limit() {
    each_run(|| {
        let waits = |_: axum::extract::Request| match ecru::sleep(ms(1)) {
            Ok(()) => "slept".into_response(),
            Err(_) => quiet_panic("nobody cancels it"),
        };
        let never = async || {
            std::future::pending::<()>().await;
            "never"
        };
        let router = axum::Router::new()
            .route("/waits", get_service(handler(waits)))
            .route("/never", get(never))
            .layer(TimeoutLayer::new(ms(20)))
            .route("/panics", get_service(handler(|_| -> &str { quiet_panic("handler") })));
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let mut client = Client::connect(address);
            assert_eq!(client.get("/never").unwrap().0, "HTTP/1.1 408 Request Timeout");
            assert!(Client::connect(address).get("/panics").is_err());
            let answer = client.get("/waits").unwrap();
            // It has slept, unless the machine was too slow for it.
            assert!(
                answer.1 == "slept" || answer.0 == "HTTP/1.1 408 Request Timeout",
                "{answer:?}"
            );
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A handler in direct style reads the body as any stream, in pieces that it chooses.
#[test]
fn a_body_is_read_in_direct_style() {
    each_run(|| {
        let reads = |request: Request<RequestBody>| -> io::Result<_> {
            let mut body = request.into_body();
            let mut start = [0; 3];
            body.read_exact(&mut start)?;
            let rest = body.bytes()?;
            Ok(page([&start[..], b"|", &rest].concat()))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(reads)).stop_when(stopped).run());
            let mut client = Client::connect(address);
            let chunked = "POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n";
            let body = "2\r\nab\r\n4\r\ncdef\r\n1\r\ng\r\n0\r\n\r\n";
            client.0.write_all(chunked.as_bytes()).unwrap();
            client.0.write_all(body.as_bytes()).unwrap();
            assert_eq!(client.answer().unwrap().1, "abc|defg");
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A client that has closed its sending side has left, and its request is dropped.
#[test]
fn a_half_closed_client() {
    each_run(|| {
        let (begun, has_begun) = channel::bounded::<()>(1);
        let cancelled = std::sync::Arc::new(AtomicUsize::new(0));
        let own = std::sync::Arc::clone(&cancelled);
        let waits = move |_: Request<RequestBody>| -> io::Result<_> {
            begun.try_send(()).unwrap();
            own.fetch_add(usize::from(ecru::sleep(HOUR).is_err()), SeqCst);
            Ok(page("late"))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(waits)).stop_when(stopped).run());
            let mut client = Client::connect(address);
            client.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            has_begun.recv().unwrap();
            client.0.shutdown(ecru::net::Shutdown::Write).unwrap();
            assert!(client.is_closed());
            until(|| cancelled.load(SeqCst) == 1);
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A response that is streamed while its client leaves, and one that panics half-way.
#[test]
fn a_streamed_response_that_ends_early() {
    struct Endless {
        sent: usize,
        panics: bool,
    }
    impl hyper::body::Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            self.sent += 1;
            if self.panics && self.sent > 3 {
                quiet_panic("half-way");
            }
            let frame = hyper::body::Frame::data(Bytes::from_static(&[b'x'; 10_000]));
            std::task::Poll::Ready(Some(Ok(frame)))
        }
    }
    each_run(|| {
        let endless = |request: Request<RequestBody>| -> io::Result<_> {
            assert!(request.body().is_end_stream());
            Ok(Response::new(Endless { sent: 0, panics: request.uri().path() == "/panics" }))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(endless)).stop_when(stopped).run());
            assert!(Client::connect(address).get("/").unwrap().0.ends_with("200 OK"));
            let mut client = Client::connect(address);
            client.0.write_all(b"GET /panics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            // It may end before anything was sent.
            let mut answer = Vec::new();
            let _ = client.0.read_to_end(&mut answer);
            assert!(answer.len() < 50_000);
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A client that is connected just before the stop is answered, and its connection then closed.
#[test]
fn a_first_request_during_the_stop() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(hello)).stop_when(stopped).run());
            let mut before = Client::connect(address);
            before.get("/").unwrap();
            let mut fresh = Client::connect(address);
            settle();
            drop(stop);
            assert!(before.is_closed());
            // Unless the machine took a second for this, it is answered.
            let begun = ecru::time::now();
            match fresh.get("/") {
                Ok((_, body)) => assert_eq!(body, "hello"),
                Err(_) => assert!(ecru::time::now() - begun > ms(200)),
            }
            assert!(fresh.is_closed());
            server.join().unwrap().unwrap();
        });
    });
}

/// The stop ends connections in each state before a request, and lets a response be finished that
/// its client takes late.
#[test]
fn a_stop_in_each_state_slow() {
    each_run(|| {
        const LARGE: usize = 8 << 20;
        let (sent, has_sent) = channel::bounded::<()>(1);
        let large = move |request: Request<RequestBody>| -> io::Result<_> {
            let body = request.into_body().bytes()?;
            sent.try_send(()).unwrap();
            Ok(page(vec![b'x'; LARGE + body.len()]))
        };
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(large)).stop_when(stopped).run());
            let mut silent = Client::connect(address);
            let mut partial = Client::connect(address);
            partial.0.write_all(b"GET / HT").unwrap();
            let mut taking = Client::connect(address);
            taking.0.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            has_sent.recv().unwrap();
            let mut sending = Client::connect(address);
            let head = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nab";
            sending.0.write_all(head).unwrap();
            settle();
            drop(stop);
            assert!(silent.is_closed() && partial.is_closed());
            assert_eq!(taking.answer().unwrap().1.len(), LARGE);
            assert!(taking.is_closed());
            sending.0.write_all(b"cde").unwrap();
            assert_eq!(sending.answer().unwrap().1.len(), LARGE + 5);
            server.join().unwrap().unwrap();
        });
    });
}

/// A future handler that waits in direct style in a task of its own, which ends with its client.
#[test]
fn a_handler_with_a_task() {
    async fn hours(Path(length): Path<u64>) -> Result<String, String> {
        let text = ecru_hyper::in_task(move || {
            ecru::sleep(Duration::from_millis(length))?;
            if length == 7 { quiet_panic("an unlucky number") } else { Ok::<_, Cancelled>("slept") }
        });
        Ok(text.await.map_err(|error| error.to_string())?.into())
    }
    each_run(|| {
        let router = axum::Router::new().route("/{length}", get(hours));
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let mut client = Client::connect(address);
            assert_eq!(client.get("/1").unwrap().1, "slept");
            assert_eq!(client.get("/7").unwrap().1, "the handler panicked: an unlucky number");
            let mut leaves = Client::connect(address);
            leaves.0.write_all(b"GET /3600000 HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            settle();
            drop((leaves, client, stop));
            // It does not wait for an hour.
            server.join().unwrap().unwrap();
        });
    });
}
