//! TLS over a polled stream: rustls does the work, and [`EcruIo`] carries its records.

use std::io::{self, BufRead as _, ErrorKind, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ecru::net::TcpStream;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use rustls::Connection;

use crate::EcruIo;

/// A session of either side, and its stream.
#[derive(Debug)]
pub(crate) struct TlsIo {
    session: Connection,
    wire: EcruIo,
    has_closed: bool,
}

/// The stream during one poll, as rustls wants it: what would have to wait is an error.
struct Now<'s, 'c>(&'s mut EcruIo, &'s mut Context<'c>);

fn unless_pending<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

fn pending_if_blocked<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}

impl io::Read for Now<'_, '_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(room);
        unless_pending(Pin::new(&mut *self.0).poll_read(self.1, buffer.unfilled()))?;
        Ok(buffer.filled().len())
    }
}

impl io::Write for Now<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_pending(Pin::new(&mut *self.0).poll_write(self.1, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        unless_pending(Pin::new(&mut *self.0).poll_write_vectored(self.1, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsIo {
    pub(crate) fn new(session: Connection, wire: EcruIo) -> TlsIo {
        TlsIo { session, wire, has_closed: false }
    }

    #[cfg(feature = "http2")]
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    pub(crate) fn into_parts(self) -> (Connection, TcpStream) {
        (self.session, self.wire.into_inner())
    }

    /// Drives the handshake to its end. A failure is told to the peer.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(cx))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_receive(cx))? == 0 {
                let text = "the peer has left during the TLS handshake";
                return Poll::Ready(Err(io::Error::new(ErrorKind::UnexpectedEof, text)));
            }
        }
    }

    /// Sends the records that are ready.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let sent = self.session.write_tls(&mut Now(&mut self.wire, cx));
            if ready!(pending_if_blocked(sent))? == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives records. Returns 0 at the end of the stream.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let received = self.session.read_tls(&mut Now(&mut self.wire, cx));
        let count = ready!(pending_if_blocked(received))?;
        if let Err(error) = self.session.process_new_packets() {
            // An alert says why, if there is room for it.
            let _ = self.poll_send(cx);
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    /// Encrypts bytes, and sends what can be sent. `write` is called when there is room for more.
    fn poll_encrypt(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        // More is encrypted only when everything before has gone.
        ready!(self.poll_send(cx))?;
        let count = write(&mut self.session.writer())?;
        match self.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What is left is sent by the next write or flush.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }
}

impl Read for TlsIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let mut reader = this.session.reader();
            match reader.fill_buf() {
                Ok(plain) => {
                    let count = plain.len().min(buffer.remaining());
                    buffer.put_slice(&plain[..count]);
                    reader.consume(count);
                    return Poll::Ready(Ok(()));
                }
                // The peer has closed the connection and not the session. HTTP tells by itself
                // whether a message is complete.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(this.poll_receive(cx))?;
            // The protocol may have an answer of its own, as to an update of keys. What cannot be
            // sent now is sent with the next write.
            if let Poll::Ready(Err(error)) = this.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
        }
    }
}

impl Write for TlsIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_encrypt(cx, |writer| writer.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    /// Closes the session, then the stream's side.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.has_closed {
            this.has_closed = true;
            this.session.send_close_notify();
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.wire).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_encrypt(cx, |writer| writer.write_vectored(parts))
    }
}
