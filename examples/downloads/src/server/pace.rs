//! The limit of a response's rate: at every moment at most `rate * elapsed` bytes have been sent,
//! counted from its start.

use std::time::{Duration, Instant};

/// The number of pieces per second for a response: enough for a smooth bar, and few enough for
/// thousands of responses.
const PIECES_PER_SECOND: u64 = 10;

/// No piece is longer than this, however high the rate.
const PIECE_MAX: u64 = 256 * 1024;

/// The clock of one response.
#[derive(Debug)]
pub(super) struct Pace {
    rate: u64,
    piece: u64,
    started: Instant,
    sent: u64,
}

impl Pace {
    pub(super) fn new(rate: u64, started: Instant) -> Self {
        Self { rate, piece: (rate / PIECES_PER_SECOND).clamp(1, PIECE_MAX), started, sent: 0 }
    }

    /// Returns the length of the next piece when `left` bytes remain, and when it may be sent.
    ///
    /// At that moment the whole piece is within the limit. The last byte of a response of `n` bytes
    /// is therefore sent `n / rate` after its start, and never earlier.
    pub(super) fn next(&self, left: u64) -> (u64, Instant) {
        let piece = self.piece.min(left);
        let nanoseconds = u128::from(self.sent + piece) * 1_000_000_000 / u128::from(self.rate) + 1;
        let after = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        (piece, self.started + after)
    }

    pub(super) fn sent(&mut self, count: u64) {
        self.sent += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit holds for each piece, and the last byte is sent at size / rate, not later.
    #[test]
    fn never_more_than_rate_times_elapsed() {
        let start = Instant::now();
        for (size, rate) in
            [(6_000_000, 500_000), (1_000, 7), (10_000_000, 3_000_000_000_u64), (1, 1)]
        {
            let mut pace = Pace::new(rate, start);
            let mut sent = 0;
            let mut last = start;
            while sent < size {
                let (piece, at) = pace.next(size - sent);
                assert!(piece > 0);
                pace.sent(piece);
                sent += piece;
                last = at;
                let allowed = (at - start).as_nanos() * u128::from(rate) / 1_000_000_000;
                assert!(u128::from(sent) <= allowed, "{sent} sent, {allowed} allowed");
            }
            let ideal = Duration::from_secs_f64(size as f64 / rate as f64);
            assert!((last - start).abs_diff(ideal) < Duration::from_micros(1));
        }
    }
}
