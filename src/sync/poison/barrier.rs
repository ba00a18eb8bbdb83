//! `Barrier` with the signatures of `std`.

use super::BarrierWaitResult;
use crate::park::Mode;
use crate::sync::{self, line};

/// A barrier for several tasks or threads: [`std::sync::Barrier`], except that a wait parks the
/// task.
///
/// # Examples
/// ```
/// use ecru::sync::poison::Barrier;
/// use std::thread;
///
/// let n = 10;
/// let barrier = Barrier::new(n);
/// thread::scope(|s| {
///     for _ in 0..n {
///         s.spawn(|| {
///             println!("before wait");
///             barrier.wait();
///             println!("after wait");
///         });
///     }
/// });
/// ```
///
/// # Cancellation
/// A wait is not a cancellation point. The wait of [`ecru::sync::Barrier`](crate::sync::Barrier) is
/// one.
#[derive(Debug)]
pub struct Barrier(sync::Barrier);

impl Barrier {
    /// Creates a barrier for `n` parties. If `n <= 1`, [`wait`](Barrier::wait) returns at once.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::Barrier;
    ///
    /// let barrier = Barrier::new(10);
    /// # drop(barrier);
    /// ```
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(n: usize) -> Barrier {
        Barrier(sync::Barrier::new(n))
    }

    /// Creates a barrier for `n` parties. If `n <= 1`, [`wait`](Barrier::wait) returns at once.
    #[must_use]
    #[cfg(loom)]
    pub fn new(n: usize) -> Barrier {
        Barrier(sync::Barrier::new(n))
    }

    /// Gives the barrier a name, which [dumps](crate::diag) show. A barrier that has a name keeps it.
    /// `std` has no such method.
    ///
    /// # Examples
    /// ```
    /// let start = ecru::sync::poison::Barrier::new(1).named("start");
    /// assert!(start.wait().is_leader());
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Barrier {
        Barrier(self.0.named(name))
    }

    /// Waits until all parties have arrived. One of them is the
    /// [leader](BarrierWaitResult::is_leader).
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Examples
    /// ```
    /// let alone = ecru::sync::poison::Barrier::new(1);
    /// let barrier_wait_result = alone.wait();
    /// assert!(barrier_wait_result.is_leader());
    /// ```
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        let mut waited = self.0.wait_as(Mode::Unfailing);
        loop {
            match waited {
                Ok(result) => return result,
                Err(_) => waited = line::end_by_force(|mode| self.0.wait_as(mode)),
            }
        }
    }
}
