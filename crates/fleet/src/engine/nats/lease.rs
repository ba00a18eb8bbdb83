//! The lease of a job: a message that was handed out and is not settled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ecru_nats::jetstream::{Ack, Delivery, JetStream};
use ecru_nats::{Error, ErrorKind, Request};

use super::Attendant;
use super::attempts::Attempt;
use super::failure::{NO_MESSAGE, failed, is_passing};
use super::ranked::Room;
use crate::engine::{Lease, Renewal};
use crate::progress::Progress;

/// The pause before a settlement is repeated, while the servers elect a leader or the client
/// connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// What renews a lease.
const IN_PROGRESS: &str = "+WPI";

/// The longest reason that the servers are told. The whole one is stored with the dead job.
const LONGEST_REASON: usize = 256;

pub(super) struct NatsLease {
    pub(super) delivery: Delivery,
    pub(super) attempt: Attempt,
    pub(super) jobs: Arc<Stream>,
    /// The server was told that the job is done, and has not answered.
    pub(super) is_unanswered: AtomicBool,
    /// What the job takes in a queue with priorities.
    pub(super) room: Option<Room>,
}

/// The stream of the jobs.
pub(super) struct Stream {
    pub(super) js: JetStream,
    pub(super) name: String,
    pub(super) attendant: Attendant,
}

impl NatsLease {
    /// Removes the job, and returns when the servers have stored that. The caller has claimed it,
    /// so a repetition does no harm.
    ///
    /// A server that was killed may have lost what its consumer stored last. It does not answer
    /// then when a message is settled that it does not remember to have handed out, although it
    /// confirms renewals. So the message itself is removed if there is no answer.
    fn remove(&self, ack: &Ack) -> io::Result<()> {
        let mut is_unanswered = self.is_unanswered.load(Ordering::Relaxed);
        loop {
            let settled = match is_unanswered {
                true => self.delete(),
                false => self.delivery.confirm(ack),
            };
            let Err(error) = settled else { return Ok(()) };
            if !is_passing(&error) {
                return Err(failed(error));
            }
            is_unanswered = !is_unanswered && error.kind() == ErrorKind::TimedOut;
            if !is_unanswered {
                ecru::sleep(PAUSE)?;
            }
        }
    }

    /// Deletes the message. A job that was stored under the same id later is another message.
    fn delete(&self) -> Result<(), Error> {
        let Stream { js, name, .. } = &*self.jobs;
        let stored = js.last_message(name, self.delivery.subject())?;
        if stored.is_none_or(|stored| stored.sequence != self.delivery.sequence()) {
            return Ok(());
        }
        match js.delete_message(name, self.delivery.sequence()) {
            Err(error) if error.code().is_some_and(|code| NO_MESSAGE.contains(&code)) => Ok(()),
            result => result,
        }
    }
}

fn pause(delay: Duration) -> Option<Duration> {
    (!delay.is_zero()).then_some(delay)
}

impl Lease for NatsLease {
    fn begin(&self, is_certain: bool) -> io::Result<u32> {
        self.attempt.begin(is_certain)
    }

    fn must_count(&self) -> bool {
        self.attempt.is_noted()
    }

    fn count(&self) -> io::Result<()> {
        self.attempt.count()
    }

    fn done_if_certain(&self) -> bool {
        if !self.attempt.is_noted() {
            return false;
        }
        let is_done = self.delivery.confirm(&Ack::Done).is_ok();
        if is_done {
            self.attempt.leave_page();
        } else {
            self.is_unanswered.store(true, Ordering::Relaxed);
        }
        is_done
    }

    fn report(&self, progress: Option<&Progress>) {
        let _ = self.attempt.report(progress);
    }

    fn claim(&self) -> io::Result<bool> {
        self.attempt.claim()
    }

    fn begin_renew(&self) -> io::Result<Box<dyn Renewal>> {
        let begun = match self.jobs.attendant.get() {
            Some(client) => {
                let subject = self.delivery.reply().unwrap_or_default();
                match client.request(subject, IN_PROGRESS) {
                    // It has ended for good, as the program's settings say.
                    Err(error) if error.kind() == ErrorKind::Closed => {
                        self.delivery.begin_confirm(&Ack::InProgress)
                    }
                    begun => begun,
                }
            }
            None => self.delivery.begin_confirm(&Ack::InProgress),
        };
        if let Some(permit) = self.room.as_ref().and_then(|room| room.permit.as_ref()) {
            let client = self.jobs.attendant.get().unwrap_or(self.jobs.js.client());
            // The job does not depend on it, and the next renewal comes soon.
            let _ = permit.begin_renew(client);
        }
        Ok(Box::new(NatsRenewal(begun.map_err(failed)?)))
    }

    fn done(&self) -> io::Result<()> {
        self.remove(&Ack::Done)?;
        self.attempt.leave_page();
        Ok(())
    }

    fn retry(&self, delay: Duration) -> io::Result<()> {
        // A repetition of one that was stored could take the job from its next holder.
        loop {
            match self.delivery.confirm(&Ack::Retry(pause(delay))) {
                Err(error) if error.kind() == ErrorKind::NoResponders => ecru::sleep(PAUSE)?,
                result => return result.map_err(failed),
            }
        }
    }

    fn give_back(&self, delay: Duration) {
        let _ = self.delivery.retry(pause(delay));
    }

    fn terminate(&self, why: &str) -> io::Result<()> {
        let why: String = why.chars().take(LONGEST_REASON).collect();
        self.remove(&Ack::Terminate(why))?;
        self.attempt.leave_page();
        Ok(())
    }
}

struct NatsRenewal(Request);

impl Renewal for NatsRenewal {
    fn wait(self: Box<Self>) -> io::Result<bool> {
        // JetStream confirms late renewals, too.
        self.0.get().map(|_| true).map_err(failed)
    }
}
