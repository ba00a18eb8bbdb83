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
//! hyper then provides a future for each connection, which a task drives with [`ecru::block_on`].
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
//!         s.spawn(|| {
//!             let connection = http1::Builder::new()
//!                 .serve_connection(EcruIo::new(stream)?, service_fn(greet));
//!             ecru::block_on(connection)?.map_err(std::io::Error::other)
//!         });
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
//! hyper polls. A poll first tries the transfer without waiting. If the transfer would have to
//! wait, a small task is spawned that waits for the stream on behalf of hyper
//! ([`wait_readable`](ecru::net::TcpStream::wait_readable), `wait_writable`), wakes the connection,
//! and ends. There is at most one such task for each direction, and none while a transfer is
//! possible. Nothing is polled in a loop, and nothing is read or written ahead, so back-pressure is
//! the kernel's. Spawning and ending such a task costs some hundred nanoseconds. While it waits it
//! has a stack, as every waiting task does.
//!
//! # Cancellation
//! When the connection's task is cancelled, `block_on` returns [`Cancelled`](ecru::Cancelled) and
//! has dropped the connection. Its small tasks are cancelled with it, and the socket is closed. A
//! handler that is a plain `async` function ends where it waits. A handler that waits in direct
//! style (on ecru's channels, locks or sockets) waits on the connection's task. That is right for
//! HTTP/1, because the connection has nothing else to do meanwhile. Under HTTP/2 every stream is a
//! task of its executor.
//!
//! To stop gracefully, use hyper's own `graceful_shutdown` on the connection.

mod executor;
mod io;
mod timer;

pub use executor::{RunExecutor, ScopeExecutor};
pub use io::EcruIo;
pub use timer::EcruTimer;
