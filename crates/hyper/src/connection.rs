//! One served connection, from the handshake to its end.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll};
use std::time::Duration;

use ecru::Scope;
use ecru::Source as _;
use ecru::channel::Receiver;
use ecru::net::TcpStream;
use ecru::source::SourceFuture;
use ecru::time::Sleep;
use hyper::body::Body;
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::{Request, Response};
use tower_service::Service;

#[cfg(feature = "http2")]
use crate::EcruTimer;
use crate::RequestBody;
use crate::call::{Calls, Peer};
use crate::pieces;
use crate::protocols::Protocols;
use crate::transport::Transport;
use crate::watch::{Clock, Limits, Watch};

/// What a client of HTTP/2 sends first.
#[cfg(feature = "http2")]
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a client that was connected just before the stop may take for its first request.
const FRESH: Duration = Duration::from_secs(1);
/// How long an idle client of HTTP/2 may take to close its connection after it was asked to.
const FAREWELL: Duration = Duration::from_secs(1);

/// How connections are served.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    /// Whether requests carry the client's address.
    pub(crate) peers: bool,
    pub(crate) http1: http1::Builder,
    #[cfg_attr(not(feature = "http2"), expect(dead_code, reason = "there is one protocol"))]
    pub(crate) protocols: Protocols,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// The stop of a server, as its connections see it.
pub(crate) struct Stop {
    /// Set before the channel's sender is dropped.
    pub(crate) is_stopping: AtomicBool,
    pub(crate) stopping: Receiver<std::convert::Infallible>,
}

/// The stop of a server in one connection.
struct Stopping<'s> {
    stop: &'s Stop,
    /// Wakes the task. It is polled once, because a task has one waker for all polls.
    wakes: Option<SourceFuture<Receiver<std::convert::Infallible>>>,
}

impl<'s> Stopping<'s> {
    fn new(stop: &'s Stop) -> Stopping<'s> {
        Stopping { stop, wakes: None }
    }

    fn has_come(&mut self, cx: &mut Context<'_>) -> bool {
        if self.wakes.is_none() {
            let wakes = self.wakes.insert(self.stop.stopping.clone().to_future());
            if Pin::new(wakes).poll(cx).is_ready() {
                return true;
            }
        }
        self.stop.is_stopping.load(Acquire)
    }
}

/// What a connection reports its failures to.
pub(crate) type Report<'r> = &'r (dyn Fn(io::Error, Option<SocketAddr>) + Sync);

/// Where a connection belongs.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "http2"), expect(dead_code, reason = "HTTP/1 has no streams"))]
pub(crate) struct Place<'scope, 'env> {
    /// Where streams of HTTP/2 are tasks.
    pub(crate) scope: &'scope Scope<'scope, 'env>,
    pub(crate) stop: &'scope Stop,
    pub(crate) report: Report<'scope>,
    pub(crate) peer: SocketAddr,
}

/// Serves a connection. Returns soon after the server stops.
pub(crate) async fn serve<'scope, S, B>(
    stream: TcpStream,
    service: S,
    settings: &'scope Settings,
    place: Place<'scope, '_>,
) -> io::Result<()>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'scope,
    S::Future: Send + 'scope,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let watch = Arc::new(Watch::new(settings.limits));
    let (stopping, clock) = (Stopping::new(place.stop), Clock::new(&watch));
    let course = Course { stopping, clock, leave: None, watch };
    let transport = Transport::new(stream, Arc::clone(&course.watch))?;
    let peer = settings.peers.then_some(Peer(place.peer));
    let calls = Calls { service, watch: Arc::clone(&course.watch), peer };
    #[cfg(any(feature = "tls", feature = "http2"))]
    let mut course = course;
    #[cfg(feature = "tls")]
    let transport = match &settings.tls {
        None => transport,
        Some(tls) => {
            let session = rustls::ServerConnection::new(Arc::clone(tls));
            let session = session.map_err(io::Error::other)?;
            match course.open(transport.secure(session)).await? {
                Some(transport) => transport,
                None => return Ok(()),
            }
        }
    };
    #[cfg(feature = "http2")]
    let transport = if settings.protocols.http2 {
        let mut transport = transport;
        match course.is_http2(&mut transport, settings.protocols).await? {
            None => return Ok(()),
            Some(true) => {
                course.watch.speaks_http2();
                let mut builder = http2::Builder::new(Streams(place));
                builder.timer(EcruTimer);
                // On the heap, so that connections of HTTP/1 do not take its room.
                let mut connection = Box::pin(builder.serve_connection(transport, calls));
                return course.drive(connection.as_mut(), |c| c.graceful_shutdown()).await;
            }
            Some(false) => transport,
        }
    } else {
        transport
    };
    let connection = settings.http1.serve_connection(transport, calls).with_upgrades();
    course.drive(pin!(connection), |c| c.graceful_shutdown()).await
}

/// The limits of a connection and its server's stop, which end it early.
struct Course<'s> {
    stopping: Stopping<'s>,
    clock: Option<Clock>,
    /// Ends the wait for a client after the stop.
    leave: Option<Sleep>,
    watch: Arc<Watch>,
}

