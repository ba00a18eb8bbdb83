//! The router and its handlers, which are axum's.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Json, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any_service, get, post};
use ecru_hyper::{TimeoutLayer, handler};
use serde::Deserialize;
use tower_http::trace::TraceLayer;

use crate::board::{Note, Shared};
use crate::feed;

/// The whole service, without its connections.
pub(crate) fn router(board: &Shared, limit: Duration) -> Router {
    let feeds = board.clone();
    let limited = Router::new()
        .route("/health", get(async || "ok"))
        .route("/metrics", get(async |State(board): State<Shared>| board.metrics()))
        .route("/login", post(login))
        .route("/notes", get(notes).post(add_note))
        .layer(TimeoutLayer::new(limit));
    limited
        .route("/feed", any_service(handler(move |request| feed::open(request, &feeds))))
        .layer(from_fn_with_state(board.clone(), count))
        .layer(TraceLayer::new_for_http())
        .with_state(board.clone())
}

/// Counts requests, and those that the service has failed.
async fn count(State(board): State<Shared>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    board.requests.fetch_add(1, Relaxed);
    board.failures.fetch_add(u64::from(response.status().is_server_error()), Relaxed);
    response
}

#[derive(Deserialize)]
struct Login {
    name: String,
}

#[derive(Deserialize)]
struct New {
    text: String,
}

/// There are no passwords here.
async fn login(State(board): State<Shared>, Json(login): Json<Login>) -> Response {
    if login.name.is_empty() {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    }
    let secret = board.begin_session(login.name);
    let cookie = format!("session={secret}; HttpOnly; SameSite=Strict; Path=/");
    ([(SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response()
}

/// The user of a request, by its cookie.
struct User(String);

impl FromRequestParts<Shared> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, board: &Shared) -> Result<User, StatusCode> {
        let user = secret_of(&parts.headers).and_then(|secret| board.user_of(secret));
        user.map(User).ok_or(StatusCode::UNAUTHORIZED)
    }
}

fn secret_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get(COOKIE)?.to_str().ok()?;
    cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix("session="))
}

async fn notes(State(board): State<Shared>) -> Json<Vec<Note>> {
    Json(board.notes())
}

async fn add_note(
    State(board): State<Shared>,
    User(author): User,
    Json(new): Json<New>,
) -> (StatusCode, Json<Note>) {
    let note = Note { author, text: new.text };
    board.add(&note);
    tracing::info!(author = note.author, "a note");
    (StatusCode::CREATED, Json(note))
}
