//! The engine on NATS JetStream.
//!
//! A queue is a stream with the retention `WorkQueue`, which refuses a message whose subject has
//! one already. A job's subject has its id, so a job is unique while it is queued or held. Leases
//! are the `ack_wait` of one durable consumer for the whole fleet, and `limit` is its
//! `max_ack_pending`. Its `backoff` is never set, because it would replace the lease, and neither
//! is `max_deliver`, after which a message would stay undelivered.
//!
//! With priorities, each priority has subjects and a consumer of its own: see [`ranked`] and the
//! decision 44. What [`permits`] lends is then the limit.
//!
//! Settings that several processes change at once are not lost: see [`settings`].
//!
//! JetStream fences nothing: it accepts a late acknowledgement although the message has been handed
//! out again. So holders watch their own clocks, [`attempts`] decides which of them settles a job,
//! and results are stored by the first writer.

mod apply;
mod attempts;
mod changes;
mod dead;
mod failure;
mod journal;
mod lease;
mod names;
mod open;
mod permits;
mod place;
mod progress;
mod pull;
mod queue;
mod ranked;
mod rate;
mod results;
mod schedules;
mod send;
mod settings;
mod watch;
mod workers;

use std::error::Error as _;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ecru::Scope;
use ecru_nats::jetstream::JetStream;
use ecru_nats::{Client, Daemons, Error, ErrorKind, Options};

use super::{Changes, Engine, EngineQueue, EngineResults, ResultsSpec};
use failure::{failed, repeated_if};

/// The first version whose JetStream has what a fleet needs.
const OLDEST: (u32, u32) = (2, 12);

/// The connection that leases are renewed with, once there is one.
type Attendant = Arc<OnceLock<Client>>;

/// The engine of one connection, and of another one for the leases. It knows passwords, so it has
/// no `Debug`.
pub(crate) struct NatsEngine {
    jetstream: JetStream,
    attendant: Attendant,
    urls: String,
    options: Options,
}

impl NatsEngine {
    /// Connects to the first of the servers that accepts the client.
    pub(crate) fn connect<'scope>(
        s: &'scope impl Daemons<'scope>,
        urls: &str,
        options: Options,
    ) -> io::Result<NatsEngine> {
        let client = options.clone().connect(s, urls).map_err(failed)?;
        let info = client.server_info();
        if info.version_numbers() < OLDEST {
            let (server, version) = (client.server(), &info.version);
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "the server {server} has version {version}, and a fleet needs {}.{} or later; \
                     update nats-server",
                    OLDEST.0, OLDEST.1
                ),
            ));
        }
        let (jetstream, attendant, urls) =
            (client.jetstream(), Attendant::default(), urls.to_owned());
        Ok(NatsEngine { jetstream, attendant, urls, options })
    }
}

impl Engine for NatsEngine {
    fn queue(&self, name: &str, settings: &Changes) -> io::Result<Box<dyn EngineQueue>> {
        Ok(Box::new(queue::NatsQueue::open(&self.jetstream, &self.attendant, name, settings)?))
    }

    fn attend<'scope>(&self, s: &'scope Scope<'scope, '_>) -> io::Result<()> {
        // A worker that begins while the servers are away waits for them. A server that refuses
        // another connection does not change its mind.
        // At its end no renewal is waited for any more.
        let options = self.options.clone().flush_timeout(Duration::ZERO);
        let is_away = |error: &Error| {
            let is_of_socket = error.source().is_some_and(|source| source.is::<io::Error>());
            error.kind() == ErrorKind::Connect
                && (is_of_socket || !self.jetstream.client().is_connected())
        };
        let client =
            repeated_if(is_away, || options.clone().connect(s, &self.urls).map_err(failed))?;
        // This is called by one task, and not again after `Ok`.
        let _ = self.attendant.set(client);
        Ok(())
    }

    fn results(&self, spec: &ResultsSpec) -> io::Result<Box<dyn EngineResults>> {
        Ok(Box::new(results::NatsResults::open(&self.jetstream, spec)?))
    }
}
