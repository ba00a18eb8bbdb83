//! The client, against servers of this crate and against sockets.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::routing::any;
use ecru::Cancelled;
use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::{Client, RequestBody, client, direct, serve};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::{Request, StatusCode, Version};

use crate::client::{Page, hello, listen, page};
use crate::common::{HOUR, each_run, ms, settle};
use crate::tls::Identity;

fn echo(request: Request<RequestBody>) -> io::Result<Page> {
    Ok(page(request.into_body().bytes()?))
}

fn post(url: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::new(body.into())).unwrap()
}

/// How many requests in a row share connections. The next request can come before the last one has
/// returned its connection, and then opens another one.
const IN_A_ROW: usize = 50;

/// Requests one after the other share connections, whatever their size.
#[test]
fn connections_are_kept() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let url = format!("http://{address}/");
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(echo)).stop_when(stopped).run());
            let client = client(s).build();
            for length in [0, 1, 100_000, 1 << 20, 3] {
                let body = vec![7; length];
                let response = client.send(post(&url, body.clone())).unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert_eq!(response.into_body().bytes().unwrap(), body);
            }
            let mut response = client.send(post(&url, "by pieces")).unwrap();
            let mut piece = [0; 3];
            response.body_mut().read_exact(&mut piece).unwrap();
            assert_eq!(&piece, b"by ");
            assert!(!response.body().is_end_stream());
            let mut rest = String::new();
            response.body_mut().read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "pieces");
            for _ in 0..IN_A_ROW {
                assert_eq!(client.get(&url).unwrap().into_body().bytes().unwrap(), "");
            }
            drop(stop);
            assert!(server.join().unwrap().unwrap().connections() < IN_A_ROW);
        });
    });
}

/// Many requests at once: HTTP/1.1 opens a connection for each, and keeps it; HTTP/2 shares one.
#[test]
fn requests_at_once() {
    const AT_ONCE: usize = 20;
    each_run(|| {
        for http2 in [false, true] {
            let (listener, address, stop, stopped) = listen();
            let url = format!("http://{address}/");
            let (all_here, wait) = (AtomicUsize::new(0), channel::bounded::<()>(0));
            let together = {
                let (here, wait) = (Arc::new(all_here), Arc::new(wait));
                move |request: Request<RequestBody>| -> io::Result<Page> {
                    // The last one lets the others go on.
                    if here.fetch_add(1, SeqCst) + 1 == AT_ONCE {
                        wait.1.close();
                    }
                    let _ = wait.1.recv();
                    assert_eq!(request.version() == Version::HTTP_2, http2);
                    Ok(page("together"))
                }
            };
            ecru::scope(|s| {
                let server = serve(&listener, direct(together)).http1().http2();
                let server = s.spawn(|| server.stop_when(stopped).run());
                let builder = client(s);
                let client = if http2 { builder.http2().build() } else { builder.build() };
                ecru::scope(|requests| {
                    for _ in 0..AT_ONCE {
                        requests.spawn(|| {
                            let body = client.get(&url).unwrap().into_body();
                            assert_eq!(body.bytes().unwrap(), "together");
                        });
                    }
                });
                drop(client);
                drop(stop);
                let connections = server.join().unwrap().unwrap().connections();
                assert_eq!(connections, if http2 { 1 } else { AT_ONCE });
            });
        }
    });
}

/// The protocol is chosen by ALPN, and a server that is not trusted gets no request.
#[test]
fn requests_by_tls() {
    each_run(|| {
        let (identity, stranger) = (Identity::new(), Identity::new());
        let (listener, address, stop, stopped) = listen();
        let url = format!("https://localhost:{}/", address.port());
        ecru::scope(|s| {
            let server = serve(&listener, direct(hello)).tls(Arc::clone(&identity.server));
            let server = s.spawn(|| server.http1().http2().stop_when(stopped).run());
            let trusted = || Arc::new(identity.client.clone());
            let cases = [
                (client(s), Version::HTTP_11),
                (client(s).http1().http2(), Version::HTTP_2),
                (client(s).http2(), Version::HTTP_2),
            ];
            for (builder, version) in cases {
                let client = builder.tls(trusted()).connect_timeout(HOUR).build();
                for _ in 0..2 {
                    let response = client.get(&url).unwrap();
                    assert_eq!(response.version(), version);
                    assert_eq!(response.into_body().bytes().unwrap(), "hello");
                }
            }
            let distrustful = client(s).tls(Arc::new(stranger.client.clone())).build();
            let error = distrustful.get(&url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("certificate"), "{error}");
            drop((distrustful, stop));
            server.join().unwrap().unwrap();
        });
    });
}

