//! The stream of a connection of either side, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::EcruIo;
#[cfg(feature = "tls")]
use crate::tls::TlsIo;

/// See the module.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(EcruIo),
    #[cfg(feature = "tls")]
    Tls(Box<TlsIo>),
}

macro_rules! on_wire {
    ($self:ident, $io:ident => $call:expr) => {
        match &mut *$self {
            Wire::Plain(plain) => {
                let $io = Pin::new(plain);
                $call
            }
            #[cfg(feature = "tls")]
            Wire::Tls(tls) => {
                let $io = Pin::new(&mut **tls);
                $call
            }
        }
    };
}

impl Wire {
    /// Returns the protocol that the two sides have chosen in the TLS handshake, if they have.
    #[cfg(all(feature = "tls", feature = "http2"))]
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(tls) => tls.alpn(),
        }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        on_wire!(self, io => io.poll_read(cx, buffer))
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_wire!(self, io => io.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, io => io.poll_shutdown(cx))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_wire!(self, io => io.poll_write_vectored(cx, parts))
    }
}
