//! Several tasks at once.
//!
//! | | waits for | gives | the others |
//! |---|---|---|---|
//! | [`fn@zip`] | all, or the first failure | a tuple or `Vec` of values, or that failure | left alone |
//! | [`try_join_all`] | the same | the same | cancelled, not awaited |
//! | [`fn@first_ok`] | the first success, or all | that value, or the last failure | cancelled and awaited |
//! | [`first_ok_keep`] | the same | the same | left alone |
//! | [`join_all`] | all | a `Vec` of results | |
//! | [`JoinSet`] | one after another | results in the order in which they come | |
//! | [`join!`](crate::join) | all | a tuple of results | |
//!
//! # Words
//! - The tasks of `zip`, `try_join_all` and `first_ok` return `Result<T, E>`; a *failure* is an `Err`, or that there is no result (the
//!   task panicked, say), which `E` is made from: hence `E: From<JoinError>`. Asked about no tasks at all they fail with
//!   [`JoinError::Empty`](crate::JoinError::Empty).
//! - *First* and *last* are meant in time. Of tasks that had ended before the call nobody knows who was first; they count in the order
//!   in which they are listed.
//!
//! # Handles
//! They are taken by value or by reference ([`Joinable`]), in tuples of up to 8, arrays, `Vec`s, slices, and some iterators ([`Handles`]). A handle that
//! was lent stays good: a result that is not returned is still in it afterwards. So is every result when the *caller* is cancelled,
//! as with [`join`](crate::JoinHandle::join).
//!
//! # Panics of tasks
//! A panic that is waited for is a failure. One that comes later, of a task that was left alone, is its scope's, as if nobody had
//! asked. One of a task that was cancelled for losing is nobody's any more, unless it is joined.

// # How
// Each task gets an entry of one gathering among those who wait for its end; the caller parks, and whoever ends wakes it. No
// handle is polled, and each costs the same however many they are.

mod all;
mod first_ok;
mod handles;
mod join_macro;
mod join_set;
mod watch;
mod zip;

pub use self::zip::{Zip, zip};
pub use crate::scope::Joinable;
pub use all::{join_all, try_join_all};
pub use first_ok::{first_ok, first_ok_keep};
pub use handles::Handles;
#[doc(hidden)]
pub use join_macro::{__launch, __outcome};
pub use join_set::{AnyScope, JoinSet};
