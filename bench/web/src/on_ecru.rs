//! The programs on ecru, with one worker.

use std::convert::Infallible;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use ecru::net::TcpListener;
use ecru::{DriverKind, Runtime};
use ecru_hyper::{EcruIo, RequestBody, direct, serve as served};
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

/// Serves until the process is killed.
pub(crate) fn serve(kind: Kind, listener: std::net::TcpListener, driver: DriverKind) -> Result<()> {
    let runtime = Runtime::builder().workers(1).driver(driver).build()?;
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
            Kind::Direct => {
                served(&listener, direct(direct_page)).run()?;
                Ok(())
            }
        }
    })
}
