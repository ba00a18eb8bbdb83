//! hyper's servers and clients over ecru's streams, with one worker and with two.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{HOUR, each_run, listen, ms, pair, until};
use ecru::net::{Shutdown, TcpListener, TcpStream};
use ecru::{CancelReason, Source as _};
use ecru_hyper::{EcruIo, EcruTimer, RunExecutor, ScopeExecutor};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};

type Answer = Result<Response<Full<Bytes>>, hyper::Error>;

/// Echoes the body of a request. Without a body, returns the method and the path.
async fn echo(request: Request<Incoming>) -> Answer {
    let text = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::new(if body.is_empty() { Bytes::from(text) } else { body })))
}

/// Serves one connection from its beginning to its end.
fn serve_http1(stream: TcpStream) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let io = EcruIo::new(stream)?;
    Ok(ecru::block_on(http1::Builder::new().serve_connection(io, service_fn(echo)))??)
}

#[test]
fn a_client_that_knows_nothing_of_ecru() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve_http1(listener.accept().unwrap().0).unwrap());
            // ureq uses its own sockets, on a thread of their own.
            let answers = ecru::unblock(|| {
                let agent = ureq::agent();
                let got = agent.get(format!("http://{address}/page")).call().unwrap();
                assert_eq!(got.status(), 200);
                let got = got.into_body().read_to_string().unwrap();
                let posted = agent.post(format!("http://{address}/")).send("a body").unwrap();
                [got, posted.into_body().read_to_string().unwrap()]
            });
            assert_eq!(answers, ["GET /page", "a body"]);
            server.join().unwrap();
        });
    });
}

#[test]
fn a_client_of_hypers_and_two_connections_at_once() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn(|| {
                for _ in 0..2 {
                    let stream = listener.accept().unwrap().0;
                    s.spawn(|| serve_http1(stream).unwrap());
                }
            });
            let clients = ["/one", "/two"].map(|path| {
                s.spawn(move || {
                    let io = EcruIo::new(TcpStream::connect(address).unwrap()).unwrap();
                    let handshake = hyper::client::conn::http1::handshake(io);
                    let (mut sender, connection) = ecru::block_on(handshake).unwrap().unwrap();
                    s.spawn(|| ecru::block_on(connection).unwrap().unwrap());
                    ecru::block_on(async {
                        let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
                        let answer = sender.send_request(request).await.unwrap();
                        answer.into_body().collect().await.unwrap().to_bytes()
                    })
                    .unwrap()
                })
            });
            let [one, two] = clients.map(|client| client.join().unwrap());
            assert_eq!((&one[..], &two[..]), (&b"GET /one"[..], &b"GET /two"[..]));
        });
    });
}

#[test]
fn http2_many_streams_of_one_connection() {
    const STREAMS: usize = 20;
    each_run(|| {
        let (ours, theirs) = pair();
        let answered = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                let io = EcruIo::new(theirs).unwrap();
                let builder = http2::Builder::new(RunExecutor::new());
                ecru::block_on(builder.serve_connection(io, service_fn(echo))).unwrap().unwrap();
            });
            let io = EcruIo::new(ours).unwrap();
            let handshake = hyper::client::conn::http2::handshake(ScopeExecutor::new(s), io);
            let (sender, connection) = ecru::block_on(handshake).unwrap().unwrap();
            s.spawn(|| ecru::block_on(connection).unwrap().unwrap());
            let sender = &sender;
            ecru::scope(|s| {
                for number in 0..STREAMS {
                    let mut sender = sender.clone();
                    let answered = &answered;
                    s.spawn(move || {
                        let body = vec![b'x'; number * 10_000];
                        let request = Request::builder()
                            .method(Method::POST)
                            .uri(format!("http://localhost/{number}"))
                            .body(Full::new(Bytes::from(body.clone())))
                            .unwrap();
                        let answer = ecru::block_on(async {
                            let answer = sender.send_request(request).await.unwrap();
                            assert_eq!(answer.status(), StatusCode::OK);
                            answer.into_body().collect().await.unwrap().to_bytes()
                        })
                        .unwrap();
                        if number > 0 {
                            assert_eq!(answer, body);
                        } else {
                            assert_eq!(answer, "POST /0");
                        }
                        answered.fetch_add(1, SeqCst);
                    });
                }
            });
        });
        assert_eq!(answered.load(SeqCst), STREAMS);
    });
}

