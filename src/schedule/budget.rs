//! A limit on the retries of many calls together.

use std::fmt;
use std::sync::Arc;

use crate::base::sync::atomic::{AtomicU64, Ordering};

/// A limit on the retries of many calls together, so that retries do not add to the load of a server
/// that is overloaded already. Retries adapt to how the server does: while most calls succeed, those
/// that fail are retried. When most fail, the budget is soon used up, and failures are returned at
/// once.
///
/// A budget is a handle: a clone shares the same retries. Policies that call the same server share
/// one, see [`Retry::budget`](crate::Retry::budget). Two handles are equal if they share retries.
#[derive(Clone)]
pub struct RetryBudget {
    shared: Arc<Shared>,
}

struct Shared {
    /// A success adds one unit, and a retry takes `cost` of them.
    units: AtomicU64,
    cost: u64,
    most: u64,
}

impl RetryBudget {
    /// Creates a budget of `retries` retries. Each retry takes one. Every `successes` successes add
    /// one, up to `retries` again. With 0 `retries` nothing is ever retried.
    ///
    /// # Panics
    /// Panics if `successes` is 0, because such a budget would have no limit.
    ///
    /// # Examples
    /// ```
    /// use ecru::schedule::RetryBudget;
    ///
    /// // At most a tenth more calls, apart from the first hundred retries.
    /// let budget = RetryBudget::new(100, 10);
    /// assert_eq!(budget.retries(), 100);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new(retries: u32, successes: u32) -> RetryBudget {
        assert!(
            successes > 0,
            "a budget in which no success is needed for a retry has no limit; pass at least 1"
        );
        let cost = u64::from(successes);
        let most = u64::from(retries) * cost;
        RetryBudget { shared: Arc::new(Shared { units: AtomicU64::new(most), cost, most }) }
    }

    /// Returns the number of retries that are left.
    #[must_use]
    pub fn retries(&self) -> u32 {
        // Not more than the number that was passed to `new`.
        (self.shared.units.load(Ordering::Relaxed) / self.shared.cost) as u32
    }

    /// Counts a success.
    pub(super) fn succeeded(&self) {
        let Shared { units, most, .. } = &*self.shared;
        // While all goes well, the budget is full and only read, so workers do not contend for it.
        if units.load(Ordering::Relaxed) < *most {
            let _ = units.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |units| {
                (units < *most).then_some(units + 1)
            });
        }
    }

    /// Takes a retry. Returns whether there was one.
    pub(super) fn take(&self) -> bool {
        let Shared { units, cost, .. } = &*self.shared;
        let taken = units
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |units| units.checked_sub(*cost));
        taken.is_ok()
    }
}

impl PartialEq for RetryBudget {
    fn eq(&self, other: &RetryBudget) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for RetryBudget {}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget").field("retries", &self.retries()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
