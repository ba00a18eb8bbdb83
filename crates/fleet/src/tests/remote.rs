//! An engine that is reached over a link, which can be cut.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ecru::Scope;

use crate::engine::{
    self, Announcements, BoxSource, Changes, Counts, Dead, Delivery, Engine, EngineQueue,
    EngineResults, Lease, Pull, QueueSpec, Renewal, ResultsSpec, Sending, Terms,
};
use crate::{Fleet, Progress};

/// A server in memory.
#[derive(Clone)]
pub(super) struct Server(Arc<dyn Engine>);

impl Server {
    pub(super) fn new() -> Server {
        Server(Arc::from(engine::local()))
    }

    /// Opens a fleet whose calls go over the link.
    pub(super) fn fleet<'s>(&self, s: &'s Scope<'s, '_>, link: &Link) -> Fleet<'s> {
        Fleet::over(s, Box::new(Remote { server: self.clone(), link: link.clone() }))
    }
}

/// A link to a server.
#[derive(Clone, Default)]
pub(super) struct Link(Arc<AtomicBool>);

impl Link {
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn mend(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_cut() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

struct Remote {
    server: Server,
    link: Link,
}

impl Engine for Remote {
    fn queue(&self, name: &str, settings: &Changes) -> io::Result<Box<dyn EngineQueue>> {
        self.link.check()?;
        let queue = self.server.0.queue(name, settings)?;
        Ok(Box::new(RemoteQueue { queue, link: self.link.clone() }))
    }

    fn results(&self, spec: &ResultsSpec) -> io::Result<Box<dyn EngineResults>> {
        self.link.check()?;
        self.server.0.results(spec)
    }
}

struct RemoteQueue {
    queue: Box<dyn EngineQueue>,
    link: Link,
}

impl EngineQueue for RemoteQueue {
    fn begin_send(
        &self,
        id: &str,
        payload: Bytes,
        sending: Option<&str>,
        terms: &Terms,
    ) -> io::Result<BoxSource> {
        if self.link.is_cut() {
            return Ok(Box::new(ecru::source::ready(engine::Sending::Unknown)));
        }
        self.queue.begin_send(id, payload, sending, terms)
    }

    fn send_all(&self, jobs: &[(String, Bytes)], terms: &Terms) -> io::Result<Sending> {
        self.link.check()?;
        self.queue.send_all(jobs, terms)
    }

    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>> {
        self.link.check()?;
        Ok(Box::new(RemotePull { pull: self.queue.pull(window)?, link: self.link.clone() }))
    }

    fn start(&self) -> io::Result<Option<Duration>> {
        self.link.check()?;
        self.queue.start()
    }

    fn spec(&self) -> io::Result<QueueSpec> {
        self.link.check()?;
        self.queue.spec()
    }

    fn update(&self, changes: &Changes) -> io::Result<()> {
        self.link.check()?;
        self.queue.update(changes)
    }

    fn announcements(&self) -> io::Result<Box<dyn Announcements>> {
        self.link.check()?;
        self.queue.announcements()
    }

    fn cancel(&self, id: &str) -> io::Result<bool> {
        self.link.check()?;
        self.queue.cancel(id)
    }

    fn pause(&self, d: Duration) -> io::Result<()> {
        self.link.check()?;
        self.queue.pause(d)
    }

    fn progress(&self) -> io::Result<Vec<(String, Progress)>> {
        self.link.check()?;
        self.queue.progress()
    }

    fn counts(&self) -> io::Result<Counts> {
        self.link.check()?;
        self.queue.counts()
    }

    fn bury(&self, entry: &Dead) -> io::Result<()> {
        self.link.check()?;
        self.queue.bury(entry)
    }

    fn dead(&self, from: u64) -> io::Result<Option<(u64, Dead)>> {
        self.link.check()?;
        self.queue.dead(from)
    }

    fn discard(&self, dead: u64) -> io::Result<bool> {
        self.link.check()?;
        self.queue.discard(dead)
    }
}

struct RemotePull {
    pull: Box<dyn Pull>,
    link: Link,
}

impl Pull for RemotePull {
    fn next(&self) -> io::Result<Option<Delivery>> {
        loop {
            while self.link.is_cut() {
                ecru::sleep(Duration::from_millis(10))?;
            }
            let Some(mut delivery) = self.pull.next()? else { return Ok(None) };
            // What is handed out on a cut link is lost, until its lease ends.
            if !self.link.is_cut() {
                let lease = RemoteLease { lease: delivery.lease, link: self.link.clone() };
                delivery.lease = Box::new(lease);
                return Ok(Some(delivery));
            }
        }
    }

    fn stop(&self) {
        self.pull.stop();
    }
}

struct RemoteLease {
    lease: Box<dyn Lease>,
    link: Link,
}

impl Lease for RemoteLease {
    fn begin(&self, is_certain: bool) -> io::Result<u32> {
        self.link.check()?;
        self.lease.begin(is_certain)
    }

    fn report(&self, progress: Option<&Progress>) {
        if !self.link.is_cut() {
            self.lease.report(progress);
        }
    }

    fn claim(&self) -> io::Result<bool> {
        // Meanwhile the job is perhaps both in the queue and among the dead.
        ecru::sleep(Duration::from_millis(10))?;
        self.link.check()?;
        self.lease.claim()
    }

    fn begin_renew(&self) -> io::Result<Box<dyn Renewal>> {
        self.link.check()?;
        self.lease.begin_renew()
    }

    fn done(&self) -> io::Result<()> {
        self.link.check()?;
        self.lease.done()
    }

    fn retry(&self, delay: Duration) -> io::Result<()> {
        self.link.check()?;
        self.lease.retry(delay)
    }

    fn give_back(&self, delay: Duration) {
        if !self.link.is_cut() {
            self.lease.give_back(delay);
        }
    }

    fn terminate(&self, why: &str) -> io::Result<()> {
        self.link.check()?;
        self.lease.terminate(why)
    }
}
