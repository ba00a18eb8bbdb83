//! The answers to requests.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ecru::Source;
use ecru::channel::Receiver;
use ecru::source::SourceFuture;
use ecru_hyper::RequestBody;
use ecru_nats::Client;
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::guard;
use super::watch::{Chosen, Watchers};
use crate::asking::Asking;
use crate::queue::Queue;
use crate::text::plain;
use crate::top::collect::{self, Ages};
use crate::top::metrics;

/// The page. Each time that it is served, its script and its style have another nonce, so that a
/// browser runs nothing else.
const PAGE: &str = include_str!("page.html");

const JSON: &str = "application/json";

/// What a browser may do with each answer, whatever it is.
const GUARDS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

type Answer = Response<Either<Full<Bytes>, Events>>;

/// What is served.
pub(super) struct Site {
    pub(super) client: Client,
    /// How long to wait for an answer of the servers.
    pub(super) limit: Duration,
    pub(super) token: String,
    pub(super) changes: bool,
    /// Further names of this host.
    pub(super) hosts: Vec<String>,
    pub(super) watchers: std::sync::Arc<Watchers>,
}

impl Site {
    pub(super) fn answer(&self, request: Request<RequestBody>) -> Result<Answer, Infallible> {
        let mut answer = self.respond(request).unwrap_or_else(|error| {
            problem(StatusCode::BAD_GATEWAY, &format!("the servers do not do that: {error}"))
        });
        for (name, value) in GUARDS {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let headers = answer.headers_mut();
        let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
        headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(nothing);
        Ok(answer)
    }

    fn respond(&self, request: Request<RequestBody>) -> io::Result<Answer> {
        let headers = request.headers();
        let Some(authority) = guard::authority(headers, &self.hosts) else {
            let text = "the page is not served by this name; `fleet web --host NAME` adds one";
            return Ok(problem(StatusCode::MISDIRECTED_REQUEST, text));
        };
        let path = request.uri().path();
        // The page itself has nothing that is secret.
        if path == "/" && matches!(*request.method(), Method::GET | Method::HEAD) {
            return page();
        }
        if !guard::is_own(headers, authority) {
            return Ok(problem(StatusCode::FORBIDDEN, "the request is of another page"));
        }
        if !guard::has_token(headers, &self.token) {
            let mut answer = problem(StatusCode::UNAUTHORIZED, "the token is wrong");
            let value = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, value);
            return Ok(answer);
        }
        match (request.method(), path) {
            (&Method::GET, "/events") => Ok(self.events(request.uri().query().unwrap_or_default())),
            (&Method::GET, "/metrics") => self.metrics(),
            (&Method::POST, "/act") => self.act(request),
            (_, "/" | "/events" | "/metrics" | "/act") => {
                Ok(problem(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed here"))
            }
            _ => Ok(problem(StatusCode::NOT_FOUND, "there is no such page")),
        }
    }

    fn events(&self, query: &str) -> Answer {
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        let queue = value("queue").filter(|queue| !queue.is_empty());
        if queue.is_some_and(|queue| !is_name(queue)) {
            return problem(StatusCode::BAD_REQUEST, "the name of the queue is malformed");
        }
        let from = value("from").and_then(|from| from.parse().ok()).unwrap_or(1);
        let chosen = queue.map(|queue| Chosen { queue: queue.to_owned(), from });
        match self.watchers.add(chosen) {
            Some(events) => {
                let events = Events { next: events.clone().to_future(), events };
                let mut answer = Response::new(Either::Right(events));
                set_type(answer.headers_mut(), "text/event-stream");
                answer
            }
            None => problem(StatusCode::SERVICE_UNAVAILABLE, "too many browsers watch already"),
        }
    }

    fn metrics(&self) -> io::Result<Answer> {
        let rows = collect::rows(&Asking::new(self.client.clone(), self.limit), Ages::Asked)?;
        Ok(whole(StatusCode::OK, metrics::MEDIA_TYPE, metrics::text(&rows)))
    }

    /// Revives or discards a dead job.
    fn act(&self, request: Request<RequestBody>) -> io::Result<Answer> {
        if !self.changes {
            let text = "the page only shows; `fleet web --allow-changes` lets it change the dead";
            return Ok(problem(StatusCode::FORBIDDEN, text));
        }
        let is_json = |value: &HeaderValue| value.as_bytes().starts_with(JSON.as_bytes());
        if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
            return Ok(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the request is not JSON"));
        }
        let Ok(body) = request.into_body().bytes() else {
            return Ok(problem(StatusCode::BAD_REQUEST, "the request is too long or too slow"));
        };
        let wanted: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (action, queue, number) =
            (wanted["action"].as_str(), wanted["queue"].as_str(), wanted["number"].as_u64());
        let (Some(action @ ("revive" | "discard")), Some(queue), Some(number)) =
            (action, queue.filter(|queue| is_name(queue)), number)
        else {
            return Ok(problem(StatusCode::BAD_REQUEST, "the request is malformed"));
        };
        let changed = self.change(action, queue, number);
        self.watchers.look();
        Ok(match changed {
            Ok(id) => {
                let _ = writeln!(io::stderr(), "fleet: {action} {queue} {number} ({})", plain(&id));
                whole(StatusCode::OK, JSON, json!({ "id": id, "action": action }).to_string())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => problem(StatusCode::NOT_FOUND, &error.to_string()),
                io::ErrorKind::AlreadyExists => problem(StatusCode::CONFLICT, &error.to_string()),
                _ => return Err(error),
            },
        })
    }

    fn change(&self, action: &str, queue: &str, number: u64) -> io::Result<String> {
        let queue = Queue::open(self.client.jetstream(), queue, true)?;
        let dead = queue.one(number)?;
        match action {
            "revive" => queue.revive(&dead)?,
            _ => queue.discard(&dead)?,
        }
        Ok(dead.id)
    }
}

/// Returns whether the text may be part of a subject.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=200).contains(&text.len()) && text.bytes().all(is_plain)
}

fn page() -> io::Result<Answer> {
    let nonce = guard::secret()?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let page = PAGE.replace("@NONCE@", &nonce);
    let mut answer = whole(StatusCode::OK, "text/html; charset=utf-8", page);
    let policy = HeaderValue::try_from(policy).map_err(io::Error::other)?;
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(answer)
}

fn problem(status: StatusCode, text: &str) -> Answer {
    whole(status, JSON, json!({ "problem": text }).to_string())
}

fn whole(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(text)));
    *answer.status_mut() = status;
    set_type(answer.headers_mut(), media_type);
    answer
}

fn set_type(headers: &mut HeaderMap, media_type: &'static str) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
}

/// Server-sent events, until the browser leaves or the program ends.
pub(super) struct Events {
    events: Receiver<Bytes>,
    next: SourceFuture<Receiver<Bytes>>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Ok(event) = ready!(Pin::new(&mut self.next).poll(cx)) else { return Poll::Ready(None) };
        self.next = self.events.clone().to_future();
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_subjects() {
        assert!(is_name("q_mill-2"));
        for bad in ["", "*", ">", "a.b", "a b", "a%2E", "\u{e4}", &"a".repeat(201)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_page_has_nothing_from_elsewhere() {
        assert_eq!(PAGE.matches("nonce=\"@NONCE@\"").count(), 2);
        assert_eq!(PAGE.matches("<script").count() + PAGE.matches("<style").count(), 2);
        for bad in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "http:",
            "https:",
            " style=",
        ] {
            assert!(!PAGE.contains(bad), "{bad}");
        }
    }
}
