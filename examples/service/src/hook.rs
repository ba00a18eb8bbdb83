//! Tells another server of each new note, over HTTPS.

use std::io;
use std::time::Duration;

use axum::http::Request;
use ecru::channel::Receiver;
use ecru_hyper::Client;
use http_body_util::Full;

use crate::board::Note;

/// How many notes may wait for the other server. If there are more, it is told of none any more.
pub(crate) const BEHIND: usize = 100_000;
/// How long the other server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs until the notes end.
pub(crate) fn run(client: &Client, url: &str, notes: Receiver<Note>) {
    for note in notes {
        if let Err(error) = ecru::try_timeout(LIMIT, || tell(client, url, &note)) {
            tracing::warn!(%error, "a note is not told");
        }
    }
}

fn tell(client: &Client, url: &str, note: &Note) -> io::Result<()> {
    let text = serde_json::to_vec(note)?;
    let request = Request::post(url).header("Content-Type", "application/json");
    let response = client.send(request.body(Full::from(text)).map_err(io::Error::other)?)?;
    let status = response.status();
    if status.is_success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}
