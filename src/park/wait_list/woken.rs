//! The nodes that a lock holder has claimed, until their waiters are unparked.
#![expect(unsafe_code, reason = "reaches nodes and waiters on other stacks")]

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::node::{Node, Role};
use crate::base::sync::PutOff;
use crate::park::{Waiter, no_suspend};

/// The nodes that have been claimed, and whose waiters are unparked once the lock is released.
/// Dropping this value unparks them.
#[derive(Debug)]
pub(crate) struct Woken {
    first: *const Node,
}

impl Woken {
    #[inline]
    pub(crate) const fn none() -> Woken {
        Woken { first: ptr::null() }
    }

    /// Remembers a node that the caller has claimed and taken out of its line.
    #[inline]
    pub(crate) fn push(&mut self, node: &Node) {
        debug_assert!(!node.listed.get());
        node.link.chain(self.first.cast());
        self.first = node;
    }

    /// Remembers calls that user code under the lock has put off until the lock is released.
    #[inline]
    pub(crate) fn push_put_off(&mut self, calls: PutOff) {
        if !calls.is_empty() {
            Calls::chain(calls, self);
        }
    }
}

/// Calls that are made once the lock is released. They are stored in a node, so that they fit in
/// the chain of claimed nodes.
struct Calls {
    node: Node,
    waiter: Waiter,
    calls: Cell<PutOff>,
}

impl Calls {
    #[cold]
    fn chain(calls: PutOff, woken: &mut Woken) {
        let at = Box::into_raw(Box::<Calls>::new_uninit()).cast::<Calls>();
        let owner = NonNull::new(at).expect("allocated").cast();
        let waiter = Waiter::with_owner(owner, Calls::make);
        // SAFETY: N1: the allocation is valid, so the address of its field is.
        let its_waiter = unsafe { &raw const (*at).waiter };
        let node = Node::new(its_waiter, 0, Role::Notify, ptr::null_mut());
        // SAFETY: N1: the allocation is not shared yet.
        unsafe { at.write(Calls { node, waiter, calls: Cell::new(calls) }) };
        // SAFETY: N1: it was written just now, and stays until `make`, which is called once, when
        // the chain is unparked.
        woken.push(unsafe { &(*at).node });
    }

    /// Makes the calls and frees the allocation.
    ///
    /// # Safety
    /// N1: `owner` is the allocation that `chain` made.
    unsafe fn make(owner: *const ()) {
        // SAFETY: N1, by the caller's promise.
        let this = unsafe { Box::from_raw(owner.cast_mut().cast::<Calls>()) };
        for call in this.calls.take() {
            // The lock holder may be about to wait, and may already be in a line. So the call must
            // not wait.
            no_suspend(call);
        }
    }
}

impl Drop for Woken {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: S4: this thread won the claims.
            unsafe { unpark(self.first) };
        }
    }
}

/// Unparks the waiters of the chain. The argument is passed by value, so that a lock's guard with
/// an empty [`Woken`] beside it can stay in registers.
///
/// # Safety
/// S4: this thread won the claim of each node in the chain, and does not touch the nodes
/// afterwards.
#[inline(never)]
unsafe fn unpark(first: *const Node) {
    // SAFETY: S4: the node is claimed, so the frame stays until it is unparked.
    let alone = unsafe { &*first }.link.next().is_null();
    let mut next = if alone { first } else { in_order(first) };
    while !next.is_null() {
        // SAFETY: S4: this thread won the claim, so the frame stays until the unpark below.
        let node = unsafe { &*next };
        next = node.link.next().cast();
        let (waiter, listens) = (node.waiter, node.listens);
        // SAFETY: S4: the waiter is claimed, is told or unparked once, and is not touched again.
        if !listens || !unsafe { Waiter::release_listener(waiter) } {
            // SAFETY: S4: the waiter is claimed. A listener that could not be released is still
            // there.
            unsafe { Waiter::unpark(waiter) };
        }
    }
}

/// Reverses the chain, so that the waiter that was claimed first is unparked first.
fn in_order(first: *const Node) -> *const Node {
    let (mut turned, mut rest) = (ptr::null::<Node>(), first);
    while !rest.is_null() {
        // SAFETY: S4: this thread won the claim, so the frame stays until it is unparked.
        let node = unsafe { &*rest };
        rest = node.link.next().cast();
        node.link.chain(turned.cast());
        turned = node;
    }
    turned
}
