//! The trait.

use std::sync::Arc;

use super::arms::{Arms, Pass, Won};
use super::callback::{self, Subscription};
use super::choose::{Choice, Chosen, choose};
use super::filter::{Filter, Selective};
use super::future::SourceFuture;
use super::map::Map;
use super::pair::Or;
use crate::park::{Role, WaitList, no_suspend};
use crate::task::Cancelled;

/// Anything that can be waited on: see [the module](crate::source).
///
/// To make a type of yours a source, write [`try_take`](Source::try_take) and [`waiters`](Source::waiters); see [`WaitList`] for
/// one that is complete.
pub trait Source {
    /// What is waited for.
    type Item;

    /// Takes an item if there is one. Never waits.
    ///
    /// A receiver without a buffer has none while other selects would send, unlike in [`try_recv`](crate::channel::Receiver::try_recv).
    /// One look at several sources, as in a [`race`](crate::source::race()), looks at them one after another.
    fn try_take(&self) -> Option<Self::Item>;

    /// Calls `each` with every list that is notified when there is something to take. A wrapper passes the call on to what it wraps.
    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList));

    /// Waits for an item and takes it.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point. Nothing has been taken then: an item that had been handed over already wins over the cancellation.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, source};
    ///
    /// assert_eq!(source::ready(7).wait(), Ok(7));
    /// ```
    #[track_caller]
    fn wait(&self) -> Result<Self::Item, Cancelled> {
        wait_in_lists(self)
    }

    /// A source of what `f` makes of each item. `f` runs where the wait is, after the item has been taken.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, source};
    ///
    /// assert_eq!(source::ready(6).map(|number| number * 7).wait(), Ok(42));
    /// ```
    fn map<U, F>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Item) -> U,
    {
        Map::new(self, f)
    }

    /// A source of both: an item is one of the first's, if it has one, else one of the other's. Nothing is taken from the one
    /// that is not chosen.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, source};
    ///
    /// assert_eq!(source::never::<u32>().or(source::ready(7)).wait(), Ok(7));
    /// ```
    fn or<S>(self, other: S) -> Or<Self, S>
    where
        Self: Sized,
        S: Source<Item = Self::Item>,
    {
        Or::new(self, other)
    }

    /// A source of those values only that `accepts` says yes to; the others stay where they are, for others. For receivers,
    /// references to them, and races of these.
    ///
    /// That the other side has gone is reported in any case, but only once there are no more values, as by the receiver itself. A value in the buffer that `accepts`
    /// refuses is one: until another receiver has taken it, the filter goes on waiting, even if all senders have gone.
    ///
    /// `accepts` may be asked by whoever has a value to give, under [`no_suspend`](crate::no_suspend) and while the channel is
    /// locked: it may look at the value, and must not use the channel, nor channels whose own predicates use this one. It may drop senders and receivers of the channel,
    /// and whatever waits on the channel or holds a place in it: subscriptions, futures, selected operations. Such a drop takes effect when the channel is
    /// unlocked. So do callbacks that become ready, or are made, inside `accepts`.
    /// If it panics there, the one who waits gets the panic.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, channel};
    ///
    /// let (sender, numbers) = channel::unbounded();
    /// sender.send(2).unwrap();
    /// assert_eq!((&numbers).filter(|n| n % 2 == 1).try_take(), None);
    /// assert_eq!((&numbers).filter(|n| n % 2 == 0).wait(), Ok(Ok(2)));
    /// ```
    fn filter<P>(self, accepts: P) -> Filter<Self, P>
    where
        Self: Sized + Selective,
        P: Fn(&Self::Value) -> bool + Send + Sync,
    {
        Filter::new(self, accepts)
    }

    /// Calls `f` with an item, once, when there is one: now, if there is, and otherwise on whichever thread or task makes it so,
    /// after that has let go of every lock. It must be quick, and must not wait: it runs under [`no_suspend`](crate::no_suspend), so
    /// that it is `try_send` and not `send`. A panic in it goes no further, and is lost.
    ///
    /// A callback that is ready inside another callback runs when that one has returned, and before the call that made the outermost
    /// one run returns. So a chain of callbacks may have any length.
    ///
    /// Dropping the [`Subscription`] withdraws it: unless `f` has begun by then, or has its item and is about to, it never will, and
    /// nothing has been taken.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, channel};
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let (tell, told) = mpsc::channel();
    /// let subscription = receiver.on_ready(move |item| tell.send(item).unwrap());
    /// sender.send(7).unwrap();
    /// assert_eq!(told.recv(), Ok(Ok(7)));
    /// # drop(subscription);
    /// ```
    fn on_ready<F>(self, f: F) -> Subscription
    where
        Self: Sized + Send + 'static,
        F: FnOnce(Self::Item) + Send + 'static,
    {
        callback::subscribe(self, f)
    }

    /// A future of an item, for any runtime. It takes an item only when it is polled, and dropping it loses none: one that had been
    /// handed to it already goes to the next in line.
    ///
    /// What a [`filter`](Source::filter) accepts is asked in `poll` only; so a value for which others wait too may go to one of them
    /// before the future has seen it.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, channel};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let next = receiver.into_future();
    /// sender.send(7).unwrap();
    /// assert_eq!(ecru::block_on(next), Ok(Ok(7)));
    /// ```
    fn into_future(self) -> SourceFuture<Self>
    where
        Self: Sized,
    {
        SourceFuture::new(self)
    }

    #[doc(hidden)]
    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        // Once something may be given to the wait, no user code is called that could panic over it.
        match arms.pass() {
            Pass::Count => self.waiters(&mut |list| arms.notified_by(list)),
            // Between one list and the next it is registered already, and waits for nothing else: see `last_look`.
            Pass::Notify => no_suspend(|| self.waiters(&mut |list| arms.notified_by(list))),
            Pass::Take => {}
        }
    }

    #[doc(hidden)]
    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        if won.role() != Role::Notify {
            // Somebody else's, in a list that is known here too.
            return None;
        }
        let mut own = false;
        self.waiters(&mut |list| own |= won.is_of(list));
        if own { self.try_take() } else { None }
    }

    /// The wait has ended through `won`, and nobody wants what it brought: others get it. Those who are only notified have
    /// nothing to give back.
    #[doc(hidden)]
    fn __give_back(&self, won: &Won<'_>) {
        if won.role() == Role::Take {
            drop(self.__finish(won));
        }
    }
}

