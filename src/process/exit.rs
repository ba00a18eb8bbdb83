//! The end of a child process as a source.

use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::ExitStatus;
use std::sync::Arc;

use super::running::RunningChild;
use crate::park::WaitList;
use crate::source::{Arms, Pass, Source};
use crate::task::{self, Cancelled};

/// The end of a child process as a [`Source`] that yields its status, returned by
/// [`Child::exit`](super::Child::exit).
///
/// It owns what it needs, so it may be used in a select, passed to another task, or kept after the
/// [`Child`](super::Child) was dropped. Once the child has ended, the status can be taken any
/// number of times. A clone refers to the same child.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::process::Command;
/// use std::time::Duration;
///
/// let mut child = Command::new("true").spawn().unwrap();
/// let exit = child.exit();
/// ecru::select! {
///     wait(&exit) -> status => assert!(status.unwrap().unwrap().success()),
///     default(Duration::from_secs(60)) => child.kill().unwrap(),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Exit {
    running: Arc<RunningChild>,
}

impl Exit {
    pub(super) fn new(running: Arc<RunningChild>) -> Exit {
        Exit { running }
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running.id()
    }
}

// Unwind safe like `Child`.
impl UnwindSafe for Exit {}
impl RefUnwindSafe for Exit {}

impl Source for Exit {
    type Item = io::Result<ExitStatus>;

    fn try_take(&self) -> Option<io::Result<ExitStatus>> {
        self.running.try_wait().transpose()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.running.arm();
        each(&self.running.waiters);
    }

    /// Waits through the worker's driver or poll(2), without the thread that watches descriptors.
    fn wait(&self) -> Result<io::Result<ExitStatus>, Cancelled> {
        match self.running.wait() {
            Err(error) => match Cancelled::find(&error) {
                Some(cancelled) if task::cancelled().is_some() => Err(cancelled),
                _ => Ok(Err(error)),
            },
            status => Ok(status),
        }
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        if arms.pass() == Pass::Notify {
            self.running.arm();
        }
        arms.notified_by(&self.running.waiters);
    }
}
