//! Watches over results.
//!
//! One result: a subscription to the subject of its key hears that a value was published. That is
//! only a hint, because a value can be heard before it is stored, and although another one was
//! first. So each hint leads to a look at the bucket. In a cluster, a hint can be missed while the
//! servers learn of the subscription, so the watch looks now and then without one, too.
//!
//! A whole run: a consumer of its own hands out what is stored, without acknowledgements. It
//! numbers what it hands out, so the watch notices that something was lost, and creates another
//! consumer, which begins after the last result that came. The server deletes a consumer some time
//! after its watch has ended.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecru::channel::{RecvError, RecvTimeoutError};
use ecru_nats::jetstream::{
    AckPolicy, Bucket, Consumer, ConsumerConfig, DeliverPolicy, Deliveries, Delivery, Entry,
    JetStream,
};
use ecru_nats::{Error, ErrorKind, Subscription};

use super::failure::{NO_CONSUMER, failed, is_passing};
use super::names::{OPERATION, id_of_job};
use crate::engine::{Seen, Watch};
use crate::errors::disconnected;

/// The pauses between looks at one result. They double.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(4));

/// How many results of a run are with the watch at a time.
const WINDOW: usize = 256;

/// After how much silence a watch asks whether its consumer is there.
const SILENCE: Duration = Duration::from_secs(10);

/// After how long without use the server deletes a watch's consumer.
const UNUSED: Duration = Duration::from_secs(300);

/// Begins to watch one index of a run.
pub(super) fn one(
    js: &JetStream,
    name: &str,
    bucket: &Bucket,
    run: &str,
    index: &str,
) -> io::Result<Box<dyn Watch>> {
    let subject = format!("$KV.{name}.{run}.{index}");
    let hints = js.client().subscription(&subject).capacity(1).open().map_err(failed)?;
    Ok(Box::new(OneResult {
        hints,
        bucket: bucket.clone(),
        key: format!("{run}.{index}"),
        index: index.to_owned(),
        revision: AtomicU64::new(0),
        up_to_date: AtomicBool::new(false),
    }))
}

struct OneResult {
    hints: Subscription,
    bucket: Bucket,
    key: String,
    index: String,
    /// The revision of the result that was returned, or 0.
    revision: AtomicU64,
    up_to_date: AtomicBool,
}

impl OneResult {
    /// Returns a result that has not been returned.
    fn look(&self) -> Result<Option<Entry>, Error> {
        let entry = self.bucket.get(&self.key)?;
        Ok(entry.filter(|entry| {
            self.revision.swap(entry.revision, Ordering::Relaxed) != entry.revision
        }))
    }
}

impl Watch for OneResult {
    fn next(&self) -> io::Result<Seen> {
        let mut pause = PAUSES.0;
        loop {
            match self.look() {
                Ok(Some(entry)) => {
                    let Entry { value, revision, .. } = entry;
                    let index = self.index.clone();
                    return Ok(Seen::Result { index, value, position: revision });
                }
                Ok(None) if !self.up_to_date.swap(true, Ordering::Relaxed) => {
                    return Ok(Seen::UpToDate);
                }
                Ok(None) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(failed(error)),
            }
            match self.hints.recv_timeout(pause) {
                // What was published may not be stored yet.
                Ok(_) => pause = PAUSES.0,
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(PAUSES.1),
                Err(RecvTimeoutError::Disconnected) => return Err(disconnected()),
                Err(RecvTimeoutError::Cancelled) => return Err(RecvError::Cancelled.into()),
            }
        }
    }
}

/// Returns the subject of all results of a run.
pub(super) fn all_of(name: &str, run: &str) -> String {
    format!("$KV.{name}.{run}.*")
}

/// Begins to watch a run.
pub(super) fn run(js: &JetStream, name: &str, run: &str) -> io::Result<Box<dyn Watch>> {
    let watch = RunResults {
        js: js.clone(),
        stream: format!("KV_{name}"),
        filter: all_of(name, run),
        live: Mutex::new(None),
        last: AtomicU64::new(0),
        left: AtomicU64::new(0),
        up_to_date: AtomicBool::new(false),
    };
    watch.begin()?;
    Ok(Box::new(watch))
}

struct RunResults {
    js: JetStream,
    stream: String,
    filter: String,
    live: Mutex<Option<Arc<Live>>>,
    /// The stream's number of the last result that came, or 0.
    last: AtomicU64,
    /// How many of the results that were stored at the beginning have not been handed out.
    left: AtomicU64,
    up_to_date: AtomicBool,
}