/// What points to a source is one.
macro_rules! forwards {
    ($($pointer:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $pointer {
            type Item = S::Item;

            fn try_take(&self) -> Option<Self::Item> {
                (**self).try_take()
            }

            fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
                (**self).waiters(each);
            }

            fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
                (**self).__register(arms);
            }

            fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
                (**self).__finish(won)
            }

            fn __give_back(&self, won: &Won<'_>) {
                (**self).__give_back(won);
            }
        }
    )*};
}

forwards!(&S, Box<S>, Arc<S>);

/// What [`Source::wait`] does unless the source has a better way: for one that has, where that fails.
#[track_caller]
pub(crate) fn wait_in_lists<S: Source + ?Sized>(source: &S) -> Result<S::Item, Cancelled> {
    match choose(&One(source), None) {
        Chosen::Ready(item) => Ok(item),
        Chosen::Cancelled(cancelled) => Err(cancelled),
        Chosen::TimedOut => unreachable!("there is no deadline"),
    }
}

/// A wait for a single source.
pub(crate) struct One<'a, S: ?Sized>(pub(crate) &'a S);

impl<S: Source + ?Sized> Choice for One<'_, S> {
    type Output = S::Item;

    fn attempt(&self) -> Option<S::Item> {
        self.0.try_take()
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.0.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<S::Item> {
        self.0.__finish(won)
    }
}
