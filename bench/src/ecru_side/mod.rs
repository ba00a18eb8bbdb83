//! ecru's own contenders, all on its public API.

#[cfg(feature = "ecru")]
mod channels;
#[cfg(feature = "ecru")]
mod files;
#[cfg(feature = "ecru")]
mod gears;
#[cfg(feature = "ecru")]
mod pair;
#[cfg(feature = "ecru")]
mod rows;
#[cfg(feature = "ecru")]
mod servers;

use crate::harness::Contender;
#[cfg(feature = "ecru")]
use crate::rows::measure_program;

/// Returns ecru's contenders for a row, with the contender of the goals first. There are none if
/// this build measures the peers alone.
#[cfg(feature = "ecru")]
pub(crate) fn contenders(family: &str, number: usize) -> Vec<Contender> {
    let one = rows::contender(family, number).or_else(|| channels::contender(family, number));
    one.into_iter()
        .chain(rows::of_futures(family, number))
        .chain(servers::contenders(family, number))
        .chain(files::contenders(family, number))
        .chain(gears::contenders(family))
        .chain(measure_program(family))
        .collect()
}

/// This build measures the peers alone.
#[cfg(not(feature = "ecru"))]
pub(crate) fn contenders(_family: &str, _number: usize) -> Vec<Contender> {
    Vec::new()
}
