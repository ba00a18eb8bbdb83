//! Sockets: std's types, on which a wait parks the task instead of blocking the thread.
//!
//! Names, arguments and results are those of [`std::net`], and the streams implement [`std::io::Read`] and
//! [`std::io::Write`], on the type and on a reference to it, so whatever was written for std's streams takes these. Every
//! call works inside a task, and outside any runtime, where it blocks the thread.
//!
//! - `socket`: one socket, its options and its waits, of whatever kind. All raw memory is in there, in `address` and in
//!   `conversions`.
//! - `tcp_stream`, `tcp_listener`: the public types, each a shell around a socket.
//! - `conversions`: from and to std's types and fds.
//! - `resolve`: from names to addresses.
//!
//! # Differences from std
//! - Sockets are always in non-blocking mode underneath, which shows in their raw fd. The conversions from and to
//!   std's types set the mode that each expects.
//! - A read or write that runs into its time-out fails with [`TimedOut`](std::io::ErrorKind::TimedOut), on every platform.
//! - A listener's queue is as long as the system allows (`net.core.somaxconn`), instead of 128.
//! - Writing to a connection that the peer has closed never raises `SIGPIPE`.
//!
//! # Cancellation
//! Each call that waits fails with an error of kind [`Other`](std::io::ErrorKind::Other) once its task is cancelled. What
//! the kernel had done before that is never lost: such a call returns its result, and the next wait fails.

mod address;
mod conversions;
mod resolve;
mod settings;
mod socket;
mod tcp_listener;
mod tcp_stream;

pub use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
pub use tcp_listener::{Incoming, TcpListener};
pub use tcp_stream::TcpStream;
