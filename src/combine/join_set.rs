//! Results of tasks in the order in which they end.
#![expect(unsafe_code, reason = "owns entries that tasks point to")]

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use super::engine;
use crate::base::list::{Link, Pile};
use crate::base::sync::SpinLock;
use crate::park::{Entry, Gathering, Mode, Read, WaitList};
use crate::scope::{Internals, JoinError, JoinHandle, Scope, TryScope};
use crate::source::{Arms, Source, Won};
use crate::task;

/// Tasks of a scope whose results are read in the order in which the tasks end. More tasks can be
/// spawned meanwhile.
///
/// Dropping the set does not affect the tasks, because they belong to the scope. A set may be
/// shared; each result goes to one reader.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let set = ecru::JoinSet::new(s);
///         for n in 1..=3 {
///             set.spawn(move || n);
///         }
///         let mut sum = 0;
///         while let Some(result) = set.join_next() {
///             let n: u32 = result.unwrap();
///             if n == 3 {
///                 set.spawn(|| 10);
///             }
///             sum += n;
///         }
///         assert_eq!(sum, 16);
///     });
/// });
/// ```
///
/// In a [`TryScope`] the tasks return `Result`. An `Err` fails the scope, and the set returns
/// [`JoinError::Failed`] for that task.
///
/// ```
/// use ecru::{JoinError, JoinSet};
///
/// ecru::run(|| {
///     let result = ecru::try_scope(|s| {
///         let set = JoinSet::new(s);
///         for text in ["1", "two"] {
///             set.spawn(move || text.parse::<i32>());
///         }
///         while let Some(Ok(number)) = set.join_next() {
///             assert_eq!(number, 1);
///         }
///         Ok(())
///     });
///     assert!(result.is_err());
/// });
/// ```
pub struct JoinSet<'scope, 'env, T, S = Scope<'scope, 'env>> {
    scope: &'scope S,
    /// Allocated separately: if the set is forgotten, tasks that end may still access the
    /// gathering.
    gathering: Arc<Gathering>,
    /// The members whose results have not been read. A new member is entered under this lock, so
    /// that no reader frees it meanwhile.
    members: SpinLock<Pile>,
    /// The last cancellation that was reported to each cancelled reader: the reader's identity and
    /// the number of the request.
    reported: SpinLock<Vec<(u64, u32)>>,
    _handles: PhantomData<JoinHandle<'scope, T>>,
    /// Makes the set invariant in `T`, because results are both put in and taken out.
    _invariant: PhantomData<fn(T) -> T>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// A scope to which a [`JoinSet`] can belong.
///
/// # Examples
/// ```
/// use ecru::JoinSet;
/// use ecru::combine::AnyScope;
///
/// /// Waits until at most `most` tasks of a set of any scope are left.
/// fn drain<'s, 'env, T: Send, S: AnyScope<'s, 'env>>(set: &JoinSet<'s, 'env, T, S>, most: usize) {
///     while set.len() > most {
///         let _ = set.join_next();
///     }
/// }
/// ```
pub trait AnyScope<'scope, 'env>: sealed::Sealed {}
impl<'scope, 'env> AnyScope<'scope, 'env> for Scope<'scope, 'env> {}
impl<'scope, 'env, E> AnyScope<'scope, 'env> for TryScope<'scope, 'env, E> {}

mod sealed {
    #[expect(unnameable_types, reason = "seals `AnyScope`")]
    pub trait Sealed {}
    impl Sealed for super::Scope<'_, '_> {}
    impl<E> Sealed for super::TryScope<'_, '_, E> {}
}

/// One task of a set. It is on the heap because the task points to it.
#[repr(C)]
struct Member<'scope, T> {
    /// The link in the set's `members`.
    link: Link,
    entry: Entry,
    handle: JoinHandle<'scope, T>,
}

// SAFETY: G1: the lock guards the pile and its links. Results move between threads, each to one
// reader.
unsafe impl<T: Send, S: Sync> Sync for JoinSet<'_, '_, T, S> {}
// SAFETY: G1: the pile and its links belong to no thread, and the results, which move with the set,
// are `Send`.
unsafe impl<T: Send, S: Sync> Send for JoinSet<'_, '_, T, S> {}

