//! The holders of an object, in words.

use std::fmt::Write;

use super::TaskId;
use super::current::task_of;
use crate::park::Object;

/// Returns the text about the holders of an object, which follows its description. It is empty if
/// none is noted. `describe` describes a task.
pub(crate) fn describe_holders(object: &Object, describe: impl Fn(TaskId) -> String) -> String {
    let mut text = String::new();
    for (number, hold) in object.holds.iter().enumerate() {
        let holder = task_of(hold.identity);
        let holder = holder.map_or_else(|| "a thread".into(), &describe);
        // Writing to a string does not fail.
        let _ = match (hold.at, number) {
            (None, _) => write!(text, ", by {holder}"),
            (Some(at), _) if !hold.is_noted() => write!(text, ", by {holder} at {at}"),
            (Some(at), 0) => write!(text, ", held by {holder} since {at}"),
            (Some(at), _) => write!(text, ", {holder} since {at}"),
        };
    }
    let noted = object.holds.len();
    if let Some(more) = object.holders.and_then(|all| all.checked_sub(noted))
        && noted > 0
        && more > 0
    {
        let _ = write!(text, ", and {more} more");
    }
    text
}
