//! Tells another server of each new note, over HTTPS.

use std::io;
use std::time::Duration;

use axum::http::Request;
use ecru_flow::{BroadcastReceiver, BroadcastRecvError};
use ecru_hyper::Client;
use http_body_util::Full;

use crate::board::Note;

/// How long the other server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs until the notes end.
pub(crate) fn run(client: &Client, url: &str, notes: &BroadcastReceiver<Note>) {
    loop {
        let told = match notes.recv() {
            Ok(note) => ecru::try_timeout(LIMIT, || tell(client, url, &note)),
            // It is slower than the notes come.
            Err(error @ BroadcastRecvError::Lagged(_)) => Err(io::Error::other(error)),
            Err(_) => return,
        };
        if let Err(error) = told {
            tracing::warn!(%error, "a note is not told");
        }
    }
}

fn tell(client: &Client, url: &str, note: &Note) -> io::Result<()> {
    let text = serde_json::to_vec(note)?;
    let request = Request::post(url).header("Content-Type", "application/json");
    let request = request.body(Full::from(text)).map_err(io::Error::other)?;
    let status = client.send(request)?.status();
    if status.is_success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}
