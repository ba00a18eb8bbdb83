//! The rate of a queue: one message that has the rate, and when jobs were handed out lately.
//!
//! A process that hands out a job writes the message if the last one is the one that it has seen.
//! So the places are taken one after another in the whole fleet, for one write each.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru_nats::Message;
use ecru_nats::jetstream::JetStream;
use serde::{Deserialize, Serialize};

use super::failure::{OTHER_SEQUENCE, failed, is_full, is_passing, repeated};
use super::names::{EXPECTED, Names};
use crate::engine::rate::{Rate, Starts};
use crate::wall::wall;

/// The pause before the message is written again, while the servers elect a leader or the client
/// connects again.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Default, Serialize, Deserialize)]
struct Record {
    rate: Option<Rate>,
    #[serde(default)]
    starts: Starts,
}

/// The message that was seen last, with its sequence number, or 0 if there is none.
#[derive(Clone, Default)]
struct Seen {
    sequence: u64,
    record: Record,
}

#[derive(Default)]
pub(super) struct Place(Mutex<Seen>);

impl Place {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next place: see [`EngineQueue::start`](crate::engine::EngineQueue::start).
    pub(super) fn take(&self, js: &JetStream, names: &Names) -> io::Result<Option<Duration>> {
        let mut seen = self.seen().clone();
        let mut is_new = seen.sequence == 0;
        if is_new {
            seen = read(js, names)?;
        }
        loop {
            let Some(rate) = seen.record.rate else {
                *self.seen() = seen;
                return Ok(None);
            };
            let mut next = seen.record.clone();
            let taken = next.starts.take(rate, wall());
            if let Err(pause) = taken
                && is_new
            {
                *self.seen() = seen;
                return Ok(Some(pause));
            }
            if taken.is_ok()
                && let Some(sequence) = write(js, names, &next, seen.sequence)?
            {
                *self.seen() = Seen { sequence, record: next };
                return Ok(None);
            }
            // Another process has written it since, and may have changed the rate.
            (seen, is_new) = (read(js, names)?, true);
        }
    }
}

/// Returns the rate that is in force.
pub(super) fn current(js: &JetStream, names: &Names) -> io::Result<Option<Rate>> {
    Ok(read(js, names)?.record.rate)
}

/// Sets the rate of a queue that never had one.
pub(super) fn create(js: &JetStream, names: &Names, rate: Rate) -> io::Result<()> {
    let record = Record { rate: Some(rate), starts: Starts::default() };
    write(js, names, &record, 0).map(drop)
}

/// Changes the rate. What was handed out before counts.
pub(super) fn set(js: &JetStream, names: &Names, rate: Option<Rate>) -> io::Result<()> {
    loop {
        let Seen { sequence, record } = read(js, names)?;
        if record.rate == rate {
            return Ok(());
        }
        if write(js, names, &Record { rate, ..record }, sequence)?.is_some() {
            return Ok(());
        }
    }
}

fn read(js: &JetStream, names: &Names) -> io::Result<Seen> {
    let found = repeated(|| js.last_message(&names.attempts, &names.rate()))?;
    // Another program may publish anything here.
    Ok(found.map_or_else(Seen::default, |stored| Seen {
        sequence: stored.sequence,
        record: serde_json::from_slice(&stored.payload).unwrap_or_default(),
    }))
}

/// Writes the message if the last one has this sequence number. Returns its own number, or `None`
/// if there is another one.
fn write(js: &JetStream, names: &Names, record: &Record, last: u64) -> io::Result<Option<u64>> {
    let payload = serde_json::to_vec(record).expect("it has only numbers");
    let message = Message::new(&names.rate(), payload).with_header(EXPECTED, &last.to_string());
    let message = message.map_err(failed)?;
    loop {
        match js.publish_message(&message) {
            Ok(stored) => return Ok(Some(stored.sequence)),
            Err(error) if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) => {
                return Ok(None);
            }
            // The jobs that are worked on make room.
            Err(error) if is_full(&error) => return Ok(Some(last)),
            Err(error) if is_passing(&error) => ecru::sleep(PAUSE)?,
            Err(error) => return Err(failed(error)),
        }
    }
}
