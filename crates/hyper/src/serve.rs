//! A server for a tower service: [`serve`].

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ecru::Source;
use ecru::channel::{self, Receiver};
use ecru::net::{Server, TcpListener, TcpStream};
use ecru::sync::Semaphore;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::{Request, Response};
use tower_service::Service;

use crate::{EcruIo, EcruTimer};

/// The limit of connections that is set if [`Serve::limit`] is not called.
const LIMIT: usize = 10_000;
/// The number of connections that may have been accepted and wait for room. As many workers accept.
const ACCEPTED: usize = 64;

type OnError<'l> = Box<dyn Fn(io::Error, Option<SocketAddr>) + Send + Sync + 'l>;

/// Serves a tower service over HTTP/1.1, for instance axum's `Router`, unchanged. [`Serve::run`]
/// begins.
///
/// A connection is a [task without a stack](ecru::Scope::spawn_future), and so are the requests on
/// it. Their handlers may `await` anything, and panic if they wait in direct style. A handler in
/// direct style is [`direct`](crate::direct).
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use http_body_util::Full;
/// use hyper::body::{Bytes, Incoming};
/// use hyper::{Request, Response};
/// use std::io::{Read, Write};
///
/// fn greet(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
///     // It may wait anywhere: `direct` gives each request a task with a stack.
///     ecru::sleep(std::time::Duration::from_millis(1))?;
///     Ok(Response::new(Full::from("hello")))
/// }
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let (stop, stopped) = ecru::channel::bounded::<()>(0);
///     ecru::scope(|s| {
///         let server = s.spawn(|| {
///             ecru_hyper::serve(&listener, ecru_hyper::direct(greet)).stop_when(stopped).run()
///         });
///         let mut client = TcpStream::connect(address)?;
///         client.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")?;
///         let mut answer = String::new();
///         client.read_to_string(&mut answer)?;
///         assert!(answer.ends_with("\r\n\r\nhello"));
///         drop(stop);
///         assert_eq!(server.join().unwrap()?.connections(), 1);
///         Ok(())
///     })
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
pub fn serve<S>(listener: &TcpListener, service: S) -> Serve<'_, S> {
    Serve {
        server: listener.server(),
        service,
        limit: LIMIT,
        header_timeout: None,
        grace: None,
        on_error: None,
    }
}

/// A server that is being configured: see [`serve`].
#[must_use = "nothing is served before `run`"]
pub struct Serve<'l, S> {
    server: Server<'l, TcpListener>,
    service: S,
    limit: usize,
    header_timeout: Option<Duration>,
    grace: Option<Duration>,
    on_error: Option<OnError<'l>>,
}

/// What a server has done, returned by [`Serve::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    connections: usize,
}

impl Served {
    /// Returns the number of connections that were served.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }
}

impl<'l, S> Serve<'l, S> {
    /// Sets how many connections are open at most, 10,000 unless this is called. Further ones wait
    /// in the listener's queue, but for up to 64, which have been accepted.
    pub fn limit(self, connections: usize) -> Self {
        Serve { limit: connections, ..self }
    }

    /// Sets how long a client may take for the head of a request, from the moment when the server
    /// waits for it. A connection that takes longer is closed, also one that is idle. Without this,
    /// there is no such limit.
    pub fn header_timeout(self, limit: Duration) -> Self {
        Serve { header_timeout: Some(limit), ..self }
    }

    /// Ends the server once `source` has an item, for instance a
    /// [`Signal`](ecru::signal::Signal): no more connections are accepted, idle ones are closed, and
    /// those with a request in progress end after its response.
    pub fn stop_when(self, source: impl Source + Send + 'l) -> Self {
        Serve { server: self.server.stop_when(source), ..self }
    }

    /// Sets how long the requests in progress may take after the stop. The connections that are
    /// left then are closed. Without this, they may take as long as they need.
    pub fn grace(self, period: Duration) -> Self {
        Serve { grace: Some(period), ..self }
    }

    /// Sets a function that is called for each connection that fails, and for each that cannot be
    /// accepted or served for lack of resources. Without one, these errors are dropped. It is called
    /// by the task of a connection, so it must not wait.
    pub fn on_error(
        self,
        handler: impl Fn(io::Error, Option<SocketAddr>) + Send + Sync + 'l,
    ) -> Self {
        Serve { on_error: Some(Box::new(handler)), ..self }
    }

