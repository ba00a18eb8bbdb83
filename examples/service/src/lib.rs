//! A web service of the size that a team starts with: see the README.

mod api;
mod board;
mod config;
mod feed;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ecru::Source;
use ecru::net::TcpListener;
use ecru_hyper::Served;

pub use config::Config;

/// Serves until `stop` has an item. Requests that are in progress then are finished.
///
/// # Errors
/// Returns the errors of [`ecru_hyper::Serve::run`].
pub fn serve(
    listener: &TcpListener,
    config: &Config,
    stop: impl Source + Send,
) -> io::Result<Served> {
    let board = Arc::new(board::Board::default());
    let closing = Arc::clone(&board);
    let server = ecru_hyper::serve(listener, api::router(&board, config.request))
        .http1()
        .http2()
        .limit(config.connections)
        .header_timeout(Duration::from_secs(10))
        .idle_timeout(Duration::from_secs(60))
        .body_timeout(Duration::from_secs(30))
        .body_limit(64 << 10)
        .grace(config.grace)
        .on_error(|error, peer| tracing::debug!(%error, ?peer, "a connection has failed"))
        .stop_when(stop);
    let server = if config.refuses_late { server.refuse_late() } else { server };
    let served = match &config.tls {
        Some(tls) => server.tls(Arc::clone(tls)).run(),
        None => server.run(),
    };
    // A WebSocket is not the server's any more.
    closing.close();
    served
}
