//! Locks on whole files, as flock(2) has them. They belong to an open file, with all clones of it, and not to a task.

use super::{File, in_task};
use crate::{task, time};
use rustix::fs::FlockOperation;
use std::fs::TryLockError;
use std::io;
use std::time::Duration;

/// The first pause between two attempts, and the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

impl File {
    /// Waits for an exclusive lock on the file: nobody else has any lock on it then, who asks for one.
    ///
    /// Closing the file, with all its clones, gives the lock back. Who has one and asks for another through the same open file changes it, which
    /// may give it back meanwhile.
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
    /// Those of flock(2), for instance where the file system has no locks.
    ///
    /// # Cancellation
    /// A cancel point; who is cancelled has got no lock. On a plain thread it is not interrupted.
    pub fn lock(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::LockExclusive, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for a shared lock on the file: nobody else has an exclusive one then. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Those of [`lock`](File::lock).
    ///
    /// # Cancellation
    /// A cancel point; who is cancelled has got no lock. On a plain thread it is not interrupted.
    pub fn lock_shared(&self) -> io::Result<()> {
        self.wait_for_lock(FlockOperation::LockShared, FlockOperation::NonBlockingLockShared)
    }

    /// Takes an exclusive lock if it is free. See [`lock`](File::lock).
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if somebody has one that excludes it; else those of [`lock`](File::lock).
    ///
    /// # Cancellation
    /// Not a cancel point, as whatever only tries.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_to_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock unless somebody has an exclusive one. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Those of [`try_lock`](File::try_lock).
    ///
    /// # Cancellation
    /// Not a cancel point, as whatever only tries.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_to_lock(FlockOperation::NonBlockingLockShared)
    }

    /// Gives a lock back. See [`lock`](File::lock).
    ///
    /// # Errors
    /// Those of flock(2).
    ///
    /// # Cancellation
    /// Not a cancel point, so that a cancelled task can give back what it has.
    pub fn unlock(&self) -> io::Result<()> {
        rustix::io::retry_on_intr(|| rustix::fs::flock(self, FlockOperation::Unlock))?;
        Ok(())
    }

    fn try_to_lock(&self, operation: FlockOperation) -> Result<(), TryLockError> {
        let outcome = self.handle.ask_std_in_any_case(|file| {
            rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation))
                .map_err(io::Error::from)
        });
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        })
    }

    fn wait_for_lock(&self, waiting: FlockOperation, trying: FlockOperation) -> io::Result<()> {
        task::begin_wait()?;
        if !in_task() {
            rustix::io::retry_on_intr(|| rustix::fs::flock(self, waiting))?;
            return Ok(());
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
