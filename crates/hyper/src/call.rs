//! A tower service as one of hyper's, within the limits of a server.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::RequestBody;
use crate::body::Answer;
use crate::watch::{InProgress, Watch};

/// The service of one connection. hyper calls it by reference, so each request has a clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls<S> {
    pub(crate) service: S,
    pub(crate) watch: Arc<Watch>,
    pub(crate) peer: Option<Peer>,
}

/// The address of the client that has sent a request, among the request's extensions: see
/// [`Serve::peers`](crate::Serve::peers). Behind a proxy, it is the proxy's.
///
/// # Examples
/// ```
/// use ecru_hyper::{Peer, RequestBody};
/// use hyper::Request;
///
/// /// A key for a limit of each client's requests.
/// fn key(request: &Request<RequestBody>) -> Option<std::net::IpAddr> {
///     request.extensions().get::<Peer>().map(|Peer(address)| address.ip())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub SocketAddr);

impl<S, B> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Call<S, S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let limit = self.watch.limits.body.and_then(|limit| u64::try_from(limit).ok());
        // Also the lower bound of a body in chunks, which is 0.
        let refused = limit.is_some_and(|limit| request.body().size_hint().lower() > limit);
        let progress = Some(self.watch.request());
        if refused {
            self.watch.refuse_body();
            return Call { watch: None, progress, stage: Stage::Refused };
        }
        let mut request = request.map(|body| RequestBody::new(body, &self.watch));
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let stage = Stage::Waiting { service: self.service.clone(), request: Some(request) };
        // Only a limit can make the server answer by itself.
        let watch = limit.map(|_| Arc::clone(&self.watch));
        Call { watch, progress, stage }
    }
}

pin_project! {
    /// One request.
    pub(crate) struct Call<S, F> {
        watch: Option<Arc<Watch>>,
        progress: Option<InProgress>,
        #[pin]
        stage: Stage<S, F>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, F> {
        // The service may have to become ready.
        Waiting { service: S, request: Option<Request<RequestBody>> },
        Called { #[pin] response: F },
        Refused,
    }
}

impl<S, B> Future for Call<S, S::Future>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
{
    type Output = Result<Response<Answer<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let called = loop {
            let response = match this.stage.as_mut().project() {
                StageProjection::Refused => break None,
                StageProjection::Called { response } => break Some(ready!(response.poll(cx))),
                StageProjection::Waiting { service, request } => {
                    ready!(service.poll_ready(cx))?;
                    service.call(request.take().expect("it is called once"))
                }
            };
            this.stage.set(Stage::Called { response });
        };
        let progress = this.progress.take().expect("it is polled until it is ready");
        Poll::Ready(match called {
            Some(Ok(response)) => Ok(response.map(|body| Answer::new(Some(body), progress))),
            Some(Err(error)) if !this.watch.as_ref().is_some_and(|w| w.has_refused_body()) => {
                Err(error)
            }
            None | Some(Err(_)) => Ok(too_large(progress)),
        })
    }
}

fn too_large<B>(progress: InProgress) -> Response<Answer<B>> {
    let mut response = Response::new(Answer::new(None, progress));
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}
