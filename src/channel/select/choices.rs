//! The two choices of a [`Select`](super::Select): the one that selects an operation, and the one
//! that only tells which operation is possible.

use super::arm::Attempt;
use super::operation::{Operation, SelectToken};
use super::order::ArmOrder;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::source::{Arms, Choice, Won};

/// An operation in the list of a `Select`.
pub(super) struct AddedOperation<'a> {
    pub(super) operation: &'a dyn Operation,
    /// The index that `Select::send` or `Select::recv` returned.
    pub(super) index: usize,
    /// The node that the operation registered in this round of a wait, or [`NO_NODE`]. It is atomic
    /// only so that a `Select` can be shared. Only a select writes it, and a select borrows the
    /// `Select` mutably.
    node: AtomicUsize,
}

const NO_NODE: usize = usize::MAX;

impl<'a> AddedOperation<'a> {
    pub(super) fn new(operation: &'a dyn Operation, index: usize) -> AddedOperation<'a> {
        AddedOperation { operation, index, node: AtomicUsize::new(NO_NODE) }
    }

    fn set_node(&self, node: Option<usize>) {
        self.node.store(node.unwrap_or(NO_NODE), Ordering::Relaxed);
    }
}

impl Clone for AddedOperation<'_> {
    fn clone(&self) -> Self {
        AddedOperation { node: AtomicUsize::new(NO_NODE), ..*self }
    }
}

/// The choice that selects an operation. Its output is the operation's place in the list, with what
/// has been reserved for it.
pub(super) struct SelectChoice<'s, 'a> {
    operations: &'s [AddedOperation<'a>],
    order: ArmOrder,
}

impl<'s, 'a> SelectChoice<'s, 'a> {
    pub(super) fn new(operations: &'s [AddedOperation<'a>], biased: bool) -> SelectChoice<'s, 'a> {
        SelectChoice { operations, order: ArmOrder::new(biased) }
    }

    fn attempt_arms(&self, waits: bool) -> Option<(usize, SelectToken)> {
        self.order.attempt_each(self.operations.len(), |at| {
            self.operations[at].operation.attempt(waits).map(|token| (at, token))
        })
    }
}

impl Choice for SelectChoice<'_, '_> {
    type Output = (usize, SelectToken);

    fn attempt(&self) -> Option<(usize, SelectToken)> {
        self.attempt_arms(true)
    }

    fn poll(&self) -> Option<(usize, SelectToken)> {
        self.attempt_arms(false)
    }

    fn is_single(&self) -> bool {
        self.operations.len() < 2
    }

    fn register<'r>(&'r self, arms: &mut Arms<'r>) {
        if !arms.any() {
            // The round may end before every operation has been registered.
            self.operations.iter().for_each(|added| added.set_node(None));
        }
        self.order.register(self.operations.len(), arms, |at, arms| {
            let before = arms.used();
            self.operations[at].operation.register(arms);
            self.operations[at].set_node((arms.used() > before).then_some(before));
        });
    }

    fn finish(&self, won: &Won<'_>) -> Option<(usize, SelectToken)> {
        let put_in = |added: &AddedOperation<'_>| added.node.load(Ordering::Relaxed) == won.index();
        let at = self.operations.iter().position(put_in)?;
        Some((at, self.operations[at].operation.finish(won)?))
    }

    fn describe(&self, each: &mut Vec<String>) {
        each.extend(self.operations.iter().map(|added| added.operation.describe()));
    }
}

/// The choice that only tells which operation is possible. Its output is the operation's index.
pub(super) struct ReadyChoice<'s, 'a> {
    operations: &'s [AddedOperation<'a>],
    order: ArmOrder,
}

impl<'s, 'a> ReadyChoice<'s, 'a> {
    pub(super) fn new(operations: &'s [AddedOperation<'a>], biased: bool) -> ReadyChoice<'s, 'a> {
        ReadyChoice { operations, order: ArmOrder::new(biased) }
    }
}

impl Choice for ReadyChoice<'_, '_> {
    type Output = usize;

    fn attempt(&self) -> Option<usize> {
        self.order.attempt_each(self.operations.len(), |at| {
            let added = &self.operations[at];
            Attempt::of(added.operation.is_ready().then_some(added.index))
        })
    }

    fn is_single(&self) -> bool {
        self.operations.len() < 2
    }

    fn register<'r>(&'r self, arms: &mut Arms<'r>) {
        self.operations.iter().for_each(|added| added.operation.register_to_look(arms));
    }

    fn finish(&self, _: &Won<'_>) -> Option<usize> {
        self.attempt()
    }

    fn describe(&self, each: &mut Vec<String>) {
        each.extend(self.operations.iter().map(|added| added.operation.describe()));
    }
}
