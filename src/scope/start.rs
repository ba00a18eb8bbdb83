//! Tasks that report when they are ready: [`Scope::start`].
//!
//! # Protocol
//! The child has a [`Started`]. Its spawner waits for a value in the slot that both share, or for
//! the child's end. Under its lock, the slot is first `Empty`, and then `Ready` or `Abandoned`. A
//! spawner that leaves abandons the slot. So it receives a value that arrived before that, and
//! `ready` drops a value that arrives later.
//!
//! A child that calls `ready` does so before it ends. So a spawner that sees the end looks into the
//! slot once more.

use std::sync::{Arc, Mutex, PoisonError};
use std::{error, fmt, mem};

use super::join::JoinHandle;
use super::join_error::JoinError;
use super::scoped::Scope;
use super::shield::shield;
use super::try_scoped::TryScope;
use crate::park::WaitList;
use crate::source::Source;
use crate::task;

/// The right of a task to report that it is ready. [`Scope::start`] passes it to the task.
///
/// It may be sent to another task or thread. Dropping or forgetting it reports nothing.
/// [`Scope::start`] then waits for the task's end.
///
/// # Examples
/// ```
/// use ecru::Started;
///
/// /// Reports when it is ready, then does its work.
/// fn serve(started: Started<u16>) -> u32 {
///     started.ready(8080);
///     7
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let (port, server) = s.start(serve).unwrap();
///         assert_eq!((port, server.join().unwrap()), (8080, 7));
///     });
/// });
/// ```
pub struct Started<T> {
    slot: Arc<ReadySlot<T>>,
}

impl<T> Started<T> {
    /// Reports that the task is ready, with a value for the caller of [`start`](Scope::start).
    /// Never waits.
    ///
    /// If that caller has stopped waiting, because it was cancelled or because the task has ended,
    /// the value is dropped.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn ready(self, value: T) {
        // The value that comes back is dropped here, without the lock, because its destructor is
        // user code.
        drop(self.slot.put(value));
        self.slot.list.notify_all();
    }
}

impl<T> fmt::Debug for Started<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

/// The reason why [`Scope::start`] has no value.
///
/// # Examples
/// ```
/// use ecru::{StartError, Started};
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let failing = |_: Started<u16>| Err::<(), _>("the port is taken");
///         match s.start(failing) {
///             Err(StartError::Ended(result)) => assert_eq!(result, Err("the port is taken")),
///             _ => unreachable!(),
///         }
///     });
/// });
/// ```
#[derive(Debug)]
pub enum StartError<U> {
    /// The task returned this result before it was ready.
    Ended(U),
    /// The task has no result, or the caller was cancelled.
    Join(JoinError),
}

impl<U> fmt::Display for StartError<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Ended(_) => f.write_str("the task ended before it was ready"),
            StartError::Join(error) => write!(f, "the task did not become ready: {error}"),
        }
    }
}

impl<U: fmt::Debug> error::Error for StartError<U> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            StartError::Ended(_) => None,
            StartError::Join(error) => Some(error),
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a task and waits until it is ready.
    ///
    /// The task calls [`Started::ready`] when it is ready, with a value for the caller. It then
    /// continues like any other task of the scope. Use this for tasks that others depend on. For
    /// instance, a server returns its address this way once it listens.
    ///
    /// # Errors
    /// - Returns [`StartError::Ended`] with the task's result if the task returned before it was
    ///   ready.
    /// - Returns [`StartError::Join`] if the task has no result because it panicked or was
    ///   cancelled before it began. If the caller is cancelled, the error is
    ///   [`JoinError::CallerCancelled`].
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks, and inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. If the caller is cancelled before the call, nothing is
    /// spawned. If the caller is cancelled while it waits, it cancels the task, waits for its end,
    /// and drops what the task returned. If the task was ready before the cancellation reached the
    /// wait, its value is returned.
    ///
    /// # Examples
    /// ```
    /// use std::io::{Read, Write};
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let (address, server) = s
    ///             .start(|started| {
    ///                 let listener = TcpListener::bind("127.0.0.1:0")?;
    ///                 started.ready(listener.local_addr()?);
    ///                 let (mut stream, _) = listener.accept()?;
    ///                 stream.write_all(b"hello")
    ///             })
    ///             .unwrap();
    ///         let mut greeting = String::new();
    ///         TcpStream::connect(address).unwrap().read_to_string(&mut greeting).unwrap();
    ///         assert_eq!(greeting, "hello");
    ///         server.join().unwrap().unwrap();
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn start<T, U, F>(&'scope self, f: F) -> Result<(T, JoinHandle<'scope, U>), StartError<U>>
    where
        F: FnOnce(Started<T>) -> U + Send + 'scope,
        T: Send + 'scope,
        U: Send + 'scope,
    {
        let slot = begin()?;
        let started = Started { slot: Arc::clone(&slot) };
        wait_until_ready(&slot, self.spawn(move || f(started)))
    }
}

