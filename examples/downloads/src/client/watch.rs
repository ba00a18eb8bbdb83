//! The last link of the chain of connectors, which shows or mends what ureq does not.
//!
//! - ureq takes a connection that was reset, or a TLS connection without a close notification, for
//!   the orderly end of a body without a length. Such an error gets another kind here, which ureq
//!   passes on.
//! - ureq silently drops a connection if unread bytes are left on it at the end of a body. A
//!   transport that is dropped, or found unfit, with unread bytes raises the flag for excess. A
//!   download looks at the flag only after it has read its body to the end, because a connection
//!   dropped half-way may well have unread bytes.
//! - ureq refuses a 100 response that has fields, and counts the beginning of the body as a head if
//!   it arrives together with an interim response. Interim responses are removed here.
//! - If a server closes a kept connection while the next request is on its way, a flag says so.
//!   The request is then sent again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// The most header fields that ureq reads in one head.
const FIELDS_MAX: usize = 128;

/// The most bytes of interim responses before a response, which is ureq's limit for one head.
const INTERIM_MAX: usize = 64 * 1024;

/// The flags that a client and its transports share. One task at a time uses them, so relaxed
/// ordering is enough.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    excess: AtomicBool,
    stale: AtomicBool,
}

impl Watch {
    pub(super) fn raise_excess(&self) {
        self.0.excess.store(true, Ordering::Relaxed);
    }

    pub(super) fn forget_excess(&self) {
        self.0.excess.store(false, Ordering::Relaxed);
    }

    pub(super) fn saw_excess(&self) -> bool {
        self.0.excess.load(Ordering::Relaxed)
    }

    fn raise_stale(&self) {
        self.0.stale.store(true, Ordering::Relaxed);
    }

    /// Returns whether a kept connection ended before anything of the response, and lowers the
    /// flag.
    pub(super) fn take_stale(&self) -> bool {
        self.0.stale.swap(false, Ordering::Relaxed)
    }
}

/// The link that wraps the transport made by the others.
#[derive(Debug)]
pub(super) struct WatchConnector(pub(super) Watch);

impl<In: Transport> Connector<In> for WatchConnector {
    type Out = Watched<In>;

    fn connect(
        &self,
        _: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Watched {
            inner,
            watch: self.0.clone(),
            stage: Stage::Requesting { reused: false },
            interim: 0,
        }))
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of the response has arrived.
    Requesting { reused: bool },
    /// Some of the head, or an interim response, has arrived.
    Head,
    /// The head is complete.
    Body,
}

/// A transport, plain or TLS.
#[derive(Debug)]
pub(super) struct Watched<T: Transport> {
    inner: T,
    watch: Watch,
    stage: Stage,
    /// The bytes of interim responses before this response.
    interim: usize,
}

impl<T: Transport> Watched<T> {
    /// Notes that the connection has ended.
    fn ends(&self) {
        if self.stage == (Stage::Requesting { reused: true }) {
            self.watch.raise_stale();
        }
    }

    fn failed(&self, error: Error) -> Error {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error {
            Error::Io(error)
                if matches!(
                    error.kind(),
                    UnexpectedEof | ConnectionAborted | ConnectionReset | BrokenPipe
                ) =>
            {
                self.ends();
                // ureq takes the other kinds for the end of the body.
                Error::Io(io::Error::new(BrokenPipe, error))
            }
            error => error,
        }
    }

    /// Removes complete interim responses from the beginning of the input. 101 is not interim.
    fn skip_interim(&mut self) -> Result<(), Error> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut head = httparse::Response::new(&mut fields);
            let length = match head.parse(self.inner.buffers().input()) {
                Ok(httparse::Status::Complete(length)) => length,
                Ok(httparse::Status::Partial) => return Ok(()),
                // ureq reports it.
                Err(_) => {
                    self.stage = Stage::Body;
                    return Ok(());
                }
            };
            if !matches!(head.code, Some(100 | 102..=199)) {
                self.stage = Stage::Body;
                return Ok(());
            }
            self.interim += length;
            if self.interim > INTERIM_MAX {
                return Err(Error::LargeResponseHeader(self.interim, INTERIM_MAX));
            }
            self.inner.buffers().input_consume(length);
        }
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        if self.stage == Stage::Body {
            self.stage = Stage::Requesting { reused: true };
            self.interim = 0;
        }
        self.inner.transmit_output(amount, timeout).map_err(|error| self.failed(error))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let arrived = self.inner.await_input(timeout).map_err(|error| self.failed(error))?;
        if !arrived {
            self.ends();
            return Ok(false);
        }
        if self.stage != Stage::Body {
            self.stage = Stage::Head;
            self.skip_interim()?;
        }
        Ok(true)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl<T: Transport> Drop for Watched<T> {
    fn drop(&mut self) {
        if !self.inner.buffers().input().is_empty() {
            self.watch.raise_excess();
        }
    }
}
