//! The methods of a scope that return iterators, whose tasks run ahead of the reader.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::engine::{job, refuse_zero};
use crate::scope::{JoinError, JoinHandle, Scope, TryScope};
use crate::task;

impl<'scope> Scope<'scope, '_> {
    /// Calls `f` for every item, each in a task of the scope. This call launches all tasks. The
    /// iterator returns the results in the order of the items, and waits for each. If an item
    /// fails, the error takes its place.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let halves: Vec<_> = s.map([8, 0, 4], |n| 8 / n).map(|half| half.ok()).collect();
    ///         assert_eq!(halves, [Some(1), None, Some(2)]);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn map<I, R, F>(&'scope self, items: I, f: F) -> Mapped<'scope, R>
    where
        I: IntoIterator<Item: Send + 'scope>,
        R: Send + 'scope,
        F: Fn(I::Item) -> R + Send + Sync + 'scope,
    {
        let (f, at) = (Arc::new(f), Location::caller());
        Mapped {
            handles: items
                .into_iter()
                .map(|item| self.builder().__spawned_at(at).spawn(job(&f, item)))
                .collect(),
        }
    }

    /// Calls `f` for every item, each in a task of the scope, at most `window` of them ahead of the
    /// reader. No item is taken and no task starts before the first call of `next`, so `items` may
    /// be endless.
    ///
    /// # Panics
    /// Panics if `window` is 0.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let first: Vec<_> =
    ///             s.map_buffered(4, 1.., |n| n * n).take(3).map(Result::unwrap).collect();
    ///         assert_eq!(first, [1, 4, 9]);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn map_buffered<I, R, F>(
        &'scope self,
        window: usize,
        items: I,
        f: F,
    ) -> MappedBuffered<'scope, I::IntoIter, F, R>
    where
        I: IntoIterator<Item: Send + 'scope>,
        R: Send + 'scope,
        F: Fn(I::Item) -> R + Send + Sync + 'scope,
    {
        let (f, at) = (Arc::new(f), Location::caller());
        MappedBuffered::new(window, items.into_iter(), move |item| {
            self.builder().__spawned_at(at).spawn(job(&f, item))
        })
    }

    /// Calls `f` for every item, in chunks of `n`, and returns a lazy iterator of handles. A chunk
    /// starts when its first handle is requested. That handle is returned when the whole chunk has
    /// ended. The next chunk starts only when the reader gets there.
    ///
    /// # Panics
    /// Panics if `n` is 0.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mut handles = s.map_chunks(3, 0.., |n| n + 1);
    ///         let first = handles.next().unwrap();
    ///         assert!(first.is_finished());
    ///         assert_eq!(first.join().unwrap(), 1);
    ///     });
    /// });
    /// ```
    #[doc(alias = "fmap")]
    #[track_caller]
    pub fn map_chunks<I, R, F>(
        &'scope self,
        n: usize,
        items: I,
        f: F,
    ) -> Chunks<'scope, I::IntoIter, F, R>
    where
        I: IntoIterator<Item: Send + 'scope>,
        R: Send + 'scope,
        F: Fn(I::Item) -> R + Send + Sync + 'scope,
    {
        refuse_zero("a chunk of 0 items", n);
        Chunks { inner: self.map_buffered(n, items, f) }
    }
}

impl<'scope, E: Send> TryScope<'scope, '_, E> {
    /// Calls `f` for every item, each in a task of the scope. This call launches all tasks. The
    /// iterator returns the results in the order of the items, and waits for each.
    ///
    /// The first `Err` fails the scope and cancels its body. The iterator returns it as
    /// [`JoinError::Failed`] at the place of its item. It reports the cancellation once, as
    /// [`JoinError::CallerCancelled`], before it ends.
    ///
    /// # Examples
    /// ```
    /// use ecru::JoinError;
    ///
    /// ecru::run(|| {
    ///     let sum = ecru::try_scope(|s| {
    ///         let numbers =
    ///             s.map(["1", "2", "3"], |text| Ok::<i32, JoinError>(text.parse().unwrap()));
    ///         numbers.sum::<Result<i32, _>>()
    ///     });
    ///     assert_eq!(sum.unwrap(), 6);
    /// });
    /// ```
    #[track_caller]
    pub fn map<I, R, F>(&'scope self, items: I, f: F) -> Mapped<'scope, R>
    where
        I: IntoIterator<Item: Send + 'scope>,
        R: Send + 'scope,
        F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'scope,
    {
        let (f, at) = (Arc::new(f), Location::caller());
        Mapped {
            handles: items
                .into_iter()
                .map(|item| self.builder().__spawned_at(at).spawn(job(&f, item)))
                .collect(),
        }
    }

    /// Calls `f` for every item, each in a task of the scope, at most `window` of them ahead of the
    /// reader. No item is taken and no task starts before the first call of `next`, so `items` may
    /// be endless.
    ///
    /// The first `Err` fails the scope and cancels its body, like [`map`](TryScope::map). Items
    /// that have not been taken by then stay in the caller's iterator.
    ///
    /// # Panics
    /// Panics if `window` is 0.
    ///
    /// # Examples
    /// ```
    /// use std::num::ParseIntError;
    ///
    /// ecru::run(|| {
    ///     let mut sum = 0;
    ///     let result = ecru::try_scope(|s| {
    ///         let texts = ["1", "2", "three", "4"];
    ///         for number in s.map_buffered(2, texts, |text| text.parse::<i32>()) {
    ///             match number {
    ///                 Ok(number) => sum += number,
    ///                 Err(_) => break, // the scope returns the error
    ///             }
    ///         }
    ///         Ok(())
    ///     });
    ///     let error: ParseIntError = result.unwrap_err();
    ///     assert_eq!(error.to_string(), "invalid digit found in string");
    /// });
    /// ```
    #[track_caller]
    pub fn map_buffered<I, R, F>(
        &'scope self,
        window: usize,
        items: I,
        f: F,
    ) -> MappedBuffered<'scope, I::IntoIter, F, R>
    where
        I: IntoIterator<Item: Send + 'scope>,
        R: Send + 'scope,
        F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'scope,
    {
        let (f, at) = (Arc::new(f), Location::caller());
        MappedBuffered::new(window, items.into_iter(), move |item| {
            self.builder().__spawned_at(at).spawn(job(&f, item))
        })
    }
}

