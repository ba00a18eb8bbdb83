//! Sources that need nobody to give: what is there, and what never will be.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::traits::Source;
use crate::park::{About, CANCELLED, Mode, WaitList, Waiter};
use crate::task::{self, Cancelled};

/// From [`never`](never()).
pub struct Never<T> {
    _item: PhantomData<fn() -> T>,
}

/// A source that never has anything.
///
/// # Examples
/// ```
/// use ecru::{Source, source};
///
/// assert_eq!(source::never::<u32>().try_take(), None);
/// ```
#[must_use]
pub fn never<T>() -> Never<T> {
    Never { _item: PhantomData }
}

impl<T> Source for Never<T> {
    type Item = T;

    fn try_take(&self) -> Option<T> {
        None
    }

    fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a WaitList)) {}

    /// Nothing to look at, nor to register with: all there is to it is to be away until the end.
    #[inline]
    #[track_caller]
    fn wait(&self) -> Result<T, Cancelled> {
        task::begin_wait()?;
        let waiter = Waiter::new();
        waiter.set_purpose("a source that never has anything", About::Nothing);
        let outcome = task::wait(&waiter, None, Mode::Cancellable);
        debug_assert_eq!(outcome, CANCELLED, "nobody else knows of it");
        Err(task::cancelled_wait())
    }
}

impl<T> fmt::Debug for Never<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Never")
    }
}

/// From [`ready`].
pub struct Ready<T> {
    value: Mutex<Option<T>>,
}

/// A source that has `value`, once.
///
/// # Examples
/// ```
/// use ecru::{Source, source};
///
/// let once = source::ready(7);
/// assert_eq!(once.wait(), Ok(7));
/// assert_eq!(once.try_take(), None);
/// ```
#[must_use]
pub fn ready<T>(value: T) -> Ready<T> {
    Ready { value: Mutex::new(Some(value)) }
}

impl<T> Source for Ready<T> {
    type Item = T;

    fn try_take(&self) -> Option<T> {
        lock(&self.value).take()
    }

    fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a WaitList)) {}
}

impl<T> fmt::Debug for Ready<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("taken", &lock(&self.value).is_none()).finish()
    }
}

/// From [`from_iter`].
pub struct FromIter<I> {
    state: Mutex<State<I>>,
    /// Those who came while the iterator was at work for somebody else.
    waiters: WaitList,
}

enum State<I> {
    Here(I),
    /// Somebody is calling `next`, without the lock: it is the user's code.
    Lent,
    Exhausted,
}

/// A source of what an iterator gives, each item once. After the last one it never has anything.
///
/// # Examples
/// ```
/// use ecru::{Source, source};
///
/// let numbers = source::from_iter(1..=2);
/// assert_eq!(numbers.wait(), Ok(1));
/// assert_eq!(numbers.wait(), Ok(2));
/// assert_eq!(numbers.try_take(), None);
/// ```
pub fn from_iter<I: IntoIterator>(iter: I) -> FromIter<I::IntoIter> {
    FromIter { state: Mutex::new(State::Here(iter.into_iter())), waiters: WaitList::new() }
}

impl<I: Iterator> Source for FromIter<I> {
    type Item = I::Item;

    fn try_take(&self) -> Option<I::Item> {
        let mut iter = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut *state, State::Lent) {
                State::Here(iter) => iter,
                other => {
                    *state = other;
                    return None;
                }
            }
        };
        // If this panics the iterator is gone, and whoever waits waits for ever; its state could not be trusted.
        let item = iter.next();
        *lock(&self.state) = if item.is_some() { State::Here(iter) } else { State::Exhausted };
        self.waiters.notify_one();
        item
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiters);
    }
}

impl<I> fmt::Debug for FromIter<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromIter").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
