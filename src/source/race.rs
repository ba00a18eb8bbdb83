//! A source that takes from whichever of many sources is ready first.

use std::fmt;

use smallvec::SmallVec;

use super::arms::{Arms, Won};
use super::filter::{Asked, Selective};
use super::missed::Missed;
use super::traits::Source;
use crate::base::random::Order;
use crate::park::WaitList;

/// The number of sources that are kept in place. If there are more, they are kept in one
/// allocation, which is made together with the race.
const IN_PLACE: usize = 8;

/// The source returned by [`race`].
pub struct Race<S> {
    sources: SmallVec<[S; IN_PLACE]>,
}

/// Returns a source that has the items of all `sources`. A wait takes the item that is available
/// first.
///
/// Nothing is taken from the other sources, and no task is cancelled. If several sources have an
/// item, one of these is picked at random, each with the same probability. A race of no sources
/// never has an item.
///
/// # Examples
/// ```
/// use ecru::{Source, channel, source};
///
/// let (sender, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel::unbounded()).unzip();
/// sender[1].send("one").unwrap();
/// assert_eq!(source::race(&receivers).wait(), Ok(Ok("one")));
/// ```
pub fn race<I>(sources: I) -> Race<I::Item>
where
    I: IntoIterator<Item: Source>,
{
    Race { sources: sources.into_iter().collect() }
}

impl<S> Race<S> {
    /// Returns the first result of `take`, called on the sources in random order.
    fn first<T>(&self, take: impl Fn(&S) -> Option<T>) -> Option<(usize, T)> {
        let found = |at: usize| take(&self.sources[at]).map(|item| (at, item));
        Order::random(self.sources.len()).find_map(found)
    }

    fn finished<T>(&self, mut take: impl FnMut(&S) -> Option<T>) -> Option<(usize, T)> {
        self.sources.iter().enumerate().find_map(|(at, source)| Some((at, take(source)?)))
    }
}

impl<S: Source> Source for Race<S> {
    type Item = S::Item;

    fn try_take(&self) -> Option<S::Item> {
        self.first(S::try_take).map(|(_, item)| item)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.sources.iter().for_each(|source| source.waiters(each));
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        for source in &self.sources {
            if arms.is_ready() {
                return;
            }
            source.__register(arms);
        }
    }

    fn __finish(&self, won: &Won<'_>) -> Option<S::Item> {
        self.finished(|source| source.__finish(won)).map(|(_, item)| item)
    }

    fn __missed(&self, missed: &mut Missed) -> Option<S::Item> {
        self.finished(|source| source.__missed(missed)).map(|(_, item)| item)
    }

    fn __give_back(&self, won: &Won<'_>) {
        self.sources.iter().for_each(|source| source.__give_back(won));
    }
}

impl<S: Selective> Selective for Race<S> {
    type Value = S::Value;

    fn __try_take_if(&self, accepts: &dyn Fn(&Self::Value) -> bool) -> Option<Self::Item> {
        self.first(|source| source.__try_take_if(accepts)).map(|(_, item)| item)
    }

    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, Self::Value>) {
        self.sources.iter().for_each(|source| source.__register_if(arms, asked));
    }
}

impl<S> fmt::Debug for Race<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").field("sources", &self.sources.len()).finish()
    }
}

/// The source returned by [`race_indexed`].
#[derive(Debug)]
pub struct RaceIndexed<S> {
    race: Race<S>,
}

/// Returns a [`race`] whose items tell which source they are from, by its position in `sources`.
///
/// # Examples
/// ```
/// use ecru::{Source, source};
///
/// let never = || source::never().or(source::never());
/// let slow = source::race_indexed([never(), never()]);
/// assert_eq!(slow.try_take(), None::<(usize, u32)>);
/// let quick = source::race_indexed([source::ready("only")]);
/// assert_eq!(quick.wait(), Ok((0, "only")));
/// ```
pub fn race_indexed<I>(sources: I) -> RaceIndexed<I::Item>
where
    I: IntoIterator<Item: Source>,
{
    RaceIndexed { race: race(sources) }
}

impl<S: Source> Source for RaceIndexed<S> {
    type Item = (usize, S::Item);

    fn try_take(&self) -> Option<Self::Item> {
        self.race.first(S::try_take)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.race.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.race.__register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        self.race.finished(|source| source.__finish(won))
    }

    fn __missed(&self, missed: &mut Missed) -> Option<Self::Item> {
        self.race.finished(|source| source.__missed(missed))
    }

    fn __give_back(&self, won: &Won<'_>) {
        self.race.__give_back(won);
    }
}
