//! A histogram of times, whose relative error is bounded.

use std::fmt;
use std::time::Duration;

/// Each power of two is split into so many parts.
const PARTS_BITS: u32 = 4;
const PARTS: u64 = 1 << PARTS_BITS;

/// A histogram of times, from a nanosecond to centuries. A time is counted with an error of at most
/// one part in 16.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let mut times = ecru::diag::Histogram::default();
/// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
/// assert_eq!(times.count(), 100);
/// assert!(times.quantile(0.5) >= Duration::from_millis(50));
/// assert!(times.quantile(0.5) < Duration::from_millis(54));
/// assert_eq!(times.quantile(1.0), Duration::from_millis(100));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The counts of the buckets, up to the last that is not 0.
    counts: Vec<u64>,
    count: u64,
    sum: Duration,
    max: Duration,
}

impl Histogram {
    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        let bucket = bucket_of(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(time);
        self.max = self.max.max(time);
    }

    /// Returns the number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the times.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns the longest time, exactly. It is zero if there is none.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns a time that is not exceeded by this share of the times, from 0 to 1: the upper end of
    /// its bucket. It is zero if there is none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(end_of(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// Returns how many times are surely not longer than the limit.
    pub(super) fn up_to(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let whole = self.counts.iter().enumerate().filter(|(bucket, _)| end_of(*bucket) <= limit);
        whole.map(|(_, count)| count).sum()
    }
}

/// Returns the bucket of a number of nanoseconds. The first 16 buckets have one number each.
fn bucket_of(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - PARTS_BITS;
    let part = (nanos >> shift) - PARTS;
    (PARTS + u64::from(shift) * PARTS + part) as usize
}

/// Returns the largest number of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (shift, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    ((PARTS + part) << shift) + ((1 << shift) - 1)
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max)
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Histogram, bucket_of, end_of};
    use std::time::Duration;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for bucket in 0..900 {
            let end = end_of(bucket);
            assert_eq!((bucket_of(end), bucket_of(end + 1)), (bucket, bucket + 1));
            let begin = if bucket == 0 { 0 } else { end_of(bucket - 1) + 1 };
            assert!((end - begin) * 16 <= begin.max(1), "{begin}..={end}");
        }
        assert_eq!(end_of(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile(0.5), Duration::ZERO);
        for nanos in 0..10_000 {
            times.add(Duration::from_nanos(nanos));
        }
        for (share, exact) in [(0.0, 0), (0.5, 4999), (0.9, 8999), (0.999, 9989), (1.0, 9999)] {
            let found = times.quantile(share).as_nanos() as u64;
            assert!(found >= exact && found <= exact + exact / 16, "{share}: {found}");
        }
        assert_eq!(times.up_to(Duration::from_secs(1)), 10_000);
        assert_eq!((times.up_to(Duration::ZERO), times.max().as_nanos()), (1, 9999));
    }
}
