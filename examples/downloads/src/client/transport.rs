//! The socket under ureq: ecru's `TcpStream`, with ureq's own buffers.
//!
//! The code uses plain reads and writes with plain timeouts. In a task each of them parks the task.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::RecvFlags;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

use super::watch::Watch;
use crate::runtime::{self, TcpStream};

/// The first link of the chain of connectors.
#[derive(Debug)]
pub(super) struct EcruConnector {
    watch: Watch,
}

impl EcruConnector {
    pub(super) fn new(watch: Watch) -> Self {
        Self { watch }
    }
}

impl<In: Transport> Connector<In> for EcruConnector {
    type Out = Either<In, TcpTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let limit = details.timeout.not_zero().map(|limit| *limit);
        let stream = connect_any(&details.addrs, limit)?;
        // There is one request at a time, so waiting for more data to send with it would only delay
        // it.
        stream.set_nodelay(true)?;
        Ok(Some(Either::B(TcpTransport {
            stream,
            buffers: LazyBuffers::new(
                details.config.input_buffer_size(),
                details.config.output_buffer_size(),
            ),
            read_timeout: None,
            write_timeout: None,
            // Under TLS, unread bytes are records, which include tickets and close notifications,
            // so they prove nothing.
            watch: (!details.needs_tls()).then(|| self.watch.clone()),
        })))
    }
}

/// Connects to the first address that answers. The remaining time is divided evenly, so that a
/// silent address, such as an IPv6 address without a route, leaves time for the others.
fn connect_any(addresses: &[SocketAddr], limit: Option<Duration>) -> Result<TcpStream, Error> {
    let deadline = limit.map(|limit| runtime::now() + limit);
    let mut last = Error::ConnectionFailed;
    for (tried, address) in addresses.iter().enumerate() {
        let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share =
            deadline.map(|deadline| deadline.saturating_duration_since(runtime::now()) / untried);
        if share.is_some_and(|share| share.is_zero()) {
            return Err(Error::Timeout(Timeout::Connect));
        }
        match runtime::connect(*address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) if is_timeout(&error) => last = Error::Timeout(Timeout::Connect),
            Err(error) if is_about_the_address(&error) => last = error.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn is_about_the_address(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(
        error.kind(),
        AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable
    )
}

/// One connection.
#[derive(Debug)]
pub(super) struct TcpTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
    /// The timeout that the stream has, so that it is set only when it changes.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    watch: Option<Watch>,
}

impl TcpTransport {
    /// Returns the bytes that have arrived unrequested. `Some(0)` means that the peer has closed,
    /// and `None` that it is silent, which is normal.
    fn peek(&self) -> Option<usize> {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.stream, &mut byte, flags) {
            Ok((_, count)) => Some(count),
            Err(rustix::io::Errno::AGAIN) => None,
            Err(_) => Some(0),
        }
    }
}

impl Transport for TcpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let limit = timeout.not_zero().map(|limit| *limit);
        if limit != self.write_timeout {
            self.stream.set_write_timeout(limit)?;
            self.write_timeout = limit;
        }
        let mut to = &self.stream;
        to.write_all(&self.buffers.output()[..amount]).map_err(|error| timed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let limit = timeout.not_zero().map(|limit| *limit);
        if limit != self.read_timeout {
            self.stream.set_read_timeout(limit)?;
            self.read_timeout = limit;
        }
        let count = loop {
            match (&self.stream).read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| timed(error, timeout))?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Never waits, because ureq calls it under a lock.
    fn is_open(&mut self) -> bool {
        self.peek().is_none()
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch
            && self.peek().is_some_and(|count| count > 0)
        {
            watch.raise_excess();
        }
    }
}

fn timed(error: io::Error, timeout: NextTimeout) -> Error {
    if is_timeout(&error) { Error::Timeout(timeout.reason) } else { error.into() }
}
