//! The order in which a select tries and registers its arms.

use std::cell::Cell;

use super::arm::Attempt;
use crate::base::random::Order;
use crate::source::Arms;

/// The order in which a select tries and registers its arms.
pub(super) struct ArmOrder {
    /// Whether arms are tried in the order in which they are listed. Otherwise the order is random.
    biased: bool,
    /// The arm at which the next registration begins.
    first: Cell<usize>,
}

impl ArmOrder {
    #[inline(always)]
    pub(super) fn new(biased: bool) -> ArmOrder {
        ArmOrder { biased, first: Cell::new(0) }
    }

    /// Tries `count` arms until one of them has been done. Returns its output.
    #[inline(always)]
    pub(super) fn attempt_each<T>(
        &self,
        count: usize,
        attempt: impl Fn(usize) -> Attempt<T>,
    ) -> Option<T> {
        let order = if self.biased { Order::ascending(count) } else { Order::random(count) };
        let mut first = None;
        for index in order {
            first = first.or(Some(index));
            match attempt(index) {
                Attempt::Done(output) => return Some(output),
                Attempt::Nothing => {}
                // There is no value yet, but this arm gets its turn: the other arms are not tried,
                // and registration begins here. Otherwise two selects that always find something in
                // other arms would never meet.
                Attempt::Offer => {
                    first = Some(index);
                    break;
                }
            }
        }
        self.first.set(first.unwrap_or(0));
        None
    }

    /// Registers `count` arms until one of them is ready. Begins with the arm that was tried first.
    #[inline]
    pub(super) fn register<'a>(
        &self,
        count: usize,
        arms: &mut Arms<'a>,
        register: impl Fn(usize, &mut Arms<'a>),
    ) {
        let start = self.first.get();
        for index in (start..count).chain(0..start) {
            register(index, arms);
            if arms.is_ready() {
                return;
            }
        }
    }
}
