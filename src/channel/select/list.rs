//! A list of arms of different types, which the compiler knows.

use std::cell::Cell;
use std::convert::identity;
use std::time::Duration;

use super::arm::{Arm, Attempt};
use super::order::ArmOrder;
use crate::base::clock;
use crate::base::random;
use crate::source::{Arms, Choice, Chosen, Pass, Won, at_once, choose};
use crate::task::Cancelled;

/// The end of a list of arms.
#[derive(Debug)]
pub struct NoMoreArms;

/// An arm, followed by the rest of the list.
#[derive(Debug)]
pub struct Both<A, R> {
    arm: A,
    rest: R,
    /// The ranges of nodes that this arm has registered: those to be notified, and those to be
    /// given something.
    nodes: Cell<[(usize, usize); 2]>,
}

impl<A, R> Both<A, R> {
    /// Puts an arm in front of a list.
    pub fn new(arm: A, rest: R) -> Both<A, R> {
        Both { arm, rest, nodes: Cell::new([(0, 0); 2]) }
    }
}

/// The output of one of the arms: this one, or one of the rest.
#[derive(Debug)]
pub enum Pick<T, R> {
    /// The output of the arm at this position.
    This(T),
    /// The output of an arm further on.
    Rest(R),
}

/// The output of an empty list, which has no values.
#[derive(Debug)]
pub enum NoArm {}

/// A list of arms.
pub trait ArmList {
    /// The output of one of the arms.
    type Output;
    /// The number of arms.
    const LEN: usize;

    /// Returns whether the arm at `index` may be selected at all.
    #[doc(hidden)]
    fn is_on(&self, index: usize) -> bool;

    /// Tries the arm at `index`. `pick` makes the select's output of the list's.
    #[doc(hidden)]
    fn attempt<T>(
        &self,
        index: usize,
        waits: bool,
        pick: impl FnOnce(Self::Output) -> T,
    ) -> Attempt<T>;
    #[doc(hidden)]
    fn register<'a>(&'a self, index: usize, arms: &mut Arms<'a>);
    /// Begins another round, in which no nodes have been registered.
    #[doc(hidden)]
    fn forget_nodes(&self);
    #[doc(hidden)]
    fn finish(&self, won: &Won<'_>) -> Option<Self::Output>;
    #[doc(hidden)]
    fn cancelled(&self, index: usize, cancelled: Cancelled) -> Option<Self::Output>;
    #[doc(hidden)]
    fn describe(&self, each: &mut Vec<String>);
}

impl ArmList for NoMoreArms {
    type Output = NoArm;
    const LEN: usize = 0;

    fn is_on(&self, _: usize) -> bool {
        false
    }

    #[inline]
    fn attempt<T>(&self, _: usize, _: bool, _: impl FnOnce(NoArm) -> T) -> Attempt<T> {
        Attempt::Nothing
    }

    fn register<'a>(&'a self, _: usize, _: &mut Arms<'a>) {}

    fn forget_nodes(&self) {}

    fn finish(&self, _: &Won<'_>) -> Option<NoArm> {
        None
    }

    fn cancelled(&self, _: usize, _: Cancelled) -> Option<NoArm> {
        None
    }

    fn describe(&self, _: &mut Vec<String>) {}
}

impl<A: Arm, R: ArmList> ArmList for Both<A, R> {
    type Output = Pick<A::Output, R::Output>;
    const LEN: usize = R::LEN + 1;

    fn is_on(&self, index: usize) -> bool {
        if index == 0 { self.arm.is_on() } else { self.rest.is_on(index - 1) }
    }

    #[inline(always)]
    fn attempt<T>(
        &self,
        index: usize,
        waits: bool,
        pick: impl FnOnce(Self::Output) -> T,
    ) -> Attempt<T> {
        match index {
            0 => self.arm.attempt(waits).map(|output| pick(Pick::This(output))),
            _ => self.rest.attempt(index - 1, waits, |output| pick(Pick::Rest(output))),
        }
    }

