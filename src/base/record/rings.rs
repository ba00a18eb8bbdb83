//! The rings of one runtime.

use std::io;
use std::iter;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ticks::{Counter, Origin};
use super::{Event, Ring, SLOT};
use crate::base::simulated;

/// The ring for the marks of threads that are no workers has at most this many slots.
const OUTSIDE_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Rings {
    workers: Box<[Ring]>,
    /// For the marks of other threads.
    outside: Mutex<Ring>,
    origin: Origin,
    counter: Counter,
    is_virtual: bool,
}

impl Rings {
    /// # Errors
    /// Returns an error of kind `OutOfMemory` if there is not so much memory.
    pub(crate) fn new(workers: usize, bytes: usize) -> io::Result<Rings> {
        let counter = Counter::choose();
        let ring = || Ring::new(bytes, counter);
        Ok(Rings {
            workers: iter::repeat_with(ring).take(workers).collect::<io::Result<_>>()?,
            outside: Mutex::new(Ring::new(bytes.min(OUTSIDE_MAX * SLOT), counter)?),
            origin: Origin::now(counter),
            counter,
            is_virtual: simulated::is_simulated(),
        })
    }

    /// Returns whether the times are those of a simulation.
    pub(crate) fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// Returns the ring of a worker.
    pub(crate) fn ring(&self, worker: usize) -> &Ring {
        &self.workers[worker]
    }

    /// Returns the number of workers. The events of other threads come from the ring with this
    /// number.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Marks this moment, on any thread.
    pub(crate) fn mark(&self, text: &str) {
        let is_own = |ring: &Ring| self.workers.iter().any(|own| ptr::eq(own, ring));
        if super::with(|ring| {
            is_own(ring) && {
                ring.mark(text);
                true
            }
        }) != Some(true)
        {
            self.outside().mark(text);
        }
    }

    fn outside(&self) -> MutexGuard<'_, Ring> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the rings hold, or about the last `most` slots, in the order of time. The workers
    /// go on meanwhile.
    pub(crate) fn read(&self, most: usize) -> Vec<Event> {
        let most = most.div_ceil(self.workers.len().max(1));
        let nanos = self.origin.scale(self.counter);
        let mut events = Vec::new();
        for (worker, ring) in self.workers.iter().enumerate() {
            ring.read(worker, most, nanos, &mut events);
        }
        self.outside().read(self.workers.len(), most, nanos, &mut events);
        // Stable: the events of one ring stay in their order.
        events.sort_by_key(|event| event.at);
        events
    }
}
