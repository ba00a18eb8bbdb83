//! Opening a node on the stack, and closing it whatever happens.
#![expect(unsafe_code, reason = "links nodes that live on the stack")]

use std::marker::PhantomData;

use crate::coroutine::OpenFrame;
use crate::task;
use crate::task::cancel::{self, CancelNode};

/// An open node below the innermost one. Taken out of the tree when this is dropped, which the functions of this layer
/// always do: they never hand it out.
#[derive(Debug)]
pub(crate) struct Opened<'n> {
    node: &'n CancelNode,
    /// The node that was the innermost one before, if this one has taken its place.
    before: Option<*const CancelNode>,
    _frame: OpenFrame,
    _not_send: PhantomData<*const ()>,
}

impl<'n> Opened<'n> {
    /// Opens a node that whoever needs it links, and leaves the innermost node what it is.
    #[inline]
    pub(crate) fn below(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        // SAFETY: K1: its parent is a frame further out, and nobody knows the node yet.
        unsafe { node.note() };
        Opened { node, before: None, _frame: frame, _not_send: PhantomData }
    }

    /// Links the node and makes it the innermost one.
    #[inline]
    pub(crate) fn inside(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        if let Some(header) = task::current_header() {
            // Requests to the node concern the task's own waits: they must reach the task.
            task::reach(header);
        }
        // SAFETY: K1: its parent is a frame further out.
        if let Some(parent) = unsafe { node.parent().as_ref() } {
            node.take_limit_of(parent);
        }
        // SAFETY: K1: the node is borrowed until this is dropped, which unlinks it; its parent is a frame further out.
        unsafe { cancel::reach(node) };
        Opened { node, before: Some(task::set_node(node)), _frame: frame, _not_send: PhantomData }
    }

    /// Makes the node the innermost one without linking it, because nothing is to reach it (a shield), or because only the running
    /// task's own worker flags it, and it is linked when the task first waits (a time limit).
    #[inline]
    pub(crate) fn unlinked(node: &'n CancelNode) -> Opened<'n> {
        let mut opened = Opened::below(node);
        opened.before = Some(task::set_node(node));
        opened
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
