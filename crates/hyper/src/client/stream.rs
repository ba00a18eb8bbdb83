//! The stream of a client's connection, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

use crate::EcruIo;
#[cfg(feature = "tls")]
use crate::tls::TlsIo;

#[derive(Debug)]
pub(crate) enum ClientStream {
    Plain(EcruIo),
    #[cfg(feature = "tls")]
    Tls(Box<TlsIo<rustls::ClientConnection>>),
}

macro_rules! on_stream {
    ($self:ident, $io:ident => $call:expr) => {
        match &mut *$self {
            ClientStream::Plain(plain) => {
                let $io = Pin::new(plain);
                $call
            }
            #[cfg(feature = "tls")]
            ClientStream::Tls(tls) => {
                let $io = Pin::new(&mut **tls);
                $call
            }
        }
    };
}

impl Connection for ClientStream {
    fn connected(&self) -> Connected {
        #[cfg(all(feature = "tls", feature = "http2"))]
        if let ClientStream::Tls(tls) = self
            && tls.alpn() == Some(b"h2")
        {
            return Connected::new().negotiated_h2();
        }
        Connected::new()
    }
}

impl Read for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, io => io.poll_read(cx, buffer))
    }
}

impl Write for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, io => io.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, io => io.poll_shutdown(cx))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, io => io.poll_write_vectored(cx, parts))
    }
}
