//! A web service of the size that a team starts with: see the README.

mod api;
mod board;
mod config;
mod feed;
mod hook;
mod store;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ecru::Source;
use ecru::net::TcpListener;

use board::Board;
use store::Store;

pub use config::{Config, Hook};

/// Serves until `stop` has an item. Requests that are in progress then are finished, and the hook is
/// told of their notes.
///
/// # Errors
/// Returns the errors of the database, and those of [`ecru_hyper::Serve::run`].
pub fn serve(
    listener: &TcpListener,
    config: &Config,
    stop: impl Source + Send,
) -> io::Result<ecru_hyper::Served> {
    let board = Arc::new(Board::new(Store::open(config.database.clone())?));
    ecru::scope(|s| {
        let hook = config.hook.as_ref().map(|hook| {
            let client = ecru_hyper::client(s).tls(Arc::clone(&hook.tls)).build();
            let notes = board.feed();
            s.builder().name("hook").spawn(move || hook::run(&client, &hook.url, &notes))
        });
        let server = ecru_hyper::serve(listener, api::router(&board, config.request))
            .tls(config.tls.clone())
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
        let served = if config.refuses_late { server.refuse_late() } else { server }.run();
        // A WebSocket is not the server's any more. The hook is told of what is left, if there is time.
        board.close();
        if let Some(hook) = hook
            && hook.join_timeout(config.grace).is_none()
        {
            hook.cancel();
        }
        served
    })
}