/// A reverse proxy of axum's handlers, whose bodies pass in pieces.
#[test]
fn a_proxy_of_futures() {
    async fn forward(
        State((client, host)): State<(Client, String)>,
        mut request: axum::extract::Request,
    ) -> Result<axum::response::Response, (StatusCode, String)> {
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://{host}{path}").parse().unwrap();
        match client.request(request).await {
            Ok(response) => Ok(response.map(axum::body::Body::new)),
            Err(error) => Err((StatusCode::BAD_GATEWAY, error.to_string())),
        }
    }
    each_run(|| {
        let (behind, behind_address, stop_behind, behind_stopped) = listen();
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server =
                s.spawn(move || serve(&behind, direct(echo)).stop_when(behind_stopped).run());
            let state = (client(s).build(), behind_address.to_string());
            let router = axum::Router::new().fallback(any(forward)).with_state(state);
            let proxy = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let client = client(s).build();
            let url = format!("http://{address}/somewhere");
            let body: Vec<u8> = (0..1_000_000).map(|index| (index % 251) as u8).collect();
            let response = client.send(post(&url, body.clone())).unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert!(response.into_body().bytes().unwrap() == body);
            for _ in 0..IN_A_ROW {
                let response = client.send(post(&url, "short")).unwrap();
                assert_eq!(response.into_body().bytes().unwrap(), "short");
            }
            // The server behind stops, and closes its connections.
            drop(stop_behind);
            assert!(server.join().unwrap().unwrap().connections() < IN_A_ROW);
            let response = client.send(post(&url, "late")).unwrap();
            assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
            let text = response.into_body().bytes().unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let named = format!("POST http://{behind_address}/somewhere: ");
            assert!(text.starts_with(&named) && text.contains("refused"), "{text}");
            drop(stop);
            assert!(proxy.join().unwrap().unwrap().connections() < IN_A_ROW);
        });
    });
}

/// What is wrong is named, and nothing that may be secret.
#[test]
fn requests_that_cannot_be_sent() {
    each_run(|| {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        ecru::scope(|s| {
            let client = client(s).build();
            let error = client.get(&format!("http://me:word@{free}/a?key=word")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            let text = error.to_string();
            assert!(text.starts_with(&format!("GET http://{free}/a: ")), "{text}");
            assert!(!text.contains("word"), "{text}");
            for (url, kind, part) in [
                ("no url", ErrorKind::InvalidInput, "\"no url\" is no URL"),
                ("/path", ErrorKind::InvalidInput, "as in http://host/path"),
                ("ftp://localhost/", ErrorKind::InvalidInput, "\"ftp\" is neither http nor https"),
                ("https://localhost/", ErrorKind::InvalidInput, "client(..).tls"),
            ] {
                let error = client.get(url).unwrap_err();
                assert!(error.to_string().contains(part), "{url}: {error}");
                assert_eq!(error.kind(), kind, "{url}: {error}");
            }
        });
    });
}

/// A body that fails ends the request, and names the reason.
#[test]
fn a_body_that_fails() {
    struct Fails;
    impl Body for Fails {
        type Data = Bytes;
        type Error = io::Error;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            Poll::Ready(Some(Err(io::Error::new(ErrorKind::NotFound, "the file has gone"))))
        }
    }
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(echo)).stop_when(stopped).run());
            let client = client(s).build();
            let request = Request::post(format!("http://{address}/")).body(Fails).unwrap();
            let error = client.send(request).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains("the file has gone"), "{error}");
            drop((client, stop));
            server.join().unwrap().unwrap();
        });
    });
}

