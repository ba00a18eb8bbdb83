//! Names a task that ignores its cancellation, and so keeps its scope from ending.
//!
//! A loop around a wait whose error is dropped spins from the cancellation on: each wait returns at once. Only waits that are refused
//! are counted, so others pay nothing.

use std::panic::Location;

use super::current::current_header;
use crate::base::report;

/// A task that has been refused so many waits is named. A clean-up that ends by itself hardly has as many.
const MANY: u32 = 10_000;

/// Counts a wait of the current task, called at `place`, which a cancellation has refused.
#[cold]
pub(super) fn count(place: &'static Location<'static>) {
    let Some(header) = current_header() else { return };
    let refused = &header.running().refused;
    // It stops there: the line comes once.
    if refused.get() > MANY {
        return;
    }
    refused.set(refused.get() + 1);
    if refused.get() == MANY {
        // Some waits have no caller but this library, as those of IO through `std`'s traits.
        let own = file!().strip_suffix("task/deaf.rs").unwrap_or(file!());
        let at = match place.file().starts_with(own) {
            true => String::new(),
            false => format!(", the last one at {place}"),
        };
        report::say(format!(
            "ecru: {} ignores its cancellation: {MANY} waits of it have returned `Cancelled`{at}. Its scope cannot end before it \
             does: leave the loop when a wait returns `Cancelled`",
            header.description(),
        ));
    }
}