    /// Serves until the source of [`stop_when`](Serve::stop_when) has an item, or the caller is
    /// cancelled. Returns after the last connection has ended.
    ///
    /// A panic of the service ends its connection, and no other.
    ///
    /// # Errors
    /// - Returns the error of a listener that cannot accept any more.
    /// - Returns an error with [`Cancelled`](ecru::Cancelled) if the caller is cancelled.
    /// - Returns `InvalidInput` for a limit of 0.
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks.
    ///
    /// # Cancellation
    /// If the caller is cancelled, the connections are closed at once.
    #[track_caller]
    pub fn run<B>(self) -> io::Result<Served>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync,
        S::Future: Send,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Serve { server, service, limit, header_timeout, grace, on_error } = self;
        if limit == 0 {
            let text = "a limit of 0 connections serves nothing; pass at least 1 to `limit(..)`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let report = |error: io::Error, peer| {
            if let Some(handler) = &on_error {
                handler(error, peer);
            }
        };
        let mut builder = http1::Builder::new();
        builder.header_read_timeout(header_timeout);
        if header_timeout.is_some() {
            builder.timer(EcruTimer);
        }
        let room = Semaphore::new(limit.min(Semaphore::MAX_PERMITS));
        let served = AtomicUsize::new(0);
        let result = ecru::scope(|s| {
            let (_stops, stopping) = channel::bounded::<Infallible>(0);
            let accept = |stream: TcpStream, peer| {
                let permit = room.acquire()?;
                stream.set_nodelay(true)?;
                let service = OverTower(service.clone());
                let connection =
                    builder.serve_connection(EcruIo::new(stream)?, service).with_upgrades();
                let (stopping, report) = (stopping.clone(), &report);
                served.fetch_add(1, Ordering::Relaxed);
                s.spawn_future(async move {
                    let _permit = permit;
                    if let Err(error) = until_over(connection, &stopping).await {
                        report(error, Some(peer));
                    }
                });
                Ok(())
            };
            // What the inner server runs begins connections. Its limit is not that of connections.
            // After the stop it gives up what waits for room, because only the end of this closure
            // closes the idle connections that have it.
            let server = server.limit(ACCEPTED).grace(Duration::ZERO).on_error(report);
            server.serve(accept)?;
            if let Some(grace) = grace {
                s.spawn_daemon(move || {
                    if ecru::sleep(grace).is_ok() {
                        s.cancel();
                    }
                });
            }
            // The end of this closure drops the sender, which stops the connections.
            Ok(())
        });
        result.map(|()| Served { connections: served.into_inner() })
    }
}

impl<S: fmt::Debug> fmt::Debug for Serve<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("service", &self.service).finish_non_exhaustive()
    }
}

/// Drives a connection to its end, which comes soon after the server stops.
async fn until_over<S, B>(
    connection: http1::UpgradeableConnection<EcruIo, OverTower<S>>,
    stopping: &Receiver<Infallible>,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connection = pin!(connection);
    let (mut stopped, mut is_stopping) = (stopping.to_future(), false);
    poll_fn(|cx| {
        if !is_stopping && Pin::new(&mut stopped).poll(cx).is_ready() {
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
        }
        // The panic hook has reported a panic of the service.
        match catch_unwind(AssertUnwindSafe(|| connection.as_mut().poll(cx))) {
            Ok(Poll::Ready(Err(error))) => Poll::Ready(Err(io::Error::other(error))),
            Ok(outcome) => outcome.map(|_| Ok(())),
            Err(_) => Poll::Ready(Err(io::Error::other("the service has panicked"))),
        }
    })
    .await
}

/// A tower service as one of hyper's, which are called by reference and are always ready.
#[derive(Clone, Debug)]
struct OverTower<S>(S);

impl<S, R> hyper::service::Service<R> for OverTower<S>
where
    S: Service<R> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Oneshot<S, R>;

    fn call(&self, request: R) -> Oneshot<S, R> {
        Oneshot::Waiting(self.0.clone(), Some(request))
    }
}

/// One call of a service, once the service is ready.
enum Oneshot<S: Service<R>, R> {
    Waiting(S, Option<R>),
    Called(Pin<Box<S::Future>>),
}

impl<S: Service<R>, R> Unpin for Oneshot<S, R> {}

impl<S: Service<R>, R> Future for Oneshot<S, R> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Oneshot::Waiting(service, request) = &mut *self {
            ready!(service.poll_ready(cx))?;
            let request = request.take().expect("it is called once");
            let called = Box::pin(service.call(request));
            *self = Oneshot::Called(called);
        }
        match &mut *self {
            Oneshot::Called(future) => future.as_mut().poll(cx),
            Oneshot::Waiting(..) => unreachable!("it was called above"),
        }
    }
}
