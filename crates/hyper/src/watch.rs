//! What the parts of a connection tell each other, so that its time limits are kept and a stop knows
//! what is in progress.
//!
//! A connection is in one of three phases. `since` is when the phase began, or when the client has
//! last taken bytes in `IDLE`.
//!
//! ```text
//!   accepted            the service is called          its response has ended
//!   -------> HEAD ---------------------------> BUSY ---------------------------> IDLE
//!             ^                                  ^         the service is called  | |
//!             |                                  `---------------------------------' |
//!             `--------------------- bytes have come (HTTP/1) ----------------------'
//! ```
//! Limits are checked lazily: one timer for each connection looks at the phase when the earliest
//! limit could be over, so a request sets no timer. Without limits, no clock is read.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ecru::time::Sleep;

/// The head of a request is awaited or incomplete.
const HEAD: u8 = 0;
/// A request is in progress.
const BUSY: u8 = 1;
/// No byte of a next request has come.
const IDLE: u8 = 2;

/// What is limited, by the settings of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) header: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    /// The time for the body of a request.
    pub(crate) body_time: Option<Duration>,
    /// The bytes of the body of a request.
    pub(crate) body: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) limits: Limits,
    is_timed: bool,
    begun: Instant,
    phase: AtomicU8,
    /// In nanoseconds after `begun`, as all times here.
    since: AtomicU64,
    /// Since when a write waits for the client. 0 while none does.
    blocked: AtomicU64,
    /// Requests in progress.
    open: AtomicUsize,
    /// A body was refused, so the client may still send it.
    refused: AtomicBool,
    /// The connection speaks HTTP/2, where bytes need not belong to a request.
    has_streams: AtomicBool,
}

impl Watch {
    pub(crate) fn new(limits: Limits) -> Watch {
        Watch {
            limits,
            is_timed: limits.header.is_some() || limits.idle.is_some(),
            begun: ecru::time::now(),
            phase: AtomicU8::new(HEAD),
            since: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            has_streams: AtomicBool::new(false),
        }
    }

    /// Returns the time, or 1 where nothing is limited.
    fn now(&self) -> u64 {
        if !self.is_timed {
            return 1;
        }
        nanos(ecru::time::now().saturating_duration_since(self.begun)).max(1)
    }

    fn enter(&self, phase: u8) {
        self.since.store(self.now(), Relaxed);
        self.phase.store(phase, Relaxed);
    }

    #[cfg(any(feature = "http2", test))]
    pub(crate) fn speaks_http2(&self) {
        self.has_streams.store(true, Relaxed);
    }

    /// Notes that bytes have come.
    pub(crate) fn received(&self) {
        if self.phase.load(Relaxed) == IDLE && !self.has_streams.load(Relaxed) {
            self.enter(HEAD);
        }
    }

    /// Notes that the client has taken bytes, or that there was room for them.
    pub(crate) fn sent(&self) {
        if self.blocked.load(Relaxed) != 0 {
            self.blocked.store(0, Relaxed);
            if self.phase.load(Relaxed) == IDLE {
                self.enter(IDLE);
            }
        }
    }

    /// Notes that a write waits for the client.
    pub(crate) fn send_waits(&self) {
        if self.blocked.load(Relaxed) == 0 {
            self.blocked.store(self.now(), Relaxed);
        }
    }

    /// Notes that a request is in progress until the returned value is dropped.
    pub(crate) fn request(self: &Arc<Watch>) -> InProgress {
        self.open.fetch_add(1, Relaxed);
        self.phase.store(BUSY, Relaxed);
        InProgress(Arc::clone(self))
    }

    pub(crate) fn refuse_body(&self) {
        self.refused.store(true, Relaxed);
    }

