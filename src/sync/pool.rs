//! A pool of values that are costly to make.
//!
//! # Protocol
//! A permit of a [`Semaphore`] is the right to have one value, to make one, or to drop one. A value
//! is returned to `idle` before its permit is, so the next waiter finds it there. A value is made
//! only by a holder of a permit that has found `idle` empty under the lock. At that moment every
//! value belongs to the holder of another permit, so there are never more values than permits.
//!
//! A closed pool has permits for all. Each waiter gets one, sees that the pool is closed, and leaves.
//!
//! No user code runs under the lock, and values are dropped outside it.

use std::collections::VecDeque;
use std::error;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::semaphore::{Permit, Semaphore};
use crate::base::clock;
use crate::coroutine::panics;
use crate::task::{self, Cancelled};

/// A pool of values that are costly to make, such as connections. It makes them when they are
/// needed, and at most a fixed number of them exist at a time.
///
/// [`get`](Pool::get) lends a value as a [`Pooled`], which returns it when it is dropped. The value
/// that was returned last is lent first, so values that are not needed become idle and can expire.
///
/// A pool is a handle: a clone shares the same values. Tasks and plain threads may use it together.
/// When the last handle is dropped, the pool is [closed](Pool::close).
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use ecru::sync::Pool;
/// use std::io::{Read, Write};
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     ecru::scope(|s| {
///         s.spawn_daemon(|| {
///             listener.serve(100, |mut stream, _| {
///                 let mut byte = [0];
///                 while stream.read(&mut byte)? == 1 {
///                     stream.write_all(&byte)?;
///                 }
///                 Ok(())
///             })
///         });
///         let connections = Pool::new(3, move || TcpStream::connect(address));
///         // Ten tasks share three connections.
///         for result in ecru::par::map(0..10_u8, |number| {
///             let mut stream = connections.get()?;
///             stream.write_all(&[number])?;
///             let mut byte = [0];
///             stream.read_exact(&mut byte)?;
///             assert_eq!(byte, [number]);
///             std::io::Result::Ok(())
///         }) {
///             result?;
///         }
///         assert!(connections.idle() <= 3);
///         Ok(())
///     })
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
pub struct Pool<T, E = io::Error> {
    owner: Arc<Owner<T, E>>,
}

/// What the handles of a pool share. The values that are lent do not keep it alive.
struct Owner<T, E> {
    shared: Arc<Shared<T>>,
    is_valid: Option<Validator<T>>,
    make: Box<dyn Fn() -> Result<T, E> + Send + Sync>,
}

type Validator<T> = Box<dyn Fn(&mut T) -> bool + Send + Sync>;

/// What the handles of a pool and its values share.
struct Shared<T> {
    limit: usize,
    max_age: Option<Duration>,
    max_idle: Option<Duration>,
    permits: Semaphore,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// The value that was returned last is at the back.
    idle: VecDeque<Kept<T>>,
    closed: bool,
}

/// A value with what decides when it expires. The times are `None` if values do not expire.
struct Kept<T> {
    value: T,
    made: Option<Instant>,
    returned: Option<Instant>,
}

/// The permits that a pool gets when it is closed. They are more than there can be waiters.
const FOR_ALL: usize = Semaphore::MAX_PERMITS / 2;

impl<T> Pool<T> {
    /// Returns a builder for a pool of at most `limit` values, for pools that validate their values
    /// or let them expire.
    ///
    /// # Panics
    /// Panics if `limit` is 0 or greater than half of
    /// [`Semaphore::MAX_PERMITS`](super::Semaphore::MAX_PERMITS).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::Pool;
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    ///
    /// let buffers: Pool<Vec<u8>, Infallible> = Pool::builder(8)
    ///     .validate(|buffer: &mut Vec<u8>| buffer.capacity() <= 1 << 20)
    ///     .max_idle(Duration::from_secs(60))
    ///     .build(|| Ok(Vec::with_capacity(4096)));
    /// buffers.get().unwrap().push(1);
    /// assert_eq!(*buffers.get().unwrap(), [1]);
    /// ```
    #[track_caller]
    pub fn builder(limit: usize) -> PoolBuilder<T> {
        assert!(limit > 0, "a pool of 0 values lends nothing; pass a larger limit");
        assert!(limit <= FOR_ALL, "a pool cannot have {limit} values; the maximum is {FOR_ALL}");
        PoolBuilder { limit, is_valid: None, max_age: None, max_idle: None }
    }
}

impl<T, E> Pool<T, E> {
    /// Creates a pool of at most `limit` values, which `make` makes when they are needed. `make` may
    /// wait.
    ///
    /// # Panics
    /// Panics in the same cases as [`builder`](Pool::builder).
    #[track_caller]
    pub fn new<F>(limit: usize, make: F) -> Pool<T, E>
    where
        F: Fn() -> Result<T, E> + Send + Sync + 'static,
    {
        Pool::builder(limit).build(make)
    }

    /// Gives the pool a name, which [dumps](crate::diag) show of the tasks that wait for a value. A
    /// pool that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::Pool;
    /// use std::convert::Infallible;
    ///
    /// let buffers: Pool<Vec<u8>, Infallible> = Pool::new(8, || Ok(Vec::new())).named("buffers");
    /// buffers.get().unwrap().push(1);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Pool<T, E> {
        self.owner.shared.permits.set_name(name.as_ref());
        self
    }

    /// Waits until a value is free, or may be made, and lends it. Waiters are served in the order in
    /// which they arrived.
    ///
    /// An idle value that has expired, or that the validator refuses, is dropped, and the next one
    /// is tried. If there is none, a value is made.
    ///
    /// A task that holds one value and waits for another waits for ever if all holders do that.
    ///
    /// # Errors
    /// Returns [`PoolError::Cancelled`] if the wait is cancelled, [`PoolError::Make`] with the error
    /// of the function that makes values, and [`PoolError::Closed`] if the pool is closed.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend). A panic of the validator, or of
    /// the function that makes values, goes to the caller. The pool remains usable.
    ///
    /// # Cancellation
    /// This is a cancellation point before a value is taken, and after each value that was refused.
    /// Inside the validator and the function that makes values, the waits are cancelled as elsewhere.
    /// A value is dropped if its validator returns `false` because of that, but not the other idle
    /// values.
    #[track_caller]
    pub fn get(&self) -> Result<Pooled<T>, PoolError<E>> {
        let shared = &self.owner.shared;
        // It is dropped after each value of this call, also if that panics.
        let permit = shared.permits.acquire_pooled()?;
        loop {
            let Some(mut kept) = shared.take_last()? else { break };
            if self.owner.accepts(&mut kept) {
                return Ok(Pooled::new(kept, permit, shared));
            }
            drop(kept);
            // A cancellation lets validators fail that wait. It must not empty the pool.
            task::checkpoint()?;
        }
        let value = (self.owner.make)().map_err(PoolError::Make)?;
        let made = shared.now();
        Ok(Pooled::new(Kept { value, made, returned: made }, permit, shared))
    }

    /// Drops the idle values that have expired. They are also dropped when a value is lent or
    /// returned, so only a pool that is not used needs this.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::Pool;
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    ///
    /// let numbers: Pool<u32, Infallible> =
    ///     Pool::builder(2).max_idle(Duration::from_millis(1)).build(|| Ok(7));
    /// drop(numbers.get().unwrap());
    /// ecru::sleep(Duration::from_millis(2)).unwrap();
    /// numbers.prune();
    /// assert_eq!(numbers.idle(), 0);
    /// ```
    pub fn prune(&self) {
        let shared = &self.owner.shared;
        let now = shared.now();
        // If no permit is free, the idle values are about to be lent.
        while let Ok(_permit) = shared.permits.try_acquire() {
            let Some(expired) = shared.take_expired(now) else { return };
            drop(expired);
        }
    }

    /// Closes the pool: waiters and later calls of [`get`](Pool::get) fail, idle values are dropped
    /// now, and values that are lent are dropped when they are returned. Calls of `get` that already
    /// have a value, or are making one, return it.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Pool, PoolError};
    /// use std::convert::Infallible;
    ///
    /// let numbers: Pool<u32, Infallible> = Pool::new(2, || Ok(7));
    /// let seven = numbers.get().unwrap();
    /// numbers.close();
    /// assert!(matches!(numbers.get(), Err(PoolError::Closed)));
    /// assert_eq!(*seven, 7);
    /// ```
    pub fn close(&self) {
        self.owner.shared.close();
    }

    /// Returns whether the pool is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.owner.shared.state().closed
    }

    /// Returns the number of values that are not lent, including those that have expired.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.owner.shared.state().idle.len()
    }

    /// Returns how many values exist at most.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.owner.shared.limit
    }
}

