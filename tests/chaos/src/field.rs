//! Where it all happens: the brokers, and a proxy before each of them.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru::Scope;
use ecru_nats::jetstream::{JetStream, StreamConfig};
use ecru_nats::{Client, Error, ErrorKind};

use crate::brokers::{self, Brokers, COUNT};
use crate::plan::Direction;
use crate::proxy::Proxy;
use crate::shop::{self, Name};

/// The pause before the brokers are asked again for their leader.
const AGAIN: Duration = Duration::from_millis(100);

/// JetStream's codes.
const NO_CONSUMER: u32 = 10_014;
const NO_STREAM: u32 = 10_059;
/// There is a message with the subject.
const SECOND_ONE: u32 = 10_077;
/// No room in the account, in the cluster, or on the server.
const FULL: [u32; 3] = [10_002, 10_023, 10_047];

pub(crate) struct Field {
    brokers: Mutex<Brokers>,
    proxies: Vec<Proxy>,
    /// A connection of the conductor's own, which no proxy holds back.
    client: Client,
    urls: String,
}

fn urls(addresses: &[SocketAddr]) -> String {
    let urls: Vec<_> = addresses.iter().map(|address| format!("nats://{address}")).collect();
    urls.join(",")
}

impl Field {
    /// Starts the brokers and the proxies.
    pub(crate) fn start<'s>(s: &'s Scope<'s, '_>, folder: &Path) -> io::Result<Field> {
        let mut brokers = Brokers::new(folder)?;
        let direct = brokers.addresses();
        let started: io::Result<Vec<_>> =
            direct.iter().map(|broker| Proxy::start(s, *broker)).collect();
        let proxies = started?;
        let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
        brokers.start(&addresses)?;
        let client = shop::until(|| Ok(shop::options().connect(s, &urls(&direct))?))?;
        Ok(Field { brokers: Mutex::new(brokers), proxies, client, urls: urls(&direct) })
    }

    /// Returns the addresses of the brokers themselves.
    pub(crate) fn direct_urls(&self) -> &str {
        &self.urls
    }

    /// Returns the addresses of the proxies.
    pub(crate) fn urls(&self) -> String {
        let addresses: Vec<_> = self.proxies.iter().map(Proxy::address).collect();
        urls(&addresses)
    }

    fn brokers(&self) -> MutexGuard<'_, Brokers> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the brokers have elected a leader of the jobs, and returns its number.
    fn leader(&self) -> io::Result<usize> {
        let subject = format!("$JS.API.STREAM.INFO.fleet-jobs-q_{}", Name::Jobs.text());
        loop {
            let answer = self.client.request(&subject, "").and_then(|request| request.get());
            let answer = match answer {
                Ok(answer) => serde_json::from_slice(answer.payload())?,
                // There is none while the brokers elect one.
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
                Err(_) => serde_json::Value::Null,
            };
            if let Some(leader) = answer["cluster"]["leader"].as_str().and_then(brokers::number) {
                return Ok(leader);
            }
            ecru::sleep(AGAIN)?;
        }
    }

    /// Kills the leader of the jobs, and starts it again after a while.
    pub(crate) fn kill_leader(&self, down: Duration) -> io::Result<()> {
        let leader = self.leader()?;
        self.brokers().kill(leader)?;
        ecru::sleep(down)?;
        self.restart(leader)
    }

    /// Kills all brokers, and starts them again after a while.
    pub(crate) fn kill_all(&self, down: Duration) -> io::Result<()> {
        (0..COUNT).try_for_each(|number| self.brokers().kill(number))?;
        ecru::sleep(down)?;
        (0..COUNT).try_for_each(|number| self.restart(number))
    }

    /// Waits until the broker listens and there is a leader again.
    fn restart(&self, number: usize) -> io::Result<()> {
        // Only the task of the brokers uses the lock.
        self.brokers().restart(number)
    }

    /// Waits until the brokers have a leader.
    pub(crate) fn recover(&self) -> io::Result<()> {
        self.leader().map(drop)
    }

    /// Holds back what clients and a broker, or all, say to each other.
    pub(crate) fn partition(
        &self,
        broker: Option<usize>,
        direction: Direction,
        lasts: Duration,
        cut: bool,
    ) -> io::Result<()> {
        let concerned = |number| broker.is_none_or(|broker| broker == number);
        let concerned = || self.proxies.iter().enumerate().filter(|(n, _)| concerned(*n));
        concerned().for_each(|(_, proxy)| proxy.hold(direction));
        let slept = ecru::sleep(lasts);
        concerned().for_each(|(_, proxy)| proxy.release(cut));
        Ok(slept?)
    }

    /// Asks the brokers until they have done it.
    fn insist<T>(&self, mut f: impl FnMut(&JetStream) -> Result<T, Error>) -> io::Result<T> {
        loop {
            match f(&self.client.jetstream()) {
                Ok(value) => return Ok(value),
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
                Err(_) => ecru::sleep(AGAIN)?,
            }
        }
    }

    /// Deletes what hands out the jobs.
    pub(crate) fn delete_consumer(&self) -> io::Result<()> {
        let stream = format!("fleet-jobs-q_{}", Name::Jobs.text());
        self.insist(|js| match js.consumer(&stream, "workers")?.delete() {
            Err(error) if error.code() == Some(NO_CONSUMER) => Ok(()),
            deleted => deleted,
        })
    }

    /// Stores a job of another release.
    pub(crate) fn send_alien(&self, job: &str) -> io::Result<()> {
        let subject = format!("fleet.jobs.q_{}.{job}", Name::Poison.text());
        self.insist(|js| match js.publish(&subject, "{\"v\":2,\"data\":[]}") {
            Err(error) if error.code() == Some(SECOND_ONE) => Ok(()),
            sent => sent.map(drop),
        })
    }

    /// Leaves no room for anything else, for some time.
    pub(crate) fn fill(&self, lasts: Duration) -> io::Result<()> {
        let config =
            StreamConfig { subjects: vec!["sand".to_owned()], ..StreamConfig::new("SAND") };
        self.insist(|js| match js.create_stream(&config) {
            // There is no room for it even now.
            Err(error) if error.code().is_some_and(|code| FULL.contains(&code)) => Ok(()),
            created => created.map(drop),
        })?;
        for grains in [500_000, 10_000, 100] {
            let sand = "x".repeat(grains);
            while self.insist(|js| match js.publish("sand", sand.clone()) {
                Err(error) if error.code().is_some_and(|code| FULL.contains(&code)) => Ok(false),
                Err(error) if error.code() == Some(NO_STREAM) => Ok(false),
                stored => stored.map(|_| true),
            })? {}
        }
        ecru::sleep(lasts)?;
        self.insist(|js| match js.delete_stream("SAND") {
            Err(error) if error.code() == Some(NO_STREAM) => Ok(()),
            deleted => deleted,
        })
    }

    /// Closes all connections of clients, so that nothing is left on its way.
    pub(crate) fn cut(&self) {
        self.proxies.iter().for_each(|proxy| proxy.release(true));
    }
}
