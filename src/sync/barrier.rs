//! A barrier at which several tasks or threads wait for each other.

#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::fmt;
use std::ptr;

use super::{holder, line};
use crate::base::sync::SpinLock;
use crate::base::tag::Tag;
use crate::park::{About, Mode, Outcome, Queue, Wait, What, Woken};
use crate::task::{self, Cancelled};

/// A barrier: tasks or threads wait at it until a fixed number of parties has arrived. Then all of
/// them continue, and the barrier can be used again.
///
/// It works like `std::sync::Barrier`, except that a wait is a cancellation point. A cancelled
/// waiter leaves the barrier, which then needs another party.
///
/// # Examples
/// ```
/// use ecru::sync::Barrier;
///
/// ecru::run(|| {
///     let all_here = Barrier::new(3);
///     let leaders = ecru::scope(|s| {
///         let tasks: Vec<_> =
///             (0..3).map(|_| s.spawn(|| all_here.wait().unwrap().is_leader())).collect();
///         tasks.iter().filter(|task| task.join().unwrap()).count()
///     });
///     assert_eq!(leaders, 1);
/// });
/// ```
pub struct Barrier {
    /// The number of parties.
    count: usize,
    arrivals: SpinLock<Arrivals>,
    tag: Tag,
}

/// A wait for the other parties of a barrier.
// SAFETY: O1: the object is the barrier, which the wait borrows.
static THE_OTHERS: What = unsafe { What::about("the others at a barrier", describe) };

/// # Safety
/// O1: `barrier` is a [`Barrier`].
unsafe fn describe(barrier: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*barrier.cast::<Barrier>() };
    // No code of the user runs under this lock.
    let state = format!("{} of {} are here", this.arrivals.lock().here, this.count);
    ("the others at a barrier", holder::about(barrier, &this.tag, &state))
}

struct Arrivals {
    /// The number of parties of the current generation that have arrived.
    here: usize,
    generation: usize,
    line: Queue,
}

/// The result of a wait at a [`Barrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Returns whether this party arrived last. Exactly one party of each generation is the leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Barrier {
    /// Creates a barrier for `count` parties. If `count <= 1`, [`wait`](Barrier::wait) returns at
    /// once.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(count: usize) -> Barrier {
        let arrivals = Arrivals { here: 0, generation: 0, line: Queue::new() };
        Barrier { count, arrivals: SpinLock::new(arrivals), tag: Tag::new() }
    }

    /// Creates a barrier for `count` parties. If `count <= 1`, [`wait`](Barrier::wait) returns at
    /// once.
    #[must_use]
    #[cfg(loom)]
    pub fn new(count: usize) -> Barrier {
        let arrivals = Arrivals { here: 0, generation: 0, line: Queue::new() };
        Barrier { count, arrivals: SpinLock::new(arrivals), tag: Tag::new() }
    }

    /// Gives the barrier a name, which [dumps](crate::diag) show. A barrier that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let start = ecru::sync::Barrier::new(1).named("start");
    /// assert!(start.wait().unwrap().is_leader());
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Barrier {
        self.tag.set_name(name.as_ref());
        self
    }

    /// Waits until all parties have arrived.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled before the last party arrives.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled waiter leaves the barrier, which then needs
    /// another party. Once the last party has arrived, all of them continue, cancelled or not.
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
        let object = ptr::from_ref(self).cast();
        let ended = Wait { object, ..Wait::new(&THE_OTHERS, mode) }.in_line(
            arrivals,
            |arrivals| &arrivals.line,
            || (),
            || self.arrivals.lock(),
        );
        if let Outcome::Cancelled(mut arrivals) = ended
            // If the generation has changed, the last party arrived before this one left and
            // counted it.
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
