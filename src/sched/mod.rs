//! Layer 5: what waits for what.
//!
//! - [`io`]: how a call waits for the kernel.

pub(crate) mod io;