/// Back-pressure: chunks that a client does not read are not produced.
#[test]
fn a_slow_reader_is_waited_for() {
    const CHUNK: usize = 1 << 16;
    const CHUNKS: usize = 400; // some 26 MB: more than sockets hold
    each_run(|| {
        let (mut ours, theirs) = pair();
        let made = Arc::new(AtomicUsize::new(0)); // hyper's bodies are 'static
        ecru::scope(|s| {
            s.spawn(|| {
                let service = service_fn(async |_: Request<Incoming>| {
                    let made = Arc::clone(&made);
                    let chunks = pieces(CHUNKS, move || {
                        made.fetch_add(1, SeqCst);
                        Bytes::from(vec![b'x'; CHUNK])
                    });
                    Ok::<_, Infallible>(Response::new(chunks))
                });
                let io = EcruIo::new(theirs).unwrap();
                ecru::block_on(http1::Builder::new().serve_connection(io, service))
                    .unwrap()
                    .unwrap();
            });
            ours.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            // Waits until the count no longer changes.
            let mut before = 0;
            until(|| {
                ecru::sleep(ms(5)).unwrap();
                let now = made.load(SeqCst);
                let still = now > 0 && now == before;
                before = now;
                still
            });
            assert!(made.load(SeqCst) < CHUNKS, "all was made before anything was read");
            let mut answer = Vec::new();
            ours.read_to_end(&mut answer).unwrap();
            assert_eq!(
                answer.iter().rev().take_while(|byte| **byte == b'x').count(),
                CHUNK * CHUNKS
            );
        });
        assert_eq!(made.load(SeqCst), CHUNKS);
    });
}

/// Returns a body of `left` pieces, each produced when it is requested.
fn pieces(
    mut left: usize,
    mut make: impl FnMut() -> Bytes + Unpin,
) -> impl hyper::body::Body<Data = Bytes, Error = Infallible> {
    struct Pieces<F>(F);
    impl<F: FnMut() -> Option<Bytes> + Unpin> hyper::body::Body for Pieces<F> {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            std::task::Poll::Ready((self.0)().map(|bytes| Ok(hyper::body::Frame::data(bytes))))
        }
    }
    Pieces(move || {
        left = left.checked_sub(1)?;
        Some(make())
    })
}

/// The client sees the end of the connection, and nothing of the server is left.
#[test]
fn a_cancelled_connection() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let io = EcruIo::new(theirs).unwrap();
                ecru::block_on(http1::Builder::new().serve_connection(io, service_fn(echo)))
            });
            ours.write_all(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"GET /first") {
                let mut byte = [0];
                ours.read_exact(&mut byte).unwrap();
                answer.extend(byte);
            }
            server.cancel();
            let cancelled = server.join().unwrap().unwrap_err();
            assert_eq!(cancelled.reason(), CancelReason::Explicit);
            assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        });
    });
}

#[test]
fn a_timeout_around_a_connection_whose_client_is_silent() {
    each_run(|| {
        let (_ours, theirs) = pair();
        let io = EcruIo::new(theirs).unwrap();
        let connection = http1::Builder::new().serve_connection(io, service_fn(echo));
        assert!(ecru::timeout(ms(5), || ecru::block_on(connection)).is_err());
    });
}

/// The timeout also works while a wait is in flight in each direction.
#[test]
fn a_timeout_while_reading_and_writing() {
    each_run(|| {
        // A busy machine may reach the limit before the answer begins. Then a longer one follows.
        let mut limit = ms(20);
        while !answers_until(limit) {
            limit *= 2;
        }
    });
}

