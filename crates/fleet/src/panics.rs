//! Panics of the program's code where the fleet calls it. They become errors, so that one job does
//! not end the task that hands out the others.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

/// Calls `f`. Returns the text of its panic, if it panics.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let text = text(&*payload);
        discard(payload);
        text
    })
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "with something that is no text".to_owned())
}

/// Drops what a panic has carried, which may panic again.
#[expect(clippy::mem_forget, reason = "the next payload would have to be dropped in the same way")]
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}
