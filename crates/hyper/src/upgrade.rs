//! Connections that have left HTTP: [`upgrade`].

use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;

use ecru::net::TcpStream;
use hyper::rt::{Read as _, ReadBuf, Write as _};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, upgrade as of_hyper};

use crate::transport::Transport;
use crate::wire::Wire;

/// Takes a connection out of HTTP, for instance for WebSocket. The handler answers with the status
/// 101, or the one that CONNECT has, and another task [waits](Upgrading::wait) for the stream.
///
/// # Examples
/// ```
/// use ecru_hyper::RequestBody;
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper::{Request, Response};
/// use std::io::{self, Read, Write};
///
/// fn echo(mut request: Request<RequestBody>) -> io::Result<Response<Empty<Bytes>>> {
///     let upgrading = ecru_hyper::upgrade(&mut request);
///     ecru::spawn(move || {
///         let mut stream = upgrading.wait()?;
///         let mut word = [0; 4];
///         stream.read_exact(&mut word)?;
///         stream.write_all(&word)
///     });
///     let response = Response::builder().status(101).header("Upgrade", "echo");
///     Ok(response.header("Connection", "upgrade").body(Empty::new()).unwrap())
/// }
/// let _service = ecru_hyper::direct(echo);
/// ```
pub fn upgrade<B>(request: &mut Request<B>) -> Upgrading {
    Upgrading(of_hyper::on(request))
}

/// A connection that is about to leave HTTP, returned by [`upgrade`].
#[derive(Debug)]
#[must_use = "the connection is closed if this is dropped"]
pub struct Upgrading(OnUpgrade);

impl Upgrading {
    /// Waits until the response has been sent, and returns the stream. It is called in another task
    /// than the handler, because the handler has to return first.
    ///
    /// # Errors
    /// Returns an error if the client did not ask for an upgrade, if the response does not agree to
    /// one, or if the connection fails. Returns an error with [`Cancelled`](ecru::Cancelled) if the
    /// wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. If it is cancelled, the connection is closed.
    ///
    /// # Examples
    /// See [`upgrade`].
    #[track_caller]
    pub fn wait(self) -> io::Result<Upgraded> {
        let upgraded = ecru::block_on(self.0)?.map_err(io::Error::other)?;
        Ok(match upgraded.downcast::<Transport>() {
            Ok(parts) => {
                // hyper has read what was read ahead before it.
                let (mut ahead, wire) = parts.io.into_parts();
                ahead.extend_from_slice(&parts.read_buf);
                let inner = match wire {
                    Wire::Plain(plain) => Inner::Plain(plain.into_inner()),
                    #[cfg(feature = "tls")]
                    Wire::Tls(tls) => {
                        let (rustls::Connection::Server(session), stream) = tls.into_parts() else {
                            unreachable!("a server's connection")
                        };
                        Inner::Tls(Box::new(rustls::StreamOwned::new(session, stream)))
                    }
                };
                Upgraded { ahead: io::Cursor::new(ahead), inner }
            }
            // A stream of HTTP/2, or of another server than `serve`.
            Err(other) => Upgraded { ahead: io::Cursor::default(), inner: Inner::Other(other) },
        })
    }
}

/// A stream that was a connection of HTTP, returned by [`Upgrading::wait`]. Its reads and writes
/// wait in direct style.
///
/// # Examples
/// See [`upgrade`].
pub struct Upgraded {
    /// What the client has sent already.
    ahead: io::Cursor<Vec<u8>>,
    inner: Inner,
}

enum Inner {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ServerConnection, TcpStream>>),
    Other(of_hyper::Upgraded),
}

impl Upgraded {
    /// Returns the TCP stream below, for its addresses and options. `None` over HTTP/2.
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.inner {
            Inner::Plain(stream) => Some(stream),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => Some(&stream.sock),
            Inner::Other(_) => None,
        }
    }
}

/// # Cancellation
/// A read is a cancellation point. A cancelled read has taken nothing.
impl Read for Upgraded {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.ahead.read(room)?;
        if count > 0 {
            return Ok(count);
        }
        match &mut self.inner {
            Inner::Plain(stream) => stream.read(room),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.read(room),
            Inner::Other(stream) => {
                let mut buffer = ReadBuf::new(room);
                ecru::block_on(poll_fn(|cx| {
                    Pin::new(&mut *stream).poll_read(cx, buffer.unfilled())
                }))??;
                Ok(buffer.filled().len())
            }
        }
    }
}

/// # Cancellation
/// A write is a cancellation point.
impl Write for Upgraded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.write(bytes),
            Inner::Other(stream) => {
                ecru::block_on(poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)))?
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.flush(),
            Inner::Other(stream) => {
                ecru::block_on(poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)))?
            }
        }
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").field("tcp", &self.tcp()).finish_non_exhaustive()
    }
}
