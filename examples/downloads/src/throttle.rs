//! `--limit-rate`: a limit on the bytes per second that all downloads together receive.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::runtime::{self, Cancelled};

/// The number of turns per second, large enough for a steady stream.
const TURNS_PER_SECOND: u64 = 50;

/// Hands out permission to read, at a steady rate, in the order of the requests.
#[derive(Debug)]
pub(crate) struct Throttle {
    rate: u64,
    /// The moment when all permissions handed out so far are paid for.
    paid: Mutex<Instant>,
}

impl Throttle {
    /// Creates a throttle for `rate` bytes per second, which must not be 0.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, paid: Mutex::new(runtime::now()) }
    }

    /// Waits until up to `wanted` bytes may be read, and returns how many.
    ///
    /// # Errors
    /// Fails if the wait is cancelled.
    pub(crate) fn take(&self, wanted: usize) -> Result<usize, Cancelled> {
        let (bytes, at) = self.reserve(wanted, runtime::now());
        let pause = at.saturating_duration_since(runtime::now());
        if !pause.is_zero() {
            runtime::sleep(pause)?;
        }
        Ok(bytes)
    }

    /// Returns permission for bytes that did not come.
    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            let mut paid = self.paid.lock().expect("no panic under this lock");
            *paid = paid.checked_sub(self.lasts(bytes)).unwrap_or(*paid);
        }
    }

    fn reserve(&self, wanted: usize, now: Instant) -> (usize, Instant) {
        let turn = usize::try_from(self.rate / TURNS_PER_SECOND).unwrap_or(usize::MAX).max(1);
        let bytes = wanted.min(turn);
        let mut paid = self.paid.lock().expect("no panic under this lock");
        *paid = (*paid).max(now) + self.lasts(bytes);
        (bytes, *paid)
    }

    fn lasts(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64).mul_f64(1e9 / self.rate as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At no moment is more handed out than the rate allows. Returned permission can be taken
    /// again.
    #[test]
    fn never_more_than_the_rate() {
        let start = Instant::now();
        let throttle = Throttle { rate: 1000, paid: Mutex::new(start) };
        let mut total = 0;
        for _ in 0..100 {
            let (bytes, at) = throttle.reserve(1 << 20, start);
            assert_eq!(bytes, 20);
            total += bytes;
            let allowed = (at - start).as_secs_f64() * 1000.0;
            assert!(total as f64 <= allowed + 0.001, "{total} of {allowed}");
        }
        throttle.give_back(1000);
        assert_eq!(throttle.reserve(20, start).1 - start, Duration::from_millis(1020));
    }
}
