//! New notes over WebSocket. This is code in direct style: it waits where it stands.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ecru::channel::Receiver;
use ecru_hyper::{Upgraded, Upgrading};
use tungstenite::Message;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};

use crate::board::{Note, Shared};

/// How many notes a feed may be behind. One that is further behind is closed.
const BEHIND: usize = 64;
/// How long a feed is silent before its client has to answer, and how long it may take for that.
const SILENCE: Duration = Duration::from_secs(30);

/// Agrees to the WebSocket, and lets a task serve it.
pub(crate) fn open(mut request: Request, board: &Shared) -> Response {
    let Some(key) = request.headers().get(header::SEC_WEBSOCKET_KEY) else {
        return StatusCode::UPGRADE_REQUIRED.into_response();
    };
    let accepted = derive_accept_key(key.as_bytes());
    let upgrading = ecru_hyper::upgrade(&mut request);
    let notes = board.feed(BEHIND);
    ecru::spawn(move || {
        if let Err(error) = serve(upgrading, &notes) {
            tracing::debug!(%error, "a feed has ended");
        }
    });
    let headers = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_ACCEPT, accepted.as_str()),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

fn serve(upgrading: Upgrading, notes: &Receiver<Note>) -> tungstenite::Result<()> {
    let stream: Upgraded = upgrading.wait()?;
    let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
    loop {
        match ecru::timeout(SILENCE, || notes.recv()) {
            Ok(Ok(note)) => {
                let text = serde_json::to_string(&note).expect("a note is plain text");
                socket.send(Message::from(text))?;
            }
            // The service stops, or this feed is too far behind.
            Ok(Err(_)) => return socket.close(None).and_then(|()| socket.flush()),
            Err(_) => {
                socket.send(Message::Ping("still there?".into()))?;
                let answer = ecru::timeout(SILENCE, || socket.read());
                if answer.map_err(std::io::Error::from)??.is_close() {
                    return Ok(());
                }
            }
        }
    }
}
