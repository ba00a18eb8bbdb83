//! Sources without a giver: items that already exist, and items that never will.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::traits::Source;
use crate::park::{Mode, Outcome, Wait, WaitList, What};
use crate::task::{self, Cancelled};

/// The source returned by [`never`](never()).
pub struct Never<T> {
    _item: PhantomData<fn() -> T>,
}

/// Returns a source that never has an item.
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

    /// Parks until the wait is cancelled. There is nothing to try and no list to register in.
    #[inline]
    #[track_caller]
    fn wait(&self) -> Result<T, Cancelled> {
        task::begin_wait()?;
        let outcome =
            Wait::new(const { &What::new("a source that never has anything") }, Mode::Cancellable)
                .alone();
        debug_assert!(
            matches!(outcome, Outcome::Cancelled(())),
            "only a cancellation can end this wait"
        );
        Err(task::cancelled_wait())
    }
}

impl<T> fmt::Debug for Never<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Never")
    }
}

/// The source returned by [`ready`].
pub struct Ready<T> {
    value: Mutex<Option<T>>,
}

/// Returns a source that has `value`, once.
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

/// The source returned by [`from_iter`].
pub struct FromIter<I> {
    state: Mutex<State<I>>,
    /// Waits that began while another caller was running the iterator.
    waiters: WaitList,
}

enum State<I> {
    Here(I),
    /// Another caller is running `next`, without the lock, because it is user code.
    Lent,
    Exhausted,
}

/// Returns a source of the items of an iterator, each once. After the last item the source never
/// has another.
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
        // If this panics, the iterator is lost and waits never end, because the iterator's state
        // cannot be trusted any more.
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
