//! Anything that can be waited on, and several of them at once.
//!
//! # Words
//! - A [`Source`] has items, one after another or one only: a receiver, a handle of a task, a timer, a semaphore, a type of yours.
//!   Each item goes to exactly one of those who wait.
//! - To *take* an item is to have it, and nobody else will. Who waits for several sources takes from one; from the others
//!   nothing has been taken.
//! - A source of the library *hands over*: it gives the item to the one who waits and whose turn it is. A source of yours
//!   *notifies*: it says that there is something, and whoever was told looks again.
//!
//! # Examples
//! ```
//! use ecru::{Source, channel, source};
//! use std::time::Duration;
//!
//! let (sender, letters) = channel::unbounded();
//! sender.send("first").unwrap();
//!
//! // Whichever comes first; the other loses nothing.
//! let winner = source::either(&letters, channel::after(Duration::from_secs(3600)));
//! match winner.wait().unwrap() {
//!     source::Either::Left(letter) => assert_eq!(letter, Ok("first")),
//!     source::Either::Right(_) => panic!("nothing came within an hour"),
//! }
//! ```

mod arms;
mod callback;
mod choose;
mod filter;
mod future;
mod map;
mod pair;
mod race;
mod simple;
mod standing;
mod traits;

pub use crate::park::WaitList;
pub use callback::Subscription;
pub use filter::Filter;
#[doc(hidden)]
pub use filter::Selective;
pub use future::SourceFuture;
pub use map::Map;
pub use pair::{Either, EitherSource, Or, either};
pub use race::{Race, RaceIndexed, race, race_indexed};
pub use simple::{FromIter, Never, Ready, from_iter, never, ready};
pub use traits::Source;

pub(crate) use arms::{Arms, Pass, Won};
pub(crate) use callback::{End, Finish, Pending};
pub(crate) use choose::{Choice, Chosen, at_once, choose};
pub(crate) use filter::Asked;
pub(crate) use traits::wait_in_lists;
