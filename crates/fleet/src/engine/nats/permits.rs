//! The places of a limit, if jobs have priorities: each is a message that a consumer lends.
//!
//! Each priority has a consumer of its own, and none of them can count the jobs of the others. So a
//! process takes a place first, and then the most urgent job that there is. The place is renewed
//! with the lease of the job, and given back when the job is not held any more. The place of a
//! process that was killed is lent again when its lease has ended, as is its job. A job that waits
//! for its next attempt takes none.

use std::io;
use std::time::{Duration, Instant};

use ecru_nats::jetstream::{Consumer, ConsumerConfig, Delivery, JetStream};
use ecru_nats::{Client, Error, Message, Request};

use super::failure::{NO_CONSUMER, OTHER_SEQUENCE, failed};
use super::names::{EXPECTED, LIFETIME, Names, PERMITS};
use super::open;
use crate::engine::QueueSpec;

/// What renews a place.
const IN_PROGRESS: &str = "+WPI";

/// A place of the limit.
pub(super) struct Permit {
    delivery: Delivery,
    /// When it came. It was lent a moment before, for the length of a lease.
    since: Instant,
}

impl Permit {
    pub(super) fn new(delivery: Delivery) -> Permit {
        let since = delivery.received_at();
        Permit { delivery, since }
    }

    /// Returns until when a job may begin to use the place. It is renewed from then on.
    pub(super) fn good_until(&self, lease: Duration) -> Instant {
        self.since + lease / 3
    }

    /// Begins to renew the place.
    pub(super) fn begin_renew(&self, client: &Client) -> Result<Request, Error> {
        client.request(self.delivery.reply().unwrap_or_default(), IN_PROGRESS)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // If that is lost, the place is lent again when the lease has ended.
        let _ = self.delivery.retry(None);
    }
}

/// Makes as many places as the limit of a queue with priorities has, if it has one.
pub(super) fn provide(js: &JetStream, names: &Names, spec: &QueueSpec) -> io::Result<()> {
    let Some(limit) = spec.limit.filter(|_| spec.priorities) else { return Ok(()) };
    let config = ConsumerConfig {
        description: format!("Lends the places of the limit of the queue {}", names.queue),
        filter_subject: Some(names.permit("*")),
        ack_wait: Some(spec.lease),
        // The server's default would be 1000.
        max_ack_pending: Some(-1),
        ..ConsumerConfig::new(PERMITS)
    };
    let permits = consumer(js, names)?;
    let info = match permits.info() {
        Err(error) if error.code() == Some(NO_CONSUMER) => {
            open::create_consumer(js, &names.attempts, &config).map_err(failed)?;
            permits.info()
        }
        info => info,
    };
    let info = info.map_err(failed)?;
    // None of them is ever settled.
    let there = info.num_pending.saturating_add(info.num_ack_pending);
    match usize::try_from(there).unwrap_or(usize::MAX) {
        there if there < limit => add(js, names, limit),
        there if there > limit => remove(js, names, limit),
        _ => Ok(()),
    }
}

/// Changes for how long the places of the limit are lent.
pub(super) fn update_lease(js: &JetStream, names: &Names, spec: &QueueSpec) -> io::Result<()> {
    if spec.limit.is_none() || !spec.priorities {
        return Ok(());
    }
    let mut config = consumer(js, names)?.info().map_err(failed)?.config;
    if config.ack_wait == Some(spec.lease) {
        return Ok(());
    }
    config.ack_wait = Some(spec.lease);
    js.update_consumer(&names.attempts, &config).map(drop).map_err(failed)
}

pub(super) fn consumer(js: &JetStream, names: &Names) -> io::Result<Consumer> {
    js.consumer(&names.attempts, PERMITS).map_err(failed)
}

/// Adds the places that are missing. One that is lent must not be replaced.
fn add(js: &JetStream, names: &Names, limit: usize) -> io::Result<()> {
    let mut begun = Vec::new();
    for number in 0..limit {
        let permit = Message::new(&names.permit(&number.to_string()), "")
            .with_header(EXPECTED, "0")
            .and_then(|permit| permit.with_header(LIFETIME, "never"));
        begun.push(js.begin_publish(&permit.map_err(failed)?).map_err(failed)?);
    }
    for adding in begun {
        match adding.get() {
            Ok(_) => {}
            Err(error) if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Removes the places that are too many. Jobs that have them go on.
fn remove(js: &JetStream, names: &Names, limit: usize) -> io::Result<()> {
    let mut from = 1;
    while let Some(permit) =
        js.next_message(&names.attempts, from, &names.permit("*")).map_err(failed)?
    {
        from = permit.sequence + 1;
        let number = permit.subject.rsplit('.').next().and_then(|number| number.parse().ok());
        if number.is_none_or(|number: usize| number >= limit) {
            super::dead::removed(js.delete_message(&names.attempts, permit.sequence))?;
        }
    }
    Ok(())
}