/// Serves an endless answer until the time limit. Returns whether the client has seen any of it.
fn answers_until(limit: Duration) -> bool {
    let (mut ours, theirs) = pair();
    ecru::scope(|s| {
        s.spawn(|| {
            let service = service_fn(async |_: Request<Incoming>| {
                Ok::<_, Infallible>(Response::new(pieces(usize::MAX, || {
                    Bytes::from_static(&[b'x'; 4096])
                })))
            });
            let io = EcruIo::new(theirs).unwrap();
            let connection = http1::Builder::new().serve_connection(io, service);
            assert!(ecru::timeout(limit, || ecru::block_on(connection)).is_err());
        });
        ours.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n").unwrap();
    });
    // The client reads what had been sent, and then the end.
    let mut answer = Vec::new();
    let ended = ours.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 200 OK"), "{ended:?}");
    !answer.is_empty()
}

/// hyper's own limit, measured by ecru's clock.
#[test]
fn the_timer() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let io = EcruIo::new(theirs).unwrap();
                let mut builder = http1::Builder::new();
                builder.timer(EcruTimer).header_read_timeout(ms(10));
                ecru::block_on(builder.serve_connection(io, service_fn(echo))).unwrap()
            });
            ours.write_all(b"GET / HT").unwrap();
            assert!(server.join().unwrap().unwrap_err().is_timeout());
        });
    });
}

#[test]
fn a_timer_that_is_dropped_or_never_comes() {
    use hyper::rt::Timer as _;
    each_run(|| {
        drop(EcruTimer.sleep(Duration::MAX));
        let both = ecru::timeout(ms(5), || ecru::block_on(EcruTimer.sleep(Duration::MAX)));
        assert!(both.is_err());
        let mut sleep = EcruTimer.sleep(HOUR);
        EcruTimer.reset(&mut sleep, std::time::Instant::now() + ms(1));
        assert_eq!(ecru::block_on(sleep), Ok(()));
    });
}

/// hyper's graceful stop: the request in progress is answered, and the connection closed.
#[test]
fn a_graceful_shutdown() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        let (stop, stopped) = ecru::channel::oneshot();
        let (arrived, arrival) = ecru::channel::oneshot();
        let (release, released) = ecru::channel::oneshot::<()>();
        ecru::scope(|s| {
            s.spawn(move || {
                let parts = std::sync::Mutex::new(Some((arrived, released)));
                let service = service_fn(move |_: Request<Incoming>| {
                    let (arrived, released) = parts.lock().unwrap().take().unwrap();
                    async move {
                        arrived.send(()).unwrap();
                        released.to_future().await.unwrap();
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"late"))))
                    }
                });
                let io = EcruIo::new(theirs).unwrap();
                let mut connection =
                    std::pin::pin!(http1::Builder::new().serve_connection(io, service));
                let mut stopped = stopped.to_future();
                let mut told = false;
                ecru::block_on(std::future::poll_fn(|context| {
                    if !told && std::pin::Pin::new(&mut stopped).poll(context).is_ready() {
                        told = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    connection.as_mut().poll(context)
                }))
                .unwrap()
                .unwrap();
            });
            ours.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            arrival.wait().unwrap().unwrap();
            stop.send(()).unwrap();
            release.send(()).unwrap();
            let mut answer = String::new();
            ours.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\nlate"), "{answer}");
        });
    });
}