/// An iterator over the results of [`Scope::map`] and [`TryScope::map`].
///
/// If the caller is cancelled, it returns [`JoinError::CallerCancelled`] once and then ends.
#[derive(Debug)]
pub struct Mapped<'scope, R> {
    /// The tasks whose results have not been read.
    handles: VecDeque<JoinHandle<'scope, R>>,
}

impl<R> Iterator for Mapped<'_, R> {
    type Item = Result<R, JoinError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.handles.pop_front()?.join();
        if let Err(JoinError::CallerCancelled) = result {
            self.handles.clear();
        }
        Some(result)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.handles.len()))
    }
}

impl<R> FusedIterator for Mapped<'_, R> {}

/// A closure that spawns the task of an item.
type Spawn<'scope, T, R> = Box<dyn Fn(T) -> JoinHandle<'scope, R> + 'scope>;

/// An iterator over the results of [`Scope::map_buffered`] and [`TryScope::map_buffered`].
///
/// If the caller is cancelled, it returns [`JoinError::CallerCancelled`] once and then ends.
#[must_use = "nothing starts before the first call of `next`"]
pub struct MappedBuffered<'scope, I: Iterator, F, R> {
    items: I,
    spawn: Spawn<'scope, I::Item, R>,
    started: Mapped<'scope, R>,
    window: usize,
    _f: PhantomData<fn() -> F>,
}

impl<'scope, I: Iterator, F, R> MappedBuffered<'scope, I, F, R> {
    #[track_caller]
    fn new(
        window: usize,
        items: I,
        spawn: impl Fn(I::Item) -> JoinHandle<'scope, R> + 'scope,
    ) -> Self {
        refuse_zero("a window of 0", window);
        let started = Mapped { handles: VecDeque::new() };
        MappedBuffered { items, spawn: Box::new(spawn), started, window, _f: PhantomData }
    }

    /// Fills the window, unless the caller is cancelled: a child would be cancelled, too, so its
    /// item would be lost. After the first `None` of the items it never takes another one.
    fn fill(&mut self) {
        while self.window > self.started.handles.len() && !task::is_cancelled() {
            let Some(item) = self.items.next() else {
                self.window = 0;
                return;
            };
            self.started.handles.push_back((self.spawn)(item));
        }
    }
}

impl<I: Iterator, F, R> Iterator for MappedBuffered<'_, I, F, R> {
    type Item = Result<R, JoinError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let result = self.started.next().or_else(|| {
            // A window that is open and empty has not been filled.
            (self.window > 0).then_some(Err(JoinError::CallerCancelled))
        });
        if let Some(Err(JoinError::CallerCancelled)) = result {
            self.window = 0;
        }
        result
    }
}

impl<I: Iterator, F, R> FusedIterator for MappedBuffered<'_, I, F, R> {}

impl<I: Iterator, F, R> std::fmt::Debug for MappedBuffered<'_, I, F, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedBuffered")
            .field("running", &self.started.handles.len())
            .finish_non_exhaustive()
    }
}

/// An iterator over the handles of [`Scope::map_chunks`].
///
/// If the caller is cancelled while it waits for a chunk, the iterator still returns the handles of
/// that chunk and then ends. Some of their tasks may still be running.
#[must_use = "nothing starts before the first call of `next`"]
pub struct Chunks<'scope, I: Iterator, F, R> {
    inner: MappedBuffered<'scope, I, F, R>,
}

impl<'scope, I: Iterator, F, R> Iterator for Chunks<'scope, I, F, R> {
    type Item = JoinHandle<'scope, R>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.inner.started.handles.is_empty() {
            self.inner.fill();
            for handle in &self.inner.started.handles {
                if handle.wait_finished().is_err() {
                    // No further chunk is started.
                    self.inner.window = 0;
                    break;
                }
            }
        }
        self.inner.started.handles.pop_front()
    }
}

impl<I: Iterator, F, R> FusedIterator for Chunks<'_, I, F, R> {}

impl<I: Iterator, F, R> std::fmt::Debug for Chunks<'_, I, F, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks")
            .field("running", &self.inner.started.handles.len())
            .finish_non_exhaustive()
    }
}