impl<T, E> Owner<T, E> {
    fn accepts(&self, kept: &mut Kept<T>) -> bool {
        !self.shared.is_expired(kept, self.shared.now())
            && self.is_valid.as_ref().is_none_or(|is_valid| is_valid(&mut kept.value))
    }
}

impl<T, E> Drop for Owner<T, E> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time if it matters.
    fn now(&self) -> Option<Instant> {
        (self.max_age.is_some() || self.max_idle.is_some()).then(clock::now)
    }

    fn is_expired(&self, kept: &Kept<T>, now: Option<Instant>) -> bool {
        let has_passed = |limit: Option<Duration>, since: Option<Instant>| match (limit, since, now)
        {
            (Some(limit), Some(since), Some(now)) => now.saturating_duration_since(since) >= limit,
            _ => false,
        };
        has_passed(self.max_age, kept.made) || has_passed(self.max_idle, kept.returned)
    }

    /// The caller has a permit.
    fn take_last(&self) -> Result<Option<Kept<T>>, Closed> {
        let mut state = self.state();
        if state.closed { Err(Closed) } else { Ok(state.idle.pop_back()) }
    }

    /// Takes an idle value that has expired. The caller has a permit.
    fn take_expired(&self, now: Option<Instant>) -> Option<Kept<T>> {
        now?;
        let mut state = self.state();
        let index = state.idle.iter().position(|kept| self.is_expired(kept, now))?;
        state.idle.remove(index)
    }

    /// Returns a value. The caller has a permit, which it returns afterwards.
    fn give_back(&self, mut kept: Kept<T>) {
        let now = self.now();
        kept.returned = now;
        drop(self.keep(kept));
        // For the values that are not lent for a long time, because others are returned later.
        while let Some(expired) = self.take_expired(now) {
            drop(expired);
        }
    }

    /// Makes a value idle. Returns it if the pool is closed.
    fn keep(&self, kept: Kept<T>) -> Option<Kept<T>> {
        let mut state = self.state();
        if state.closed {
            return Some(kept);
        }
        state.idle.push_back(kept);
        None
    }

    fn close(&self) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        // Before the drops, which may wait.
        self.permits.add_permits(FOR_ALL);
        drop(idle);
    }
}

