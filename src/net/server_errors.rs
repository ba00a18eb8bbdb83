//! The meaning of accept(2)'s errors for a server.

use std::io;
use std::time::Duration;

/// How long an error of accept(2) prevents further connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// One connection broke before it was accepted. The next one may be good.
    OfOneConnection,
    /// A resource is used up and may be released later, or a firewall forbids the connection.
    ForNow,
    /// The listener is unusable, or the caller was cancelled.
    ForGood,
}

impl Refusal {
    pub(super) fn of(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            // Linux passes network errors of the new connection on to accept(2).
            Some(
                libc::ECONNABORTED
                | libc::ECONNRESET
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::ENONET
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ETIMEDOUT,
            ) => Refusal::OfOneConnection,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EPERM) => {
                Refusal::ForNow
            }
            _ => Refusal::ForGood,
        }
    }
}

/// Pauses while a resource is short. Each is twice the one before.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    pauses: u32,
}

impl Shortage {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(200);

    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = Shortage::FIRST * (1 << self.pauses.min(10));
        self.pauses += 1;
        pause.min(Shortage::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut shortage = Shortage::default();
        let pauses: Vec<_> = (0..8).map(|_| shortage.next_pause().as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 200, 200]);
        shortage.pauses = 1_000_000;
        assert_eq!(shortage.next_pause(), Shortage::LONGEST);
    }

    #[test]
    fn a_cancellation_and_an_unusable_listener_are_for_good() {
        assert_eq!(Refusal::of(&io::Error::other("cancelled")), Refusal::ForGood);
        for (errno, refusal) in [
            (libc::EBADF, Refusal::ForGood),
            (libc::EINVAL, Refusal::ForGood),
            (libc::EMFILE, Refusal::ForNow),
            (libc::ECONNABORTED, Refusal::OfOneConnection),
        ] {
            assert_eq!(Refusal::of(&io::Error::from_raw_os_error(errno)), refusal);
        }
    }
}
