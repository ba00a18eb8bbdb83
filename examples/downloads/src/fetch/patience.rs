//! `Retry-After`: if a host sends it, all downloads from the host pause.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::trouble::Trouble;
use crate::runtime;

/// The longest time that a download waits. If a server asks for more, it gets no further requests
/// in this run.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The hosts that sent `Retry-After`.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    until: Mutex<HashMap<String, Instant>>,
    /// Whether there is any such host. Usually there is none, and the map is not locked.
    any: AtomicBool,
}

impl Patience {
    /// Makes downloads from `host` pause for `wait` from now on.
    pub(super) fn ask(&self, host: &str, wait: Duration) {
        let Some(until) = runtime::now().checked_add(wait).filter(|_| !wait.is_zero()) else {
            return;
        };
        let mut all = self.until.lock().expect("no panic under this lock");
        let known = all.entry(host.to_string()).or_insert(until);
        *known = until.max(*known);
        self.any.store(true, Ordering::Release);
    }

    /// Waits until a request to `host` is allowed.
    ///
    /// # Errors
    /// Returns an error if the wait is cancelled, and at once if it would be too long.
    pub(super) fn wait(&self, host: &str) -> Result<(), Trouble> {
        while self.any.load(Ordering::Acquire) {
            let left = self.left(host, runtime::now());
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

    /// The longest of several requested pauses applies, to that host only.
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
