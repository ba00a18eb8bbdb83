//! What belongs to the thread of a simulation: its virtual clock, its alarms, and the numbers of
//! its tasks.
//!
//! Code that runs inside and outside of simulations asks here what differs between the two. With
//! the feature `sim`, [`on`] looks at the current thread. Without it there are no simulations, and
//! `off` has the same functions with constant answers. The compiler then removes the calls and the
//! branches that depend on them. What only simulations need has no counterpart in `off`, so code
//! that names it is compiled only with the feature.

#[cfg(feature = "sim")]
mod alarms;
#[cfg(not(feature = "sim"))]
mod off;
#[cfg(feature = "sim")]
mod on;
#[cfg(all(test, feature = "sim", not(loom)))]
mod tests;
#[cfg(feature = "sim")]
mod untaken;

#[cfg(feature = "sim")]
pub(in crate::base) use alarms::alarms;
#[cfg(feature = "sim")]
pub(crate) use alarms::{Alarms, next_alarm, ring_due, ring_soon};
#[cfg(not(feature = "sim"))]
pub(crate) use off::*;
#[cfg(feature = "sim")]
pub(crate) use on::*;
#[cfg(feature = "sim")]
pub(crate) use untaken::*;
