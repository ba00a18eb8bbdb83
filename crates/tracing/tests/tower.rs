//! tower-http's `TraceLayer` around a handler that waits in direct style, under hyper, with several
//! connections on one worker.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::convert::Infallible;
use std::io::{self, Read as _, Write};
use std::mem;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use common::{listen, run_on};
use ecru::net::TcpStream;
use ecru_hyper::EcruIo;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, Response};
use tower::{ServiceBuilder, service_fn};
use tower_http::trace::TraceLayer;
use tracing::{info, info_span};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_handler_that_waits_keeps_its_requests_span() {
    let written = Written::default();
    let writer = written.clone();
    let format = fmt::format().without_time().with_level(false).with_target(false);
    let output =
        fmt::layer().with_ansi(false).event_format(format).with_writer(move || writer.clone());
    let subscriber = tracing_subscriber::registry().with(ecru_tracing::layer()).with(output);
    tracing::subscriber::with_default(subscriber, || {
        run_on(1, || {
            let (listener, address) = listen();
            // All handlers are in the middle of their requests at the same time.
            let meeting = &ecru::sync::Barrier::new(3);
            ecru::scope(|s| {
                for number in 1..=3 {
                    let stream = TcpStream::connect(address).unwrap();
                    let accepted = listener.accept().unwrap().0;
                    s.spawn(move || {
                        let handler = move |request: Request<Incoming>| async move {
                            info!("before {}", request.uri().path());
                            // The wait happens inside `poll`.
                            meeting.wait().unwrap();
                            info!("after {}", request.uri().path());
                            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
                        };
                        let span = |request: &Request<Incoming>| info_span!("request", path = %request.uri().path());
                        let service = ServiceBuilder::new()
                            .layer(TraceLayer::new_for_http().make_span_with(span))
                            .service(service_fn(handler));
                        let service = hyper::service::service_fn(move |request| {
                            tower::ServiceExt::oneshot(service.clone(), request)
                        });
                        let io = EcruIo::new(accepted).unwrap();
                        ecru::block_on(http1::Builder::new().serve_connection(io, service)).unwrap().unwrap();
                    });
                    s.spawn(move || {
                        let mut stream = stream;
                        write!(
                            stream,
                            "GET /{number} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                        )
                        .unwrap();
                        let mut answer = String::new();
                        stream.read_to_string(&mut answer).unwrap();
                        assert!(answer.ends_with("done"), "{answer}");
                    });
                }
            });
        });
    });
    let text = String::from_utf8(mem::take(&mut *written.0.lock().unwrap())).unwrap();
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.retain(|line| line.contains("before") || line.contains("after"));
    lines.sort_unstable();
    let mut expected: Vec<String> = (1..=3)
        .flat_map(|n| ["before", "after"].map(|word| format!("request{{path=/{n}}}: {word} /{n}")))
        .collect();
    expected.sort();
    assert_eq!(lines, expected);
}
