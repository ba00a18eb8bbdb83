//! Conversions from and to std's sockets and raw fds, the same for each public type.
//!
//! - `TryFrom<std::net::X>` sets the socket to non-blocking mode and keeps its time limits. A
//!   socket that was in non-blocking mode before waits in its calls from now on; see
//!   `set_nonblocking`.
//! - `TryFrom<ecru::net::X>` for std's type returns the socket in the mode that `set_nonblocking`
//!   has set, which is blocking by default. The mode belongs to the socket and not to the fd, so it
//!   changes for all duplicates. Therefore convert a socket only together with its clones.
//! - `From<OwnedFd>` and `FromRawFd` cannot report an error. An fd that is not a socket fails at
//!   its first use.
//! - `From<ecru::net::X> for OwnedFd` and `IntoRawFd` leave the fd in non-blocking mode.
#![expect(unsafe_code, reason = "implements FromRawFd")]

use super::socket::Socket;
use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use crate::driver::request::AddressFamily;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net as std_unix;

macro_rules! conversions {
    ($($family:ident $ours:ident => $std:ty),*) => { $(
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
                // SAFETY: by this method's contract, the fd is open and has no other owner.
                $ours::from(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }

        /// The fd is set to non-blocking mode.
        impl From<OwnedFd> for $ours {
            fn from(fd: OwnedFd) -> $ours {
                $ours(Socket::adopt_silently(fd, AddressFamily::$family))
            }
        }

        /// The fd stays in non-blocking mode.
        impl From<$ours> for OwnedFd {
            fn from(ours: $ours) -> OwnedFd {
                ours.0.into_fd()
            }
        }

        /// Sets the socket to non-blocking mode and keeps its time limits.
        impl TryFrom<$std> for $ours {
            type Error = io::Error;

            fn try_from(std: $std) -> io::Result<$ours> {
                Socket::adopt(OwnedFd::from(std), AddressFamily::$family).map($ours)
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
    INET TcpStream => std::net::TcpStream,
    INET TcpListener => std::net::TcpListener,
    INET UdpSocket => std::net::UdpSocket,
    UNIX UnixStream => std_unix::UnixStream,
    UNIX UnixListener => std_unix::UnixListener,
    UNIX UnixDatagram => std_unix::UnixDatagram
);
