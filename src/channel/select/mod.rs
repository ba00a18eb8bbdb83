//! One of several sends and receives, whichever can be done first.
//!
//! [`select!`](crate::select) where the number of arms is known, [`Select`] where it is not. Both are [`choose`]
//! over arms; see there for the protocol. What an arm gives is, for a receive, the value; for a send, the right to send
//! one.
//!
//! [`choose`]: crate::source

mod arm;
mod dynamic;
mod errors;
mod list;
mod macros;

pub use dynamic::{Select, SelectedOperation};
pub use errors::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
#[doc(no_inline)]
pub use macros::{select, select_biased};

/// What `select!` expands to.
#[doc(hidden)]
pub mod expansion {
    pub use super::arm::{Arm, Attempt, Grant, RecvArm, SendArm, WaitArm};
    pub use super::list::{ArmList, Both, End, How, NoArm, Outcome, Pick, run};
}