    fn register<'a>(&'a self, index: usize, arms: &mut Arms<'a>) {
        if index > 0 {
            return self.rest.register(index - 1, arms);
        }
        let before = arms.used();
        self.arm.register(arms);
        let mut nodes = self.nodes.get();
        nodes[usize::from(arms.pass() == Pass::Take)] = (before, arms.used());
        self.nodes.set(nodes);
    }

    fn forget_nodes(&self) {
        self.nodes.set([(0, 0); 2]);
        self.rest.forget_nodes();
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        if self.nodes.get().iter().any(|(first, end)| (*first..*end).contains(&won.index())) {
            return self.arm.finish(won).map(Pick::This);
        }
        self.rest.finish(won).map(Pick::Rest)
    }

    fn cancelled(&self, index: usize, cancelled: Cancelled) -> Option<Self::Output> {
        match index {
            0 => Some(Pick::This(self.arm.cancelled(cancelled))),
            _ => self.rest.cancelled(index - 1, cancelled).map(Pick::Rest),
        }
    }

    fn describe(&self, each: &mut Vec<String>) {
        if self.arm.is_on() {
            each.push(self.arm.describe());
        }
        self.rest.describe(each);
    }
}

/// How long a select waits.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// It waits until an arm is possible.
    Wait,
    /// It does not wait.
    Try,
    /// It waits for at most this duration.
    For(Duration),
}

/// The outcome of a select.
#[derive(Debug)]
pub enum Selection<T> {
    /// The output of one of the arms.
    Picked(T),
    /// No arm was possible in time.
    Default,
    /// The select was cancelled.
    Cancelled(Cancelled),
}

/// The choice among the arms of a list.
struct ListChoice<'a, L> {
    list: &'a L,
    order: ArmOrder,
}

impl<L: ArmList> Choice for ListChoice<'_, L> {
    type Output = L::Output;

    #[inline(always)]
    fn attempt(&self) -> Option<L::Output> {
        self.order.attempt_each(L::LEN, |index| self.list.attempt(index, true, identity))
    }

    #[inline(always)]
    fn poll(&self) -> Option<L::Output> {
        self.order.attempt_each(L::LEN, |index| self.list.attempt(index, false, identity))
    }

    fn is_single(&self) -> bool {
        L::LEN < 2
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        if !arms.any() {
            // The round may end before every arm has been registered. Nodes of an earlier round
            // would then be taken for nodes of this one.
            self.list.forget_nodes();
        }
        self.order.register(L::LEN, arms, |index, arms| self.list.register(index, arms));
    }

    fn finish(&self, won: &Won<'_>) -> Option<L::Output> {
        self.list.finish(won)
    }

    fn describe(&self, each: &mut Vec<String>) {
        self.list.describe(each);
    }
}

/// Runs a select. If it is cancelled and has no `cancelled` arm, one of the other arms gets the
/// cancellation, picked at random.
#[inline]
#[track_caller]
pub fn run<L: ArmList>(
    list: &L,
    biased: bool,
    how: How,
    tells_cancelled: bool,
) -> Selection<L::Output> {
    let choice = ListChoice { list, order: ArmOrder::new(biased) };
    let deadline = match how {
        How::Wait => None,
        How::Try => {
            return at_once(&choice).map_or(Selection::Default, Selection::Picked);
        }
        How::For(time) => clock::now().checked_add(time),
    };
    match choose(&choice, deadline) {
        Chosen::Ready(output) => Selection::Picked(output),
        Chosen::TimedOut => Selection::Default,
        Chosen::Cancelled(cancelled) if tells_cancelled || L::LEN == 0 => {
            Selection::Cancelled(cancelled)
        }
        Chosen::Cancelled(cancelled) => {
            // If every condition is false, any arm gets the cancellation.
            let mut on = (0..L::LEN).filter(|index| list.is_on(*index));
            let skipped = match on.clone().count() {
                count if count > 1 && !biased => random::below(count),
                _ => 0,
            };
            let index = on.nth(skipped).unwrap_or(0);
            match list.cancelled(index, cancelled) {
                Some(output) => Selection::Picked(output),
                None => Selection::Cancelled(cancelled),
            }
        }
    }
}
