//! An HTTP client with a pool of connections: [`client`].

mod connect;
mod response;
mod tasks;

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ecru::{Daemons, RuntimeHandle};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Bytes};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy;
use tower_service::Service;

pub use self::response::ResponseBody;

use self::connect::Connector;
use self::tasks::Tasks;
use crate::EcruTimer;
use crate::pieces::{self, BoxError};
use crate::protocols::Protocols;

/// Makes an HTTP client, whose connections are tasks without stacks of the scope `s`. They are
/// kept for further requests to the same host. [`ClientBuilder::build`] returns the client.
///
/// A task [sends](Client::send) a request in direct style. A future, such as a handler of axum's,
/// awaits [`Client::request`].
///
/// The client may be moved out of the scope, but when the scope ends, its connections are closed,
/// and further requests fail.
///
/// # Examples
/// ```
/// use ecru::net::TcpListener;
/// use ecru_hyper::RequestBody;
/// use http_body_util::Full;
/// use hyper::body::Bytes;
/// use hyper::{Request, Response};
/// use std::io;
///
/// fn shout(request: Request<RequestBody>) -> io::Result<Response<Full<Bytes>>> {
///     Ok(Response::new(Full::from(request.into_body().bytes()?.to_ascii_uppercase())))
/// }
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let url = format!("http://{}/", listener.local_addr()?);
///     ecru::scope(|s| {
///         s.spawn_daemon(|| ecru_hyper::serve(&listener, ecru_hyper::direct(shout)).run());
///         let client = ecru_hyper::client(s).build();
///         let response = client.send(Request::post(&url).body(Full::from("hello")).unwrap())?;
///         assert_eq!(response.status(), 200);
///         assert_eq!(response.into_body().bytes()?, "HELLO");
///         Ok(())
///     })
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
///
/// # Panics
/// Panics on a thread that runs no tasks. If the body of a request panics, so does the scope.
#[track_caller]
pub fn client<'scope>(s: &'scope impl Daemons<'scope>) -> ClientBuilder {
    ClientBuilder {
        run: RuntimeHandle::current(),
        tasks: Tasks::new(s),
        connect_timeout: None,
        idle_timeout: None,
        protocols: Protocols::default(),
        #[cfg(feature = "tls")]
        tls: None,
    }
}

/// A client that is being configured: see [`client`].
#[must_use = "`build` makes the client"]
pub struct ClientBuilder {
    run: RuntimeHandle,
    tasks: Tasks,
    connect_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    protocols: Protocols,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl ClientBuilder {
    /// Sets what `https` needs: the roots of trust, and the client's own certificate if it has one.
    /// If `config` names no protocols for ALPN, those that are [spoken](ClientBuilder::http2) are
    /// offered.
    #[cfg(feature = "tls")]
    pub fn tls(self, config: Arc<rustls::ClientConfig>) -> Self {
        ClientBuilder { tls: Some(config), ..self }
    }

    /// Speaks HTTP/1.1. This is the default, and is needed only beside
    /// [`http2`](ClientBuilder::http2).
    pub fn http1(mut self) -> Self {
        self.protocols.http1 = true;
        self
    }

    /// Speaks HTTP/2, and no other protocol unless [`http1`](ClientBuilder::http1) is called as
    /// well. Then the server chooses by ALPN, and HTTP/1.1 is spoken without TLS.
    ///
    /// Requests to one host share a connection. If its server falls silent and does not close it,
    /// they all wait, so limit each of them by [`ecru::timeout`].
    #[cfg(feature = "http2")]
    pub fn http2(mut self) -> Self {
        self.protocols.http2 = true;
        self
    }

    /// Sets how long the lookup of a name, the connection and its TLS handshake may take together.
    /// If a name has many addresses, a silent one takes its share of this time. Without this, the
    /// limit is the system's, which is minutes.
    pub fn connect_timeout(self, limit: Duration) -> Self {
        ClientBuilder { connect_timeout: Some(limit), ..self }
    }

    /// Sets how long a connection is kept without a request, 90 seconds unless this is called.
    pub fn idle_timeout(self, limit: Duration) -> Self {
        ClientBuilder { idle_timeout: Some(limit), ..self }
    }

    /// Returns the client.
    #[must_use]
    pub fn build(self) -> Client {
        let protocols = self.protocols.or_http1();
        #[cfg(feature = "tls")]
        let tls = self.tls.map(|mut config| {
            if config.alpn_protocols.is_empty() {
                Arc::make_mut(&mut config).alpn_protocols = protocols.names();
            }
            config
        });
        let connector = Connector {
            run: self.run,
            limit: self.connect_timeout,
            #[cfg(feature = "tls")]
            tls,
        };
        let mut builder = legacy::Client::builder(self.tasks.clone());
        builder.timer(EcruTimer).pool_timer(EcruTimer);
        if let Some(limit) = self.idle_timeout {
            builder.pool_idle_timeout(limit);
        }
        #[cfg(feature = "http2")]
        builder.http2_only(!protocols.http1);
        Client { inner: builder.build(connector), tasks: self.tasks }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("protocols", &self.protocols).finish_non_exhaustive()
    }
}

/// An HTTP client, made by [`client`]. Its clones share the connections. It is also a tower service.
///
/// # Examples
/// ```
/// use std::io;
/// use std::time::Duration;
///
/// use ecru::net::TcpListener;
/// use ecru_hyper::{Client, RequestBody};
/// use http_body_util::Full;
/// use hyper::body::Bytes;
/// use hyper::{Request, Response};
///
/// fn size(request: Request<RequestBody>) -> io::Result<Response<Full<Bytes>>> {
///     let bytes = request.into_body().bytes()?.len();
///     Ok(Response::new(Full::from(bytes.to_string())))
/// }
///
/// /// Asks for a page, for at most five seconds.
/// fn page(client: &Client, url: &str) -> io::Result<Bytes> {
///     ecru::try_timeout(Duration::from_secs(5), || client.get(url)?.into_body().bytes())
/// }
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let url = format!("http://{}/size", listener.local_addr()?);
///     ecru::scope(|s| {
///         s.spawn_daemon(|| ecru_hyper::serve(&listener, ecru_hyper::direct(size)).run());
///         let client = ecru_hyper::client(s).connect_timeout(Duration::from_secs(2)).build();
///         assert_eq!(page(&client, &url)?, "0");
///         let post = Request::post(&url).header("Accept", "text/plain");
///         let answer = client.send(post.body(Full::<Bytes>::from("hello")).unwrap())?;
///         assert_eq!(answer.into_body().bytes()?, "5");
///         Ok(())
///     })
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<Connector, UnsyncBoxBody<Bytes, BoxError>>,
    tasks: Tasks,
}

