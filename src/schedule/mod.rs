//! Doing something again, after a pause.
//!
//! # Words
//! - A *run* is one call of the closure. The first run is made at once.
//! - A *pause* lies between two runs: from the end of one to the beginning of the next, however long a run takes. There is none
//!   after the last run.
//! - A *failure* is a run that returned `Err`. A panic is none: it ends everything and goes on to the caller.
//!
//! # Which one
//! | | runs again | gives | pauses |
//! |---|---|---|---|
//! | [`Schedule::every`] | always | what the last run returned | the same each time |
//! | [`Schedule::exponential`] | always | the same | growing by a factor: 1, 2, 4, 8 .. |
//! | [`Schedule::fibonacci`] | always | the same | growing more slowly: 1, 1, 2, 3, 5 .. |
//! | [`Schedule::until_ok`], [`Schedule::until_err`] | until the result is of that kind | the same | the same each time |
//! | [`Retry::until_ok`] | after a failure | the first `Ok`, or the last `Err` | a [`Delay`] that grows with the failures |
//! | [`Retry::repeat`] | also after a success | the last `Err` | the same |
//!
//! A schedule counts runs, and its own trouble (a cancelled pause) is separate from what the closure returns. A retry counts failures in
//! a row, and returns the closure's own error type, so that `?` after it is all there is to write.
//!
//! Everything runs in place: no task is spawned, and the closure may borrow. Pauses are [`sleep`](crate::sleep)s: on a plain
//! thread they block it, and in a task the others go on.

mod delay;
mod jitter;
mod pauses;
mod repeat;
mod retry;
mod until;

pub use delay::Delay;
pub use jitter::Jitter;
pub use pauses::Pauses;
pub use repeat::Schedule;
pub use retry::Retry;
pub use until::Until;
