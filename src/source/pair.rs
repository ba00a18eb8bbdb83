//! Sources that combine two sources.

use super::arms::{Arms, Won};
use super::filter::{Asked, Selective};
use super::missed::Missed;
use super::traits::Source;
use crate::base::random;
use crate::park::WaitList;

/// The source returned by [`Source::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B> {
    first: A,
    second: B,
}

impl<A, B> Or<A, B> {
    pub(super) fn new(first: A, second: B) -> Or<A, B> {
        Or { first, second }
    }
}

impl<A: Source, B: Source<Item = A::Item>> Source for Or<A, B> {
    type Item = A::Item;

    fn try_take(&self) -> Option<A::Item> {
        self.first.try_take().or_else(|| self.second.try_take())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.first.waiters(each);
        self.second.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.first.__register(arms);
        self.second.__register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<A::Item> {
        self.first.__finish(won).or_else(|| self.second.__finish(won))
    }

    fn __missed(&self, missed: &mut Missed) -> Option<A::Item> {
        self.first.__missed(missed).or_else(|| self.second.__missed(missed))
    }

    fn __give_back(&self, won: &Won<'_>) {
        self.first.__give_back(won);
        self.second.__give_back(won);
    }
}

impl<A: Selective, B: Selective<Value = A::Value, Item = A::Item>> Selective for Or<A, B> {
    type Value = A::Value;

    fn __try_take_if(&self, accepts: &dyn Fn(&Self::Value) -> bool) -> Option<Self::Item> {
        self.first.__try_take_if(accepts).or_else(|| self.second.__try_take_if(accepts))
    }

    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, Self::Value>) {
        self.first.__register_if(arms, asked);
        self.second.__register_if(arms, asked);
    }
}

/// The item of one of two sources.
///
/// # Examples
/// ```
/// use ecru::source::{self, Either};
/// use ecru::{Source, channel};
///
/// let (sender, numbers) = channel::unbounded();
/// let (_other, words) = channel::unbounded::<String>();
/// sender.send(7).unwrap();
/// match source::either(&numbers, &words).wait().unwrap() {
///     Either::Left(number) => assert_eq!(number, Ok(7)),
///     Either::Right(word) => panic!("no word was sent: {word:?}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Either<A, B> {
    /// An item of the first source.
    Left(A),
    /// An item of the second source.
    Right(B),
}

/// The source returned by [`either`].
#[derive(Clone, Debug)]
pub struct EitherSource<A, B> {
    left: A,
    right: B,
}

/// Returns a source that has the items of both sources, whose types may differ. If both have an
/// item, one of them is picked at random.
///
/// # Examples
/// ```
/// use ecru::{Source, source};
/// use ecru::source::Either;
///
/// let number_or_text = source::either(source::never::<u32>(), source::ready("text"));
/// assert_eq!(number_or_text.wait(), Ok(Either::Right("text")));
/// ```
pub fn either<A: Source, B: Source>(left: A, right: B) -> EitherSource<A, B> {
    EitherSource { left, right }
}

impl<A: Source, B: Source> Source for EitherSource<A, B> {
    type Item = Either<A::Item, B::Item>;

    fn try_take(&self) -> Option<Self::Item> {
        let left = || self.left.try_take().map(Either::Left);
        let right = || self.right.try_take().map(Either::Right);
        if random::below(2) == 0 { left().or_else(right) } else { right().or_else(left) }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.left.waiters(each);
        self.right.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.left.__register(arms);
        self.right.__register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        let right = || self.right.__finish(won).map(Either::Right);
        self.left.__finish(won).map(Either::Left).or_else(right)
    }

    fn __missed(&self, missed: &mut Missed) -> Option<Self::Item> {
        let left = self.left.__missed(missed).map(Either::Left);
        left.or_else(|| self.right.__missed(missed).map(Either::Right))
    }

    fn __give_back(&self, won: &Won<'_>) {
        self.left.__give_back(won);
        self.right.__give_back(won);
    }
}
