//! Locks on whole files by flock(2). A lock belongs to an open file with all its clones, and not to
//! a task.

use super::{File, in_task};
use crate::driver::request;
use crate::driver::request::{FlockOperation, LockFile};
use crate::{task, time};
use std::fs::TryLockError;
use std::io;
use std::time::Duration;

/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

impl File {
    /// Waits for an exclusive lock on the file. While it is held, no other open file has a lock on
    /// this file. The locks are advisory: code that does not ask for one is not kept out.
    ///
    /// Closing the file with all its clones releases the lock. Locking again through the same open
    /// file converts the lock, which may release it for a moment.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs::File;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-lock-{}", std::process::id()));
    /// let file = File::create(&path)?;
    /// file.lock()?;
    /// let other = File::open(&path)?;
    /// assert!(other.try_lock().is_err());
    /// file.unlock()?;
    /// other.lock_shared()?;
    /// assert!(file.try_lock_shared().is_ok());
    /// # ecru::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of flock(2), for instance if the file system has no locks.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not acquired the lock. On a plain thread
    /// the call is not interrupted.
    pub fn lock(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::LockExclusive, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for a shared lock on the file. While it is held, no other open file has an exclusive
    /// lock. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Returns the errors of [`lock`](File::lock).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not acquired the lock. On a plain thread
    /// the call is not interrupted.
    pub fn lock_shared(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::LockShared, FlockOperation::NonBlockingLockShared)
    }

    /// Acquires an exclusive lock if no conflicting lock is held. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Returns [`TryLockError::WouldBlock`] if a conflicting lock is held, and the errors of
    /// [`lock`](File::lock).
    ///
    /// # Cancellation
    /// This is not a cancellation point, like every `try_` call.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_to_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Acquires a shared lock if no exclusive lock is held. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Returns the errors of [`try_lock`](File::try_lock).
    ///
    /// # Cancellation
    /// This is not a cancellation point, like every `try_` call.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_to_lock(FlockOperation::NonBlockingLockShared)
    }

    /// Releases a lock. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Returns the errors of flock(2).
    ///
    /// # Cancellation
    /// This is not a cancellation point, so that a cancelled task can release its lock.
    pub fn unlock(&self) -> io::Result<()> {
        request(LockFile { file: self.handle.fd(), operation: FlockOperation::Unlock })
    }

    fn try_to_lock(&self, operation: FlockOperation) -> Result<(), TryLockError> {
        let outcome = self.handle.query_always(|file| request(LockFile { file, operation }));
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        })
    }

    fn wait_for_lock(&self, waiting: FlockOperation, trying: FlockOperation) -> io::Result<()> {
        task::begin_wait()?;
        if !in_task() {
            return request(LockFile { file: self.handle.fd(), operation: waiting });
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_to_lock(trying) {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => time::sleep(pause)?,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
