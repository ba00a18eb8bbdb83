//! Opening a node on the stack, and closing it whatever happens.
#![expect(unsafe_code, reason = "links nodes that live on the stack")]

use std::marker::PhantomData;

use crate::coroutine::OpenFrame;
use crate::task;
use crate::task::cancel::{self, CancelNode};

/// A linked node below the innermost one. Taken out of the tree when this is dropped, which the functions of this layer
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
    /// Links the node below its parent; the innermost node stays what it is.
    #[inline]
    pub(crate) fn below(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
        if let Some(header) = task::current_header() {
            // Requests reach what hangs below a task only if they reach the task.
            task::reach(header);
        }
        // SAFETY: K1: the node is borrowed until this is dropped, which unlinks it; its parent is a frame further out.
        unsafe { cancel::link(node) };
        Opened { node, before: None, _frame: frame, _not_send: PhantomData }
    }

    /// Links the node and makes it the innermost one.
    #[inline]
    pub(crate) fn inside(node: &'n CancelNode) -> Opened<'n> {
        let mut opened = Opened::below(node);
        opened.before = Some(task::set_node(node));
        opened
    }

    /// Makes the node the innermost one without linking it, because nothing is to reach it (a shield), or because only the running
    /// task's own worker flags it, and it is linked when the task first waits (a time limit).
    #[inline]
    pub(crate) fn unlinked(node: &'n CancelNode) -> Opened<'n> {
        let frame = OpenFrame::enter();
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
