//! Stack overflow.

/// Installs the handler.
pub(crate) fn install() {}

/// Gives this thread a stack for the handler.
#[inline]
pub(crate) fn ensure_alternate_stack() {}
