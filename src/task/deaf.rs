//! A report of tasks that ignore their cancellation and so keep their scope from ending.
//!
//! A loop that drops the error of a wait spins once its task is cancelled, because each wait
//! returns at once. Only refused waits are counted, so other tasks pay nothing.

use std::panic::Location;

use super::current::current_header;
use crate::base::report;

/// The number of refused waits after which a task is reported. Clean-up code that ends by itself
/// rarely reaches it.
const MANY: u16 = 10_000;

/// Counts a wait of the current task that a cancellation has refused. `place` is the wait's caller.
#[cold]
pub(super) fn count(place: &'static Location<'static>) {
    let Some(header) = current_header() else { return };
    let refused = &header.running().refused;
    // Counting stops here, so the report comes once.
    if refused.get() > MANY {
        return;
    }
    refused.set(refused.get() + 1);
    if refused.get() == MANY {
        // The caller of some waits is this library itself, such as of IO through `std`'s traits.
        // Their place is not reported.
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