/// Reads the head of a request.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A limit, or the drop of a future, closes the connection whose answer does not come.
#[test]
fn requests_that_are_given_up() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (received, next) = channel::bounded(0);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                for _ in 0..3 {
                    let mut stream = listener.accept().unwrap().0;
                    assert!(head(&mut stream).starts_with("GET / HTTP/1.1\r\nhost: 127.0.0.1:"));
                    received.send(()).unwrap();
                    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
                }
            });
            let client = client(s).build();
            let cancelled = |result: io::Result<_>| Cancelled::find(&result.unwrap_err()).is_some();
            // By a cancellation.
            ecru::scope(|s| {
                let request = s.spawn(|| cancelled(client.get(&url)));
                next.recv().unwrap();
                s.cancel();
                assert!(request.join().unwrap());
            });
            // By a limit, which passes after the request has been received.
            let limited = ecru::scope(|s| {
                let limited = s.spawn(|| ecru::timeout(ms(50), || client.get(&url)));
                next.recv().unwrap();
                limited.join().unwrap()
            });
            assert!(limited.is_err());
            // By a future that is dropped.
            let request = client.request(Request::get(&url).body(Empty::new()).unwrap());
            let future = s.spawn_future(request);
            next.recv().unwrap();
            future.cancel();
            assert!(future.join().is_err());
            server.join().unwrap();
        });
    });
}

/// A kept connection that the server has closed is replaced, and nobody sees an error.
#[test]
fn kept_connections_that_were_closed() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                for _ in 0..5 {
                    let mut stream = listener.accept().unwrap().0;
                    head(&mut stream);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").unwrap();
                }
            });
            let client = client(s).build();
            for _ in 0..5 {
                assert_eq!(client.get(&url).unwrap().into_body().bytes().unwrap(), "yes");
                settle();
            }
            server.join().unwrap();
        });
    });
}

/// A body that is dropped before its end closes its connection, and a truncated one is an error.
#[test]
fn bodies_that_do_not_end() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nthe beginning";
                let mut stream = listener.accept().unwrap().0;
                head(&mut stream);
                stream.write_all(answer).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the client has closed it");
                let mut stream = listener.accept().unwrap().0;
                head(&mut stream);
                stream.write_all(answer).unwrap();
            });
            let client = client(s).build();
            let mut dropped = client.get(&url).unwrap();
            dropped.body_mut().read_exact(&mut [0; 3]).unwrap();
            drop(dropped);
            let truncated = client.get(&url).unwrap().into_body().bytes();
            assert!(truncated.is_err());
            server.join().unwrap();
        });
    });
}

/// A client that outlives its scope fails, and nothing waits for it.
#[test]
fn a_client_after_its_scope() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let url = format!("http://{address}/");
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(hello)).stop_when(stopped).run());
            let client = ecru::scope(|s| {
                let client = client(s).build();
                client.get(&url).unwrap().into_body().bytes().unwrap();
                client
            });
            let error = client.get(&url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotConnected);
            assert!(error.to_string().ends_with("the client's scope has ended"), "{error}");
            drop(stop);
            // Its connection has been closed.
            server.join().unwrap().unwrap();
        });
    });
}

/// An address that is silent has its share of the limit.
#[test]
fn connections_that_take_too_long_slow() {
    each_run(|| {
        let (listener, address, _stop, _stopped) = listen();
        ecru::scope(|s| {
            // The server takes the connection, and its handshake never comes.
            let identity = Identity::new();
            let limited = client(s).tls(Arc::new(identity.client)).connect_timeout(ms(300)).build();
            let url = format!("https://localhost:{}/", address.port());
            let error = limited.get(&url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(error.to_string().contains("time limit for connecting"), "{error}");
        });
        drop(listener);
    });
}

/// A future of the client's needs no runtime of ecru's where it is polled.
#[test]
fn futures_on_another_runtime() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let url = format!("http://{address}/");
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(hello)).stop_when(stopped).run());
            let client = client(s).build();
            let tokio = ecru::unblock(|| {
                let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
                tokio.block_on(async {
                    let request = Request::get(&url).body(Empty::new()).unwrap();
                    client
                        .request(request)
                        .await?
                        .into_body()
                        .collect()
                        .await
                        .map_err(io::Error::other)
                })
            });
            assert_eq!(tokio.unwrap().to_bytes(), "hello");
            drop((client, stop));
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_client_in_a_try_scope() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let url = format!("http://{address}/");
        let text = ecru::try_scope(|s| {
            s.spawn(|| serve(&listener, direct(hello)).stop_when(stopped).run().map(drop));
            let text = client(s).build().get(&url)?.into_body().bytes()?;
            drop(stop);
            io::Result::Ok(text)
        });
        assert_eq!(text.unwrap(), "hello");
    });
}