    pub(crate) fn has_refused_body(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Returns whether a connection that has just been polled can be closed without a loss: no
    /// request is in progress, and what was answered has been sent. HTTP/1 closes idle connections
    /// by itself.
    pub(crate) fn awaits_head(&self) -> bool {
        let is_quiet = if self.has_streams() {
            self.open.load(Relaxed) == 0
        } else {
            self.phase.load(Relaxed) == HEAD
        };
        is_quiet && self.blocked.load(Relaxed) == 0
    }

    /// Returns whether there has been no request yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.phase.load(Relaxed) == HEAD && self.since.load(Relaxed) == 0
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    pub(crate) fn has_streams(&self) -> bool {
        self.has_streams.load(Relaxed)
    }

    /// Returns when the limits are to be looked at again, or why the connection is over.
    fn look(&self, limits: &Limits) -> Result<Duration, Over> {
        let now = self.now();
        let since = self.since.load(Relaxed);
        let idle = limits.idle.or(limits.header);
        let ends_after = |begun: u64, limit: Duration, over: Over| {
            let end = begun.saturating_add(nanos(limit));
            if end <= now { Err(over) } else { Ok(Duration::from_nanos(end - now)) }
        };
        let shortest = limits.header.into_iter().chain(limits.idle).min().unwrap_or(Duration::MAX);
        let blocked = self.blocked.load(Relaxed);
        let next = match (self.phase.load(Relaxed), limits.header, idle) {
            // What is idle otherwise still has to send something.
            _ if blocked != 0 => match limits.idle {
                Some(limit) => ends_after(blocked, limit, Over::Blocked)?,
                None => shortest,
            },
            (HEAD, Some(limit), _) if !self.has_streams.load(Relaxed) => {
                ends_after(since, limit, Over::Head)?
            }
            (HEAD | IDLE, _, Some(limit)) => ends_after(since, limit, Over::Idle)?,
            _ => shortest,
        };
        // Phases change without a timer, so each is looked at within the shortest limit.
        Ok(next.min(shortest))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Watch>);

impl Drop for InProgress {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.enter(IDLE);
        }
    }
}

/// The limit that has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Head,
    Idle,
    Blocked,
}

impl Over {
    /// An idle connection that ends is no failure.
    pub(crate) fn outcome(self) -> io::Result<()> {
        let text = match self {
            Over::Idle => return Ok(()),
            Over::Head => "the client has not sent the head of a request within the time limit",
            Over::Blocked => "the client has not taken its response within the time limit",
        };
        Err(io::Error::new(ErrorKind::TimedOut, text))
    }
}

/// The timer of a connection's limits.
#[derive(Debug)]
pub(crate) struct Clock {
    watch: Arc<Watch>,
    next: Option<Sleep>,
}

impl Clock {
    /// Returns `None` if no time is limited.
    pub(crate) fn new(watch: &Arc<Watch>) -> Option<Clock> {
        watch.is_timed.then(|| Clock { watch: Arc::clone(watch), next: None })
    }

    /// Becomes ready when the connection has exceeded a limit.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        loop {
            if let Some(next) = &mut self.next
                && Pin::new(next).poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            match self.watch.look(&self.watch.limits) {
                Ok(pause) => self.next = Some(Sleep::new(pause)),
                Err(over) => return Poll::Ready(over),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn watch(header: Option<Duration>, idle: Option<Duration>) -> Arc<Watch> {
        Arc::new(Watch::new(Limits { header, idle, ..Limits::default() }))
    }

    fn look(watch: &Watch) -> Result<(), Over> {
        watch.look(&watch.limits).map(|_| ())
    }

    #[test]
    fn a_head_is_limited_until_the_service_is_called() {
        let watch = watch(Some(Duration::ZERO), Some(HOUR));
        assert_eq!(look(&watch), Err(Over::Head));
        let request = watch.request();
        assert_eq!(look(&watch), Ok(()));
        drop(request);
        assert_eq!(look(&watch), Ok(()));
        watch.received();
        assert_eq!(look(&watch), Err(Over::Head));
    }

    #[test]
    fn an_idle_connection_and_a_client_that_takes_nothing() {
        let watch = watch(Some(HOUR), Some(Duration::ZERO));
        let requests = [watch.request(), watch.request()];
        assert_eq!(look(&watch), Ok(()));
        watch.send_waits();
        assert_eq!(look(&watch), Err(Over::Blocked));
        watch.sent();
        assert_eq!(look(&watch), Ok(()));
        watch.send_waits();
        drop(requests);
        assert_eq!(look(&watch), Err(Over::Blocked));
        watch.sent();
        assert_eq!(look(&watch), Err(Over::Idle));
    }

    /// Bytes of HTTP/2 need not belong to a request.
    #[test]
    fn frames_do_not_end_idleness() {
        let watch = watch(Some(HOUR), Some(Duration::ZERO));
        watch.speaks_http2();
        assert_eq!(look(&watch), Err(Over::Idle));
        drop(watch.request());
        watch.received();
        assert_eq!(look(&watch), Err(Over::Idle));
    }

    #[test]
    fn the_limit_of_heads_is_that_of_idleness_where_there_is_no_other() {
        let watch = watch(Some(Duration::ZERO), None);
        drop(watch.request());
        assert_eq!(look(&watch), Err(Over::Idle));
    }
}
