//! A source of the accepted values only.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::arms::{Arms, Won};
use super::traits::Source;
use crate::park::{Predicate, WaitList};

/// A predicate that the giver of a value may call while a wait is registered.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the library's own sources can register")]
pub struct Asked<'a, V> {
    predicate: Predicate,
    _object: PhantomData<&'a ()>,
    _value: PhantomData<fn(&V)>,
}

impl<V> Clone for Asked<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Asked<'_, V> {}

impl<'a, V> Asked<'a, V> {
    fn new<P: Fn(&V) -> bool + Sync>(owner: *const (), accepts: &'a P) -> Asked<'a, V> {
        Asked {
            predicate: Predicate::of::<V, P>(owner, accepts),
            _object: PhantomData,
            _value: PhantomData,
        }
    }

    pub(crate) fn predicate(self) -> Predicate {
        self.predicate
    }
}

/// A source that [`Source::filter`] can be called on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be filtered",
    label = "only receivers, references to them, and races of these have values to choose from",
    note = "to look at the items of another source, wait for them and decide afterwards, or call `map`"
)]
pub trait Selective: Source {
    /// The type of the values that a predicate examines.
    type Value;

    #[doc(hidden)]
    fn __try_take_if(&self, accepts: &dyn Fn(&Self::Value) -> bool) -> Option<Self::Item>;

    #[doc(hidden)]
    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, Self::Value>);
}

impl<S: Selective + ?Sized> Selective for &S {
    type Value = S::Value;

    fn __try_take_if(&self, accepts: &dyn Fn(&Self::Value) -> bool) -> Option<Self::Item> {
        (**self).__try_take_if(accepts)
    }

    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, Self::Value>) {
        (**self).__register_if(arms, asked);
    }
}

/// The source returned by [`Source::filter`].
pub struct Filter<S, P> {
    source: S,
    accepts: P,
}

impl<S, P> Filter<S, P> {
    /// Returns the filter's address, which identifies it while it is borrowed.
    fn id(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    pub(super) fn new(source: S, accepts: P) -> Filter<S, P> {
        Filter { source, accepts }
    }
}

impl<S, P> Source for Filter<S, P>
where
    S: Selective,
    P: Fn(&S::Value) -> bool + Send + Sync,
{
    type Item = S::Item;

    fn try_take(&self) -> Option<S::Item> {
        self.source.__try_take_if(&self.accepts)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.source.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.source.__register_if(arms, Asked::new(self.id(), &self.accepts));
    }

    fn __finish(&self, won: &Won<'_>) -> Option<S::Item> {
        // The giver has already called the predicate. Items and notifications for other waits on
        // the same channel are not for this filter.
        self.source.__finish(&won.for_filter(self.id())?)
    }

    fn __give_back(&self, won: &Won<'_>) {
        if let Some(won) = won.for_filter(self.id()) {
            self.source.__give_back(&won);
        }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Filter<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("source", &self.source).finish_non_exhaustive()
    }
}
