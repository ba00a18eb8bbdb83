//! The nodes of one line.
#![expect(unsafe_code, reason = "reaches nodes on other stacks")]

use super::node::{Node, Role};
use super::woken::Woken;
use crate::base::list::Line;
use crate::park::waiter::LOOK_AGAIN;

/// The nodes of one line. They are accessed under the line's lock.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) line: Line,
}

// SAFETY: L3: its links are only followed under the lock that guards it.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { line: Line::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Appends a node.
    ///
    /// # Safety
    /// N1: the node is in no line. It and its waiter stay in place until it has been taken out.
    #[inline]
    pub(crate) unsafe fn push(&self, node: *const Node) {
        // SAFETY: N1, by the caller's promise.
        unsafe { &*node }.listed.set(true);
        // SAFETY: L3, because of N1.
        unsafe { self.line.push_back(node.cast()) };
    }

    /// Takes a node out if it is in the line.
    #[inline]
    pub(crate) fn remove(&self, node: &Node) {
        if node.listed.replace(false) {
            // SAFETY: L3: `listed` is only written under the lock of the one line that the node is
            // put in.
            unsafe { self.line.remove(&raw const node.link) };
        }
    }

    /// Returns the oldest node.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Node> {
        // SAFETY: N1: the node is listed, and the lock is held.
        unsafe { self.line.first().cast::<Node>().as_ref() }
    }

    /// Visits the nodes, oldest first, until `visit` returns a result. `visit` may take out the
    /// node that it is called with.
    #[inline]
    pub(crate) fn seek<R>(&self, mut visit: impl FnMut(&Node) -> Option<R>) -> Option<R> {
        let mut next = self.line.first().cast::<Node>();
        // SAFETY: N1: the node is listed, and the lock is held.
        while let Some(node) = unsafe { next.as_ref() } {
            next = node.link.next().cast();
            let found = visit(node);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Claims the oldest node whose wait is still pending, and takes it out. Older nodes whose
    /// waits have been decided are taken out as well. Returns whether a node was claimed.
    #[inline]
    pub(crate) fn claim_first(&self, woken: &mut Woken) -> bool {
        while let Some(node) = self.first() {
            self.remove(node);
            // The node is not listed any more, but the lock is held, so the owner of a pending wait
            // has not left.
            if node.claim() {
                woken.push(node);
                return true;
            }
        }
        false
    }

    /// Claims all waiters that can be told to look again.
    pub(crate) fn look_again(&self, woken: &mut Woken) {
        self.claim_looking(woken, true);
    }

    /// Claims the waiters with this role, so that they look again.
    pub(crate) fn look_again_if(&self, role: Role, woken: &mut Woken) {
        self.seek(|node| -> Option<()> {
            if node.role == role {
                self.remove(node);
                if node.claim_as(LOOK_AGAIN) {
                    woken.push(node);
                }
            }
            None
        });
    }

    /// Claims the waiters that can be told to look again, and takes them out. If `all` is false, it
    /// stops after the first claimed node that is neither `Look` nor `Peek`. Nothing is given. The
    /// owner of a `Slot` node that is claimed with `WOKEN` would read a value that was not written,
    /// so such a node is claimed with [`LOOK_AGAIN`]. Nodes with other roles are left alone. Only
    /// the line's owner can give them what they wait for, while any code with access to a channel's
    /// list may notify it.
    pub(super) fn claim_looking(&self, woken: &mut Woken, all: bool) {
        self.seek(|node| {
            let outcome = match node.role {
                Role::Notify | Role::Take | Role::Look | Role::Peek => node.outcome,
                Role::Slot => LOOK_AGAIN,
                _ => return None,
            };
            self.remove(node);
            // The node is not listed any more, but the lock is held, so the owner of a pending wait
            // has not left.
            if !node.claim_as(outcome) {
                return None;
            }
            woken.push(node);
            (!all && !matches!(node.role, Role::Look | Role::Peek)).then_some(())
        });
    }
}
