//! ecru's own contenders, all on its public surface.

#[cfg(feature = "ecru")]
mod rows;

use crate::harness::Contender;

/// ecru's contender for a row; `None` where this build has none.
#[cfg(feature = "ecru")]
pub(crate) fn contender(family: &str, number: usize) -> Option<Contender> {
    rows::contender(family, number)
}

/// This build measures the peers alone.
#[cfg(not(feature = "ecru"))]
pub(crate) fn contender(_family: &str, _number: usize) -> Option<Contender> {
    None
}