struct Live {
    consumer: Consumer,
    deliveries: Deliveries,
    /// How many results have come.
    came: AtomicU64,
}

impl RunResults {
    /// Creates a consumer of what follows the last result.
    fn begin(&self) -> io::Result<Arc<Live>> {
        let config = ConsumerConfig {
            filter_subject: Some(self.filter.clone()),
            deliver_policy: DeliverPolicy::ByStartSequence,
            start_sequence: Some(self.last.load(Ordering::Relaxed) + 1),
            ack_policy: AckPolicy::None,
            inactive_threshold: Some(UNUSED),
            replicas: 1,
            ..ConsumerConfig::new(&format!("watch-{:016x}", crate::id::any_number()))
        };
        let consumer = self.js.create_consumer(&self.stream, &config).map_err(failed)?;
        let left = consumer.info().map_err(failed)?.num_pending;
        let deliveries = consumer.messages(WINDOW).map_err(failed)?;
        self.left.store(left, Ordering::Relaxed);
        let live = Arc::new(Live { consumer, deliveries, came: AtomicU64::new(0) });
        self.set_live(Some(Arc::clone(&live)));
        Ok(live)
    }

    fn set_live(&self, live: Option<Arc<Live>>) {
        let mut place = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, live);
        drop(place);
        drop(old);
    }

    /// Returns the consumer. While the servers cannot be reached, tries again.
    fn live(&self) -> io::Result<Arc<Live>> {
        let mut pause = PAUSES.0;
        loop {
            let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(live) = live {
                return Ok(live);
            }
            match self.begin() {
                Err(error) if may_pass(&error) => ecru::sleep(pause)?,
                result => return result,
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Looks, after some silence, whether the consumer is there, and whether something was lost. If
    /// there is no answer, its server may be gone for good, and another consumer goes on as well.
    fn check(&self, live: &Live) -> io::Result<()> {
        match live.consumer.info() {
            Ok(info) if info.delivered.consumer > live.came.load(Ordering::Relaxed) => {
                self.set_live(None);
            }
            Ok(info) => self.left.store(info.num_pending, Ordering::Relaxed),
            Err(error) if error.code() == Some(NO_CONSUMER) || is_passing(&error) => {
                self.set_live(None);
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// Notes a result that came. Returns false if one before it has not, because it was lost with a
    /// connection.
    fn follows(&self, live: &Live, delivery: &Delivery) -> bool {
        let number = live.came.load(Ordering::Relaxed) + 1;
        let follows = delivery.consumer_sequence() == number;
        if follows {
            live.came.store(number, Ordering::Relaxed);
            self.last.store(delivery.sequence(), Ordering::Relaxed);
        }
        follows
    }

    /// Forgets a consumer that hands out no more.
    fn forget(&self, live: &Live) -> io::Result<()> {
        match live.deliveries.ended_by() {
            Some(error) if error.kind() != ErrorKind::Closed => {
                self.set_live(None);
                Ok(())
            }
            _ => Err(disconnected()),
        }
    }
}

fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, NotFound, ResourceBusy, TimedOut};
    matches!(error.kind(), ConnectionAborted | NotFound | ResourceBusy | TimedOut)
}

impl Watch for RunResults {
    fn next(&self) -> io::Result<Seen> {
        loop {
            let live = self.live()?;
            let left = self.left.load(Ordering::Relaxed);
            if left == 0 && !self.up_to_date.swap(true, Ordering::Relaxed) {
                return Ok(Seen::UpToDate);
            }
            let delivery = match live.deliveries.recv_timeout(SILENCE) {
                Ok(delivery) => delivery,
                Err(RecvTimeoutError::Timeout) => {
                    self.check(&live)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.forget(&live)?;
                    continue;
                }
                Err(RecvTimeoutError::Cancelled) => return Err(RecvError::Cancelled.into()),
            };
            if !self.follows(&live, &delivery) {
                self.set_live(None);
                continue;
            }
            self.left.store(left.saturating_sub(1), Ordering::Relaxed);
            if delivery.headers().get(OPERATION).is_none() {
                let index = id_of_job(delivery.subject());
                let value = delivery.payload().clone();
                return Ok(Seen::Result { index, value, position: delivery.sequence() });
            }
        }
    }
}
