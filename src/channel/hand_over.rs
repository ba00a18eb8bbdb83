//! How a sender and a receiver meet under the channel's lock.
//!
//! A sender that finds a waiting receiver claims it and hands the value over. The role of the
//! receiver's node decides how:
//! - `Slot`, `Meet`: the sender writes the value into the receiver's frame.
//! - `Take`: the receiver waits for other things too. The value goes into `handed`, under the
//!   address of the receiver's node, and the receiver fetches it from there.
//! - `Notify`: the receiver is only notified, and looks into the buffer itself.
//!
//! A receiver that finds a waiting sender claims it and moves the value out of the sender's frame.
//! A receiver that makes room serves the sender that has waited longest: see
//! [`ChannelGuard::settle`].
#![expect(unsafe_code, reason = "values move between stacks")]

use std::panic;

use super::core::{ChannelGuard, call_predicate};
use super::fast_path::Accepts;
use super::state::Handed;
use crate::park::{Node, Queue, Role, Woken};

/// Writes a value to the place that a waiting receiver has for it.
///
/// # Safety
/// N2: the node is the `Slot` or `Meet` node of a receiver of `T`s. The caller has just claimed it.
#[inline(always)]
unsafe fn write_to<T>(receiver: &Node, value: T, woken: &mut Woken) {
    // SAFETY: N2: such a node points to a place for a `T`, and the claim allows this thread to
    // write there.
    unsafe { receiver.data.cast::<T>().write(value) };
    woken.push(receiver);
}

/// Moves the value of a waiting sender out of the sender's frame.
///
/// # Safety
/// N2: the node is the `Value` node of a sender of `T`s. The caller has just claimed it, and calls
/// this once.
#[inline(always)]
pub(super) unsafe fn read_from<T>(sender: &Node, woken: &mut Woken) -> T {
    woken.push(sender);
    // SAFETY: N2: such a node points to a `T`, and the claim allows this thread to move it out.
    unsafe { sender.data.cast::<T>().read() }
}

impl<T> ChannelGuard<'_, T> {
    /// Gives a value to the first waiting receiver that accepts it. Returns the value if there is
    /// no such receiver.
    #[inline(always)]
    pub(super) fn hand_over(&mut self, value: T) -> Result<(), T> {
        let queue: &Queue = &self.receivers;
        if let Some(first) = queue.first()
            && first.takes_anything()
        {
            queue.remove(first);
            if first.claim() {
                // SAFETY: N2: the node was claimed just now, and has the role `Slot`.
                unsafe { write_to(first, value, &mut self.woken) };
                return Ok(());
            }
        }
        self.hand_over_to_any(value)
    }

    /// Does the same as [`ChannelGuard::hand_over`], whatever the receivers are.
    #[inline(never)]
    fn hand_over_to_any(&mut self, value: T) -> Result<(), T> {
        let ChannelGuard { receivers, state, woken } = self;
        let mut value = Some(value);
        let queue: &Queue = receivers;
        queue.seek(|node| {
            if node.reserved.get() != 0 {
                return None;
            }
            if let (Some(predicate), Some(value)) = (node.predicate(), &value) {
                if node.is_dead() {
                    queue.remove(node);
                    return None;
                }
                // SAFETY: N2: predicates of a channel's nodes are made for its values.
                match call_predicate(receivers, woken, || unsafe { predicate.accepts(value) }) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(payload) => {
                        queue.remove(node);
                        // The payload is stored even if the wait has ended meanwhile. The owner
                        // still has to take this lock, and drops the payload after releasing it.
                        node.panic.set(Some(payload));
                        if node.claim() {
                            woken.push(node);
                        }
                        return None;
                    }
                }
            }
            if matches!(node.role(), Role::Notify | Role::Peek) && state.capacity == 0 {
                // There is no buffer to which the value could go. This node is notified when the
                // sender waits.
                return None;
            }
            queue.remove(node);
            if !node.claim() {
                return None;
            }
            match (node.role(), value.take()) {
                // SAFETY: N2: the node was claimed just now.
                (Role::Slot | Role::Meet, Some(value)) => unsafe { write_to(node, value, woken) },
                (Role::Take, Some(value)) => {
                    state.handed.push(Handed { ticket: node.ticket(), value });
                    woken.push(node);
                }
                (role, back) => {
                    value = back;
                    woken.push(node);
                    // A waiter that only looks has yet to decide whether it wants the value. Until
                    // then the value is offered to other waiters. A waiter with another role looks
                    // into the buffer, to which the value goes.
                    if matches!(role, Role::Look | Role::Peek) {
                        return None;
                    }
                }
            }
            Some(())
        });
        value.map_or(Ok(()), Err)
    }

    /// Receives the value of the first waiting sender that has one, on a rendezvous channel. With a
    /// predicate, receives the first value that the predicate accepts.
    #[inline(always)]
    pub(super) fn take_over(&mut self, accepts: Option<&Accepts<'_, T>>) -> Option<T> {
        let senders = &self.state.senders;
        let first = senders.first()?;
        if accepts.is_none() && first.role() == Role::Value {
            senders.remove(first);
            if first.claim() {
                // SAFETY: N2: the node was claimed just now, and has the role `Value`.
                let value = unsafe { read_from(first, &mut self.woken) };
                self.disconnect_if_drained();
                return Some(value);
            }
        }
        self.take_over_from_any(accepts)
    }

    /// Does the same as [`ChannelGuard::take_over`], whatever the senders are.
    #[inline(never)]
    fn take_over_from_any(&mut self, accepts: Option<&Accepts<'_, T>>) -> Option<T> {
        let senders = &self.state.senders;
        let value = senders.seek(|node| {
            if node.role() != Role::Value {
                return None;
            }
            if let Some(accepts) = accepts {
                // SAFETY: N2: a sender's node points to its value, which stays in place while the
                // lock is held.
                let value = unsafe { &*node.data.cast::<T>() };
                match call_predicate(&self.receivers, &mut self.woken, || accepts(value)) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(payload) => panic::resume_unwind(payload),
                }
            }
            senders.remove(node);
            // SAFETY: N2: the node was claimed just now, and has the role `Value`.
            node.claim().then(|| unsafe { read_from(node, &mut self.woken) })
        })?;
        self.disconnect_if_drained();
        Some(value)
    }

    /// Tells receivers that a sender has started to wait: the first `Notify` node, and all `Peek`
    /// nodes before it.
    pub(super) fn notify_receiver(&mut self) {
        let ChannelGuard { receivers, woken, .. } = self;
        let queue: &Queue = receivers;
        queue.seek(|node| {
            if !matches!(node.role(), Role::Notify | Role::Peek) {
                return None;
            }
            queue.remove(node);
            if !node.claim() {
                return None;
            }
            woken.push(node);
            (node.role() == Role::Notify).then_some(())
        });
    }

    /// Tells all `Peek` nodes that a select waits to send. `Notify` nodes are not told: they take a
    /// value, and the select has not made one.
    pub(super) fn notify_onlookers(&mut self) {
        let ChannelGuard { receivers, woken, .. } = self;
        let queue: &Queue = receivers;
        queue.seek(|node| -> Option<()> {
            if node.role() == Role::Peek {
                queue.remove(node);
                if node.claim() {
                    woken.push(node);
                }
            }
            None
        });
    }
}
