//! The plain scope: it waits for its tasks, and a failure of one is nobody else's business.

use std::marker::PhantomData;

use super::builder::{Options, TaskBuilder};
use super::core::{self, ScopeCore, Start};
use super::join::JoinHandle;
use crate::base::short_trace;
use crate::source::Source;
use crate::task::{self, Body, CancelReason, Failure};

/// The tasks of a [`scope`]. Handed to the scope's body by reference; tasks may use it too, to spawn siblings.
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
    /// Invariance over both, as `std::thread::Scope` has it: otherwise a scope could be passed off as a longer-lived one.
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope, runs `body` in it, and returns what `body` returned once every task of the scope has ended.
///
/// Tasks may borrow what outlives the scope, mutably too, and run on other workers at the same time.
///
/// What a task only borrows lives longer than the scope. So a task that reads a [channel](crate::channel) to its end never gets there,
/// nor the scope to its own, if the last [`Sender`](crate::channel::Sender) stands outside and is lent to the others: it has to be
/// moved into one of them (or a clone into each), dropped in the body, or [closed](crate::channel::Sender::close). The last example shows it.
///
/// # Panics
/// - With the body's panic, after the tasks have been cancelled and awaited.
/// - When a task has panicked and was not joined, after all tasks have ended. The text names the task and where it panicked.
/// - Outside a run: there is nobody to run tasks. Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// The wait at the end is no cancel point. Whatever cancels the caller cancels the tasks of the scope too.
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
///         // `move`: borrowed, the sender would outlive the scope, and the sum would wait for more.
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
    /// Spawns a task. It starts when its turn comes, on any worker, and may borrow from outside the scope.
    ///
    /// Until it starts it is a small box without a stack. Dropping the handle does not matter to the task.
    ///
    /// # Panics
    /// On a thread that runs no tasks.
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

    /// Spawns a task that starts on the caller's own worker, so that neither its closure nor its result need be `Send`.
    ///
    /// # Panics
    /// On a thread that is no worker.
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

    /// Spawns a daemon: a task that the scope does not wait for. When the body and all other tasks have ended, daemons are
    /// cancelled and then awaited. A daemon always begins, if need be already cancelled; its result is dropped.
    ///
    /// # Panics
    /// On a thread that runs no tasks. A daemon's panic is its scope's, at the end.
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
        self.core.spawn(Plain(move || drop(f())), Options::daemon(), Start::Anywhere);
    }

    /// Spawns a task that begins when `source` has an item, with that item. Until then it has no stack, and no worker.
    ///
    /// For programs with many tasks that wait for their first piece of work. The task starts on a worker that has little to do at
    /// that moment, see [`Placement`](crate::Placement). To handle more than one item, the task spawns its successor, or goes on
    /// with the source itself.
    ///
    /// The source is dropped when it has given its item. It may be dropped on any thread, inside of
    /// [`no_suspend`](crate::no_suspend). Once an item has been taken the task begins, even if it has been cancelled since.
    ///
    /// # Panics
    /// On a thread that runs no tasks. A panic in the source, in a filter say, is the task's.
    ///
    /// # Cancellation
    /// If the task is cancelled before there is an item, nothing is taken from the source, and `f` is dropped unrun.
    /// `join` then returns [`JoinError::Cancelled`](crate::JoinError::Cancelled).
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

    /// Spawns a task that runs even if it is cancelled before it starts.
    #[track_caller]
    pub(crate) fn spawn_always<F, U>(&'scope self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        let options = Options { always_begins: true, ..Options::default() };
        self.core.spawn(Plain(f), options, Start::Anywhere)
    }

    /// Spawns a task on the worker that comes so many places after the current one.
    #[track_caller]
    pub(crate) fn spawn_beside<F, U>(&'scope self, places: usize, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        self.core.spawn(Plain(f), Options::default(), Start::Beside(places))
    }

    /// Names the task that is spawned next, or gives it another stack.
    pub fn builder(&'scope self) -> TaskBuilder<'scope, 'env> {
        TaskBuilder::new(self)
    }

    /// Asks every task of the scope to stop, but not the body. It stays asked: a task that has not started yet, or is spawned
    /// later, is dropped without having run.
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

impl<F: FnOnce() -> U, U> Body for Plain<F> {
    type Output = U;

    #[inline]
    fn run(self) -> Result<U, Failure> {
        core::catch(self.0)
    }
}
