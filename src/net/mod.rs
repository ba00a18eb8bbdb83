//! Sockets: std's types, on which a wait parks the task instead of blocking the thread.
//!
//! Names, arguments and results are those of [`std::net`] and [`std::os::unix::net`], and the streams implement [`std::io::Read`] and
//! [`std::io::Write`], on the type and on a reference to it, so whatever was written for std's streams takes these. Every
//! call works inside a task, and outside any runtime, where it blocks the thread.
//!
//! # Differences from std
//! - Sockets are always in non-blocking mode underneath, which shows in their raw fd. The conversions from and to
//!   std's types set the mode that each expects.
//! - A call that runs into its time-out fails with [`TimedOut`](std::io::ErrorKind::TimedOut), on every platform.
//! - A listener's queue is as long as the system allows (`net.core.somaxconn`), instead of 128.
//! - Writing to a connection that the peer has closed never raises `SIGPIPE`.
//! - `TcpListener::{set_only_v6, only_v6}` are left out: std has deprecated them, because they have no effect once a listener is bound.
//!   What std has not made stable is left out, too, but `peek`, `peek_from`, `linger` and `set_linger`.
//! - Keep-alive and the sizes of the kernel's buffers are set by methods of the sockets, with the names that `socket2` has for them.
//! - A socket is never connected to itself, as the kernel may do where nothing listens: such a `connect` fails with `ConnectionRefused`.
//! - What is a method of `std::os::linux::net::TcpStreamExt` is one of [`TcpStream`] itself: `quickack`, `set_quickack`.
//!
//! # Names
//! Where an address may be a name, the system's resolver is asked, which blocks a thread. For names held in a `&str` or a `String`, alone or beside a
//! port, or in a reference to one of these, that is a thread of [`unblock`](crate::unblock)'s pool: the worker goes on,
//! and the call can be cancelled (the resolver then ends by itself, unheard). Any other type that implements
//! [`ToSocketAddrs`] resolves where it stands, because it need not be `Send`: a type of one's own that asks the resolver holds
//! its worker up for as long.
//!
//! # Cancellation
//! Each call that waits fails with an error of kind [`Other`](std::io::ErrorKind::Other) once its task is cancelled
//! ([`Cancelled::find`](crate::Cancelled::find) tells it from others). What the kernel had done before that is never lost: such a call returns its
//! result, and the next wait fails.
//!
//! | call | what a cancel can lose |
//! |---|---|
//! | `read`, `read_vectored`, `peek` | nothing: bytes are returned, or stay in the kernel for the next read |
//! | `read_exact`, `read_to_end`, .. | std's loops over `read`: what they had read lies in the buffer, but `read_exact` does not say how much it is |
//! | `write`, `write_vectored` | nothing: what the kernel took is reported as `Ok(n)` |
//! | `write_all` | std's loop over `write`: the peer gets the beginning, and the caller is not told how much |
//! | `accept`, `incoming` | nothing: a connection is returned, or stays in the queue |
//! | `connect`, `connect_timeout` | the attempt: its socket is closed, and the peer may see a connection that ends at once |
//! | resolution of a name | the answer; nothing has been done for it |
//! | `recv`, `recv_from`, `peek`, `peek_from` | nothing: a datagram is returned, or stays for the next call |
//! | `send`, `send_to` | nothing: a datagram is sent whole, and that is reported, or not at all |
//! | `serve` | connections in progress: their functions see the cancellation at their next wait, as in every scope |
//! | everything else | does not wait |

// # Modules
// - `socket`: one socket, its options and its waits, of whatever kind.
// - `address`: std's addresses as the kernel lays them out.
// - `tcp_stream`, `tcp_listener`, `udp_socket` (and `udp_multicast`), `unix_stream`, `unix_listener`, `unix_datagram`: the public types, each a
//   shell around a socket; `shell` is what they say in the same words.
// - `conversions`: from and to std's types and fds.
// - `readiness`: waiting without a transfer, for code that is built on readiness.
// - `resolve`: from names to addresses.
// - `server`, `server_errors`: accepting connections and serving them; `halves`: a stream parted in two.

mod address;
mod conversions;
mod halves;
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

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReuniteError, Split};
pub use server::{Listener, Server};
pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};
pub use tcp_listener::{Incoming, TcpListener};
pub use tcp_stream::TcpStream;
pub use udp_socket::UdpSocket;
pub use unix_datagram::UnixDatagram;
pub use unix_listener::{UnixIncoming, UnixListener};
pub use unix_stream::UnixStream;
