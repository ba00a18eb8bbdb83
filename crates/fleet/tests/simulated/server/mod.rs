//! A NATS server with JetStream, for simulations: as much of it as the engine of a fleet uses.
//!
//! It speaks the text protocol over simulated sockets. What it stores is in memory, outside of its
//! host, so it survives a [restart](Broker::restart). A request that it does not know panics, so
//! that no test passes on an answer that a real server would not give.
//!
//! | part | idea |
//! |---|---|
//! | `wire` | the frames of the protocol |
//! | `session` | one connection, and the clock of the server |
//! | `state` | subscriptions, and where a message goes |
//! | `api` | the requests of JetStream |
//! | `stream` | stored messages, and what refuses them |
//! | `consumer` | what hands messages out, and the leases on them |
//! | `faults` | what goes wrong by the will of a test |

mod api;
mod consumer;
mod faults;
mod session;
mod state;
mod stream;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ecru::sim::{self, Host};

use consumer::Consumer;
pub(crate) use faults::{Answer, NO_ROOM, NoRoom, Question};
use session::Shared;

/// The server's port.
const PORT: u16 = 4222;

/// A server on a host of its own.
pub(crate) struct Broker {
    host: Host,
    shared: Arc<Shared>,
}

impl Broker {
    /// Where clients find the server.
    pub(crate) const URL: &str = "nats://broker";

    /// Starts a server on a new host.
    pub(crate) fn start() -> Broker {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let host = sim::host("broker", move || session::serve(&own));
        // It listens before the first client comes.
        sim::settle();
        Broker { host, shared }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Kills the server. Its connections end, and new ones are refused.
    pub(crate) fn kill(&self) {
        self.host.crash();
    }

    /// Starts the server again after [`kill`](Broker::kill), with what it had stored.
    pub(crate) fn restart(&self) {
        self.host.restart();
    }

    /// Loses what the consumers have stored since they handed out the first message that is not
    /// settled, as a server may that was killed.
    pub(crate) fn forget(&self) {
        let mut state = self.shared.state();
        let consumers = state.streams.values_mut().flat_map(|stream| stream.consumers.values_mut());
        consumers.for_each(Consumer::lose);
    }

    /// Decides from now on what becomes of the confirmations of stored and settled messages.
    pub(crate) fn answer(&self, fate: impl FnMut(&Question<'_>) -> Answer + Send + 'static) {
        self.shared.state().faults.answer = Box::new(fate);
    }

    /// Decides from now on which messages are handed out twice, by their subjects.
    pub(crate) fn repeat(&self, is_repeated: impl FnMut(&str) -> bool + Send + 'static) {
        self.shared.state().faults.repeat = Box::new(is_repeated);
    }

    /// Decides from now on which messages are refused because there is no room in files, by their
    /// subjects.
    pub(crate) fn full(&self, mut has_no_room: impl FnMut(&str) -> bool + Send + 'static) {
        let in_files = NO_ROOM[3];
        self.no_room(move |subject| has_no_room(subject).then_some(in_files));
    }

    /// Decides from now on which messages are refused because there is no room, and how, by their
    /// subjects.
    pub(crate) fn no_room(&self, refuses: impl FnMut(&str) -> Option<NoRoom> + Send + 'static) {
        self.shared.state().faults.has_no_room = Box::new(refuses);
    }

    /// Decides from now on which requests of JetStream are handled later, by their operations, for
    /// instance `STREAM.UPDATE.fleet-jobs-q_mill`. Those that come meanwhile overtake them, and the
    /// client may be gone by then.
    pub(crate) fn delay(&self, delay: impl FnMut(&str) -> Option<Duration> + Send + 'static) {
        self.shared.state().faults.delay = Box::new(delay);
    }

    /// Returns how many requests of JetStream are to be handled later.
    pub(crate) fn delayed(&self) -> usize {
        self.shared.state().delayed.len()
    }

    /// Returns how often messages with this subject were handed out.
    pub(crate) fn handed_out(&self, subject: &str) -> u32 {
        self.shared.state().handed_out.get(subject).copied().unwrap_or(0)
    }

    /// Returns the payloads of all messages that were ever stored under a subject, in order.
    pub(crate) fn history(&self, subject: &str) -> Vec<Vec<u8>> {
        self.shared.state().history.get(subject).cloned().unwrap_or_default()
    }

    /// Returns whether a message of a stream is handed out and not settled.
    pub(crate) fn is_held(&self, stream: &str) -> bool {
        let state = self.shared.state();
        let consumers = state.streams.get(stream).into_iter().flat_map(|it| it.consumers.values());
        consumers.into_iter().any(Consumer::holds)
    }

    /// Returns how many messages a stream has.
    pub(crate) fn stored(&self, stream: &str) -> usize {
        self.shared.state().streams.get(stream).map_or(0, |stream| stream.messages.len())
    }
}
