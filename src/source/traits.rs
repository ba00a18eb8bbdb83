//! The trait `Source`.

use std::any::type_name;
use std::sync::Arc;

use super::arms::{Arms, Pass, Won};
use super::callback::{self, Subscription};
use super::choose::{Choice, Chosen, choose};
use super::filter::{Filter, Selective};
use super::future::SourceFuture;
use super::map::Map;
use super::missed::Missed;
use super::pair::Or;
use crate::park::{Role, WaitList, no_suspend};
use crate::task::Cancelled;

/// A source of items that can be waited for: see [the module](crate::source).
///
/// A user-defined source implements [`try_take`](Source::try_take) and
/// [`waiters`](Source::waiters). The documentation of [`WaitList`] has a complete example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source, so it cannot be waited for",
    label = "this is not a source",
    note = "sources are receivers, handles of tasks, timers, semaphores, and references to them",
    note = "to wait for a future, call `ecru::block_on`, or spawn it by `s.spawn_future(..)` and wait for the handle"
)]
pub trait Source {
    /// The type of the items.
    type Item;

    /// Takes an item if one is available. Never waits.
    ///
    /// On a channel without a buffer, a select that would send does not count as an item, unlike in
    /// [`try_recv`](crate::channel::Receiver::try_recv). An attempt on several sources, as in a
    /// [`race`](crate::source::race()), looks at them one after another.
    fn try_take(&self) -> Option<Self::Item>;

    /// Calls `each` with every list that is notified when an item becomes available. A wrapper
    /// forwards the call to the source that it wraps.
    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList));

    /// Waits for an item and takes it.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has taken nothing. If an item was already
    /// handed over, the call returns the item.
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

    /// Returns a source that applies `f` to each item. `f` runs on the waiting side, after the item
    /// has been taken.
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

    /// Returns a source that takes an item of `self` if there is one, and otherwise an item of
    /// `other`. Nothing is taken from the source that is not chosen.
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

    /// Returns a source of only those values for which `accepts` returns true. The other values
    /// stay where they are, for other receivers. Only the value at the front of a channel's buffer
    /// is offered, so a refused value is in front of those behind it until another receiver has
    /// taken it. Receivers, references to them, and races of these have this method.
    ///
    /// Disconnection is always reported, but only when there are no more values, as by the receiver
    /// itself. A buffered value that `accepts` refuses counts as a value: until another receiver
    /// has taken it, the filter waits, even if all senders have been dropped.
    ///
    /// The giver of a value may call `accepts`, under [`no_suspend`] and while
    /// the channel is locked. There `accepts` may look at the value. It must not use the channel,
    /// nor channels whose own predicates use this one. It may drop senders and receivers of the
    /// channel, and anything that waits on the channel or holds a place in it: subscriptions,
    /// futures, selected operations. Such a drop takes effect when the channel is unlocked. The
    /// same holds for callbacks that become ready, or are created, inside `accepts`. If `accepts`
    /// panics there, the waiter gets the panic.
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

    /// Calls `f` once with an item: at once if one is available, and otherwise on the task or
    /// thread that makes one available, after it has released every lock. `f` must be quick and
    /// must not wait. It runs under [`no_suspend`], so it may call `try_send`
    /// but not `send`. A panic in `f` is caught and lost.
    ///
    /// Dropping the [`Subscription`] withdraws the callback. Unless `f` has already begun, it will
    /// never run, and nothing has been taken.
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

    /// Returns a future of an item, for any async runtime. It takes an item only when it is polled.
    /// Dropping it loses no item: an item that was already handed to it goes to the next waiter.
    ///
    /// From its first poll on, the future has a place among the waiters, until it is ready or
    /// dropped. There it may be handed an item, or a notification of
    /// [`Notify::notify_one`](crate::sync::Notify::notify_one), that no other waiter gets
    /// meanwhile. A future that is then left alone keeps it until it is polled or dropped. A future
    /// that is forgotten, as by [`mem::forget`](std::mem::forget), loses it. So drop a future that
    /// is no longer polled.
    ///
    /// [`Notify::notify_all`](crate::sync::Notify::notify_all) also reaches futures that existed
    /// when it was called and had not been polled yet. They may be futures of the `Notify`, of a
    /// reference to it, or of this library's combinations of sources. A wrapper that implements
    /// `Source` by itself is reached only after its first poll.
    ///
    /// The predicate of a [`filter`](Source::filter) is called only inside `poll`. So a value for
    /// which other waiters wait as well may go to one of them before the future has seen it.
    ///
    /// A future that always has an item does not keep a worker: after 128 items in one poll of a
    /// task or of [`block_on`](crate::block_on), futures of this library are pending until the next
    /// poll, and have called the waker. Code that takes all items that are there now polls no
    /// futures for that. It calls [`Receiver::try_recv`](crate::channel::Receiver::try_recv) and
    /// its like.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, channel};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let next = receiver.to_future();
    /// sender.send(7).unwrap();
    /// assert_eq!(ecru::block_on(next), Ok(Ok(7)));
    /// ```
    fn to_future(self) -> SourceFuture<Self>
    where
        Self: Sized,
    {
        SourceFuture::new(self)
    }

    #[doc(hidden)]
    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        // Once an item may be given to the wait, no user code is called, because a panic in it
        // would lose the item.
        match arms.pass() {
            Pass::Count => self.waiters(&mut |list| arms.notified_by(list)),
            // Between two lists the wait is already registered, so `waiters` must not wait for
            // anything else: see `last_look`.
            Pass::Notify => no_suspend(|| self.waiters(&mut |list| arms.notified_by(list))),
            Pass::Take => {}
        }
    }

    #[doc(hidden)]
    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        if won.role() != Role::Notify {
            // The registration belongs to another source that uses the same list.
            return None;
        }
        let mut own = false;
        self.waiters(&mut |list| own |= won.is_of(list));
        if own { self.try_take() } else { None }
    }

    /// Takes an event since the time that `missed` has noted, or notes the present. Only for events
    /// that the source does not keep for waits that begin later.
    #[doc(hidden)]
    fn __missed(&self, _missed: &mut Missed) -> Option<Self::Item> {
        None
    }

    /// Passes on what the wait that ended through `won` brought, because it is not wanted. Other
    /// waiters get it. A waiter that was only notified has nothing to pass on.
    #[doc(hidden)]
    fn __give_back(&self, won: &Won<'_>) {
        if won.role() == Role::Take {
            drop(self.__finish(won));
        }
    }
}

/// Implements `Source` for pointers to sources.
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

            fn __missed(&self, missed: &mut Missed) -> Option<Self::Item> {
                (**self).__missed(missed)
            }

            fn __give_back(&self, won: &Won<'_>) {
                (**self).__give_back(won);
            }
        }
    )*};
}

forwards!(&S, Box<S>, Arc<S>);

/// Waits for an item in the source's lists. [`Source::wait`] does this by default, and a source
/// with a better way uses it where that fails.
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

    fn describe(&self, each: &mut Vec<String>) {
        each.push(String::from(type_name::<S>()));
    }
}