impl Course<'_> {
    /// Awaits what has to be done before the first request. Returns `None` if the connection is over
    /// before that.
    #[cfg(any(feature = "tls", feature = "http2"))]
    async fn open<T>(
        &mut self,
        opening: impl Future<Output = io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let mut opening = pin!(opening);
        poll_fn(|cx| {
            if let Poll::Ready(result) = opening.as_mut().poll(cx) {
                return Poll::Ready(result.map(Some));
            }
            if self.stopping.has_come(cx) && self.poll_leave(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            self.poll_clock(cx).map_ok(|()| None)
        })
        .await
    }

    /// Returns whether the client speaks HTTP/2.
    #[cfg(feature = "http2")]
    async fn is_http2(
        &mut self,
        transport: &mut Transport,
        protocols: Protocols,
    ) -> io::Result<Option<bool>> {
        #[cfg(feature = "tls")]
        match transport.alpn() {
            Some(b"h2") => return Ok(Some(true)),
            Some(_) => return Ok(Some(false)),
            None => {}
        }
        if !protocols.http1 {
            return Ok(Some(true));
        }
        self.open(poll_fn(|cx| transport.poll_begins_with(cx, PREFACE))).await
    }

    /// Becomes ready when a client need not be waited for any more that has no request in progress,
    /// although the server stops.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let watch = &self.watch;
        let until = if watch.is_fresh() {
            // A request may be on its way, and would be lost.
            watch.begun() + FRESH
        } else if watch.has_streams() {
            ecru::time::now() + FAREWELL
        } else {
            return Poll::Ready(());
        };
        Pin::new(self.leave.get_or_insert_with(|| Sleep::until(until))).poll(cx)
    }

    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.clock {
            None => Poll::Pending,
            Some(clock) => clock.poll(cx).map(|over| over.outcome()),
        }
    }

    /// Drives a connection to its end. `ask` asks it to end.
    async fn drive<C>(
        mut self,
        mut connection: Pin<&mut C>,
        ask: impl Fn(Pin<&mut C>),
    ) -> io::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut is_asked = false;
        poll_fn(|cx| {
            let is_stopping = self.stopping.has_come(cx);
            loop {
                // The panic hook has reported a panic of the service.
                match catch_unwind(AssertUnwindSafe(|| connection.as_mut().poll(cx))) {
                    Ok(Poll::Ready(result)) => {
                        return Poll::Ready(result.map_err(failed));
                    }
                    Ok(Poll::Pending) => {}
                    Err(_) => return Poll::Ready(Err(panicked())),
                }
                // hyper would close a connection without a request at once.
                let waits = self.watch.is_fresh() && !self.watch.has_streams();
                if !is_stopping || is_asked || waits {
                    break;
                }
                is_asked = true;
                ask(connection.as_mut());
            }
            if is_stopping && self.watch.awaits_head() && self.poll_leave(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            self.poll_clock(cx)
        })
        .await
    }
}

/// Returns the error of a connection, whose kind tells a client that has left or speaks no HTTP from a
/// service that fails.
fn failed(error: hyper::Error) -> io::Error {
    let kind = if error.is_user() {
        // The service may have failed because another connection was reset.
        ErrorKind::Other
    } else if error.is_incomplete_message() {
        ErrorKind::UnexpectedEof
    } else if error.is_parse() {
        ErrorKind::InvalidData
    } else {
        pieces::kind(&error).unwrap_or(ErrorKind::Other)
    };
    io::Error::new(kind, error)
}

fn panicked() -> io::Error {
    io::Error::other("the service has panicked")
}

/// The executor of HTTP/2: each stream is a task without a stack, beside its connection.
#[cfg(feature = "http2")]
#[derive(Clone, Copy)]
struct Streams<'scope, 'env>(Place<'scope, 'env>);

#[cfg(feature = "http2")]
impl<'scope, F> hyper::rt::Executor<F> for Streams<'scope, '_>
where
    F: Future<Output = ()> + Send + 'scope,
{
    fn execute(&self, stream: F) {
        let Place { scope, report, peer, .. } = self.0;
        // On the connection's worker, behind the streams that have come before it. So their responses
        // are sent together: elsewhere, each would wake the connection by itself.
        scope.spawn_local_future(Caught {
            stream,
            panicked: move || report(panicked(), Some(peer)),
        });
    }
}

#[cfg(feature = "http2")]
pin_project_lite::pin_project! {
    /// A stream whose panic ends only itself.
    struct Caught<F, P> {
        #[pin]
        stream: F,
        panicked: P,
    }
}

#[cfg(feature = "http2")]
impl<F: Future<Output = ()>, P: Fn()> Future for Caught<F, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // The panic hook has reported it.
        catch_unwind(AssertUnwindSafe(|| this.stream.poll(cx))).unwrap_or_else(|_| {
            (this.panicked)();
            Poll::Ready(())
        })
    }
}
