//! The socket under ureq: ecru's `TcpStream`, with ureq's own buffers.

use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ecru::net::{Shutdown, SocketAddr, TcpStream};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, ShutdownHandle,
    Transport,
};
use ureq::{Error, Timeout};

/// The link of a chain of ureq's connectors that opens sockets of ecru. A link before it that has
/// already made a transport takes precedence.
///
/// # Examples
/// ```
/// use ecru_ureq::{EcruConnector, EcruResolver};
/// use ureq::Agent;
/// use ureq::unversioned::transport::Connector;
///
/// let connector = ().chain(EcruConnector::new());
/// let config = Agent::config_builder().build();
/// let agent = Agent::with_parts(config, connector, EcruResolver::new());
/// # drop(agent);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EcruConnector {
    _private: (),
}

impl EcruConnector {
    /// Creates the link.
    #[must_use]
    pub fn new() -> EcruConnector {
        EcruConnector::default()
    }
}

impl<In: Transport> Connector<In> for EcruConnector {
    type Out = Either<In, EcruTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let limit = limit(details.timeout)?;
        let stream = connect_any(&details.addrs, limit, details.timeout.reason)?;
        stream.set_nodelay(details.config.no_delay())?;
        let stream = Arc::new(Socket(stream));
        let handle: Weak<Socket> = Arc::downgrade(&stream);
        (details.register_shutdown)(handle)?;
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        let buffers = LazyBuffers::new(input, output);
        Ok(Some(Either::B(EcruTransport { stream, buffers, limits: [None; 2] })))
    }
}

/// Connects to the first address that answers. The remaining time is divided evenly, so that a
/// silent address, such as an IPv6 address without a route, leaves time for the others.
fn connect_any(
    addresses: &[SocketAddr],
    limit: Option<Duration>,
    reason: Timeout,
) -> Result<TcpStream, Error> {
    let deadline = limit.map(|limit| ecru::time::now() + limit);
    let mut last = Error::ConnectionFailed;
    for (untried, address) in (1..=addresses.len()).rev().zip(addresses) {
        let attempt = match deadline {
            None => TcpStream::connect(address),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(ecru::time::now());
                let share = left / u32::try_from(untried).unwrap_or(u32::MAX);
                if share.is_zero() {
                    return Err(Error::Timeout(reason));
                }
                TcpStream::connect_timeout(address, share)
            }
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) if ecru::Cancelled::find(&error).is_some() => return Err(error.into()),
            Err(error) => last = timed(error, reason),
        }
    }
    Err(last)
}

/// Returns the time that is left, or an error if there is none. `None` means that there is no limit.
fn limit(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(timeout.not_zero().map(|limit| *limit))
}

fn timed(error: io::Error, reason: Timeout) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => error.into(),
    }
}

/// A socket that an agent can shut down from another task or thread.
#[derive(Debug)]
struct Socket(TcpStream);

impl ShutdownHandle for Socket {
    fn shutdown(&self) {
        // An error means that the connection has already ended.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection that an [`EcruConnector`] has opened.
#[derive(Debug)]
pub struct EcruTransport {
    stream: Arc<Socket>,
    buffers: LazyBuffers,
    /// The time limits of the socket's reads and writes, so that they are set only when they change.
    limits: [Option<Duration>; 2],
}

impl Transport for EcruTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let limit = limit(timeout)?;
        let mut stream = &self.stream.0;
        if limit != self.limits[1] {
            stream.set_write_timeout(limit)?;
            self.limits[1] = limit;
        }
        let output = &self.buffers.output()[..amount];
        stream.write_all(output).map_err(|error| timed(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let limit = limit(timeout)?;
        let mut stream = &self.stream.0;
        if limit != self.limits[0] {
            stream.set_read_timeout(limit)?;
            self.limits[0] = limit;
        }
        let input = self.buffers.input_append_buf();
        let count = stream.read(input).map_err(|error| timed(error, timeout.reason))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Returns whether an idle connection is silent, as it should be. Never waits, because ureq
    /// calls it under a lock.
    fn is_open(&mut self) -> bool {
        let stream = &self.stream.0;
        let silent = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let restored = stream.set_nonblocking(false);
        restored.is_ok() && silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