/// The upgraded stream that hyper hands over is driven by another task.
#[test]
fn an_io_moves_between_tasks_and_runs_elsewhere() {
    each_run(|| {
        let (ours, mut theirs) = pair();
        let mut io = EcruIo::new(ours).unwrap();
        let read = move |io: &mut EcruIo| {
            let mut room = [0; 8];
            let mut buffer = hyper::rt::ReadBuf::new(&mut room);
            ecru::block_on(std::future::poll_fn(|context| {
                hyper::rt::Read::poll_read(std::pin::Pin::new(&mut *io), context, buffer.unfilled())
            }))
            .map(|read| read.map(|()| buffer.filled().to_vec()))
        };
        ecru::scope(|s| {
            // Polled here without success, so that a wait of this task is in flight.
            assert!(ecru::timeout(ms(2), || read(&mut io)).is_err());
            // Then polled on a plain thread.
            s.spawn(|| {
                ecru::sleep(ms(2)).unwrap();
                theirs.write_all(b"across").unwrap();
                theirs.shutdown(Shutdown::Write).unwrap();
            });
            assert_eq!(ecru::unblock(|| read(&mut io)).unwrap().unwrap(), b"across");
            let io = &mut io;
            assert_eq!(s.spawn(move || read(io).unwrap().unwrap()).join().unwrap(), b"");
        });
    });
}

/// A connection can be read on a plain thread, after the run in which it was made and polled.
#[test]
fn an_io_outlives_its_run() {
    let (ours, mut theirs) = pair();
    let mut io = EcruIo::new(ours).unwrap();
    let mut room = [0; 8];
    let mut read = |io: &mut EcruIo| {
        let mut buffer = hyper::rt::ReadBuf::new(&mut room);
        ecru::block_on(std::future::poll_fn(|context| {
            hyper::rt::Read::poll_read(std::pin::Pin::new(&mut *io), context, buffer.unfilled())
        }))
        .map_err(io::Error::from)??;
        io::Result::Ok(buffer.filled().to_vec())
    };
    ecru::run(|| {
        assert!(ecru::timeout(ms(5), || read(&mut io)).is_err());
        theirs.write_all(b"in the run").unwrap();
        assert_eq!(read(&mut io).unwrap(), b"in the r");
    });
    assert_eq!(read(&mut io).unwrap(), b"un");
    let later = std::thread::spawn(move || theirs.write_all(b"after").map(|()| theirs));
    assert_eq!(read(&mut io).unwrap(), b"after");
    later.join().unwrap().unwrap();
}

/// Connections without stacks: requests in pieces, several on one connection, a client that leaves
/// early, and a connection that is cancelled while its handler waits.
#[test]
fn connections_without_stacks() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while let Ok((stream, _)) = listener.accept() {
                    let io = EcruIo::new(stream).unwrap();
                    let builder = http1::Builder::new();
                    s.spawn_future(async move {
                        // The client may have left.
                        let _ = builder.serve_connection(io, service_fn(echo)).await;
                    });
                }
            });
            for pieces in [1, 3, 20] {
                let mut client = TcpStream::connect(address).unwrap();
                let request = b"GET /piece HTTP/1.1\r\nHost: localhost\r\n\r\n";
                for _ in 0..3 {
                    for piece in request.chunks(request.len() / pieces) {
                        client.write_all(piece).unwrap();
                        ecru::yield_now().unwrap();
                    }
                    let mut answer = Vec::new();
                    while !answer.ends_with(b"GET /piece") {
                        let mut byte = [0];
                        client.read_exact(&mut byte).unwrap();
                        answer.push(byte[0]);
                    }
                }
            }
            TcpStream::connect(address).unwrap().write_all(b"GET / HT").unwrap();
            s.cancel();
        });
    });
}

/// A thousand connections leave no connection, task or descriptor behind.
#[test]
fn nothing_is_left_behind() {
    let fds = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    each_run(|| {
        let serve_one = || -> io::Result<()> {
            let (mut ours, theirs) = pair();
            ecru::scope(|s| {
                s.spawn(|| serve_http1(theirs).unwrap());
                ours.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                let mut answer = String::new();
                ours.read_to_string(&mut answer)?;
                assert!(answer.ends_with("GET /"), "{answer}");
                Ok(())
            })
        };
        serve_one().unwrap();
        for _ in 0..200 {
            serve_one().unwrap();
        }
        // Other tests run beside this one. A leak here would be one descriptor for each of the two
        // hundred connections.
        assert!(fds() < 150, "{} fds are open", fds());
    });
}
