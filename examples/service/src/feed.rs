//! New notes over WebSocket. This is code in direct style: it waits where it stands.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ecru_flow::BroadcastReceiver;
use ecru_hyper::Upgrading;
use tungstenite::handshake::server::create_response_with_body;
use tungstenite::protocol::{Message, Role, WebSocket};

use crate::board::{Note, Shared};

/// How long a feed is silent before its client has to answer, and how long it may take for that.
const SILENCE: Duration = Duration::from_secs(30);

/// Agrees to the WebSocket, and lets a task serve it.
pub(crate) fn open(mut request: Request, board: &Shared) -> Response {
    let Ok(accepted) = create_response_with_body(&request, Body::empty) else {
        return StatusCode::UPGRADE_REQUIRED.into_response();
    };
    let upgrading = ecru_hyper::upgrade(&mut request);
    let notes = board.feed();
    ecru::spawn(move || {
        if let Err(error) = serve(upgrading, &notes) {
            tracing::debug!(%error, "a feed has ended");
        }
    });
    accepted
}

fn serve(upgrading: Upgrading, notes: &BroadcastReceiver<Note>) -> tungstenite::Result<()> {
    let mut socket = WebSocket::from_raw_socket(upgrading.wait()?, Role::Server, None);
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
