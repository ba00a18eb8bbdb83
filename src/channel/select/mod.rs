//! Waiting for several sends and receives, and performing the first that is possible.
//!
//! [`select!`](crate::select) is for a fixed number of arms, [`Select`] for any other. Both are
//! [`choose`] over arms, where the protocol is described. The result of a receive arm is the value.
//! The result of a send arm is the right to send one.
//!
//! [`choose`]: crate::source

mod arm;
mod choices;
mod dynamic;
mod errors;
mod list;
mod macros;
mod operation;
mod order;
mod selected;

pub use dynamic::Select;
pub use errors::{ReadyTimeoutError, SelectTimeoutError, TryReadyError, TrySelectError};
#[doc(no_inline)]
pub use macros::{select, select_biased};
pub use selected::SelectedOperation;

/// The items that `select!` expands to.
#[doc(hidden)]
pub mod expansion {
    pub use super::arm::{Arm, Attempt, Grant, IfArm, RecvArm, ReserveArm, SendArm, WaitArm};
    pub use super::list::{ArmList, Both, How, NoArm, NoMoreArms, Pick, Selection, run};
}
