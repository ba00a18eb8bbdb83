//! Direct-style structured concurrency.
mod base;
mod driver;
pub mod net;
mod sched;

pub use driver::DriverKind;
