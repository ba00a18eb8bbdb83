//! `in_task`, `peers`, `refuse_late` and the service itself, used in ways that their documents do
//! not describe.
#![expect(clippy::mem_forget, reason = "a future that is forgotten is one of the attacks")]

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get;
use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::{DirectError, Peer, RequestBody, client, direct, in_task, serve};
use hyper::Request;
use tower_service::Service;

use crate::client::{Client, Page, hello, listen, page};
use crate::common::{HOUR, OnDrop, begin, each_run, ms, panic_text, quiet_panic, until};

/// Polls a future once.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A task of `in_task` that is dropped, unpolled or polled, is cancelled. One that is forgotten runs
/// to its end, and the run awaits it.
#[test]
fn a_task_without_its_future() {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    each_run(|| {
        begun.store(0, SeqCst);
        ended.store(0, SeqCst);
        let task = || {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            in_task(move || {
                begun.fetch_add(1, SeqCst);
                let result = ecru::sleep(HOUR);
                ended.fetch_add(1, SeqCst);
                result
            })
        };
        let mut polled = task();
        assert!(poll_once(&mut polled).is_pending());
        until(|| begun.load(SeqCst) == 1);
        drop(polled);
        until(|| ended.load(SeqCst) == 1);
        drop(task());
        let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
        std::mem::forget(in_task(move || {
            begun.fetch_add(1, SeqCst);
            let result = ecru::sleep(ms(1));
            ended.fetch_add(1, SeqCst);
            result
        }));
    });
    // The second one may have been cancelled before it began.
    assert!(begun.load(SeqCst) >= 2 && begun.load(SeqCst) == ended.load(SeqCst));
}

/// The future is polled on another thread, and after it was ready. Its task panics without a text.
#[test]
fn a_future_elsewhere() {
    each_run(|| {
        let task = in_task(|| ecru::sleep(ms(1)).map(|()| 7));
        let number = ecru::unblock(|| {
            let alone = tokio::runtime::Builder::new_current_thread().build().unwrap();
            alone.block_on(task).unwrap()
        });
        assert_eq!(number, 7);
        let mut again = in_task(|| Ok::<_, Infallible>(7));
        assert_eq!(ecru::block_on(&mut again).unwrap().unwrap(), 7);
        assert!(matches!(ecru::block_on(&mut again), Ok(Err(DirectError::Cancelled))));
        let silent = in_task(|| -> Result<(), Infallible> { resume_unwind(Box::new(7)) });
        assert!(matches!(ecru::block_on(silent), Ok(Err(DirectError::Panicked(None)))));
        let nested = in_task(|| {
            let inner = in_task(|| Ok::<_, Infallible>(thread::current().id()));
            Ok::<_, ecru::Cancelled>(ecru::block_on(inner)?.unwrap())
        });
        ecru::block_on(nested).unwrap().unwrap();
    });
    let text = panic_text(|| in_task(|| Ok::<_, Infallible>(())));
    assert!(text.contains("run"), "{text}");
}

/// A future of `in_task` that is polled, or dropped, after its run. The run has awaited the task.
#[test]
fn a_future_after_its_run() {
    let _watchdog = crate::common::Watchdog::new();
    let slow = || in_task(|| ecru::sleep(ms(1)).map(|()| 7));
    let mut kept = ecru::run(slow);
    assert!(matches!(poll_once(&mut kept), Poll::Ready(Ok(7))));
    drop(kept);
    drop(ecru::run(slow));
}

/// The address of the client over HTTP/2 and TLS, which a client cannot set, and which is missing
/// unless it was asked for.
#[test]
fn addresses() {
    async fn address(Extension(Peer(client)): Extension<Peer>) -> String {
        client.to_string()
    }
    each_run(|| {
        let identity = crate::tls::Identity::new();
        let (listener, here, stop, stopped) = listen();
        let router = Router::new().route("/", get(address));
        ecru::scope(|s| {
            let server = serve(&listener, router.clone()).tls(Arc::clone(&identity.server));
            s.spawn(|| server.http1().http2().peers().stop_when(stopped).run().unwrap());
            let url = format!("https://localhost:{}/", here.port());
            let tls = Arc::new(identity.client.clone());
            for client in [
                client(s).tls(Arc::clone(&tls)).build(),
                client(s).tls(Arc::clone(&tls)).http2().build(),
            ] {
                let text = client.get(&url).unwrap().into_body().bytes().unwrap();
                assert!(text.starts_with(b"127.0.0.1:") && !text.ends_with(b":0"), "{text:?}");
            }
            drop(stop);
        });
        let (listener, here, stop, stopped) = listen();
        ecru::scope(|s| {
            s.spawn(|| serve(&listener, router.clone()).stop_when(stopped).run().unwrap());
            let (status, _) = Client::connect(here).get("/").unwrap();
            assert!(status.starts_with("HTTP/1.1 500"), "{status}");
            drop(stop);
        });
    });
}

/// After `refuse_late`, also by a cancellation, a client is refused, and `accept` does not hang.
#[test]
fn a_listener_after_its_end() {
    each_run(|| {
        for is_cancelled in [false, true] {
            let (listener, address, stop, stopped) = listen();
            ecru::scope(|s| {
                let server = begin(s, || {
                    serve(&listener, direct(hello)).stop_when(stopped).refuse_late().run()
                });
                if is_cancelled {
                    server.cancel();
                } else {
                    drop(stop);
                }
                assert_eq!(server.join().unwrap().is_err(), is_cancelled);
            });
            let connected = TcpStream::connect(address);
            let accepted = ecru::timeout(ms(20), || listener.accept());
            assert!(connected.is_err());
            assert!(matches!(accepted, Ok(Err(_))), "{accepted:?}");
            let second = serve(&listener, direct(hello)).run();
            assert!(second.is_err(), "a listener that is shut down cannot be served again");
        }
    });
}

