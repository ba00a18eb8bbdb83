//! The router and its handlers, which are axum's.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Json, Request, State};
use axum::http::StatusCode;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any_service, get, post};
use ecru_hyper::{TimeoutLayer, handler, in_task};
use serde::Deserialize;
use tower_http::trace::TraceLayer;

use crate::board::{Note, Shared};
use crate::feed;
use crate::store::Store;

/// The whole service, without its connections.
pub(crate) fn router(board: &Shared, limit: Duration) -> Router {
    let feeds = board.clone();
    Router::new()
        .route("/health", get(async || "ok"))
        .route("/metrics", get(async |State(board): State<Shared>| board.metrics()))
        .route("/login", post(login))
        .route("/notes", get(notes).post(add_note))
        .layer(TimeoutLayer::new(limit))
        // What follows has no limit.
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

/// Runs queries in a task, where they may wait.
async fn query<T: Send + 'static>(
    board: &Shared,
    queries: impl FnOnce(&Store) -> io::Result<T> + Send + 'static,
) -> Result<T, StatusCode> {
    let board = board.clone();
    in_task(move || queries(&board.store)).await.map_err(|error| {
        tracing::error!(%error, "a query has failed");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

/// There are no passwords here.
async fn login(
    State(board): State<Shared>,
    Json(Login { name }): Json<Login>,
) -> Result<Response, StatusCode> {
    if name.is_empty() {
        return Err(StatusCode::UNPROCESSABLE_ENTITY);
    }
    let secret = query(&board, move |store| store.begin_session(&name)).await?;
    let cookie = format!("session={secret}; HttpOnly; SameSite=Strict; Path=/");
    Ok(([(SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

/// The user of a request, by its cookie.
struct User(String);

impl FromRequestParts<Shared> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, board: &Shared) -> Result<User, StatusCode> {
        let cookies = parts.headers.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let secret = cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix("session="));
        let secret = secret.ok_or(StatusCode::UNAUTHORIZED)?.to_owned();
        let user = query(board, move |store| store.user_of(&secret)).await?;
        user.map(User).ok_or(StatusCode::UNAUTHORIZED)
    }
}

async fn notes(State(board): State<Shared>) -> Result<Json<Vec<Note>>, StatusCode> {
    query(&board, Store::notes).await.map(Json)
}

async fn add_note(
    State(board): State<Shared>,
    User(author): User,
    Json(New { text }): Json<New>,
) -> Result<(StatusCode, Json<Note>), StatusCode> {
    let note = Note { author, text };
    let added = note.clone();
    query(&board, move |store| store.add(&added)).await?;
    board.tell(&note);
    tracing::info!(author = note.author, "a note");
    Ok((StatusCode::CREATED, Json(note)))
}
