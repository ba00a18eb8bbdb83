//! Waiting for each other.

use std::fmt;

use super::line::{self, Ended, Wait};
use crate::base::sync::SpinLock;
use crate::park::{Mode, Queue, Role, Woken};
use crate::task::{self, Cancelled};

/// A place where so many wait until all of them are there. Then all go on, and it begins again.
///
/// As `std::sync::Barrier`, except that a wait is a cancel point: who is cancelled leaves, and somebody else has to come in its
/// place.
///
/// # Examples
/// ```
/// use ecru::sync::Barrier;
///
/// ecru::run(|| {
///     let all_here = Barrier::new(3);
///     let leaders = ecru::scope(|s| {
///         let tasks: Vec<_> = (0..3).map(|_| s.spawn(|| all_here.wait().unwrap().is_leader())).collect();
///         tasks.iter().filter(|task| task.join().unwrap()).count()
///     });
///     assert_eq!(leaders, 1);
/// });
/// ```
pub struct Barrier {
    /// How many have to come.
    count: usize,
    arrivals: SpinLock<Arrivals>,
}

struct Arrivals {
    /// Those of the present generation who are there.
    here: usize,
    generation: usize,
    line: Queue,
}

/// What a wait at a [`Barrier`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether this one was the last to come; one of each generation is.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Barrier {
    /// One for so many. For none or one, nobody waits.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(count: usize) -> Barrier {
        let arrivals = Arrivals { here: 0, generation: 0, line: Queue::new() };
        Barrier { count, arrivals: SpinLock::new(arrivals) }
    }

    /// One for so many. For none or one, nobody waits.
    #[must_use]
    #[cfg(loom)]
    pub fn new(count: usize) -> Barrier {
        let arrivals = Arrivals { here: 0, generation: 0, line: Queue::new() };
        Barrier { count, arrivals: SpinLock::new(arrivals) }
    }

    /// Waits until so many are here as the barrier is for.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled before they are.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point. Who is cancelled does not count any more: the others need one more to come. Once the last has come, all go on,
    /// cancelled or not.
    ///
    /// # Examples
    /// ```
    /// let nobody_else = ecru::sync::Barrier::new(1);
    /// assert!(nobody_else.wait().unwrap().is_leader());
    /// ```
    #[track_caller]
    pub fn wait(&self) -> Result<BarrierWaitResult, Cancelled> {
        self.wait_as(Mode::Cancellable)
    }

    #[track_caller]
    pub(super) fn wait_as(&self, mode: Mode) -> Result<BarrierWaitResult, Cancelled> {
        line::begin(mode)?;
        let mut woken = Woken::none();
        let mut arrivals = self.arrivals.lock();
        arrivals.here += 1;
        if arrivals.here >= self.count {
            arrivals.here = 0;
            arrivals.generation = arrivals.generation.wrapping_add(1);
            while arrivals.line.claim_first(&mut woken) {}
            return Ok(BarrierWaitResult { is_leader: true });
        }
        let generation = arrivals.generation;
        let ended = Wait::new("the others at a barrier", Role::Notify, mode).in_line(
            arrivals,
            |arrivals| &arrivals.line,
            || (),
            || self.arrivals.lock(),
        );
        if let Ended::Cancelled(mut arrivals) = ended
            // Otherwise the last came before this one had left, and counted on it.
            && arrivals.generation == generation
        {
            arrivals.here -= 1;
            drop(arrivals);
            return Err(task::cancelled_wait());
        }
        Ok(BarrierWaitResult { is_leader: false })
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("count", &self.count).finish_non_exhaustive()
    }
}
