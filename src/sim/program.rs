//! A program as the search for failures sees it: something that can be run again and again.

use std::time::Duration;

use super::pilot::{Plan, Record};

/// What a run came to.
#[derive(Debug)]
pub(super) struct Outcome<F> {
    pub(super) failure: Option<F>,
    pub(super) record: Record,
    pub(super) hash: u64,
    pub(super) elapsed: Duration,
}

/// See the module. The search knows nothing of tasks, so its tests have small programs of another
/// kind.
pub(super) trait Program {
    type Failure;
    fn run(&self, seed: u64, plan: &Plan) -> Outcome<Self::Failure>;
    /// Whether two runs failed in the same way.
    fn is_same(&self, one: &Self::Failure, other: &Self::Failure) -> bool;
    /// Returns the failure of a program that has not failed, and whose second run was another one.
    fn not_deterministic(&self) -> Self::Failure;
    /// Sets whether the program reports its panics.
    fn be_quiet(&self, _is_quiet: bool) {}
}
