//! Helpers of these attacks.

use std::panic::{self, AssertUnwindSafe};

pub(super) use crate::common::{OnDrop, each_run, ms, run_on};

/// Returns the text of the panic of `f`.
pub(super) fn panic_of<T>(f: impl FnOnce() -> T) -> Option<String> {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => None,
        Err(payload) => Some(text(&*payload)),
    }
}

fn text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "<no text>".into())
}