impl<'scope, E: Send> TryScope<'scope, '_, E> {
    /// Spawns a task and waits until it is ready: see [`Scope::start`].
    ///
    /// # Errors
    /// Returns the errors of [`Scope::start`]. If the task returns `Err`, the scope fails with that
    /// error, and the caller gets [`StartError::Join`].
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks, and inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Cancellation has the same effect as in [`Scope::start`].
    ///
    /// # Examples
    /// ```
    /// let sum = ecru::run(|| {
    ///     ecru::try_scope(|s| -> Result<u32, ecru::JoinError> {
    ///         let (first, task) = s
    ///             .start(|started| {
    ///                 started.ready(1);
    ///                 Ok(2)
    ///             })
    ///             .unwrap();
    ///         Ok(first + task.join()?)
    ///     })
    /// });
    /// assert_eq!(sum.unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn start<T, U, F>(&'scope self, f: F) -> Result<(T, JoinHandle<'scope, U>), StartError<U>>
    where
        F: FnOnce(Started<T>) -> Result<U, E> + Send + 'scope,
        T: Send + 'scope,
        U: Send + 'scope,
    {
        let slot = begin()?;
        let started = Started { slot: Arc::clone(&slot) };
        wait_until_ready(&slot, self.spawn(move || f(started)))
    }
}

/// The slot that a task and the caller of `start` share.
struct ReadySlot<T> {
    state: Mutex<ReadyState<T>>,
    list: WaitList,
}

enum ReadyState<T> {
    Empty,
    Ready(T),
    /// The caller of `start` has left.
    Abandoned,
}

impl<T> ReadySlot<T> {
    /// Stores a value. Returns what is to be dropped without the lock. That is the value itself if
    /// the caller has left.
    fn put(&self, value: T) -> ReadyState<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            ReadyState::Abandoned => ReadyState::Ready(value),
            ReadyState::Empty | ReadyState::Ready(_) => {
                mem::replace(&mut *state, ReadyState::Ready(value))
            }
        }
    }

    /// Takes the value out, if there is one.
    fn take(&self) -> Option<T> {
        self.leave(ReadyState::Empty)
    }

    /// Takes the value out, if there is one, and refuses any later one.
    fn abandon(&self) -> Option<T> {
        self.leave(ReadyState::Abandoned)
    }

    fn leave(&self, state: ReadyState<T>) -> Option<T> {
        let before =
            mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state);
        match before {
            ReadyState::Ready(value) => Some(value),
            ReadyState::Empty | ReadyState::Abandoned => None,
        }
    }
}

/// A source of the value. Its item is `None` if the task has ended without one.
struct ReadyOrEnded<'a, 'scope, T, U> {
    slot: &'a ReadySlot<T>,
    handle: &'a JoinHandle<'scope, U>,
}

impl<T, U> Source for ReadyOrEnded<'_, '_, T, U> {
    type Item = Option<T>;

    fn try_take(&self) -> Option<Option<T>> {
        // The order matters: a task that is ready and then ends fills the slot first.
        let has_ended = self.handle.is_finished();
        let value = self.slot.take();
        (has_ended || value.is_some()).then_some(value)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.slot.list);
        self.handle.waiters(each);
    }
}

/// Creates the slot. Fails if the caller has been cancelled.
#[track_caller]
fn begin<T, U>() -> Result<Arc<ReadySlot<T>>, StartError<U>> {
    task::begin_wait().map_err(|_| StartError::Join(JoinError::CallerCancelled))?;
    Ok(Arc::new(ReadySlot { state: Mutex::new(ReadyState::Empty), list: WaitList::new() }))
}

#[track_caller]
fn wait_until_ready<'scope, T, U>(
    slot: &ReadySlot<T>,
    handle: JoinHandle<'scope, U>,
) -> Result<(T, JoinHandle<'scope, U>), StartError<U>> {
    let waited = ReadyOrEnded { slot, handle: &handle }.wait();
    let is_cancelled = waited.is_err();
    // A value that arrived while the wait ended for another reason belongs to the caller, too.
    let value = waited.unwrap_or_default().or_else(|| slot.abandon());
    if let Some(value) = value {
        return Ok((value, handle));
    }
    if !is_cancelled {
        return Err(handle.take().map_or_else(StartError::Join, StartError::Ended));
    }
    handle.cancel();
    match shield(|| handle.join()) {
        Err(JoinError::Panicked(payload)) => Err(StartError::Join(JoinError::Panicked(payload))),
        _ => Err(StartError::Join(JoinError::CallerCancelled)),
    }
}
