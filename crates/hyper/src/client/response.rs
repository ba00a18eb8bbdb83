//! The body of a response that a client has received.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::pieces;

/// The body of a response that a [`Client`](crate::Client) has received.
///
/// A task [reads](io::Read) it, or takes [all of it](ResponseBody::bytes). A future polls it as any
/// other [`Body`]. Over HTTP/1.1 its connection serves the next request once the body has been
/// received as a whole, and is closed if the body is dropped earlier.
///
/// # Examples
/// See [`client`](crate::client()).
#[derive(Debug)]
pub struct ResponseBody {
    incoming: Incoming,
    /// A piece that was read in part.
    piece: Bytes,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming) -> ResponseBody {
        ResponseBody { incoming, piece: Bytes::new() }
    }

    /// Receives the rest of the body. Waits in direct style. For a server that is not trusted, limit
    /// the size by [`Read::take`](io::Read::take).
    ///
    /// # Errors
    /// Returns an error if the connection fails before the end of the body, and an error with
    /// [`Cancelled`](ecru::Cancelled) if the wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. What has come is lost.
    ///
    /// # Examples
    /// See [`Client`](crate::Client).
    pub fn bytes(mut self) -> io::Result<Bytes> {
        pieces::all(&mut self)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if !self.piece.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.piece)))));
        }
        Pin::new(&mut self.incoming).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.piece.is_empty() { self.incoming.size_hint() } else { SizeHint::default() }
    }
}

/// Reads in direct style.
///
/// # Cancellation
/// A read is a cancellation point. A cancelled read has taken nothing.
impl io::Read for ResponseBody {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        let Some(mut piece) = pieces::next(self)? else { return Ok(0) };
        let count = pieces::take(&mut piece, room);
        self.piece = piece;
        Ok(count)
    }
}
