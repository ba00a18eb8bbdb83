//! Repeating something with pauses in between.
//!
//! # Words
//! - A *run* is one call of the closure. The first run is made at once.
//! - A *pause* lies between two runs: from the end of one to the beginning of the next, however
//!   long a run takes. There is no pause after the last run.
//! - A *failure* is a run that returned `Err`. A panic is not a failure: it ends the repetition and
//!   continues in the caller.
//!
//! # Overview
//! | | runs again | returns | pauses |
//! |---|---|---|---|
//! | [`Schedule::every`] | always | the last result | the same each time |
//! | [`Schedule::exponential`] | always | the last result | growing by a factor: 1, 2, 4, 8 .. |
//! | [`Schedule::fibonacci`] | always | the last result | growing more slowly: 1, 1, 2, 3, 5 .. |
//! | [`Schedule::until_ok`] | until `Ok` | the last result | the same each time |
//! | [`Schedule::until_err`] | until `Err` | the last result | the same each time |
//! | [`Retry::until_ok`] | after a failure | the first `Ok`, or the last `Err` | a [`Delay`] |
//! | [`Retry::repeat`] | also after a success | the last `Err` | a [`Delay`] |
//!
//! A schedule counts runs. It reports the cancellation of a pause separately from what the closure
//! returns. A retry counts consecutive failures, and its [`Delay`] may grow with them. It returns
//! the closure's own error type, so the caller only needs one `?`. [`Retry::when`] chooses which
//! failures are retried, and a [`RetryBudget`] limits the retries of many calls together.
//!
//! Everything runs in place: no task is spawned, and the closure may borrow. Pauses are calls of
//! [`sleep`](crate::sleep). On a plain thread they block it, and in a task they let other tasks
//! run.

mod budget;
mod delay;
mod jitter;
mod pauses;
mod repeat;
mod retry;
mod retry_when;
mod until;

pub use budget::RetryBudget;
pub use delay::Delay;
pub use jitter::Jitter;
pub use pauses::Pauses;
pub use repeat::Schedule;
pub use retry::Retry;
pub use retry_when::RetryWhen;
pub use until::Until;
