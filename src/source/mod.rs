//! Sources: anything that can be waited on, alone or several at once.
//!
//! # Terms
//! - A [`Source`] has items, one or many. Examples are a receiver, a task's handle, a timer, a
//!   semaphore, and user-defined types. Each item goes to exactly one waiter.
//! - To *take* an item is to receive it exclusively. A wait for several sources takes an item from
//!   one of them and nothing from the others.
//! - A source of the library *hands over* its items: it gives the item directly to the waiter whose
//!   turn it is. A user-defined source *notifies*: it reports that there may be an item, and the
//!   notified waiter looks again.
//!
//! # Examples
//! ```
//! use ecru::{Source, channel, source};
//! use std::time::Duration;
//!
//! let (sender, letters) = channel::unbounded();
//! sender.send("first").unwrap();
//!
//! // The item that arrives first wins; the other source loses nothing.
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
mod missed;
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
pub(crate) use missed::Missed;
pub(crate) use traits::wait_in_lists;
