//! The protocols that a server or a client speaks.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Protocols {
    pub(crate) http1: bool,
    #[cfg(feature = "http2")]
    pub(crate) http2: bool,
}

impl Protocols {
    /// Returns these protocols, or HTTP/1.1 if there is none.
    pub(crate) fn or_http1(mut self) -> Protocols {
        self.http1 |= self == Protocols::default();
        self
    }

    /// Returns the names of the protocols for ALPN, the preferred one first.
    #[cfg(feature = "tls")]
    pub(crate) fn names(self) -> Vec<Vec<u8>> {
        let http1 = self.http1.then(|| b"http/1.1".to_vec());
        #[cfg(feature = "http2")]
        let http2 = self.http2.then(|| b"h2".to_vec());
        #[cfg(not(feature = "http2"))]
        let http2 = None;
        http2.into_iter().chain(http1).collect()
    }
}
