//! A queue in memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ecru::channel::{self, Receiver, RecvError, Sender};
use ecru::source::{self, WaitList};

use super::dead::Graveyard;
use super::jobs::{Added, Jobs};
use super::locked;
use super::pull::LocalPull;
use crate::engine::rate::Starts;
use crate::engine::{
    Announced, Announcements, BoxSource, Changes, Counts, Dead, EngineQueue, Pull, QueueSpec,
    Sending, Terms,
};
use crate::errors::{disconnected, invalid};
use crate::progress::Progress;
use crate::settings::conflict;
use crate::wall::wall;

/// A queue in memory.
pub(super) struct Queue {
    spec: Mutex<QueueSpec>,
    jobs: Mutex<Jobs>,
    dead: Mutex<Graveyard>,
    starts: Mutex<Starts>,
    listeners: Mutex<Vec<Sender<Announced>>>,
    /// Notified when a job may have become ready to be handed out.
    list: WaitList,
    ended: AtomicBool,
}

impl Queue {
    pub(super) fn new(spec: QueueSpec) -> Queue {
        Queue {
            spec: Mutex::new(spec),
            jobs: Mutex::default(),
            dead: Mutex::default(),
            starts: Mutex::default(),
            listeners: Mutex::default(),
            list: WaitList::new(),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn settings(&self) -> QueueSpec {
        locked(&self.spec).clone()
    }

    pub(super) fn list(&self) -> &WaitList {
        &self.list
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.list.notify_all();
        let listeners = std::mem::take(&mut *locked(&self.listeners));
        drop(listeners);
    }

    /// Changes the jobs, and wakes those that wait for one.
    pub(super) fn change<R>(&self, f: impl FnOnce(&mut Jobs) -> R) -> R {
        let result = f(&mut locked(&self.jobs));
        self.list.notify_all();
        result
    }

    /// Looks at the jobs.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Jobs) -> R) -> R {
        f(&mut locked(&self.jobs))
    }

    fn announce(&self, what: &Announced) {
        let listeners = locked(&self.listeners).clone();
        for listener in listeners {
            let _ = listener.try_send(what.clone());
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.has_ended() { Err(disconnected()) } else { Ok(()) }
    }

    /// Does what each call to a server does: it fails if the caller is cancelled, and other tasks
    /// may run before it.
    fn call(&self) -> io::Result<()> {
        self.check()?;
        Ok(ecru::checkpoint()?)
    }
}

impl EngineQueue for Arc<Queue> {
    fn begin_send(
        &self,
        id: &str,
        payload: Bytes,
        _: Option<&str>,
        terms: &Terms,
    ) -> io::Result<BoxSource> {
        self.check()?;
        let sending = match self.change(|jobs| jobs.add(&self.settings(), id, payload, terms)) {
            Added::New => Sending::New,
            Added::Already => Sending::Already,
            Added::Full => Sending::Full,
        };
        Ok(Box::new(source::ready(sending)))
    }

    fn send_all(&self, jobs: &[(String, Bytes)], terms: &Terms) -> io::Result<Sending> {
        self.call()?;
        let spec = self.settings();
        Ok(match self.change(|stored| stored.add_all(&spec, jobs, terms)) {
            Added::New => Sending::New,
            Added::Already => Sending::Already,
            Added::Full => Sending::Full,
        })
    }

    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>> {
        self.call()?;
        Ok(Box::new(LocalPull::new(self, window)))
    }

    fn start(&self) -> io::Result<Option<Duration>> {
        self.call()?;
        let Some(rate) = self.settings().rate else { return Ok(None) };
        Ok(locked(&self.starts).take(rate, wall()).err())
    }

    fn spec(&self) -> io::Result<QueueSpec> {
        self.call()?;
        Ok(self.settings())
    }

    fn update(&self, changes: &Changes) -> io::Result<()> {
        self.call()?;
        let mut spec = locked(&self.spec);
        let next = changes.apply(&spec);
        if let Some(why) = conflict(&next) {
            return Err(invalid(format!("the settings of the queue exclude each other: {why}")));
        }
        *spec = next;
        let lease = spec.lease;
        drop(spec);
        // A greater limit lets more jobs be handed out.
        self.list.notify_all();
        self.announce(&Announced::Lease(lease));
        Ok(())
    }

    fn announcements(&self) -> io::Result<Box<dyn Announcements>> {
        self.call()?;
        let (tell, told) = channel::unbounded();
        let mut listeners = locked(&self.listeners);
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(tell);
        Ok(Box::new(told))
    }

    fn cancel(&self, id: &str) -> io::Result<bool> {
        self.call()?;
        let Some(number) = self.change(|jobs| jobs.cancel(id)) else { return Ok(false) };
        self.announce(&Announced::Cancelled(id.to_owned(), Some(number)));
        Ok(true)
    }

    fn pause(&self, d: Duration) -> io::Result<()> {
        self.call()?;
        let until = if d.is_zero() { None } else { ecru::time::now().checked_add(d) };
        self.change(|jobs| jobs.pause(until));
        Ok(())
    }

    fn progress(&self) -> io::Result<Vec<(String, Progress)>> {
        self.call()?;
        Ok(locked(&self.jobs).progress())
    }

    fn counts(&self) -> io::Result<Counts> {
        self.call()?;
        let counts = locked(&self.jobs).counts();
        let (dead, last_dead) = locked(&self.dead).counts();
        Ok(Counts { dead, last_dead, ..counts })
    }

    fn bury(&self, entry: &Dead) -> io::Result<()> {
        self.check()?;
        locked(&self.dead).add(entry);
        Ok(())
    }

    fn dead(&self, from: u64) -> io::Result<Option<(u64, Dead)>> {
        self.call()?;
        Ok(locked(&self.dead).first_from(from))
    }

    fn discard(&self, dead: u64) -> io::Result<bool> {
        self.call()?;
        Ok(locked(&self.dead).remove(dead))
    }
}

impl Announcements for Receiver<Announced> {
    fn next(&self) -> io::Result<Announced> {
        self.recv().map_err(|error| match error {
            RecvError::Disconnected => disconnected(),
            RecvError::Cancelled => error.into(),
        })
    }
}
