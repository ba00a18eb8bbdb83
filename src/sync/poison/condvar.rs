//! `Condvar` with the signatures of `std`.

use std::time::{Duration, Instant};

use super::{LockResult, MutexGuard, WaitTimeoutResult};
use crate::base::clock;
use crate::park::Mode;
use crate::sync::{self, line};

/// A condition variable for a [`Mutex`](super::Mutex): [`std::sync::Condvar`], except that a wait
/// parks the task.
///
/// # Cancellation
/// A wait is not a cancellation point. The waits of [`ecru::sync::Condvar`](crate::sync::Condvar)
/// are.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Creates a condition variable on which nothing waits.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::Condvar;
    ///
    /// let condvar = Condvar::new();
    /// # drop(condvar);
    /// ```
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Creates a condition variable on which nothing waits.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Gives the condition variable a name, which [dumps](crate::diag) show. A condition variable that has a name keeps it.
    /// `std` has no such method.
    ///
    /// # Examples
    /// ```
    /// let letters = ecru::sync::poison::Condvar::new().named("letters");
    /// letters.notify_one();
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Condvar {
        Condvar(self.0.named(name))
    }

    /// Unlocks the guard's mutex, waits for a notification, and locks the mutex again. The call may
    /// also return without a notification.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the guard if the mutex is poisoned when it
    /// is locked again.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    ///
    /// let pair = Arc::new((Mutex::new(false), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = true;
    ///     cvar.notify_one();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let mut started = lock.lock().unwrap();
    /// while !*started {
    ///     started = cvar.wait(started).unwrap();
    /// }
    /// ```
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None).0
    }

    /// Waits repeatedly, like [`wait`](Condvar::wait), while the condition is true.
    ///
    /// # Errors
    /// Returns the same errors as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Panics in the same cases as [`wait`](Condvar::wait), if it waits at all.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    ///
    /// let pair = Arc::new((Mutex::new(true), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = false;
    ///     cvar.notify_one();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let _guard = cvar.wait_while(lock.lock().unwrap(), |pending| *pending).unwrap();
    /// ```
    #[track_caller]
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits like [`wait`](Condvar::wait), for at most `dur`.
    ///
    /// # Errors
    /// Returns the same errors as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Panics in the same cases as [`wait`](Condvar::wait).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// let pair = Arc::new((Mutex::new(false), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = true;
    ///     cvar.notify_one();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let mut started = lock.lock().unwrap();
    /// loop {
    ///     let result = cvar.wait_timeout(started, Duration::from_millis(10)).unwrap();
    ///     started = result.0;
    ///     if *started == true {
    ///         break; // the value was updated
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        dur: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        // If the deadline is not representable, the wait has no time limit.
        let (guard, result) = self.wait_until(guard, clock::now().checked_add(dur));
        with(guard, result)
    }

    /// Waits while the condition is true, for at most `dur` in all.
    ///
    /// # Errors
    /// Returns the same errors as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Panics in the same cases as [`wait`](Condvar::wait), if it waits at all.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// let pair = Arc::new((Mutex::new(true), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = false;
    ///     cvar.notify_one();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let result = cvar
    ///     .wait_timeout_while(lock.lock().unwrap(), Duration::from_millis(100), |&mut pending| {
    ///         pending
    ///     })
    ///     .unwrap();
    /// if result.1.timed_out() {
    ///     // timed out without the condition ever turning false
    /// }
    /// // result.0 is the locked mutex
    /// ```
    #[track_caller]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        dur: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = clock::now().checked_add(dur);
        let mut timed_out = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult { timed_out: false }));
            }
            if timed_out {
                return Ok((guard, WaitTimeoutResult { timed_out }));
            }
            let (waited, result) = self.wait_until(guard, deadline);
            (guard, timed_out) = (with(waited, result)?.0, result.timed_out());
        }
    }

    /// Wakes one waiter, if there is one.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    ///
    /// let pair = Arc::new((Mutex::new(false), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = true;
    ///     cvar.notify_one();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let mut started = lock.lock().unwrap();
    /// while !*started {
    ///     started = cvar.wait(started).unwrap();
    /// }
    /// ```
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Condvar, Mutex};
    /// use std::thread;
    ///
    /// let pair = Arc::new((Mutex::new(false), Condvar::new()));
    /// let pair2 = Arc::clone(&pair);
    ///
    /// thread::spawn(move || {
    ///     let (lock, cvar) = &*pair2;
    ///     let mut value = lock.lock().unwrap();
    ///     *value = true;
    ///     cvar.notify_all();
    /// });
    ///
    /// let (lock, cvar) = &*pair;
    /// let mut started = lock.lock().unwrap();
    /// while !*started {
    ///     started = cvar.wait(started).unwrap();
    /// }
    /// ```
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    #[track_caller]
    fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (LockResult<MutexGuard<'a, T>>, WaitTimeoutResult) {
        let mut waited = self.0.wait_until(guard.inner(), deadline, Mode::Unfailing);
        let waited = loop {
            match waited {
                Ok(waited) => break waited,
                Err(_) => {
                    waited =
                        line::end_by_force(|mode| self.0.wait_until(guard.inner(), deadline, mode));
                }
            }
        };
        (guard.again(), waited)
    }
}

/// Puts the result beside the guard, poisoned or not.
fn with<G>(guard: LockResult<G>, result: WaitTimeoutResult) -> LockResult<(G, WaitTimeoutResult)> {
    match guard {
        Ok(guard) => Ok((guard, result)),
        Err(poisoned) => Err(super::PoisonError::new((poisoned.into_inner(), result))),
    }
}
