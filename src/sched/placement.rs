//! What the workers of a pool know when they choose where a task starts: which tasks are worth
//! moving, and which workers are idle. See [`super::placing`] for the choice.

use std::panic::Location;
use std::ptr;
use std::time::{Duration, Instant};

use crate::base::random;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// A task that lives for less than this after its first wait is not worth moving. Rows: `race-2`,
/// which a lower bound would move to the other core, and `placement-pool-late`.
pub(super) const SHORT: Duration = Duration::from_micros(100);
/// Of the tasks of a known site, one in this many is watched. Row: `placement-million-8`.
pub(super) const WATCHED_ONE_IN: u32 = 16;

/// Where tasks start.
///
/// # Examples
/// ```
/// use ecru::{Placement, Runtime};
///
/// // Tasks that exchange many messages stay on one worker.
/// let runtime = Runtime::builder().workers(2).placement(Placement::Together).build()?;
/// assert_eq!(runtime.run(|| ecru::spawn(|| 7).join().unwrap()), 7);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// A task that waits starts on a worker that has little to do. Any other task starts on the
    /// worker that spawned it, or on an idle worker. This is the default.
    #[default]
    Auto,
    /// A task starts on the worker that spawned it. Other workers take only tasks that had to wait
    /// for their start. Suits programs whose tasks communicate much and compute little.
    Together,
    /// Tasks are distributed to all workers in turn.
    Spread,
}

/// A point in time in units of 1,024 nanoseconds since the pool was made, modulo 2^32 (73 minutes).
/// Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u32);

impl Moment {
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    pub(super) fn at(now: Instant, epoch: Instant) -> Moment {
        let nanos = now.saturating_duration_since(epoch).as_nanos();
        Moment(((nanos >> 10) as u32).max(1))
    }

    pub(super) fn word(self) -> u32 {
        self.0
    }

    /// Returns how long before this moment the earlier one was. If that is more than 73 minutes,
    /// the result is too small by a multiple of 73 minutes, which costs one bad choice.
    pub(super) fn since(self, earlier: u32) -> Duration {
        Duration::from_nanos(u64::from(self.0.wrapping_sub(earlier)) << 10)
    }
}

/// What is known of tasks, by the source location that spawns them.
///
/// This is a direct-mapped table of one word for each location: its address, and a score. A task
/// that waits and lives for at least [`SHORT`] raises the score. Any other task lowers it. At zero
/// the tasks of the location are not worth moving. The pool's workers share the table. They write
/// to it only when a score changes. Once a location is known, they watch one task in
/// [`WATCHED_ONE_IN`].
#[derive(Debug)]
pub(super) struct Sites {
    slots: Box<[AtomicU64]>,
}

/// The size of the table, a power of two.
const SITES: usize = 256;
/// The score of an unknown location. This many short tasks make its tasks not worth moving, and a
/// long one outweighs them. Row: `race-2`.
pub(super) const SCORE_FIRST: u64 = 3;
const SCORE_BITS: u32 = 4;
const SCORE_MAX: u64 = (1 << SCORE_BITS) - 1;

impl Sites {
    pub(super) fn new() -> Sites {
        Sites { slots: (0..SITES).map(|_| AtomicU64::new(0)).collect() }
    }

