//! Handlers in direct style: [`direct`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ecru::source::{Source, SourceFuture};
use ecru::{JoinError, JoinHandle, RuntimeHandle};
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

/// A service that calls a plain function: see [`direct`].
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
        let task = RuntimeHandle::current().spawn(move || handler(request)).ok();
        let task = task.map(Arc::new);
        let begun = |task: Task<T, E>| Begun { ended: Arc::clone(&task).to_future(), task };
        Handling { begun: task.map(begun) }
    }
}

/// The response of a [`Direct`] service, which is ready when its task has ended. Dropping it cancels
/// the task.
#[must_use = "dropping it cancels the handler"]
pub struct Handling<T, E> {
    /// `None` if the run is over.
    begun: Option<Begun<T, E>>,
}

/// A task, and the wait for its end.
struct Begun<T, E> {
    task: Task<T, E>,
    ended: SourceFuture<Task<T, E>>,
}

/// The handle is shared with the wait for its task.
type Task<T, E> = Arc<JoinHandle<'static, Result<T, E>>>;

impl<T, E> Future for Handling<T, E> {
    type Output = Result<T, DirectError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(Begun { ended, .. }) = &mut self.begun else {
            return Poll::Ready(Err(DirectError::Cancelled));
        };
        Pin::new(ended).poll(cx).map(|result| match result {
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
        if let Some(begun) = &self.begun {
            begun.task.cancel();
        }
    }
}

impl<T, E> fmt::Debug for Handling<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").finish_non_exhaustive()
    }
}
