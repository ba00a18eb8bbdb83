//! What a wait in a channel is for, as a dump shows it.
#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::any::type_name;
use std::ptr;

use super::core::ChannelGuard;
use crate::base::simulated;
use crate::park::{About, Mode, Queue, Role, Wait, What};

/// Describes a channel by its name and capacity.
fn describe<T>(channel: *const (), capacity: usize) -> About {
    let kind = match capacity {
        usize::MAX => String::from("unbounded"),
        capacity => format!("bounded({capacity})"),
    };
    About::Object(format!("of {} ({kind}, {})", type_name::<T>(), simulated::object_name(channel)))
}

/// What waits in a channel are for.
impl<T> ChannelGuard<'_, T> {
    // SAFETY: O1: only the address of the object is used.
    pub(super) const ROOM: &'static What =
        &unsafe { What::about(|at, capacity| ("room in a channel", describe::<T>(at, capacity))) }
            .briefly("room in a channel");
    // SAFETY: O1: only the address of the object is used.
    pub(super) const A_VALUE: &'static What = &unsafe {
        What::about(|at, capacity| ("a value from a channel", describe::<T>(at, capacity)))
    }
    .briefly("a value from a channel");
    // SAFETY: O1: only the address of the object is used.
    pub(super) const AN_OFFER: &'static What = &unsafe {
        What::about(|at, capacity| {
            ("a value that a select is making for a channel", describe::<T>(at, capacity))
        })
    }
    .briefly("a value that a select is making for a channel");

    /// Returns a wait in one of the channel's lines.
    #[inline(always)]
    pub(super) fn wait(&self, what: &'static What, role: Role, mode: Mode) -> Wait {
        let object = ptr::from_ref::<Queue>(&self.receivers).cast();
        Wait { role, object, detail: self.state.capacity, ..Wait::new(what, mode) }
    }
}