impl Client {
    /// Sends a request, and waits for the head of its response. The URL of the request is absolute.
    /// A header `Host` is added if there is none. Redirects are not followed.
    ///
    /// A request whose kept connection turns out to be closed before any of it was sent is sent by
    /// a new connection.
    ///
    /// # Errors
    /// - Returns `InvalidInput` if the URL is not absolute, or has another scheme than `http` and
    ///   `https`.
    /// - Returns `NotConnected` if the client's scope has ended.
    /// - Returns the errors of the lookup, of the connection, of TLS and of the request's body.
    /// - Returns an error with [`Cancelled`](ecru::Cancelled) if the wait is cancelled.
    ///
    /// A response of any status is no error.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](ecru::no_suspend), also in a future: use
    /// [`request`](Client::request) there.
    ///
    /// # Cancellation
    /// This is a cancellation point, so [`ecru::timeout`] limits a request. A cancelled request over
    /// HTTP/1.1 closes its connection.
    #[track_caller]
    pub fn send<B>(&self, request: Request<B>) -> io::Result<Response<ResponseBody>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        ecru::block_on(self.request(request))?
    }

    /// Sends a `GET` request, and waits for the head of its response, as [`send`](Client::send)
    /// does.
    ///
    /// # Errors
    /// Returns the errors of [`send`](Client::send), and `InvalidInput` for a text that is no URL.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    #[track_caller]
    pub fn get(&self, url: &str) -> io::Result<Response<ResponseBody>> {
        let uri: Uri = url.parse().map_err(|error| {
            io::Error::new(ErrorKind::InvalidInput, format!("{url:?} is no URL: {error}"))
        })?;
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        self.send(request)
    }

    /// Returns a future that sends a request, as [`send`](Client::send) does. Any task or runtime
    /// may poll it. If it is dropped, the request is given up.
    pub fn request<B>(&self, request: Request<B>) -> Requesting
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let answer = self.inner.request(request);
        Requesting { answer, tasks: self.tasks.clone(), method, uri }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Client
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Requesting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Requesting {
        self.request(request)
    }
}

/// A request in progress, returned by [`Client::request`]. Dropping it gives the request up.
///
/// # Examples
/// ```
/// use axum::Router;
/// use axum::extract::State;
/// use axum::http::StatusCode;
/// use axum::routing::get;
/// use ecru_hyper::Client;
/// use http_body_util::{BodyExt, Empty};
/// use hyper::Request;
/// use hyper::body::Bytes;
///
/// /// A handler that awaits another service. If its own client leaves, the request is given up.
/// async fn price(State(client): State<Client>) -> Result<Bytes, StatusCode> {
///     let request = Request::get("http://prices.example/rye").body(Empty::<Bytes>::new());
///     let answer = client.request(request.unwrap()).await;
///     let body = answer.map_err(|_| StatusCode::BAD_GATEWAY)?.into_body();
///     Ok(body.collect().await.map_err(|_| StatusCode::BAD_GATEWAY)?.to_bytes())
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let client = ecru_hyper::client(s).build();
///         let _router: Router = Router::new().route("/price", get(price)).with_state(client);
///     });
/// });
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Requesting {
    answer: legacy::ResponseFuture,
    tasks: Tasks,
    method: Method,
    uri: Uri,
}

impl Future for Requesting {
    type Output = io::Result<Response<ResponseBody>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|result| match result {
            Ok(response) => Ok(response.map(ResponseBody::new)),
            Err(error) => Err(self.failed(error)),
        })
    }
}

impl Requesting {
    fn failed(&self, error: legacy::Error) -> io::Error {
        if self.tasks.have_ended() {
            let text = format!("{self}: the client's scope has ended");
            return io::Error::new(ErrorKind::NotConnected, text);
        }
        if self.uri.authority().is_none() {
            let text = format!("{self}: a client's URL is absolute, as in http://host/path");
            return io::Error::new(ErrorKind::InvalidInput, text);
        }
        let kind = pieces::kind(&error).unwrap_or(ErrorKind::Other);
        let mut text = self.to_string();
        // The outermost error says only which step has failed, unless it is the whole.
        let mut cause = error.source().or(Some(&error));
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        io::Error::new(kind, Failed { text, error })
    }
}

/// Names the request without its user and its query, which may be secret.
impl fmt::Display for Requesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method)?;
        if let (Some(scheme), Some(host)) = (self.uri.scheme_str(), self.uri.host()) {
            write!(f, "{scheme}://{host}")?;
        }
        if let Some(port) = self.uri.port_u16() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.uri.path())
    }
}

impl fmt::Debug for Requesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requesting").field(&format_args!("{self}")).finish()
    }
}

/// A request that has failed, and why.
#[derive(Debug)]
struct Failed {
    text: String,
    error: legacy::Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
