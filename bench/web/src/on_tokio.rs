//! The programs on tokio's current-thread runtime, as their crates' documentation writes them.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
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

/// Serves until the process is killed.
pub(crate) fn serve(kind: Kind, listener: std::net::TcpListener) -> Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
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
            Kind::Health | Kind::Json | Kind::Close | Kind::Idle | Kind::Direct => {
                let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
                    let _ = stream.set_nodelay(true);
                });
                axum::serve(listener, pages::router()).await?;
                Ok(())
            }
        }
    })
}