    #[inline]
    fn slot(&self, site: &'static Location<'static>) -> (&AtomicU64, u64) {
        // A location is aligned to eight bytes, and takes up 24.
        let address = ptr::from_ref(site).addr() as u64;
        let index = (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        (&self.slots[index % SITES], address << SCORE_BITS)
    }

    /// Returns the score of a location.
    #[inline]
    pub(super) fn score(&self, site: &'static Location<'static>) -> u64 {
        let (slot, key) = self.slot(site);
        let word = slot.load(Ordering::Relaxed);
        if word & !SCORE_MAX == key { word & SCORE_MAX } else { SCORE_FIRST }
    }

    /// Records that a watched task of this location has ended.
    pub(super) fn note(&self, site: &'static Location<'static>, is_short: bool) {
        let (slot, key) = self.slot(site);
        let old = self.score(site);
        let new =
            if is_short { old.saturating_sub(1) } else { (old + SCORE_FIRST + 1).min(SCORE_MAX) };
        // If two workers do this at once, one of the two notes may be lost.
        if new != old || slot.load(Ordering::Relaxed) & !SCORE_MAX != key {
            slot.store(key | new, Ordering::Relaxed);
        }
    }
}

/// The set of idle workers, with one bit for each worker.
#[derive(Debug)]
pub(super) struct IdleSet {
    words: Box<[AtomicU64]>,
}

impl IdleSet {
    pub(super) fn new(workers: usize) -> IdleSet {
        IdleSet { words: (0..workers.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn insert(&self, index: usize) {
        self.words[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    /// Removes a worker. Returns whether it was in the set.
    pub(super) fn remove(&self, index: usize) -> bool {
        let bit = 1 << (index % 64);
        self.words[index / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Returns one idle worker. The search begins at a random place.
    #[inline]
    pub(super) fn any(&self) -> Option<usize> {
        if self.words.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
            return None;
        }
        let start = random::below(self.words.len() * 64);
        let turns = (start % 64) as u32;
        (0..self.words.len()).find_map(|step| {
            let place = (start / 64 + step) % self.words.len();
            let word = self.words[place].load(Ordering::Relaxed);
            let bit = (word.rotate_right(turns).trailing_zeros() + turns) % 64;
            (word != 0).then_some(place * 64 + bit as usize)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::Location;
    use std::time::{Duration, Instant};

    use super::{IdleSet, Moment, SCORE_FIRST, SCORE_MAX, SHORT, Sites};

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn short_lives_make_a_location_not_worth_moving_and_a_long_one_makes_it_worth_it_again() {
        let (sites, site, other) = (Sites::new(), here(), here());
        assert_eq!(sites.score(site), SCORE_FIRST);
        for left in (0..SCORE_FIRST).rev() {
            sites.note(site, true);
            assert_eq!(sites.score(site), left);
        }
        sites.note(site, true);
        assert_eq!(sites.score(site), 0);
        assert_ne!(sites.score(other), 0);
        sites.note(site, false);
        assert_ne!(sites.score(site), 0);
        for _ in 0..10 {
            sites.note(site, false);
        }
        assert_eq!(sites.score(site), SCORE_MAX);
    }

    #[test]
    fn an_idle_worker_is_found_wherever_it_is_and_is_claimed_once() {
        for workers in [1, 2, 63, 64, 65, 200] {
            let idle = IdleSet::new(workers);
            assert_eq!(idle.any(), None);
            for index in 0..workers {
                idle.insert(index);
                assert_eq!(idle.any(), Some(index));
                assert!(idle.remove(index));
                assert!(!idle.remove(index));
            }
            (0..workers).for_each(|index| idle.insert(index));
            let mut found: Vec<_> = (0..workers)
                .map(|_| {
                    let index = idle.any().unwrap();
                    assert!(idle.remove(index));
                    index
                })
                .collect();
            found.sort_unstable();
            assert_eq!(found, Vec::from_iter(0..workers));
            assert_eq!(idle.any(), None);
        }
    }

    #[test]
    fn moments_are_compared_across_the_end_of_their_range() {
        let epoch = Instant::now();
        let range = Duration::from_nanos(1 << 42);
        let at = |after| Moment::at(epoch + after, epoch);
        assert_ne!(at(Duration::ZERO).word(), 0);
        for start in [Duration::from_secs(1), range - SHORT / 4] {
            let earlier = at(start).word();
            assert!(at(start + SHORT / 2).since(earlier) < SHORT);
            assert!(at(start + SHORT * 2).since(earlier) >= SHORT);
            assert!(at(start + SHORT * 20).since(earlier) >= SHORT * 10);
        }
    }
}