impl<'scope, 'env, T> JoinSet<'scope, 'env, T> {
    /// Spawns a task in the scope. The set will return its result.
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks.
    #[track_caller]
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.enter(self.scope.spawn(f));
    }
}

impl<'scope, 'env, T, E: Send> JoinSet<'scope, 'env, T, TryScope<'scope, 'env, E>> {
    /// Spawns a task in the scope. The set will return its value, and an `Err` fails the scope.
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks.
    #[track_caller]
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        self.enter(self.scope.spawn(f));
    }
}

impl<'scope, 'env, T, S> JoinSet<'scope, 'env, T, S>
where
    S: AnyScope<'scope, 'env>,
{
    /// Creates an empty set for tasks of `scope`, which is a [`Scope`] or a
    /// [`TryScope`].
    #[must_use]
    pub fn new(scope: &'scope S) -> Self {
        JoinSet {
            scope,
            gathering: Arc::new(Gathering::new()),
            members: SpinLock::new(Pile::new()),
            reported: SpinLock::new(Vec::new()),
            _handles: PhantomData,
            _invariant: PhantomData,
            _env: PhantomData,
        }
    }
}

impl<'scope, T, S> JoinSet<'scope, '_, T, S> {
    /// Makes a task of the scope a member.
    fn enter(&self, handle: JoinHandle<'scope, T>) {
        let entry = Entry::new(&self.gathering, std::ptr::null());
        let member = Box::into_raw(Box::new(Member { link: Link::new(), entry, handle }));
        // SAFETY: G1: no other thread knows the member yet, and none frees it before the lock below
        // is released.
        let task = unsafe { &(*member).handle }.task().0;
        // SAFETY: G1: no other thread frees the member before the lock below is released. The line
        // makes no reference, so the entry may be shared through the pointer.
        let entry = unsafe { &raw const (*member).entry };
        // SAFETY: G1: the entry is a part of the member, which no other thread frees before the lock
        // below is released.
        unsafe { &*entry }.set_key(member.cast_const().cast());
        let members = self.members.lock();
        // SAFETY: L3: the member is in no list, and stays in place until it has been taken out
        // under this lock.
        unsafe { members.push(member.cast_const().cast()) };
        // SAFETY: G1: gathering and entry are on the heap, and stay until the entry has been read
        // or `drop` has taken it out.
        unsafe { engine::enter(&self.gathering, task, entry) };
    }

    /// Returns the result of the next task that ends or has already ended, and waits for it.
    /// Returns `None` if the results of all tasks have been returned.
    ///
    /// A cancellation is reported once to each reader, as [`JoinError::CallerCancelled`]. As long
    /// as the same request is in force, further calls by this reader return `None`, so a loop that
    /// reads to the end terminates. No result is lost: the reader can continue outside the
    /// cancelled section.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point, as described above.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let set = ecru::JoinSet::new(s);
    ///         for n in 1..=3 {
    ///             set.spawn(move || n * n);
    ///         }
    ///         let mut sum = 0;
    ///         while let Some(square) = set.join_next() {
    ///             sum += square.unwrap();
    ///         }
    ///         assert_eq!(sum, 14);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn join_next(&self) -> Option<Result<T, JoinError>> {
        let begun = task::begin_wait();
        if self.is_empty() {
            return None;
        }
        if begun.is_err() {
            return self.report();
        }
        match engine::next(&self.gathering, Mode::Cancellable) {
            Read::Entry(key) => Some(self.read(key)),
            Read::Nothing => None,
            Read::Cancelled => self.report(),
        }
    }

    /// Returns the result of the next task that has already ended. Returns `None` if no task has
    /// ended, or if the results of all tasks have been returned: [`is_empty`](JoinSet::is_empty)
    /// tells which. Never waits.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let set = ecru::JoinSet::new(s);
    ///         assert!(set.try_join_next().is_none());
    ///         set.spawn(|| 7);
    ///         let result = loop {
    ///             match set.try_join_next() {
    ///                 Some(result) => break result,
    ///                 None => ecru::yield_now().unwrap(),
    ///             }
    ///         };
    ///         assert_eq!(result.unwrap(), 7);
    ///     });
    /// });
    /// ```
    pub fn try_join_next(&self) -> Option<Result<T, JoinError>> {
        match self.gathering.try_read()? {
            Read::Entry(key) => Some(self.read(key)),
            Read::Nothing | Read::Cancelled => None,
        }
    }

    fn report(&self) -> Option<Result<T, JoinError>> {
        let (reader, number) = (task::current_identity(), task::request_number());
        let mut reported = self.reported.lock();
        // This is tracked for each reader separately. Otherwise two cancelled readers would
        // overwrite each other's number and never end. The numbers do not tell which request is
        // newer.
        let is_new = match reported.iter_mut().find(|(other, _)| *other == reader) {
            Some((_, last)) => mem::replace(last, number) != number,
            None => {
                reported.push((reader, number));
                true
            }
        };
        drop(reported);
        is_new.then_some(Err(JoinError::CallerCancelled))
    }

    /// Takes a member whose task has ended out of the set.
    fn read(&self, key: *const ()) -> Result<T, JoinError> {
        {
            let members = self.members.lock();
            // SAFETY: L3: the member is in the list until its only reader takes it out here.
            unsafe { members.remove(key.cast()) };
        }
        // SAFETY: G1: no other thread knows the member any more, and `enter` made it as a box.
        let member = unsafe { Box::from_raw(key.cast_mut().cast::<Member<'scope, T>>()) };
        member.handle.claim()
    }

    /// Returns the number of tasks whose results have not been returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gathering.len()
    }

    /// Returns whether the results of all tasks have been returned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The source yields `Some` of the result of the next task that ends, and `None` as long as the
/// results of all tasks have been returned.
///
/// # Examples
/// ```
/// use ecru::{JoinSet, channel, select};
///
/// ecru::run(|| {
///     let (sender, numbers) = channel::unbounded();
///     (1..=3).for_each(|number| sender.send(number).unwrap());
///     sender.close();
///     ecru::scope(|s| {
///         let (set, mut open, mut sum) = (JoinSet::new(s), true, 0);
///         while open || !set.is_empty() {
///             select! {
///                 recv(numbers) -> number if open => match number {
///                     Ok(number) => set.spawn(move || number * 10),
///                     Err(_) => open = false,
///                 },
///                 wait(set) -> result if !set.is_empty() => {
///                     sum += result.unwrap().unwrap().unwrap();
///                 }
///             }
///         }
///         assert_eq!(sum, 60);
///     });
/// });
/// ```
impl<T, S> Source for JoinSet<'_, '_, T, S> {
    type Item = Option<Result<T, JoinError>>;

    fn try_take(&self) -> Option<Self::Item> {
        match self.gathering.try_read()? {
            Read::Entry(key) => Some(Some(self.read(key))),
            Read::Nothing | Read::Cancelled => Some(None),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.gathering.watch());
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        arms.notified(|| self.gathering.watch());
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        if won.is_of(self.gathering.onlookers()) { self.try_take() } else { None }
    }
}

impl<T, S> Drop for JoinSet<'_, '_, T, S> {
    fn drop(&mut self) {
        let members = self.members.lock();
        let first = members.first();
        drop(members);
        // All members are unlinked from their tasks before the first is freed, because freeing one
        // may run any destructor.
        each::<T>(first, |member| {
            // SAFETY: G1: the member is in the set, so it has not been freed.
            let member = unsafe { &*member };
            engine::leave(member.handle.task().0, &member.entry);
        });
        each::<T>(first, |member| {
            // SAFETY: G1: the member is not in its task's list now, and the gathering has no reader
            // any more.
            drop(unsafe { Box::from_raw(member) });
        });
    }
}

/// Calls `visit` with each member from `link` on. `visit` may free the member.
fn each<'scope, T>(mut link: *const Link, mut visit: impl FnMut(*mut Member<'scope, T>)) {
    // SAFETY: L3: the set is being dropped, so no other thread changes the list.
    while let Some(here) = unsafe { link.as_ref() } {
        let member = link.cast_mut().cast();
        link = here.next();
        visit(member);
    }
}

impl<T, S> fmt::Debug for JoinSet<'_, '_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
