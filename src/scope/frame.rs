//! Guards for cancel nodes on the stack: they open a node, and close it even if the body panics.
#![expect(unsafe_code, reason = "links nodes that live on the stack")]

use std::marker::PhantomData;

use crate::coroutine::OpenFrame;
use crate::task;
use crate::task::cancel::{self, CancelNode};

/// An open cancel node. Dropping the guard unlinks the node. The functions of this layer never hand
/// a guard out, so it is always dropped.
#[derive(Debug)]
pub(crate) struct Opened<'n> {
    node: &'n CancelNode,
    /// The previous innermost node, if this node has replaced it.
    before: Option<*const CancelNode>,
    _frame: OpenFrame,
    _not_send: PhantomData<*const ()>,
}

impl<'n> Opened<'n> {
    /// Opens a node without linking it and without making it the innermost one. Whatever needs the
    /// node links it later.
    #[inline]
    pub(crate) fn below(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        // SAFETY: K1: the parent is in a frame further out, and no other thread knows the node yet.
        unsafe { node.note() };
        Opened { node, before: None, _frame: frame, _not_send: PhantomData }
    }

    /// Links the node and makes it the innermost one.
    #[inline]
    pub(crate) fn inside(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        if let Some(header) = task::current_header() {
            // Requests to the node cancel the task's own waits, so the task must be reachable, too.
            task::reach(header);
        }
        // SAFETY: K1: the parent is in a frame further out.
        if let Some(parent) = unsafe { node.parent().as_ref() } {
            node.take_limit_of(parent);
        }
        // SAFETY: K1: the node is borrowed until this guard is dropped, which unlinks it. The
        // parent is in a frame further out.
        unsafe { cancel::reach(node) };
        Opened { node, before: Some(task::set_node(node)), _frame: frame, _not_send: PhantomData }
    }

    /// Makes the node the innermost one without linking it. This is for a shield, which no request
    /// may reach, and for a time limit. Only the task's own worker flags a limit until the task
    /// first waits, which links it.
    #[inline]
    pub(crate) fn unlinked(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        // SAFETY: K1: the node is borrowed until this guard is dropped, and its parent is in a
        // frame further out.
        unsafe { node.note() };
        Opened { node, before: Some(task::set_node(node)), _frame: frame, _not_send: PhantomData }
    }
}

impl Drop for Opened<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            task::set_node(before);
        }
        cancel::unlink(self.node);
    }
}
