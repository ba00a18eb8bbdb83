//! The programs on ecru.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use axum::Router;
use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get_service;
use bytes::Bytes;
use ecru::net::TcpListener;
use ecru::sync::Pool;
use ecru::{DriverKind, Runtime};
use ecru_hyper::{EcruIo, RequestBody, direct, handler, serve as served};
use ecru_postgres::{Client, Connector};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

use crate::pages::{self, PAGE};
use crate::{Kind, Result};

async fn page(_: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(PAGE)))
}

fn direct_page(_: Request<RequestBody>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(PAGE)))
}

/// Answers with the row of a good, as JSON.
fn good(pool: &Pool<Client, ecru_postgres::Error>) -> axum::response::Response {
    let read = || {
        let mut client = pool.get().map_err(|error| error.to_string())?;
        let query = client.prepare_cached(pages::QUERY).map_err(|error| error.to_string())?;
        let row = client.query_one(&query, &[&pages::next_key()]);
        Ok(Json(pages::Good::of(&row.map_err(|error| error.to_string())?)))
    };
    read().map_err(|error: String| (StatusCode::INTERNAL_SERVER_ERROR, error)).into_response()
}

/// Serves until the process is killed.
pub(crate) fn serve(
    kind: Kind,
    workers: usize,
    listener: std::net::TcpListener,
    driver: DriverKind,
) -> Result<()> {
    let runtime = Runtime::builder().workers(workers).driver(driver).build()?;
    runtime.run(|| {
        let listener = TcpListener::from(OwnedFd::from(listener));
        match kind {
            Kind::Bare => ecru::scope(|s| {
                loop {
                    let (stream, _) = listener.accept()?;
                    stream.set_nodelay(true)?;
                    let io = EcruIo::new(stream)?;
                    let http = http1::Builder::new();
                    s.spawn_future(http.serve_connection(io, service_fn(page)));
                }
            }),
            Kind::Http2 => {
                served(&listener, pages::router()).http2().run()?;
                Ok(())
            }
            Kind::Tls => {
                served(&listener, pages::router()).tls(pages::tls()).run()?;
                Ok(())
            }
            Kind::Health | Kind::Json | Kind::Close | Kind::Idle => {
                served(&listener, pages::router()).limit(20_000).run()?;
                Ok(())
            }
            Kind::Postgres => {
                let pool = Arc::new(Connector::new(pages::database()?).pool(pages::CLIENTS));
                let good = handler(move |_: axum::extract::Request| good(&pool));
                served(&listener, Router::new().route("/", get_service(good))).run()?;
                Ok(())
            }
            Kind::Crossing | Kind::BlockOn => Err("it has no server".into()),
            Kind::Direct => {
                served(&listener, direct(direct_page)).run()?;
                Ok(())
            }
        }
    })
}
