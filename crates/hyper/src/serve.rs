//! A server for a tower service: [`serve`].

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ecru::Source;
use ecru::channel;
use ecru::net::{Server, TcpListener, TcpStream};
use ecru::sync::Semaphore;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::{Request, Response};
use tower_service::Service;

use crate::RequestBody;
use crate::connection::{self, Place, Settings, Stop};
use crate::protocols::Protocols;
use crate::watch::Limits;

/// The limit of connections that is set if [`Serve::limit`] is not called.
const LIMIT: usize = 10_000;
/// The number of connections that may have been accepted and wait for room. As many workers accept.
const ACCEPTED: usize = 64;

type OnError<'l> = Box<dyn Fn(io::Error, Option<SocketAddr>) + Send + Sync + 'l>;

/// Serves a tower service over HTTP, for instance axum's `Router`, unchanged. [`Serve::run`] begins.
/// HTTP/1.1 is spoken unless [`http2`](Serve::http2) is called.
///
/// A connection is a [task without a stack](ecru::Scope::spawn_future), and so are the requests on
/// it. Their handlers may `await` anything, and panic if they wait in direct style. A handler in
/// direct style is [`direct`](crate::direct).
///
/// A client that closes its side of the connection, also only the sending one, has left: a request
/// in progress is then dropped, as by other servers that are built on hyper.
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use ecru_hyper::RequestBody;
/// use http_body_util::Full;
/// use hyper::body::Bytes;
/// use hyper::{Request, Response};
/// use std::io::{Read, Write};
///
/// fn greet(_: Request<RequestBody>) -> Result<Response<Full<Bytes>>, std::io::Error> {
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
        limits: Limits::default(),
        peers: false,
        protocols: Protocols::default(),
        #[cfg(feature = "tls")]
        tls: None,
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
    limits: Limits,
    peers: bool,
    protocols: Protocols,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ServerConfig>>,
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

    /// Serves over TLS, or without it if `config` is `None`. If `config` names no protocols for ALPN,
    /// those that are [spoken](Serve::http2) are offered.
    ///
    /// The handshake is part of the wait for the first request: see
    /// [`header_timeout`](Serve::header_timeout). A handshake that fails is reported to
    /// [`on_error`](Serve::on_error), and ends its connection.
    #[cfg(feature = "tls")]
    pub fn tls(self, config: impl Into<Option<Arc<rustls::ServerConfig>>>) -> Self {
        Serve { tls: config.into(), ..self }
    }

    /// Speaks HTTP/1.1. This is the default, and is needed only beside [`http2`](Serve::http2).
    pub fn http1(mut self) -> Self {
        self.protocols.http1 = true;
        self
    }

    /// Speaks HTTP/2, and no other protocol unless [`http1`](Serve::http1) is called as well. Then
    /// the client chooses: with TLS by ALPN, otherwise by its first bytes.
    ///
    /// Each stream is a task without a stack, on its connection's worker.
    #[cfg(feature = "http2")]
    pub fn http2(self) -> Self {
        Serve { protocols: Protocols { http2: true, ..self.protocols }, ..self }
    }

    /// Sets how long a client may take for the head of a request: for the first one from the moment
    /// when it is connected, TLS handshake included, and for a further one from its first byte. A
    /// connection that takes longer is closed. Without this, there is no such limit.
    ///
    /// Over HTTP/2, this is the limit for the first request, as
    /// [`idle_timeout`](Serve::idle_timeout) if that is not set.
    pub fn header_timeout(self, limit: Duration) -> Self {
        Serve { limits: Limits { header: Some(limit), ..self.limits }, ..self }
    }

    /// Sets how long a connection may wait for its client: without a request, for the next piece of
    /// a body that its handler reads, or for the client to take more of a response. Such a
    /// connection is closed. Without this, [`header_timeout`](Serve::header_timeout) is the limit
    /// between two requests, and there is no limit for the others.
    pub fn idle_timeout(self, limit: Duration) -> Self {
        Serve { limits: Limits { idle: Some(limit), ..self.limits }, ..self }
    }

    /// Sets how many bytes the body of a request may have. A request that announces more is answered
    /// with the status 413, and the service is not called. If more come without an announcement, the
    /// handler's read fails. If the handler then fails as well, the answer is 413. Without this,
    /// there is no such limit, except those of the service itself.
    pub fn body_limit(self, bytes: usize) -> Self {
        Serve { limits: Limits { body: Some(bytes), ..self.limits }, ..self }
    }

    /// Sets how long a client may take for the whole body of a request, from the moment when its
    /// handler first has to wait for it. The handler's read then fails. Without this, there is no
    /// such limit.
    pub fn body_timeout(self, limit: Duration) -> Self {
        Serve { limits: Limits { body_time: Some(limit), ..self.limits }, ..self }
    }

    /// Gives each request the address of its client, as a [`Peer`](crate::Peer) among its
    /// extensions.
    ///
    /// # Examples
    /// ```
    /// use axum::extract::Extension;
    /// use axum::{Router, routing::get};
    /// use ecru_hyper::Peer;
    ///
    /// async fn address(Extension(Peer(client)): Extension<Peer>) -> String {
    ///     client.ip().to_string()
    /// }
    ///
    /// ecru::run(|| {
    ///     let listener = ecru::net::TcpListener::bind("127.0.0.1:0")?;
    ///     let url = format!("http://{}/", listener.local_addr()?);
    ///     ecru::scope(|s| {
    ///         let router = Router::new().route("/", get(address));
    ///         s.spawn_daemon(|| ecru_hyper::serve(&listener, router).peers().run());
    ///         let answer = ecru_hyper::client(s).build().get(&url)?;
    ///         assert_eq!(answer.into_body().bytes()?, "127.0.0.1");
    ///         Ok(())
    ///     })
    /// })
    /// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
    /// ```
    pub fn peers(self) -> Self {
        Serve { peers: true, ..self }
    }

    /// Ends the server once `source` has an item, for instance a
    /// [`Signal`](ecru::signal::Signal): no more connections are accepted, idle ones are closed, and
    /// those with a request in progress end after its response. A client that has just been connected
    /// has a second for its first request. A program that ends after its server also calls
    /// [`refuse_late`](Serve::refuse_late).
    pub fn stop_when(self, source: impl Source + Send + 'l) -> Self {
        Serve { server: self.server.stop_when(source), ..self }
    }

    /// Shuts the listener down when the server stops, also when the caller is cancelled, so that late
    /// clients are refused at once. See [`Server::refuse_late`].
    pub fn refuse_late(self) -> Self {
        Serve { server: self.server.refuse_late(), ..self }
    }

    /// Sets how long the requests in progress may take after the stop. The connections that are
    /// left then are closed. Without this, they may take as long as they need.
    pub fn grace(self, period: Duration) -> Self {
        Serve { grace: Some(period), ..self }
    }

    /// Sets a function that is called for each connection that fails, and for each that cannot be
    /// accepted or served for lack of resources. Without one, these errors are dropped. It is called
    /// by the task of a connection, so it must not wait. If it panics, so does [`run`](Serve::run),
    /// once the server has stopped.
    ///
    /// | kind | meaning |
    /// |---|---|
    /// | `UnexpectedEof`, `ConnectionReset`, `BrokenPipe` | the client has left in the middle of a request, of its response or of a handshake |
    /// | `TimedOut` | a limit has passed |
    /// | `InvalidData` | the client does not speak HTTP or TLS, or does not trust the server |
    /// | `Other` | the service has failed or panicked |
    ///
    /// Clients leave all the time, so most servers report only the other kinds. A client that leaves
    /// between two requests is no error.
    ///
    /// # Examples
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use std::net::SocketAddr;
    ///
    /// fn report(error: Error, client: Option<SocketAddr>) {
    ///     match error.kind() {
    ///         ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {}
    ///         _ => eprintln!("{client:?}: {error}"),
    ///     }
    /// }
    ///
    /// let listener = ecru::net::TcpListener::bind("127.0.0.1:0")?;
    /// let router: axum::Router = axum::Router::new();
    /// let _server = ecru_hyper::serve(&listener, router).on_error(report);
    /// # Ok::<(), Error>(())
    /// ```
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
    /// - Returns `InvalidInput` for a limit of 0 connections.
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks.
    ///
    /// # Cancellation
    /// If the caller is cancelled, the connections are closed at once.
    #[track_caller]
    pub fn run<B>(self) -> io::Result<Served>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync,
        S::Future: Send,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let settings = self.settings();
        let Serve { server, service, limit, grace, on_error, .. } = self;
        if limit == 0 {
            let text = "a limit of 0 connections serves nothing; pass at least 1 to `limit(..)`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let report = |error: io::Error, peer| {
            if let Some(handler) = &on_error {
                handler(error, peer);
            }
        };
        let (stops, stopping) = channel::bounded(0);
        let stop = Stop { is_stopping: AtomicBool::new(false), stopping };
        let room = Semaphore::new(limit.min(Semaphore::MAX_PERMITS));
        let served = AtomicUsize::new(0);
        let result = ecru::scope(|s| {
            let (stop, settings, report) = (&stop, &settings, &report);
            // Its end stops the connections, also by a panic.
            let _stops = Stops { stop, _stops: stops };
            let accept = |stream: TcpStream, peer| {
                let permit = room.acquire()?;
                stream.set_nodelay(true)?;
                served.fetch_add(1, Ordering::Relaxed);
                let place = Place { scope: s, stop, report, peer };
                let connection = connection::serve(stream, service.clone(), settings, place);
                s.spawn_future(async move {
                    let _permit = permit;
                    if let Err(error) = connection.await {
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
            Ok(())
        });
        result.map(|()| Served { connections: served.into_inner() })
    }

    fn settings(&self) -> Settings {
        let protocols = self.protocols.or_http1();
        #[cfg(feature = "tls")]
        let tls = self.tls.clone().map(|mut config| {
            if config.alpn_protocols.is_empty() {
                Arc::make_mut(&mut config).alpn_protocols = protocols.names();
            }
            config
        });
        Settings {
            limits: self.limits,
            peers: self.peers,
            http1: http1::Builder::new(),
            protocols,
            #[cfg(feature = "tls")]
            tls,
        }
    }
}

/// Stops the connections when it is dropped.
struct Stops<'s> {
    stop: &'s Stop,
    _stops: channel::Sender<std::convert::Infallible>,
}

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        // Before the sender is dropped, which wakes the connections.
        self.stop.is_stopping.store(true, Ordering::Release);
    }
}

impl<S: fmt::Debug> fmt::Debug for Serve<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("service", &self.service).finish_non_exhaustive()
    }
}
