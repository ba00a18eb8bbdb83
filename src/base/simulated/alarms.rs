//! The alarms of a simulation.
//!
//! They ring on the simulation's thread, in the order of their times. Alarms for the same time ring
//! in the order in which they were set. The scheduler calls [`ring_due`] outside of any task.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::on::{clock_here, common_time, with};
use crate::base::alarm::Ring;
use crate::base::service::Key;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{SpinGuard, SpinLock};

/// The alarms of a simulation.
pub(crate) struct Alarms {
    queue: SpinLock<AlarmQueue>,
    /// The number of alarms that are set. Changed under the lock. Alarms are set on the
    /// simulation's thread, so that thread misses none.
    count: AtomicU64,
}

#[derive(Default)]
struct AlarmQueue {
    /// The alarms in the order of their virtual times and their numbers, and their clocks.
    set: BTreeMap<Key, (u16, Weak<dyn Ring>)>,
    /// Their virtual times by their numbers.
    times: BTreeMap<u64, Instant>,
    next: u64,
}

impl AlarmQueue {
    fn take(&mut self, key: &Key) -> Option<(u16, Weak<dyn Ring>)> {
        self.times.remove(&key.1);
        self.set.remove(key)
    }
}

impl Default for Alarms {
    fn default() -> Alarms {
        Alarms { queue: SpinLock::new(AlarmQueue::default()), count: AtomicU64::new(0) }
    }
}

impl Alarms {
    fn lock(&self) -> SpinGuard<'_, AlarmQueue> {
        self.queue.lock()
    }

    /// Sets an alarm for a time of the running code's clock. The key has that time.
    pub(in crate::base) fn set(&self, due: Instant, what: Weak<dyn Ring>) -> Key {
        (due, self.set_at(common_time(due), what))
    }

    /// Sets an alarm for a virtual time. Returns its number.
    fn set_at(&self, time: Instant, what: Weak<dyn Ring>) -> u64 {
        let clock = clock_here();
        let mut queue = self.lock();
        let number = queue.next;
        queue.next += 1;
        queue.set.insert((time, number), (clock, what));
        queue.times.insert(number, time);
        self.recount(&queue);
        number
    }

    /// Takes an alarm back, unless it has rung.
    pub(in crate::base) fn remove(&self, (_, number): &Key) {
        let mut queue = self.lock();
        let Some(&time) = queue.times.get(number) else { return };
        let what = queue.take(&(time, *number));
        self.recount(&queue);
        drop(queue);
        drop(what);
    }

    /// Changes the times of the alarms of a clock.
    pub(super) fn move_those_of(&self, clock: u16, moved: impl Fn(Instant) -> Instant) {
        let mut queue = self.lock();
        let own = queue.set.iter().filter(|(_, (other, _))| *other == clock);
        for key in Vec::from_iter(own.map(|(key, _)| *key)) {
            let Some(alarm) = queue.set.remove(&key) else { continue };
            let time = moved(key.0);
            queue.set.insert((time, key.1), alarm);
            queue.times.insert(key.1, time);
        }
    }

    /// Returns the time of the first alarm.
    fn next(&self) -> Option<Instant> {
        self.lock().set.first_key_value().map(|((due, _), _)| *due)
    }

    fn is_due(&self, now: Instant) -> bool {
        // This is asked before each turn of a task, so it mostly takes no lock.
        self.count.load(Ordering::Relaxed) > 0 && self.next().is_some_and(|next| next <= now)
    }

    /// Takes the first alarm if its time has come, with its clock.
    fn take_due(&self, now: Instant) -> Option<(u16, Weak<dyn Ring>)> {
        let mut queue = self.lock();
        let key = *queue.set.first_key_value().map(|(key, _)| key).filter(|key| key.0 <= now)?;
        let alarm = queue.take(&key);
        self.recount(&queue);
        alarm
    }

    fn recount(&self, queue: &AlarmQueue) {
        self.count.store(queue.set.len() as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms").field("next", &self.next()).finish_non_exhaustive()
    }
}

/// Returns the alarms of the current thread's simulation, or `None` outside of simulations.
pub(in crate::base) fn alarms() -> Option<Arc<Alarms>> {
    with(|simulated| Arc::clone(&simulated.alarms))
}

/// Returns the time of the simulation's first alarm, or `None` if no alarm is set.
pub(crate) fn next_alarm() -> Option<Instant> {
    with(|simulated| simulated.alarms.next())?
}

/// Rings `what` when the scheduler rings alarms the next time.
pub(crate) fn ring_soon(what: Weak<dyn Ring>) {
    with(|simulated| simulated.alarms.set_at(simulated.now.get(), what));
}

/// Rings the alarms whose time has come, also those that are set meanwhile.
pub(crate) fn ring_due() {
    let due = with(|simulated| {
        let now = simulated.now.get();
        simulated.alarms.is_due(now).then(|| (Arc::clone(&simulated.alarms), now))
    });
    let Some((alarms, now)) = due.flatten() else { return };
    while let Some((clock, what)) = alarms.take_due(now) {
        let Some(what) = what.upgrade() else { continue };
        with(|simulated| simulated.ringing.set(Some(clock)));
        // This may drop the last reference to `what`, and with it values of the user.
        let rung = panic::catch_unwind(AssertUnwindSafe(|| {
            what.ring();
            drop(what);
        }));
        if let Err(payload) = rung {
            let _ = ManuallyDrop::new(payload);
        }
    }
    with(|simulated| simulated.ringing.set(None));
}
