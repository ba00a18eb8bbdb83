//! The stream of a served connection, with or without TLS.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ecru::net::TcpStream;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::EcruIo;
#[cfg(feature = "tls")]
use crate::tls::TlsIo;
use crate::watch::Watch;
use crate::wire::Wire;

/// How much of a refused body is read and dropped, in bytes, so that the client sees the response.
const LINGER: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Transport {
    /// What was read before hyper's own reads.
    ahead: Vec<u8>,
    wire: Wire,
    watch: Arc<Watch>,
    /// How much was dropped after the end.
    dropped: usize,
}

impl Transport {
    pub(crate) fn new(stream: TcpStream, watch: Arc<Watch>) -> io::Result<Transport> {
        let wire = Wire::Plain(EcruIo::new(stream)?);
        Ok(Transport { ahead: Vec::new(), wire, watch, dropped: 0 })
    }

    /// Puts TLS over the stream, and drives its handshake. Returns the protocol that the two sides
    /// have chosen, if they have.
    #[cfg(feature = "tls")]
    pub(crate) async fn secure(self, session: rustls::ServerConnection) -> io::Result<Transport> {
        let Wire::Plain(plain) = self.wire else { unreachable!("it is secured once") };
        let mut tls = Box::new(TlsIo::new(session.into(), plain));
        std::future::poll_fn(|cx| tls.poll_handshake(cx)).await?;
        Ok(Transport { wire: Wire::Tls(tls), ..self })
    }

    #[cfg(all(feature = "tls", feature = "http2"))]
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.wire.alpn()
    }

    /// Reads until the client's first bytes begin with `start`, or do not. They are read again
    /// afterwards.
    #[cfg(feature = "http2")]
    pub(crate) fn poll_begins_with(
        &mut self,
        cx: &mut Context<'_>,
        start: &[u8],
    ) -> Poll<io::Result<bool>> {
        loop {
            let count = self.ahead.len().min(start.len());
            if self.ahead[..count] != start[..count] {
                return Poll::Ready(Ok(false));
            }
            if count == start.len() {
                return Poll::Ready(Ok(true));
            }
            let mut room = [0; 4096];
            let mut buffer = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut self.wire).poll_read(cx, buffer.unfilled()))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            self.ahead.extend_from_slice(buffer.filled());
        }
    }

    /// Returns the bytes that were read ahead, and the stream.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Wire) {
        (self.ahead, self.wire)
    }

    /// Reads and drops what comes until the client has closed its side, or too much has come. The
    /// kernel would otherwise answer late bytes by a reset, and the client would lose the response.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.dropped < LINGER {
            let mut room = [0; 4096];
            let mut buffer = ReadBuf::new(&mut room);
            match ready!(Pin::new(&mut self.wire).poll_read(cx, buffer.unfilled())) {
                Ok(()) if !buffer.filled().is_empty() => self.dropped += buffer.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }

    fn note<T>(&self, sent: &Poll<io::Result<T>>) {
        match sent {
            Poll::Pending => self.watch.send_waits(),
            Poll::Ready(_) => self.watch.sent(),
        }
    }
}

impl Read for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ahead.is_empty() {
            ready!(Pin::new(&mut this.wire).poll_read(cx, buffer))?;
        } else {
            let count = this.ahead.len().min(buffer.remaining());
            buffer.put_slice(&this.ahead[..count]);
            if count == this.ahead.len() {
                drop(mem::take(&mut this.ahead));
            } else {
                this.ahead.drain(..count);
            }
        }
        this.watch.received();
        Poll::Ready(Ok(()))
    }
}

impl Write for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write(cx, bytes);
        self.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.wire).poll_flush(cx);
        self.note(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.wire).poll_shutdown(cx))?;
        if this.watch.has_refused_body() {
            ready!(this.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, parts);
        self.note(&written);
        written
    }
}
