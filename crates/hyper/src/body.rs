//! The bodies of served requests and of their responses.

use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ecru::time::Sleep;
use http_body_util::{LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use pin_project_lite::pin_project;

use crate::pieces::{self, BoxError};
use crate::watch::{InProgress, Watch};

/// The body of a request that [`serve`](crate::serve) has received, within the server's limits.
///
/// A handler in direct style [reads](io::Read) it, or takes [all of it](RequestBody::bytes). A
/// future, such as one of axum's extractors, polls it as any other [`Body`].
///
/// # Errors
/// A read fails if the client leaves, or if the body exceeds
/// [`body_limit`](crate::Serve::body_limit), [`body_timeout`](crate::Serve::body_timeout) or
/// [`idle_timeout`](crate::Serve::idle_timeout). The last two have the kind `TimedOut`.
///
/// # Examples
/// ```
/// use ecru_hyper::RequestBody;
/// use http_body_util::Full;
/// use hyper::body::Bytes;
/// use hyper::{Request, Response};
///
/// fn shout(request: Request<RequestBody>) -> std::io::Result<Response<Full<Bytes>>> {
///     let text = request.into_body().bytes()?;
///     Ok(Response::new(Full::from(text.to_ascii_uppercase())))
/// }
/// let _service = ecru_hyper::direct(shout);
/// ```
pub struct RequestBody {
    incoming: Limited<Incoming>,
    watch: Arc<Watch>,
    /// What few bodies need. The router boxes the body, so it is small.
    rest: Option<Box<Rest>>,
}

#[derive(Default)]
struct Rest {
    /// When the whole body must have come. Set when it is first waited for.
    due: Option<Instant>,
    /// Ends the wait for the next piece.
    patience: Option<Sleep>,
    /// A piece that was read in part.
    piece: Bytes,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, watch: &Arc<Watch>) -> RequestBody {
        let limit = watch.limits.body.unwrap_or(usize::MAX);
        RequestBody {
            incoming: Limited::new(incoming, limit),
            watch: Arc::clone(watch),
            rest: None,
        }
    }

    /// Receives the rest of the body. Waits in direct style.
    ///
    /// # Errors
    /// Returns the errors of the [body](RequestBody#errors), and an error with
    /// [`Cancelled`](ecru::Cancelled) if the wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. What has come is lost.
    ///
    /// # Examples
    /// ```
    /// use ecru_hyper::RequestBody;
    /// use http_body_util::Full;
    /// use hyper::body::Bytes;
    /// use hyper::{Request, Response};
    /// use std::io;
    ///
    /// fn echo(request: Request<RequestBody>) -> io::Result<Response<Full<Bytes>>> {
    ///     Ok(Response::new(Full::from(request.into_body().bytes()?)))
    /// }
    /// let _service = ecru_hyper::direct(echo);
    /// ```
    pub fn bytes(mut self) -> io::Result<Bytes> {
        pieces::all(&mut self)
    }

    fn has_piece(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.piece.is_empty())
    }

    /// Returns an error if the client has taken too long for the next piece.
    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        let limits = self.watch.limits;
        if limits.body_time.is_none() && limits.idle.is_none() {
            return Poll::Pending;
        }
        let now = ecru::time::now();
        let rest = self.rest.get_or_insert_default();
        let due = limits.body_time.map(|limit| *rest.due.get_or_insert(now + limit));
        let patience = rest.patience.get_or_insert_with(|| {
            let idle = limits.idle.map(|limit| now + limit);
            Sleep::until(due.into_iter().chain(idle).min().unwrap_or(now))
        });
        ready!(Pin::new(patience).poll(cx));
        let text = "the client has not sent the body of its request within the time limit";
        Poll::Ready(io::Error::new(ErrorKind::TimedOut, text).into())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(rest) = &mut this.rest
            && !rest.piece.is_empty()
        {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut rest.piece)))));
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Pending => this.poll_limits(cx).map(|error| Some(Err(error))),
            Poll::Ready(next) => {
                if let Some(rest) = &mut this.rest {
                    rest.patience = None;
                }
                if let Some(Err(error)) = &next
                    && error.is::<LengthLimitError>()
                {
                    this.watch.refuse_body();
                }
                Poll::Ready(next)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.has_piece() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_piece() { SizeHint::default() } else { self.incoming.size_hint() }
    }
}

/// Reads in direct style.
///
/// # Cancellation
/// A read is a cancellation point. A cancelled read has taken nothing.
impl io::Read for RequestBody {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        let Some(mut piece) = pieces::next(self)? else { return Ok(0) };
        let count = pieces::take(&mut piece, room);
        if !piece.is_empty() {
            self.rest.get_or_insert_default().piece = piece;
        }
        Ok(count)
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

pin_project! {
    /// The body of a response, and what its end ends.
    #[derive(Debug)]
    pub(crate) struct Answer<B> {
        // `None` if the server itself answers.
        #[pin]
        body: Option<B>,
        progress: Option<InProgress>,
    }
}

impl<B> Answer<B> {
    pub(crate) fn new(body: Option<B>, progress: InProgress) -> Answer<B> {
        Answer { body, progress: Some(progress) }
    }
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.as_pin_mut().map_or(Poll::Ready(None), |body| body.poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
