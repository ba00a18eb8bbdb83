//! hyper 1 on ecru: a connection is a task.
//!
//! hyper brings HTTP and asks for three things in its [`hyper::rt`] traits. These are they, over ecru:
//!
//! | hyper's trait | here |
//! |---|---|
//! | [`Read`](hyper::rt::Read) and [`Write`](hyper::rt::Write) | [`EcruIo`], around a [`TcpStream`](ecru::net::TcpStream) |
//! | [`Executor`](hyper::rt::Executor), for HTTP/2 | [`ScopeExecutor`], [`RunExecutor`] |
//! | [`Timer`](hyper::rt::Timer) | [`EcruTimer`] |
//!
//! What hyper makes of them is a future for each connection, which a task drives with [`ecru::block_on`].
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
//!             let connection = http1::Builder::new().serve_connection(EcruIo::new(stream)?, service_fn(greet));
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
//! hyper polls. A poll first tries the transfer, without waiting. If the transfer would have to wait, a small task is spawned that
//! waits for the stream in hyper's place ([`wait_readable`](ecru::net::TcpStream::wait_readable), `wait_writable`), wakes the
//! connection, and ends. There is at most one for each direction, and none while there is something to do; nothing is polled
//! in a loop, and nothing is read or written ahead, so back-pressure is the kernel's. Spawning and ending such a task costs
//! some hundred nanoseconds; while it waits it has a stack, as every waiting task does.
//!
//! # Cancellation
//! `block_on` returns [`Cancelled`](ecru::Cancelled) when the connection's task is cancelled, and has dropped the connection then: its
//! small tasks are cancelled with it, and the socket is closed. A handler that is a plain `async` function ends where it waits. One
//! that calls what waits in direct style (ecru's channels, locks, sockets) does so on the connection's task, which is as it should be
//! for HTTP/1: there is nothing else to do for the connection meanwhile. Under HTTP/2 every stream is a task of its executor.
//!
//! To stop gracefully use hyper's own `graceful_shutdown` on the connection.

mod executor;
mod io;
mod timer;
mod watch;

pub use executor::{RunExecutor, ScopeExecutor};
pub use io::EcruIo;
pub use timer::EcruTimer;
