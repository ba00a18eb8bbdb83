//! Tasks one after another, as they end.
#![expect(unsafe_code, reason = "owns entries that tasks point to")]

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use super::watch::{self, Next};
use crate::base::list::{Link, Pile};
use crate::base::sync::SpinLock;
use crate::park::{Entry, Gathering, Mode};
use crate::scope::{Internals, JoinError, JoinHandle, Scope, TryScope};
use crate::task;

/// Tasks of a scope whose results are read one after another, in the order in which they end. More can be spawned meanwhile.
///
/// Dropping it does not matter to the tasks: they are their scope's. It may be shared: each result goes to one reader.
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
/// In a [`TryScope`] its tasks return `Result`: an `Err` fails the scope, and is given as [`JoinError::Failed`].
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
    /// Not part of this value: if that is forgotten, tasks may still tell it.
    gathering: Arc<Gathering>,
    /// All that have not been read. Its lock is held while a member is being entered, so that no reader frees it meanwhile.
    members: SpinLock<Pile>,
    /// The last request that was reported to each reader that has been cancelled: the reader's identity and the request's number.
    reported: SpinLock<Vec<(u64, u32)>>,
    _handles: PhantomData<JoinHandle<'scope, T>>,
    /// Results go in and come out: a set of results that live longer cannot pass for one of shorter-lived ones.
    _invariant: PhantomData<fn(T) -> T>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// A scope that a [`JoinSet`] can belong to.
pub trait AnyScope<'scope, 'env>: sealed::Sealed {}
impl<'scope, 'env> AnyScope<'scope, 'env> for Scope<'scope, 'env> {}
impl<'scope, 'env, E> AnyScope<'scope, 'env> for TryScope<'scope, 'env, E> {}

mod sealed {
    #[expect(unnameable_types, reason = "so that only the scopes of this library are scopes")]
    pub trait Sealed {}
    impl Sealed for super::Scope<'_, '_> {}
    impl<E> Sealed for super::TryScope<'_, '_, E> {}
}

/// One task of a set; on the heap, because the task points to it.
#[repr(C)]
struct Member<'scope, T> {
    /// In the set's `members`.
    link: Link,
    entry: Entry,
    handle: JoinHandle<'scope, T>,
}

// SAFETY: G1: the pile and its links are guarded by the lock; results move between threads, each to one.
unsafe impl<T: Send, S: Sync> Sync for JoinSet<'_, '_, T, S> {}
// SAFETY: G1, as above.
unsafe impl<T: Send, S: Sync> Send for JoinSet<'_, '_, T, S> {}

impl<'scope, 'env, T> JoinSet<'scope, 'env, T> {
    /// Spawns a task of the scope whose result this set will give.
    ///
    /// # Panics
    /// On a thread that runs no tasks.
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
    /// Spawns a task of the scope whose value this set will give. Its `Err` fails the scope.
    ///
    /// # Panics
    /// On a thread that runs no tasks.
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
    /// Creates a set without tasks. Its tasks will be those of the scope: a [`Scope`] or a [`TryScope`].
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
        // SAFETY: G1: nobody else knows it yet, and nobody frees it before the lock below is free.
        let task = unsafe { &(*member).handle }.task().0;
        // SAFETY: G1, as above.
        let entry = unsafe { &raw const (*member).entry };
        // SAFETY: G1, as above.
        unsafe { &*entry }.set_key(member.cast_const().cast());
        let members = self.members.lock();
        // SAFETY: L3: in no list; it stays until it has been taken out under this lock.
        unsafe { members.push(member.cast_const().cast()) };
        // SAFETY: G1: both are on the heap, and stay until the entry has been read or `drop` has taken it out.
        unsafe { watch::enter(&self.gathering, task, entry) };
    }

    /// The result of the next task that ends, or has ended; waits for it. None: there is no task whose result has not been given.
    ///
    /// A cancellation is reported once to each reader, as [`JoinError::CallerCancelled`]. As long as the same request lasts, further calls of this
    /// reader return `None`, so a loop that reads to the end ends. No result is lost: outside the cancelled section, one can read on.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point, see above.
    #[track_caller]
    pub fn join_next(&self) -> Option<Result<T, JoinError>> {
        let begun = task::begin_wait();
        if self.is_empty() {
            return None;
        }
        if begun.is_err() {
            return self.report();
        }
        match watch::next(&self.gathering, Mode::Cancellable) {
            Next::Ended(key) => Some(self.read(key)),
            Next::Nobody => None,
            Next::Cancelled => self.report(),
        }
    }

    fn report(&self) -> Option<Result<T, JoinError>> {
        let (reader, number) = (task::current_identity(), task::request_number());
        let mut reported = self.reported.lock();
        // For each reader by itself: two cancelled readers would otherwise keep each other going. Numbers do not tell which request is newer.
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
            // SAFETY: L3: it is in until its one reader takes it out, here.
            unsafe { members.remove(key.cast()) };
        }
        // SAFETY: G1: nobody else knows it any more; `spawn` made it.
        let member = unsafe { Box::from_raw(key.cast_mut().cast::<Member<'scope, T>>()) };
        member.handle.claim()
    }

    /// How many tasks there are whose results have not been given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gathering.len()
    }

    /// Whether there is no such task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, S> Drop for JoinSet<'_, '_, T, S> {
    fn drop(&mut self) {
        let members = self.members.lock();
        let first = members.first();
        drop(members);
        // First nobody points to any of them, then they go, one with all that its destructor may do.
        each::<T>(first, |member| {
            // SAFETY: G1: in the set, hence not freed.
            let member = unsafe { &*member };
            watch::leave(member.handle.task().0, &member.entry);
        });
        each::<T>(first, |member| {
            // SAFETY: G1: out of its task's list, and nobody reads the gathering any more.
            drop(unsafe { Box::from_raw(member) });
        });
    }
}

/// Calls `visit` with each member from `link` on, which it may free.
fn each<'scope, T>(mut link: *const Link, mut visit: impl FnMut(*mut Member<'scope, T>)) {
    // SAFETY: L3: the set is being dropped: nobody else changes the list.
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
