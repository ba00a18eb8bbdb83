//! What a wait in a channel is for, as a dump shows it.
#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::any::type_name;
use std::ptr;

use super::core::{Channel, ChannelGuard};
use super::state::{ChannelKind, ChannelState};
use crate::base::simulated;
use crate::base::sync::atomic::Ordering;
use crate::park::{About, HandleWord, Mode, Object, Role, Wait, What};

/// Describes a channel.
///
/// # Safety
/// O1: `channel` is a [`Channel`] of this type.
unsafe fn describe<T>(channel: *const (), capacity: usize) -> About {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*channel.cast::<Channel<T>>() };
    About::Object(Box::new(describe_channel(this, capacity)))
}

/// Describes a channel by its name, kind and capacity, the number of values in it, and the numbers
/// of its senders and receivers.
fn describe_channel<T>(this: &Channel<T>, capacity: usize) -> Object {
    // Code of the user may run under the lock. Then what it guards is left out.
    let seen = this.lock_at_once().map(|locked| (kind(&locked.state), locked.state.buffer.len()));
    let unseen = if capacity == usize::MAX { "unbounded" } else { "bounded" };
    let (kind, len) = seen.unwrap_or((unseen, 0));
    let name = this.tag.name().map(String::from);
    let mut text = match &name {
        Some(name) => format!("'{}' of {} ({kind}", name.escape_debug(), type_name::<T>()),
        None => format!("of {} ({kind}", type_name::<T>()),
    };
    if matches!(kind, "bounded" | "dropping" | "sliding") {
        text.push_str(&format!("({capacity})"));
    }
    text.push_str(&format!(", {}", simulated::object_name(ptr::from_ref(this).cast())));
    if seen.is_some() && capacity != 0 {
        text.push_str(&format!(", {len} in it"));
    }
    let senders = this.sender_count.load(Ordering::Relaxed);
    let receivers = this.receiver_count.load(Ordering::Relaxed);
    text.push_str(&format!(", {}, {})", count(senders, "sender"), count(receivers, "receiver")));
    // A clock ends the waits of a timed channel, and a channel that is never ready needs no leak.
    let is_clock = matches!(kind, "timed" | "never");
    let handle = (!is_clock).then(|| HandleWord::of_shared(ptr::from_ref(this)));
    Object { text, name, ends: Some((senders, receivers)), handle, ..Object::default() }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Returns the function that makes a channel of this kind.
fn kind<T>(state: &ChannelState<T>) -> &'static str {
    match state.kind {
        ChannelKind::Blocking if state.capacity == usize::MAX => "unbounded",
        ChannelKind::Blocking => "bounded",
        ChannelKind::Dropping => "dropping",
        ChannelKind::Sliding => "sliding",
        ChannelKind::Oneshot => "oneshot",
        ChannelKind::Timed(_) => "timed",
        ChannelKind::Never => "never",
    }
}

impl<T> Channel<T> {
    /// Describes a wait for a value, as one of several.
    pub(super) fn describe_recv(&self) -> String {
        format!("a value from a channel {}", describe_channel(self, self.capacity_if_free()).text)
    }

    /// Describes a wait for room, as one of several.
    pub(super) fn describe_send(&self) -> String {
        format!("room in a channel {}", describe_channel(self, self.capacity_if_free()).text)
    }

    /// The capacity, or 0 while the lock is held.
    fn capacity_if_free(&self) -> usize {
        self.lock_at_once().map_or(0, |locked| locked.state.capacity)
    }
}

/// # Safety
/// O1: as [`describe`].
unsafe fn room<T>(channel: *const (), capacity: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    ("room in a channel", unsafe { describe::<T>(channel, capacity) })
}

/// # Safety
/// O1: as [`describe`].
unsafe fn a_value<T>(channel: *const (), capacity: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    ("a value from a channel", unsafe { describe::<T>(channel, capacity) })
}

/// # Safety
/// O1: as [`describe`].
unsafe fn an_offer<T>(channel: *const (), capacity: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    ("a value that a select is making for a channel", unsafe { describe::<T>(channel, capacity) })
}

/// What waits in a channel are for.
impl<T> ChannelGuard<'_, T> {
    // SAFETY: O1: the object is the channel, which the wait borrows.
    pub(super) const ROOM: &'static What = &unsafe { What::about("room in a channel", room::<T>) };
    // SAFETY: O1: the object is the channel, which the wait borrows.
    pub(super) const A_VALUE: &'static What =
        &unsafe { What::about("a value from a channel", a_value::<T>) };
    // SAFETY: O1: the object is the channel, which the wait borrows.
    pub(super) const AN_OFFER: &'static What =
        &unsafe { What::about("a value that a select is making for a channel", an_offer::<T>) };

    /// Returns a wait in one of the lines of this channel.
    #[inline(always)]
    pub(super) fn wait(
        &self,
        channel: &Channel<T>,
        what: &'static What,
        role: Role,
        mode: Mode,
    ) -> Wait {
        let object = ptr::from_ref(channel).cast();
        Wait { role, object, detail: self.state.capacity, ..Wait::new(what, mode) }
    }
}