impl<T, E> Clone for Pool<T, E> {
    fn clone(&self) -> Self {
        Pool { owner: Arc::clone(&self.owner) }
    }
}

impl<T, E> fmt::Debug for Pool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limit", &self.limit())
            .field("idle", &self.idle())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The settings of a [`Pool`]: see [`Pool::builder`].
#[must_use = "a builder makes no pool before `build`"]
pub struct PoolBuilder<T> {
    limit: usize,
    is_valid: Option<Validator<T>>,
    max_age: Option<Duration>,
    max_idle: Option<Duration>,
}

impl<T> PoolBuilder<T> {
    /// Sets a function that looks at an idle value before it is lent, and returns whether it may
    /// still be used. It may wait, for instance for the answer of a server. It is not called for a
    /// value that has just been made.
    pub fn validate<F>(mut self, is_valid: F) -> Self
    where
        F: Fn(&mut T) -> bool + Send + Sync + 'static,
    {
        self.is_valid = Some(Box::new(is_valid));
        self
    }

    /// Sets how long after it was made a value may still be lent. Without this call, values do not
    /// age.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Sets how long after it was returned a value may still be lent. Without this call, values may
    /// be idle for ever.
    pub fn max_idle(mut self, idle: Duration) -> Self {
        self.max_idle = Some(idle);
        self
    }

