//! Fleets on simulated hosts.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ecru::schedule::Delay;
use ecru::sim::{self, Host};
use ecru::{Cancelled, Scope};
use ecru_fleet::{Fleet, Stats};

use crate::server::Broker;

pub(crate) const SOON: Duration = Duration::from_millis(10);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(1000);
/// A pause before a retry that a test can wait for.
pub(crate) const RETRY: Delay = Delay::Constant(SOON);

/// Joins the fleet, as soon as there is a server.
pub(crate) fn join<'s>(s: &'s Scope<'s, '_>) -> io::Result<Fleet<'s>> {
    loop {
        match Fleet::connect(s, Broker::URL) {
            Err(error) if Cancelled::find(&error).is_none() => ecru::sleep(SOON)?,
            result => return result,
        }
    }
}

/// Runs `program` on a host of its own, in a fleet.
pub(crate) fn member(name: &str, program: impl Fn(&Fleet<'_>) -> io::Result<()> + 'static) -> Host {
    sim::host(name, move || ecru::scope(|s| program(&join(s)?)))
}

/// What happened, in order.
pub(crate) struct Ledger<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Ledger<T> {
    fn clone(&self) -> Ledger<T> {
        Ledger(Arc::clone(&self.0))
    }
}

impl<T: Clone + PartialEq> Ledger<T> {
    pub(crate) fn new() -> Ledger<T> {
        Ledger(Arc::default())
    }

    pub(crate) fn note(&self, event: T) {
        self.0.lock().unwrap().push(event);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, is_meant: impl Fn(&T) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| is_meant(event)).count()
    }

    /// Waits for the first event of a kind.
    pub(crate) fn wait(&self, is_meant: impl Fn(&T) -> bool) -> T {
        until(|| self.count(&is_meant) > 0);
        self.all().into_iter().find(is_meant).unwrap()
    }
}

/// Waits until `is_true` returns true.
#[track_caller]
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    let begun = sim::elapsed();
    while !is_true() {
        assert!(sim::elapsed() - begun < LONG, "it never becomes true");
        ecru::sleep(SOON).unwrap();
    }
}

/// Waits until no job is queued or running. Returns how many are dead.
#[track_caller]
pub(crate) fn until_idle(stats: impl Fn() -> io::Result<Stats>) -> u64 {
    let begun = sim::elapsed();
    loop {
        // The server may not answer.
        if let Ok(stats) = stats()
            && stats.queued + stats.running == 0
        {
            return stats.dead;
        }
        assert!(sim::elapsed() - begun < LONG, "there are always jobs");
        ecru::sleep(SECOND / 4).unwrap();
    }
}
