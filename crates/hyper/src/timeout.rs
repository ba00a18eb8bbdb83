//! A time limit for requests, as middleware: [`TimeoutLayer`].

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ecru::time::Sleep;
use hyper::{Response, StatusCode};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// A layer that limits how long a service may take for a response. After that, the request is
/// dropped, and the response has the status 408 and no body. It is what tower-http's layer of this
/// name is, by ecru's clock instead of tokio's.
///
/// # Examples
/// ```
/// use axum::{Router, routing::get};
/// use ecru_hyper::TimeoutLayer;
/// use std::time::Duration;
///
/// let _router: Router = Router::new()
///     .route("/", get(async || "hello"))
///     .layer(TimeoutLayer::new(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    limit: Duration,
    status: StatusCode,
}

impl TimeoutLayer {
    /// Creates a layer with this limit.
    #[must_use]
    pub fn new(limit: Duration) -> TimeoutLayer {
        TimeoutLayer { limit, status: StatusCode::REQUEST_TIMEOUT }
    }

    /// Sets the status of the response after the limit.
    #[must_use]
    pub fn status(self, status: StatusCode) -> TimeoutLayer {
        TimeoutLayer { status, ..self }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, layer: *self }
    }
}

/// A service with a time limit: see [`TimeoutLayer`].
///
/// # Examples
/// See [`TimeoutLayer`].
#[derive(Clone, Copy, Debug)]
pub struct Timeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, R, B> Service<R> for Timeout<S>
where
    S: Service<R, Response = Response<B>>,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = TimeoutResponse<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> TimeoutResponse<S::Future> {
        TimeoutResponse { response: self.inner.call(request), layer: self.layer, over: None }
    }
}

pin_project! {
    /// The response of a [`Timeout`] service.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct TimeoutResponse<F> {
        #[pin]
        response: F,
        layer: TimeoutLayer,
        // Set by the first poll that has to wait.
        over: Option<Sleep>,
    }
}

impl<F, B, E> Future for TimeoutResponse<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Default,
{
    type Output = Result<Response<B>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(response) = this.response.poll(cx) {
            return Poll::Ready(response);
        }
        let over = this.over.get_or_insert_with(|| Sleep::new(this.layer.limit));
        ready!(Pin::new(over).poll(cx));
        let mut response = Response::new(B::default());
        *response.status_mut() = this.layer.status;
        Poll::Ready(Ok(response))
    }
}