    /// Makes the pool, which is empty. `make` is called by [`get`](Pool::get) and may wait.
    pub fn build<E, F>(self, make: F) -> Pool<T, E>
    where
        F: Fn() -> Result<T, E> + Send + Sync + 'static,
    {
        let shared = Shared {
            limit: self.limit,
            max_age: self.max_age,
            max_idle: self.max_idle,
            permits: Semaphore::new(self.limit),
            state: Mutex::new(State { idle: VecDeque::new(), closed: false }),
        };
        let shared = Arc::new(shared);
        Pool { owner: Arc::new(Owner { shared, is_valid: self.is_valid, make: Box::new(make) }) }
    }
}

impl<T> fmt::Debug for PoolBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("limit", &self.limit)
            .field("max_age", &self.max_age)
            .field("max_idle", &self.max_idle)
            .finish_non_exhaustive()
    }
}

/// A value that a [`Pool`] has lent. Dropping it returns the value. That may happen on any task or
/// thread, and after the pool's last handle has been dropped.
///
/// If it is dropped by a panic that began while the value was lent, the value is dropped, because
/// its state cannot be trusted. The same is true of a value that was left in the middle of something,
/// for instance by a cancelled read: pass it to [`discard`](Pooled::discard).
#[must_use = "if unused, the value is returned immediately"]
pub struct Pooled<T> {
    /// `None` only while the struct is dropped or taken apart.
    kept: Option<Kept<T>>,
    panicked_before: bool,
    shared: Arc<Shared<T>>,
    /// Dropped last, after a value that is not returned.
    _permit: Permit,
}

impl<T> Pooled<T> {
    fn new(kept: Kept<T>, permit: Permit, shared: &Arc<Shared<T>>) -> Pooled<T> {
        let panicked_before = panics::is_panicking();
        Pooled { kept: Some(kept), panicked_before, shared: Arc::clone(shared), _permit: permit }
    }

    /// Drops the value instead of returning it. The pool can then make another one.
    ///
    /// This is an associated function, because a method could hide one of the value's.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Pool, Pooled};
    /// use std::convert::Infallible;
    ///
    /// let numbers: Pool<u32, Infallible> = Pool::new(2, || Ok(7));
    /// Pooled::discard(numbers.get().unwrap());
    /// assert_eq!(numbers.idle(), 0);
    /// ```
    pub fn discard(mut pooled: Pooled<T>) {
        drop(pooled.kept.take());
    }

    /// Returns the value, which does not belong to the pool any more. The pool can then make another
    /// one.
    #[must_use = "dropping the value discards it"]
    #[expect(clippy::missing_panics_doc, reason = "it is there until the drop")]
    pub fn into_inner(mut pooled: Pooled<T>) -> T {
        pooled.kept.take().expect(HERE).value
    }
}

const HERE: &str = "it is there until the drop";

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.kept.as_ref().expect(HERE).value
    }
}

impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.kept.as_mut().expect(HERE).value
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        if !self.panicked_before && panics::is_panicking() {
            drop(kept);
        } else {
            self.shared.give_back(kept);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The error of [`Pool::get`].
#[derive(Debug)]
pub enum PoolError<E> {
    /// The function that makes values failed.
    Make(E),
    /// The wait was cancelled.
    Cancelled(Cancelled),
    /// The pool is closed.
    Closed,
}

/// The pool is closed.
struct Closed;

impl<E> From<Closed> for PoolError<E> {
    fn from(_: Closed) -> Self {
        PoolError::Closed
    }
}

impl<E> From<Cancelled> for PoolError<E> {
    fn from(cancelled: Cancelled) -> Self {
        PoolError::Cancelled(cancelled)
    }
}

/// The kind is that of the maker's error, or `Other`.
impl<E: Into<io::Error>> From<PoolError<E>> for io::Error {
    fn from(error: PoolError<E>) -> io::Error {
        match error {
            PoolError::Make(error) => error.into(),
            PoolError::Cancelled(cancelled) => cancelled.into(),
            PoolError::Closed => io::Error::other("the pool is closed"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for PoolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Make(error) => error.fmt(f),
            PoolError::Cancelled(cancelled) => cancelled.fmt(f),
            PoolError::Closed => f.write_str("the pool is closed"),
        }
    }
}

impl<E: error::Error + 'static> error::Error for PoolError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            PoolError::Make(error) => error.source(),
            PoolError::Cancelled(cancelled) => Some(cancelled),
            PoolError::Closed => None,
        }
    }
}
