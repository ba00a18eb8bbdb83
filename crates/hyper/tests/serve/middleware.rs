//! What of axum, tower and tower-http works without tokio's runtime, and what does not. The table is
//! in the crate's README.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use ecru_hyper::serve;
use futures_util::stream;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestUuid, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::client::{Client, listen};
use crate::common::{each_run, quiet_panic};

/// The layers that need no clock and no task of tokio's.
#[test]
fn layers_that_work() {
    each_run(|| {
        let router = axum::Router::new()
            .route("/", get(async || "fine"))
            .route("/panics", get(async || -> &str { quiet_panic("caught") }))
            .route("/length", post(async |body: String| body.len().to_string()))
            .layer(DefaultBodyLimit::disable())
            .layer(RequestBodyLimitLayer::new(5))
            .layer(CatchPanicLayer::new())
            .layer(CorsLayer::permissive())
            .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
            .layer(SetResponseHeaderLayer::overriding(
                HeaderName::from_static("x-own"),
                HeaderValue::from_static("set"),
            ))
            .layer(TraceLayer::new_for_http());
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let mut client = Client::connect(address);
            assert_eq!(client.get("/").unwrap().1, "fine");
            assert!(client.get("/panics").unwrap().0.ends_with("500 Internal Server Error"));
            let mut post = |length: usize| {
                let head = "POST /length HTTP/1.1\r\nHost: here\r\nContent-Length";
                client.ask(&format!("{head}: {length}\r\n\r\n{}", "x".repeat(length))).unwrap()
            };
            assert_eq!(post(5).1, "5");
            assert!(post(6).0.ends_with("413 Payload Too Large"));
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// Events that come from a stream. Only their `keep_alive` needs tokio's clock.
#[test]
fn server_sent_events() {
    each_run(|| {
        let events = async || {
            let all = ["one", "two"].map(|data| Ok::<_, Infallible>(Event::default().data(data)));
            Sse::new(stream::iter(all))
        };
        let router = axum::Router::new().route("/", get(events));
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let mut client = Client::connect(address);
            let request = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
            std::io::Write::write_all(&mut client.0, request).unwrap();
            let mut answer = String::new();
            std::io::Read::read_to_string(&mut client.0, &mut answer).unwrap();
            assert!(answer.contains("data: one\n\n") && answer.contains("data: two\n\n"));
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// tower-http's time limit panics without tokio's runtime, which ends its connection. If it begins
/// to work, the table and `TimeoutLayer` are to be changed.
#[test]
fn a_layer_that_needs_tokio() {
    each_run(|| {
        let limit = Duration::from_secs(10);
        let layer = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, limit);
        let router = axum::Router::new().route("/", get(async || "fine")).layer(layer);
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            assert!(Client::connect(address).get("/").is_err());
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// The same layer with a runtime that is entered for each poll.
#[test]
fn a_layer_with_tokios_runtime() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    each_run(|| {
        let handle = runtime.handle().clone();
        let enter = move |request: Request, next: Next| {
            let handle = handle.clone();
            async move {
                let mut response = pin!(next.run(request));
                poll_fn(|cx| {
                    let _entered = handle.enter();
                    response.as_mut().poll(cx)
                })
                .await
            }
        };
        let limit = Duration::from_millis(5);
        let router = axum::Router::new()
            .route("/fine", get(async || "fine"))
            .route("/never", get(async || std::future::pending::<String>().await))
            .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, limit))
            .layer(from_fn(enter));
        let (listener, address, stop, stopped) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| serve(&listener, router).stop_when(stopped).run());
            let mut client = Client::connect(address);
            assert!(client.get("/never").unwrap().0.ends_with("504 Gateway Timeout"));
            assert!(client.get("/fine").is_ok());
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}
