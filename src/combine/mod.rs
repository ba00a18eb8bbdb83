//! Waiting for several tasks at once.
//!
//! | | waits for | returns | the other tasks |
//! |---|---|---|---|
//! | [`fn@zip`] | all or the first failure | values or the failure | run on |
//! | [`try_join_all`] | all or the first failure | values or the failure | cancelled, not awaited |
//! | [`fn@first_ok`] | the first success or all | value or the last failure | cancelled and awaited |
//! | [`first_ok_keep`] | the first success or all | value or the last failure | run on |
//! | [`join_all`] | all | a `Vec` of results | |
//! | [`JoinSet`] | one after another | results in the order in which tasks end | |
//! | [`join!`](crate::join) | all | a tuple of results | |
//!
//! # Words
//! - The tasks of `zip`, `try_join_all` and `first_ok` return `Result<T, E>`. A *failure* is an
//!   `Err`, or a task without a result, for example one that panicked. `E` is made from the latter,
//!   hence the bound `E: From<JoinError>`. Without any handle these functions fail with
//!   [`JoinError::Empty`](crate::JoinError::Empty).
//! - *First* and *last* refer to time. The order of tasks that had ended before the call is
//!   unknown, so they count in the order of the handles.
//!
//! # Handles
//! Handles are passed by value or by reference ([`Joinable`]), in tuples of up to 8, arrays,
//! `Vec`s, slices, and some iterators ([`Handles`]). A handle that was passed by reference can
//! still be used: a result that is not returned is still in it afterwards. If the *caller* is
//! cancelled, all results stay in their handles, as with [`join`](crate::JoinHandle::join).
//!
//! # Panics of tasks
//! A panic of a task that is waited for is a failure. If a task that runs on panics later, the
//! panic goes to its scope, as if the task had not been passed to a combinator. The panic of a task
//! that was cancelled because another one decided the outcome is ignored, unless the task is
//! joined.

// # Implementation
// `engine` is the wait for several tasks. `handles` has the lists that can be passed. The other
// files decide what happens when a task ends.

mod all;
mod engine;
mod first_ok;
mod handles;
mod join_macro;
mod join_set;
mod zip;

pub use self::zip::{Zip, zip};
pub use crate::scope::Joinable;
pub use all::{join_all, try_join_all};
pub use first_ok::{first_ok, first_ok_keep};
pub use handles::Handles;
#[doc(hidden)]
pub use join_macro::{__launch, __outcome};
pub use join_set::{AnyScope, JoinSet};
