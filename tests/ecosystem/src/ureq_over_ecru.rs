//! The connector from which ureq takes its sockets, and the transport that it creates. This is
//! ureq's own extension point.
//!
//! `examples/downloads` has a complete version, with a limit for each address tried and a resolver
//! on the blocking pool.

use std::io::{self, Read, Write};
use std::time::Duration;

use ecru::net::TcpStream;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, RustlsConnector,
    Transport,
};
use ureq::{Agent, Error};

/// Creates an agent that trusts this certificate only. TLS is ureq's own, over ecru's sockets.
#[must_use]
pub fn agent(certificate: &[u8]) -> Agent {
    let root = Certificate::from_der(certificate).to_owned();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root])).build();
    let config = Agent::config_builder().proxy(None).tls_config(tls).build();
    let connector = ().chain(EcruConnector).chain(RustlsConnector::default());
    Agent::with_parts(config, connector, DefaultResolver::default())
}

/// The first link of ureq's chain of connectors.
#[derive(Debug)]
struct EcruConnector;

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
        let stream = match limit(details.timeout) {
            None => TcpStream::connect(&details.addrs[..])?,
            Some(limit) => TcpStream::connect_timeout(&details.addrs[0], limit)?,
        };
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(EcruTransport { stream, buffers: LazyBuffers::new(input, output) })))
    }
}

/// One connection.
#[derive(Debug)]
struct EcruTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
}

fn limit(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|limit| *limit)
}

fn timed(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl Transport for EcruTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(limit(timeout))?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| timed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(limit(timeout))?;
        let input = self.buffers.input_append_buf();
        let count = self.stream.read(input).map_err(|error| timed(error, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Returns whether an idle connection is silent, as it should be. Never waits, because ureq
    /// calls it under a lock.
    fn is_open(&mut self) -> bool {
        let silent = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let restored = self.stream.set_nonblocking(false);
        restored.is_ok() && silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
