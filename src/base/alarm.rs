//! Alarms: calls at a given time, where no task or thread waits for that time. The
//! [service](super::service) makes them.
//!
//! A task's deadline is kept by its worker, and a thread's by its own sleep. But a callback or a
//! future over a timer has no task that sleeps. Neither has a list of waiters that a user's wrapper
//! takes from a timer.
//!
//! In a simulation there is no service: the simulation's own thread makes the calls, in virtual
//! time ([`simulated`]).

use std::fmt;
use std::io;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::sync::Weak;
use std::time::Instant;

pub(crate) use super::service::Ring;
use super::service::{Due, Key, service};
#[cfg(feature = "sim")]
use super::simulated::{self, Alarms};

/// An alarm that is set until this is dropped. Dropping it does not wait for a call that has begun.
pub(crate) struct Alarm {
    key: Key,
    /// The alarms of the simulation in which it was set. `None` if the service makes the call.
    #[cfg(feature = "sim")]
    simulation: Option<Arc<Alarms>>,
}

impl Alarm {
    /// Sets an alarm that calls `what`, if it still exists, at `due` or a little later.
    ///
    /// # Panics
    /// Panics if the service cannot be started.
    pub(crate) fn set(due: Instant, what: Weak<dyn Ring>) -> Alarm {
        match Alarm::begin(due, what, true) {
            Ok(alarm) => alarm,
            Err(error) => panic!("the thread that rings alarms cannot be started: {error}"),
        }
    }

    /// Sets an alarm that only helps out a timer of a worker. A run may count as stuck while it is
    /// set.
    ///
    /// # Errors
    /// Returns the system's error if the service cannot be started.
    pub(crate) fn set_aside(due: Instant, what: Weak<dyn Ring>) -> io::Result<Alarm> {
        Alarm::begin(due, what, false)
    }

    fn begin(due: Instant, what: Weak<dyn Ring>, is_awaited: bool) -> io::Result<Alarm> {
        #[cfg(feature = "sim")]
        if let Some(alarms) = simulated::alarms() {
            return Ok(Alarm { key: alarms.set(due, what), simulation: Some(alarms) });
        }
        let key = service().set_alarm(due, Due { what, is_awaited })?;
        Ok(Alarm {
            key,
            #[cfg(feature = "sim")]
            simulation: None,
        })
    }

    /// Returns the time of the alarm.
    pub(crate) fn due(&self) -> Instant {
        self.key.0
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        #[cfg(feature = "sim")]
        if let Some(alarms) = &self.simulation {
            return alarms.remove(&self.key);
        }
        let alarm = service().lock().alarms.remove(&self.key);
        drop(alarm);
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("due", &self.due()).finish()
    }
}

/// Returns the time of the next alarm that may end a wait. It may be past, if calls are being made
/// or soon will be. If this returns `None`, all effects of earlier alarms happened before the call.
pub(crate) fn next_due() -> Option<Instant> {
    service().lock().next_due()
}
