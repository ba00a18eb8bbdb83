//! From and to std's sockets and raw fds: the same for each public type.
//!
//! - `TryFrom<std::net::X>` takes the socket into non-blocking mode, and its time-outs along. If it was in non-blocking mode
//!   already, its calls wait from now on; see `set_nonblocking`.
//! - `TryFrom<ecru::net::X>` for std's type gives it back in the mode that `set_nonblocking` says, blocking as a rule.
//!   (The mode belongs to the socket and not to the fd: duplicates, whoever has them, change with it. So give away a socket
//!   only together with its clones.)
//! - `From<OwnedFd>` and `FromRawFd` cannot report an error; what is not a socket says so at its first use.
//! - `From<ecru::net::X> for OwnedFd` and `IntoRawFd` leave the fd in non-blocking mode.
#![expect(unsafe_code, reason = "implements FromRawFd")]

use super::socket::Socket;
use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net as std_unix;

macro_rules! conversions {
    ($($ours:ident => $std:ty),*) => { $(
        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        /// The fd is in non-blocking mode.
        impl AsRawFd for $ours {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        /// The fd stays in non-blocking mode.
        impl IntoRawFd for $ours {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }

        /// The fd is set to non-blocking mode.
        impl FromRawFd for $ours {
            unsafe fn from_raw_fd(fd: RawFd) -> $ours {
                // SAFETY: the caller promises, by this method's contract, that the fd is open and nobody else's.
                $ours::from(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }

        /// The fd is set to non-blocking mode.
        impl From<OwnedFd> for $ours {
            fn from(fd: OwnedFd) -> $ours {
                $ours(Socket::adopt_silently(fd))
            }
        }

        /// The fd stays in non-blocking mode.
        impl From<$ours> for OwnedFd {
            fn from(ours: $ours) -> OwnedFd {
                ours.0.into_fd()
            }
        }

        /// Sets the socket to non-blocking mode, and takes its time-outs along.
        impl TryFrom<$std> for $ours {
            type Error = io::Error;

            fn try_from(std: $std) -> io::Result<$ours> {
                Socket::adopt(OwnedFd::from(std)).map($ours)
            }
        }

        /// Sets the socket back to blocking mode, unless `set_nonblocking(true)` was called on it.
        impl TryFrom<$ours> for $std {
            type Error = io::Error;

            fn try_from(ours: $ours) -> io::Result<$std> {
                ours.0.release().map(<$std>::from)
            }
        }
    )* };
}

conversions!(
    TcpStream => std::net::TcpStream,
    TcpListener => std::net::TcpListener,
    UdpSocket => std::net::UdpSocket,
    UnixStream => std_unix::UnixStream,
    UnixListener => std_unix::UnixListener,
    UnixDatagram => std_unix::UnixDatagram
);
