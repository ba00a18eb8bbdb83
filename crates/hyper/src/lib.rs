//! hyper 1 on ecru: a connection is a task.
//!
//! hyper provides HTTP and needs three traits of [`hyper::rt`]. This crate implements them over
//! ecru:
//!
//! | hyper's trait | here |
//! |---|---|
//! | [`Read`](hyper::rt::Read) and [`Write`](hyper::rt::Write) | [`EcruIo`], around a [`TcpStream`](ecru::net::TcpStream) |
//! | [`Executor`](hyper::rt::Executor), for HTTP/2 | [`ScopeExecutor`], [`RunExecutor`] |
//! | [`Timer`](hyper::rt::Timer) | [`EcruTimer`] |
//!
//! [`serve`] is a whole server for a tower service, such as axum's `Router`, with TLS, HTTP/2 and
//! limits. [`direct`] makes a service of a plain function that may wait anywhere, and [`handler`]
//! one for a route of axum's. They belong to the feature `server`, which is on by default. The
//! features `http2` and `tls` are not. The crate's README says what of axum and tower-http works.
//! What follows is for programs that use hyper itself.
//!
//! hyper then provides a future for each connection, which
//! [`spawn_future`](ecru::Scope::spawn_future) runs as a task without a stack. A connection whose
//! handler waits in direct style is a task with a stack instead: see [below](#handlers-that-wait).
//!
//! # Examples
//! ```
//! use ecru::net::{TcpListener, TcpStream};
//! use ecru_hyper::EcruIo;
//! use http_body_util::Full;
//! use hyper::body::{Bytes, Incoming};
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use std::convert::Infallible;
//! use std::io::{Read, Write};
//!
//! async fn greet(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! ecru::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let mut client = TcpStream::connect(listener.local_addr()?)?;
//!     let (stream, _) = listener.accept()?;
//!     ecru::scope(|s| {
//!         let io = EcruIo::new(stream)?;
//!         s.spawn_future(http1::Builder::new().serve_connection(io, service_fn(greet)));
//!         client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
//!         let mut answer = String::new();
//!         client.read_to_string(&mut answer)?;
//!         assert!(answer.ends_with("\r\n\r\nhello"));
//!         Ok(())
//!     })
//! })
//! # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
//! ```
//!
//! # How it works
//! hyper polls, and [`Polled`](ecru::net::Polled) calls its wakers. A wait needs no task, no memory
//! and no system call. A read that leaves nothing behind is not attempted again before there is
//! more, so a request costs one receive and one send. Nothing is read or written ahead, so
//! back-pressure is the kernel's.
//!
//! # Handlers that wait
//! In `spawn_future`, a handler is polled as well. It may `await` anything: the
//! [futures of ecru's sources](ecru::Source::to_future), handles of tasks that it spawns, and the
//! futures of other crates. It panics if it waits in direct style, on ecru's channels, locks or
//! sockets.
//!
//! A connection that is driven by [`ecru::block_on`] in a task of its own has a stack, and its
//! handlers may wait in direct style. That is right for HTTP/1, because the connection has nothing
//! else to do meanwhile. Under HTTP/2 every stream is a task of its executor, and has a stack.
//!
//! # Cancellation
//! When the connection's task is cancelled, the connection is dropped and its socket closed. A
//! handler that is a plain `async` function ends where it waits. A wait in direct style returns
//! [`Cancelled`](ecru::Cancelled).
//!
//! To stop gracefully, use hyper's own `graceful_shutdown` on the connection.

#[cfg(feature = "server")]
mod body;
#[cfg(feature = "server")]
mod call;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod connection;
#[cfg(feature = "server")]
mod direct;
mod executor;
mod io;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "server")]
mod pieces;
#[cfg(feature = "server")]
mod protocols;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod timeout;
mod timer;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "server")]
mod transport;
#[cfg(feature = "server")]
mod upgrade;
#[cfg(feature = "server")]
mod watch;
#[cfg(feature = "server")]
mod wire;

#[cfg(feature = "server")]
pub use body::RequestBody;
#[cfg(feature = "server")]
pub use call::Peer;
#[cfg(feature = "client")]
pub use client::{Client, ClientBuilder, Requesting, ResponseBody, client};
#[cfg(feature = "server")]
pub use direct::{Direct, DirectError, Handled, Handler, Handling, direct, handler, in_task};
pub use executor::{RunExecutor, ScopeExecutor};
pub use io::EcruIo;
#[cfg(feature = "tls")]
pub use pem::{client_tls, server_tls};
#[cfg(feature = "server")]
pub use serve::{Serve, Served, serve};
#[cfg(feature = "server")]
pub use timeout::{Timeout, TimeoutLayer, TimeoutResponse};
pub use timer::EcruTimer;
#[cfg(feature = "server")]
pub use upgrade::{Upgraded, Upgrading, upgrade};
