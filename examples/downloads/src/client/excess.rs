//! Bytes beyond the announced body.
//!
//! ureq silently drops a connection if unread bytes are left on it at the end of a body. This
//! module makes that visible: a transport that is dropped, or found unfit, with unread bytes raises
//! the client's flag. A download looks at the flag only after it has read its body to the end,
//! because a connection dropped half-way may well have unread bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// The flag that a client and its transports share. One task at a time uses them, so relaxed
/// ordering is enough.
#[derive(Debug, Clone, Default)]
pub(super) struct Excess(Arc<AtomicBool>);

impl Excess {
    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The last link of the chain of connectors, which wraps the transport made by the others.
#[derive(Debug)]
pub(super) struct WatchExcess(pub(super) Excess);

impl<In: Transport> Connector<In> for WatchExcess {
    type Out = Watched<In>;

    fn connect(
        &self,
        _: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Watched { inner, excess: self.0.clone() }))
    }
}

/// A transport, plain or TLS, that reports when it is dropped with unread input.
#[derive(Debug)]
pub(super) struct Watched<T: Transport> {
    inner: T,
    excess: Excess,
}

impl<T: Transport> Transport for Watched<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
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
            self.excess.raise();
        }
    }
}
