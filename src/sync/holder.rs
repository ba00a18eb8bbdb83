//! The holders of locks and permits, as a dump names them. A holder is noted in the object's [`Tag`]
//! where `park::explains` says so: in builds with `debug_assertions`, in a simulation, and on the
//! workers of a run with an inspect socket, a watchdog, a recorder, a signal for dumps, or a check for
//! deadlocks. Elsewhere an object has no holders to name, and its fast paths look at one flag of the
//! thread.
//!
//! The state of a lock with noted holders has a bit `NOTED`, with which the fast path of `unlock`
//! fails. So an unlock need not ask. The bit is a hint: a lock works as well if it is wrong.

use std::panic::Location;

use crate::base::simulated;
use crate::base::tag::Tag;
use crate::park::{About, Object};
use crate::task;

/// Notes the caller as a holder, at its caller's place. Returns the number of the note, or 0.
#[cold]
#[track_caller]
pub(super) fn note(tag: &Tag) -> u32 {
    tag.hold(task::current_identity(), Location::caller())
}

/// Forgets that the caller is a holder.
#[cold]
pub(super) fn forget_own(tag: &Tag) {
    tag.release_one_of(task::current_identity());
}

/// Describes an object by its name, its address, and its state.
pub(super) fn describe(object: *const (), tag: &Tag, state: &str) -> Object {
    let address = simulated::object_name(object);
    let name = tag.name().map(String::from);
    let mut text = String::from("(");
    if let Some(name) = &name {
        text.push_str(&format!("'{}', ", name.escape_debug()));
    }
    text.push_str(&address);
    if !state.is_empty() {
        text.extend([", ", state]);
    }
    text.push(')');
    Object { text, name, ..Object::default() }
}

/// Describes an object that no task or thread holds.
pub(super) fn about(object: *const (), tag: &Tag, state: &str) -> About {
    About::Object(Box::new(describe(object, tag, state)))
}
