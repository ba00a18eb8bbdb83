//! Handlers in direct style: [`direct`] and [`handler`].

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

#[cfg(feature = "client")]
use ecru::RuntimeHandle;
use ecru::source::SourceFuture;
use ecru::{JoinError, JoinHandle};
use tower_service::Service;

/// Makes a tower service of a plain function, which may wait anywhere. Each request is handled by a
/// task with a stack.
///
/// If the connection ends while the function runs, its task is cancelled. If the function panics,
/// the request fails with [`DirectError::Panicked`], and its connection is closed.
///
/// # Examples
/// See [`serve`](crate::serve).
pub fn direct<F>(handler: F) -> Direct<F> {
    Direct { handler: Arc::new(handler) }
}

/// Makes a tower service of a plain function that cannot fail, as [`direct`] does. It suits axum's
/// `get_service` and its siblings, beside handlers that are futures. If the function panics, so does
/// the service.
///
/// # Examples
/// ```
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::response::{IntoResponse, Response};
/// use axum::routing::{get, get_service};
///
/// fn slow(_: Request) -> Response {
///     match ecru::sleep(std::time::Duration::from_millis(1)) {
///         Ok(()) => "in direct style".into_response(),
///         Err(_) => axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response(),
///     }
/// }
///
/// let _router: Router = Router::new()
///     .route("/slow", get_service(ecru_hyper::handler(slow)))
///     .route("/fast", get(async || "in a future"));
/// ```
pub fn handler<F>(function: F) -> Handler<F> {
    Handler { function: Arc::new(function) }
}

/// Runs a function in a task with a stack, where it may wait anywhere. A handler that is a future
/// awaits it, for instance for a query.
///
/// If the future is dropped, the task is cancelled. The run does not end before the task has ended.
///
/// # Errors
/// Returns the function's error, and [`DirectError::Panicked`] if it panics.
///
/// # Panics
/// Panics outside a run of ecru.
///
/// # Examples
/// ```
/// use axum::Router;
/// use axum::extract::Path;
/// use axum::http::StatusCode;
/// use axum::routing::get;
/// use std::time::Duration;
///
/// async fn slow(Path(number): Path<u32>) -> Result<String, StatusCode> {
///     let text = ecru_hyper::in_task(move || {
///         ecru::sleep(Duration::from_millis(1))?;
///         Ok::<_, ecru::Cancelled>(format!("number {number}"))
///     });
///     text.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
/// }
/// let _router: Router = Router::new().route("/{number}", get(slow));
/// ```
#[track_caller]
pub fn in_task<T, E>(function: impl FnOnce() -> Result<T, E> + Send + 'static) -> Handling<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    Handling::begin(function)
}

/// A service that calls a plain function which cannot fail: see [`handler`].
pub struct Handler<F> {
    function: Arc<F>,
}

impl<F> Clone for Handler<F> {
    fn clone(&self) -> Self {
        Handler { function: Arc::clone(&self.function) }
    }
}

impl<F> fmt::Debug for Handler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

/// A service that calls a plain function: see [`direct`].
///
/// # Examples
/// See [`serve`](crate::serve).
pub struct Direct<F> {
    handler: Arc<F>,
}

impl<F> Clone for Direct<F> {
    fn clone(&self) -> Self {
        Direct { handler: Arc::clone(&self.handler) }
    }
}

impl<F> fmt::Debug for Direct<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").finish_non_exhaustive()
    }
}

/// The reason why a [`Direct`] service has no response.
#[derive(Debug)]
pub enum DirectError<E> {
    /// The function returned this error.
    Handler(E),
    /// The function panicked.
    Panicked(Option<String>),
    /// The function was cancelled before it began, or the run of ecru is over.
    Cancelled,
}

impl<E: fmt::Display> fmt::Display for DirectError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectError::Handler(error) => error.fmt(f),
            DirectError::Panicked(Some(text)) => write!(f, "the handler panicked: {text}"),
            DirectError::Panicked(None) => f.write_str("the handler panicked"),
            DirectError::Cancelled => f.write_str("the handler was cancelled before it began"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for DirectError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DirectError::Handler(error) => error.source(),
            DirectError::Panicked(_) | DirectError::Cancelled => None,
        }
    }
}

impl<F, R, T, E> Service<R> for Direct<F>
where
    F: Fn(R) -> Result<T, E> + Send + Sync + 'static,
    R: Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Response = T;
    type Error = DirectError<E>;
    type Future = Handling<T, E>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DirectError<E>>> {
        Poll::Ready(Ok(()))
    }

    /// Spawns the task.
    ///
    /// # Panics
    /// Panics outside a run of ecru.
    fn call(&mut self, request: R) -> Handling<T, E> {
        let handler = Arc::clone(&self.handler);
        Handling::begin(move || handler(request))
    }
}

impl<F, R, T> Service<R> for Handler<F>
where
    F: Fn(R) -> T + Send + Sync + 'static,
    R: Send + 'static,
    T: Send + 'static,
{
    type Response = T;
    type Error = Infallible;
    type Future = Handled<T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// Spawns the task.
    ///
    /// # Panics
    /// Panics outside a run of ecru.
    fn call(&mut self, request: R) -> Handled<T> {
        let function = Arc::clone(&self.function);
        Handled(Handling::begin(move || Ok(function(request))))
    }
}

/// The response of a [`Handler`] service, which is ready when its task has ended. Dropping it
/// cancels the task.
///
/// # Examples
/// See [`handler`].
#[must_use = "dropping it cancels the handler"]
pub struct Handled<T>(Handling<T, Infallible>);

impl<T> Future for Handled<T> {
    type Output = Result<T, Infallible>;

    /// # Panics
    /// Panics if the function has panicked, or was cancelled before it began.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(response) => Poll::Ready(Ok(response)),
            Err(DirectError::Handler(never)) => match never {},
            // The panic hook has reported a panic of the function.
            Err(error) => resume_unwind(Box::new(error.to_string())),
        }
    }
}

impl<T> fmt::Debug for Handled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handled").finish_non_exhaustive()
    }
}

/// The response of a [`Direct`] service, or the result of [`in_task`], which is ready when its task
/// has ended. Dropping it cancels the task.
#[must_use = "dropping it cancels the handler"]
pub struct Handling<T, E> {
    /// `None` if the run of a client is over.
    task: Option<SourceFuture<JoinHandle<'static, Result<T, E>>>>,
}

impl<T: Send + 'static, E: Send + 'static> Handling<T, E> {
    #[track_caller]
    fn begin(function: impl FnOnce() -> Result<T, E> + Send + 'static) -> Handling<T, E> {
        Handling { task: Some(ecru::spawn(function).into_future()) }
    }

    #[cfg(feature = "client")]
    pub(crate) fn begin_in(
        run: &RuntimeHandle,
        function: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Handling<T, E> {
        Handling { task: run.spawn(function).ok().map(JoinHandle::into_future) }
    }
}

impl<T, E> Future for Handling<T, E> {
    type Output = Result<T, DirectError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.task else {
            return Poll::Ready(Err(DirectError::Cancelled));
        };
        Pin::new(task).poll(cx).map(|result| match result {
            Ok(outcome) => outcome.map_err(DirectError::Handler),
            Err(JoinError::Panicked(payload)) => {
                Err(DirectError::Panicked(payload.message().map(String::from)))
            }
            Err(_) => Err(DirectError::Cancelled),
        })
    }
}

/// A task that has ended is not affected.
impl<T, E> Drop for Handling<T, E> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.get_ref().cancel();
        }
    }
}

impl<T, E> fmt::Debug for Handling<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").finish_non_exhaustive()
    }
}