/// A service that fails at each of its parts.
#[derive(Debug)]
struct Broken {
    part: Arc<AtomicUsize>,
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        if self.part.load(SeqCst) == 1 {
            quiet_panic("in clone");
        }
        Broken { part: Arc::clone(&self.part) }
    }
}

impl Service<Request<RequestBody>> for Broken {
    type Response = Page;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Page, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        match self.part.load(SeqCst) {
            2 => quiet_panic("in poll_ready"),
            3 => Poll::Ready(Err("not ready".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<RequestBody>) -> Self::Future {
        match self.part.load(SeqCst) {
            4 => quiet_panic("in call"),
            5 => Box::pin(async {
                let _last = OnDrop(|| quiet_panic("in the future's destructor"));
                Err(String::from("failed"))
            }),
            6 => Box::pin(async {
                let mut response = page("with an extension");
                response.extensions_mut().insert(Arc::new(OnDropOnce));
                Ok(response)
            }),
            _ => Box::pin(async { Ok(page("whole")) }),
        }
    }
}

/// Panics when it is dropped.
struct OnDropOnce;

impl Drop for OnDropOnce {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("in an extension's destructor");
        }
    }
}

/// A service that panics anywhere ends its connection, and no other, over both protocols.
#[test]
fn a_service_that_is_broken() {
    each_run(|| {
        for http2 in [false, true] {
            let (listener, address, stop, stopped) = listen();
            let part = Arc::new(AtomicUsize::new(0));
            let service = Broken { part: Arc::clone(&part) };
            ecru::scope(|s| {
                let server =
                    s.spawn(|| serve(&listener, service).http1().http2().stop_when(stopped).run());
                let url = format!("http://{address}/");
                for broken in 1..=6 {
                    let builder = client(s);
                    let client = if http2 { builder.http2().build() } else { builder.build() };
                    part.store(broken, SeqCst);
                    let result = client.get(&url).and_then(|answer| answer.into_body().bytes());
                    part.store(0, SeqCst);
                    assert!(broken == 6 || result.is_err(), "part {broken}: {result:?}");
                    let whole = client.get(&url).unwrap().into_body().bytes().unwrap();
                    assert_eq!(whole, "whole");
                }
                drop(stop);
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// Bytes of a second request in the same segment, and a client that leaves between two requests,
/// while handlers wait in tasks.
#[test]
fn requests_in_one_segment() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let (entered, entries) = channel::unbounded();
        let slow = move |request: Request<RequestBody>| {
            entered.send(request.uri().path().to_owned()).unwrap();
            ecru::yield_now()?;
            Ok::<_, ecru::Cancelled>(page(request.uri().path().to_owned()))
        };
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, direct(slow)).stop_when(stopped).run());
            let mut stream = TcpStream::connect(address).unwrap();
            let request = |path| format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
            let both = [request("/1"), request("/2"), String::from("GET /3 HT")].concat();
            stream.write_all(both.as_bytes()).unwrap();
            let mut client = Client(stream);
            assert_eq!(client.answer().unwrap().1, "/1");
            assert_eq!(client.answer().unwrap().1, "/2");
            drop(client);
            drop(stop);
            assert_eq!(server.join().unwrap().unwrap().connections(), 1);
        });
        assert_eq!(entries.into_iter().collect::<Vec<_>>(), ["/1", "/2"]);
    });
}

/// A server whose handlers ask the server itself, within a limit that lets only some of them in:
/// the time limit of each ends it.
#[test]
fn a_server_that_asks_itself() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let url = format!("http://{address}/");
        ecru::scope(|s| {
            let asks = client(s).build();
            let own = url.clone();
            let recursive = move |_: Request<RequestBody>| {
                let inner = ecru::timeout(ms(20), || asks.get(&own));
                Ok::<_, Infallible>(page(if inner.is_ok() { "answered" } else { "gave up" }))
            };
            let server =
                s.spawn(|| serve(&listener, direct(recursive)).limit(3).stop_when(stopped).run());
            let outer = client(s).build().get(&url).unwrap().into_body().bytes().unwrap();
            assert!(outer == "answered" || outer == "gave up", "{outer:?}");
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// A report that panics: the server goes on, and `run` passes the panic on in the end.
#[test]
fn a_report_that_panics() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                serve(&listener, direct(hello))
                    .on_error(|_, _| quiet_panic("in the report"))
                    .stop_when(stopped)
                    .run()
            });
            let mut wrong = TcpStream::connect(address).unwrap();
            wrong.write_all(b"no HTTP\r\n\r\n").unwrap();
            wrong.read_to_end(&mut Vec::new()).unwrap();
            assert_eq!(Client::connect(address).get("/").unwrap().1, "hello");
            drop(stop);
            let error = server.join().unwrap_err();
            assert!(error.to_string().contains("in the report"), "{error}");
        });
    });
}

/// Listeners of one address: a second server goes on when the first one refuses late clients.
#[test]
fn a_second_listener() {
    each_run(|| {
        let (listener, address, stop, stopped) = listen();
        let second = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = second.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| serve(&second, direct(hello)).run());
            s.spawn(|| serve(&listener, direct(hello)).stop_when(stopped).refuse_late().run());
            drop(stop);
            until(|| TcpStream::connect(address).is_err());
            assert_eq!(Client::connect(other).get("/").unwrap().1, "hello");
        });
    });
}
