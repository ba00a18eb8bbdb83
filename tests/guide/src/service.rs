//! The service of chapter 7.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use ecru::Source;
use ecru::net::TcpListener;

use crate::check;

type Board = Arc<Mutex<BTreeMap<String, bool>>>;

fn router(board: Board) -> Router {
    let sites = async |State(board): State<Board>| format!("{:?}", board.lock().unwrap());
    Router::new().route("/sites", get(sites)).with_state(board)
}

/// Checks a site every 30 seconds, and keeps its state on the board.
fn watch(site: &str, board: &Board) {
    let ticks = ecru::time::interval(Duration::from_secs(30));
    while ticks.tick().is_ok() {
        let answer = ecru::try_timeout(Duration::from_secs(5), || check(site));
        board.lock().unwrap().insert(site.to_owned(), answer.is_ok());
    }
}

/// Checks the sites and shows what is known of them, until `stop` has an item.
///
/// # Errors
/// Returns the error of a listener that cannot accept any more.
pub fn serve(listener: &TcpListener, sites: &[&str], stop: impl Source + Send) -> io::Result<()> {
    let board = Board::default();
    ecru::scope(|s| {
        for site in sites {
            s.builder().name(*site).spawn_daemon(|| watch(site, &board));
        }
        ecru_hyper::serve(listener, router(Arc::clone(&board)))
            .limit(10_000)
            .header_timeout(Duration::from_secs(10))
            .idle_timeout(Duration::from_secs(60))
            .grace(Duration::from_secs(20))
            .stop_when(stop)
            .refuse_late()
            .run()
            .map(drop) // now the daemons are cancelled
    })
}
