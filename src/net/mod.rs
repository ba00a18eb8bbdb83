//! Sockets with the API of std, on which a wait parks the task instead of blocking the thread.
//!
//! Names, arguments and results are those of [`std::net`] and [`std::os::unix::net`]. The streams
//! implement [`std::io::Read`] and [`std::io::Write`], on the type and on a reference to it, so
//! code that was written for std's streams accepts these. Every call works inside a task. Outside a
//! runtime it works as well, and blocks the thread.
//!
//! # Differences from std
//! - Sockets are always in non-blocking mode underneath, which is visible through their raw fd. The
//!   conversions from and to std's types set the mode that each side expects.
//! - A call that exceeds its time limit fails with [`TimedOut`](std::io::ErrorKind::TimedOut) on
//!   every platform.
//! - A listener's queue is as long as the system allows (`net.core.somaxconn`), instead of 128.
//! - Writing to a connection that the peer has closed never raises `SIGPIPE`.
//! - `TcpListener::{set_only_v6, only_v6}` are left out. They have no effect once a listener is
//!   bound, and std has deprecated them. Unstable methods of std are left out as well, except
//!   `peek`, `peek_from`, `linger` and `set_linger`.
//! - Keep-alive and the sizes of the kernel's buffers are set by methods of the sockets. Their
//!   names are those of `socket2`.
//! - A socket is never connected to itself. The kernel may do that if nothing listens on the port;
//!   here such a `connect` fails with `ConnectionRefused`.
//! - The methods of `std::os::linux::net::TcpStreamExt`, `quickack` and `set_quickack`, are
//!   inherent methods of [`TcpStream`].
//!
//! # Names
//! A name is looked up by the system's resolver, which blocks a thread. If the name is held in a
//! `&str` or a `String`, alone or with a port, or in a reference to one of these, the lookup runs
//! on a thread of the pool of [`unblock`](crate::unblock). The worker then continues with other
//! tasks, and the call can be cancelled; the resolver's answer is discarded in that case. Any other
//! type that implements [`ToSocketAddrs`] is resolved in place, because it need not be `Send`. A
//! user-defined type that calls the resolver therefore blocks its worker until the answer arrives.
//!
//! # Cancellation
//! Once its task is cancelled, each call that waits fails with an error of kind
//! [`Other`](std::io::ErrorKind::Other). [`Cancelled::find`](crate::Cancelled::find) tells it from
//! other errors. Work that the kernel has already done is never lost: the call returns its result,
//! and the next wait fails.
//!
//! | call | what a cancel can lose |
//! |---|---|
//! | `read`, `read_vectored`, `peek` | nothing: bytes are returned or stay in the kernel |
//! | `read_exact`, `read_to_end`, .. | the number of bytes in the buffer: these loop over `read` |
//! | `write`, `write_vectored` | nothing: what the kernel took is reported as `Ok(n)` |
//! | `write_all` | the number of bytes sent: it loops over `write` |
//! | `accept`, `incoming` | nothing: a connection is returned, or stays in the queue |
//! | `connect`, `connect_timeout` | the attempt: its socket is closed, which the peer may see |
//! | resolution of a name | the answer |
//! | `recv`, `recv_from`, `peek`, `peek_from` | nothing: a datagram is returned or stays queued |
//! | `send`, `send_to` | nothing: a datagram is sent whole and reported, or not sent |
//! | `serve` | connections in progress: their next wait is cancelled, as in every scope |
//! | all other calls | do not wait |

// # Modules
// - `socket`: one socket of any kind, with its options and its waits.
// - `address`: the kernel's layout of std's addresses.
// - `tcp_stream`, `tcp_listener`, `udp_socket` (and `udp_multicast`), `unix_stream`,
//   `unix_listener`, `unix_datagram`: the public types, each a wrapper around a socket. `shell` has
//   the methods that they share.
// - `conversions`: conversions from and to std's types and fds.
// - `readiness`: waiting without a transfer, for code that is built on readiness.
// - `polled`: sockets for code that polls.
// - `when_readable`: streams that wait without a task, as sources.
// - `resolve`: from names to addresses.
// - `server`, `server_errors`: accepting and serving connections. `halves`: a stream split in two.

mod conversions;
mod halves;
mod polled;
mod readiness;
mod resolve;
mod server;
mod server_errors;
mod settings;
mod shell;
mod socket;
mod tcp_listener;
mod tcp_stream;
mod udp_multicast;
mod udp_socket;
mod unix_datagram;
mod unix_listener;
mod unix_stream;
mod waiting_sends;
mod when_readable;

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReuniteError, Split};
pub use polled::{Interest, Pollable, Polled};
pub use resolve::ToSocketAddrs;
pub use server::{Listener, Server};
pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};
pub use tcp_listener::{Incoming, TcpListener};
pub use tcp_stream::TcpStream;
pub use udp_socket::UdpSocket;
pub use unix_datagram::UnixDatagram;
pub use unix_listener::{UnixIncoming, UnixListener};
pub use unix_stream::UnixStream;
pub use when_readable::WhenReadable;
