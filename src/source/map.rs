//! A source that applies a function to the items of another source.

use std::fmt;

use super::arms::{Arms, Won};
use super::missed::Missed;
use super::traits::Source;
use crate::park::WaitList;

/// The source returned by [`Source::map`].
pub struct Map<S, F> {
    source: S,
    f: F,
}

impl<S, F> Map<S, F> {
    pub(super) fn new(source: S, f: F) -> Map<S, F> {
        Map { source, f }
    }
}

impl<S: Source, U, F: Fn(S::Item) -> U> Source for Map<S, F> {
    type Item = U;

    fn try_take(&self) -> Option<U> {
        self.source.try_take().map(&self.f)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.source.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.source.__register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<U> {
        self.source.__finish(won).map(&self.f)
    }

    fn __missed(&self, missed: &mut Missed) -> Option<U> {
        self.source.__missed(missed).map(&self.f)
    }

    fn __give_back(&self, won: &Won<'_>) {
        self.source.__give_back(won);
    }
}

impl<S: fmt::Debug, F> fmt::Debug for Map<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("source", &self.source).finish_non_exhaustive()
    }
}
