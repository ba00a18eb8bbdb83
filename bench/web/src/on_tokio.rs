//! The programs on tokio, with one worker on its current-thread runtime, as their crates' documentation writes them.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::get;
use bytes::Bytes;
use deadpool_postgres::Pool;
use deadpool_postgres::tokio_postgres::NoTls;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use crate::pages::{self, PAGE};
use crate::{Kind, Result};

async fn page(_: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(PAGE)))
}

/// Answers with the row of a good, as JSON.
async fn good(
    State(pool): State<Pool>,
) -> std::result::Result<Json<pages::Good>, (StatusCode, String)> {
    let read = async {
        let client = pool.get().await.map_err(|error| error.to_string())?;
        let query = client.prepare_cached(pages::QUERY).await.map_err(|error| error.to_string())?;
        let row = client.query_one(&query, &[&pages::next_key()]).await;
        Ok(Json(pages::Good::of(&row.map_err(|error| error.to_string())?)))
    };
    read.await.map_err(|error: String| (StatusCode::INTERNAL_SERVER_ERROR, error))
}

/// Serves until the process is killed.
pub(crate) fn serve(kind: Kind, workers: usize, listener: std::net::TcpListener) -> Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = match workers {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(workers).enable_all().build()?
        }
    };
    // In a task, because the caller of `block_on` is no worker.
    runtime.block_on(runtime.spawn(listen(kind, listener)))?
}

async fn listen(kind: Kind, listener: std::net::TcpListener) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    match kind {
        Kind::Bare => loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let http = http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(page)).await;
            });
        },
        Kind::Http2 => {
            let service = TowerToHyperService::new(pages::router());
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let service = service.clone();
                tokio::spawn(async move {
                    let http = http2::Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }
        Kind::Tls => {
            let acceptor = tokio_rustls::TlsAcceptor::from(pages::tls());
            let service = TowerToHyperService::new(pages::router());
            let acceptor = Arc::new(acceptor);
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let (service, acceptor) = (service.clone(), Arc::clone(&acceptor));
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await?;
                    let http = http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    std::io::Result::Ok(())
                });
            }
        }
        Kind::Postgres => {
            let manager = deadpool_postgres::Manager::new(pages::database()?, NoTls);
            let pool = Pool::builder(manager).max_size(pages::CLIENTS).build()?;
            let router = Router::new().route("/", get(good)).with_state(pool);
            let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
                let _ = stream.set_nodelay(true);
            });
            axum::serve(listener, router).await?;
            Ok(())
        }
        Kind::Crossing | Kind::BlockOn => Err("it has no server".into()),
        Kind::Health | Kind::Json | Kind::Close | Kind::Idle | Kind::Direct => {
            let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
                let _ = stream.set_nodelay(true);
            });
            axum::serve(listener, pages::router()).await?;
            Ok(())
        }
    }
}
