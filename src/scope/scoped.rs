//! The plain scope. It waits for its tasks, and a failed task does not affect the others.

use std::marker::PhantomData;
use std::panic::Location;

use super::core::{self, ScopeCore};
use super::join::JoinHandle;
use super::joinable::Internals;
use super::options::{Options, Start};
use crate::base::short_trace;
use crate::source::Source;
use crate::task::{self, Body, CancelReason, Failure, Work};

/// The tasks of a [`scope`]. The scope's body gets a reference to it. Tasks may use that reference,
/// too, to spawn siblings.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let total = std::sync::atomic::AtomicU32::new(0);
///     ecru::scope(|s| {
///         s.spawn(|| {
///             // A task may spawn into the scope that it belongs to.
///             s.spawn(|| total.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
///         });
///     });
///     assert_eq!(total.into_inner(), 1);
/// });
/// ```
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    pub(super) core: ScopeCore,
    /// Makes the type invariant over both lifetimes, as `std::thread::Scope` is. Otherwise a scope
    /// could be passed off as one that lives longer.
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope and runs `body` in it. Returns `body`'s value once every task of the scope has
/// ended.
///
/// Tasks may borrow whatever outlives the scope, also mutably. They may run in parallel on other
/// workers.
///
/// A value that tasks only borrow lives longer than the scope. This matters for a task that reads a
/// [channel](crate::channel) to its end: the channel ends when its last
/// [`Sender`](crate::channel::Sender) is dropped. If that sender is declared outside the scope and
/// tasks only borrow it, the reader waits for ever, and so does the scope. To avoid this, move the
/// sender into one of the tasks (or a clone into each), drop it in the body, or
/// [close](crate::channel::Sender::close) the channel. The last example shows this.
///
/// # Panics
/// - Panics if called outside a run, or inside [`no_suspend`](crate::no_suspend).
/// - Propagates a panic of `body`, after the tasks have been cancelled and have ended.
/// - Panics if a task panicked and was not joined, after all tasks have ended. The message names
///   the task and the place of its panic.
/// - A task for which no stack can be mapped when it starts counts as one that panicked. Its
///   closure is dropped without being called, on its worker and outside of any task. The message
///   says so.
///
/// # Cancellation
/// The wait at the end is not a cancellation point. A request that cancels the caller also cancels
/// the tasks of the scope.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let words = vec!["stack", "ful"];
///     let (long, short) = ecru::scope(|s| {
///         let long = s.spawn(|| words.iter().map(|word| word.len()).max());
///         let short = s.spawn(|| words.iter().map(|word| word.len()).min());
///         (long.join().unwrap(), short.join().unwrap())
///     });
///     assert_eq!((long, short), (Some(5), Some(3)));
/// });
/// ```
///
/// ```
/// ecru::run(|| {
///     let (sender, receiver) = ecru::channel::unbounded();
///     let sum: u32 = ecru::scope(|s| {
///         let sum = s.spawn(|| receiver.iter().sum());
///         // `move`, because a borrowed sender would outlive the scope. The sum would never end.
///         s.spawn(move || (1..=4).for_each(|number| sender.send(number).unwrap()));
///         sum.join().unwrap()
///     });
///     assert_eq!(sum, 10);
/// });
/// ```
#[track_caller]
pub fn scope<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    crate::park::refuse_if_no_suspend();
    assert!(
        task::current_header().is_some(),
        "`ecru::scope` called outside a run; wrap the program in `ecru::run(|| ..)`"
    );
    let scope = Scope {
        core: ScopeCore::new(task::current_node()),
        _scope: PhantomData,
        _env: PhantomData,
    };
    match short_trace::end(|| scope.core.run(|| short_trace::begin_with(body, &scope))) {
        Ok(value) => value,
        Err(panic) => panic.pass_on(),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a task. It may start on any worker and may borrow from outside the scope.
    ///
    /// Until the task starts, it is a small box without a stack. Dropping the handle does not
    /// affect the task.
    ///
    /// A task that calls an `async fn` only makes a future, which runs nothing. To run one, use
    /// [`spawn_future`](Scope::spawn_future).
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let mut counts = [0; 4];
    ///     ecru::scope(|s| {
    ///         for (n, count) in counts.iter_mut().enumerate() {
    ///             s.spawn(move || *count = n * n);
    ///         }
    ///     });
    ///     assert_eq!(counts, [0, 1, 4, 9]);
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn spawn<F, U>(&'scope self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        self.core.spawn(Plain(f), Options::default(), Start::Anywhere)
    }

    /// Spawns a task that starts on the caller's own worker. Therefore neither its closure nor its
    /// result need be `Send`.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// ecru::run(|| {
    ///     let shared = Rc::new(Cell::new(1));
    ///     ecru::scope(|s| {
    ///         let other = Rc::clone(&shared);
    ///         s.spawn_local(move || other.set(2));
    ///     });
    ///     assert_eq!(shared.get(), 2);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_local<F, U>(&'scope self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + 'scope,
        U: 'scope,
    {
        self.core.spawn(Plain(f), Options::default(), Start::Here)
    }

    /// Spawns a daemon: a task that the scope does not wait for. When the body and all other tasks
    /// have ended, daemons are cancelled and then awaited. A daemon always begins, even if it is
    /// cancelled before it starts. Its result is dropped.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run. If a daemon panics, the
    /// scope panics at its end.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         s.spawn_daemon(|| while ecru::sleep(Duration::from_secs(60)).is_ok() { /* report something */ });
    ///     });
    ///     // The scope did not wait for the next minute.
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_daemon<F, U>(&'scope self, f: F)
    where
        F: FnOnce() -> U + Send + 'scope,
        U: 'scope,
    {
        self.core.spawn(Plain(move || task::drop_unseen(f())), Options::daemon(), Start::Anywhere);
    }

    /// Spawns a task that begins when `source` has an item, and gets that item. Until then the task
    /// has neither a stack nor a worker.
    ///
    /// This is for programs with many tasks that wait for their first piece of work. The task
    /// starts on a worker that has little to do at that moment, see
    /// [`Placement`](crate::Placement). To handle more than one item, the task spawns its successor
    /// or goes on with the source itself.
    ///
    /// The source is dropped after it has yielded its item. It may be dropped on any thread and
    /// inside [`no_suspend`](crate::no_suspend). Once an item has been taken, the task begins, even
    /// if it has been cancelled since.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run. A panic in the source, such
    /// as in a filter, becomes the task's panic.
    ///
    /// # Cancellation
    /// If the task is cancelled before there is an item, nothing is taken from the source, and `f`
    /// is dropped without being called. `join` then returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    ///
    /// ecru::run(|| {
    ///     let (tx, rx) = channel::unbounded();
    ///     ecru::scope(|s| {
    ///         // Three tasks without a stack, until there is something to double.
    ///         let doubled: Vec<_> =
    ///             (0..3).map(|_| s.spawn_when(&rx, |n: Result<u32, _>| n.map(|n| 2 * n))).collect();
    ///         for n in [1, 2, 3] {
    ///             tx.send(n).unwrap();
    ///         }
    ///         let sum: u32 = doubled.iter().map(|task| task.join().unwrap().unwrap()).sum();
    ///         assert_eq!(sum, 12);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_when<S, F, U>(&'scope self, source: S, f: F) -> JoinHandle<'scope, U>
    where
        S: Source + Send + 'scope,
        S::Item: Send + 'scope,
        F: FnOnce(S::Item) -> U + Send + 'scope,
        U: Send + 'scope,
    {
        self.core.spawn_when(source, |item| Plain(move || f(item)))
    }

    /// Spawns a task that runs even if it is cancelled before it starts, and that is said to be
    /// spawned at the given place.
    #[track_caller]
    pub(crate) fn spawn_always_at<F, U>(
        &'scope self,
        at: &'static Location<'static>,
        f: F,
    ) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        let options = Options { always_begins: true, ..Options::default() };
        self.core.spawn_at(at, Plain(f), options, Start::Anywhere)
    }

    /// Spawns a task on the worker that comes `places` places after the current one.
    #[track_caller]
    pub(crate) fn spawn_beside<F, U>(&'scope self, places: usize, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        self.core.spawn(Plain(f), Options::default(), Start::Beside(places))
    }

    /// Spawns a daemon whose failure is not reported, for instance that it gets no stack.
    #[track_caller]
    pub(crate) fn spawn_hushed_daemon<F>(&'scope self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        let options = Options { daemon: true, ..Options::default() };
        self.core.spawn(Plain(f), options, Start::Anywhere).task().0.hush();
    }

    /// Cancels every task of the scope, but not the body. The request is permanent: a task that has
    /// not started yet, or is spawned later, is dropped without having run.
    ///
    /// # Examples
    /// ```
    /// use ecru::JoinError;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         s.cancel();
    ///         let late = s.spawn(|| unreachable!());
    ///         assert!(matches!(late.join(), Err(JoinError::Cancelled)));
    ///     });
    /// });
    /// ```
    pub fn cancel(&self) {
        self.core.cancel(CancelReason::Explicit);
    }
}

/// The body of a task of a plain scope.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F: FnOnce() -> U, U> Work for Plain<F> {
    type Output = U;
}

impl<F: FnOnce() -> U, U> Body for Plain<F> {
    #[inline]
    fn run(self) -> Result<U, Failure> {
        core::catch(self.0)
    }
}
