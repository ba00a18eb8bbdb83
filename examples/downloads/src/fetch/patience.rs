//! `Retry-After`: a host that asks for patience is left alone by all its downloads.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::trouble::Trouble;
use crate::runtime;

/// The longest time that a download waits. A server that asks for more is not asked again in this run.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The hosts that asked for patience.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    until: Mutex<HashMap<String, Instant>>,
    /// Whether there is any such host. Usually there is none, and the map is left alone.
    any: AtomicBool,
}

impl Patience {
    /// Leaves `host` alone for `wait` from now on.
    pub(super) fn ask(&self, host: &str, wait: Duration) {
        let Some(until) = Instant::now().checked_add(wait).filter(|_| !wait.is_zero()) else {
            return;
        };
        let mut all = self.until.lock().expect("no panic under this lock");
        let known = all.entry(host.to_string()).or_insert(until);
        *known = until.max(*known);
        self.any.store(true, Ordering::Release);
    }

    /// Waits until `host` may be asked.
    ///
    /// # Errors
    /// Fails if the wait is cancelled, and at once if it would be too long.
    pub(super) fn wait(&self, host: &str) -> Result<(), Trouble> {
        while self.any.load(Ordering::Acquire) {
            let left = self.left(host, Instant::now());
            if left.is_zero() {
                break;
            }
            if left > WAIT_MAX {
                return Err(Trouble::patience(left));
            }
            runtime::sleep(left).map_err(|_| Trouble::Cancelled)?;
        }
        Ok(())
    }

    fn left(&self, host: &str, now: Instant) -> Duration {
        let all = self.until.lock().expect("no panic under this lock");
        all.get(host).map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest of several wishes counts, for the host that had it.
    #[test]
    fn wishes() {
        let patience = Patience::default();
        let now = Instant::now();
        for seconds in [3, 7, 0] {
            patience.ask("a", Duration::from_secs(seconds));
        }
        assert!(patience.left("a", now) >= Duration::from_secs(7));
        assert_eq!(patience.left("b", now), Duration::ZERO);
        patience.ask("c", Duration::from_secs(86_400));
        assert!(patience.wait("c").is_err());
        patience.ask("d", Duration::MAX);
    }
}
