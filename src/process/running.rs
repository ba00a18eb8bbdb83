//! The state of one child process: its id, its status once that is known, and the descriptor that
//! signals its end.
//!
//! # Ownership of the id
//! Once the status of a child has been fetched, the system may give the child's id to another
//! process. So everything that uses the id happens under the lock of std's `Child`, which knows
//! whether the status has been fetched. This applies to querying, killing, and opening the pidfd. A
//! pidfd, or the pipe that replaces it, names this child and no other from then on.
//!
//! # Orphans
//! An orphan is a child whose [`Child`](super::Child) was dropped before its status was fetched.
//! The service fetches the status.

use std::fmt;
use std::io;
use std::process::{self, ExitStatus};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::base::alarm::Ring;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::driver::request::OpenPipe;
use crate::driver::{FdAlarm, Interest, OwnedDescriptor, Sides, request};
use crate::park::WaitList;
use crate::sched::io::wait_until_ready;
use crate::task;
use crate::time::sleep;

/// The state of one child process. See the module.
pub(super) struct RunningChild {
    id: u32,
    child: Mutex<process::Child>,
    /// A descriptor that becomes readable when the child has ended. It is opened when a caller has
    /// to wait.
    ended: OnceLock<OwnedDescriptor>,
    pub(super) waiters: WaitList,
    /// Wakes the waiters in the list.
    alarm: FdAlarm,
    orphaned: AtomicBool,
    /// Whether the status has been fetched. Written under the lock of `child`.
    is_fetched: AtomicBool,
}

static ORPHANS: Mutex<Vec<Arc<RunningChild>>> = Mutex::new(Vec::new());

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningChild {
    pub(super) fn new(child: process::Child) -> RunningChild {
        RunningChild {
            id: child.id(),
            child: Mutex::new(child),
            ended: OnceLock::new(),
            waiters: WaitList::new(),
            alarm: FdAlarm::default(),
            orphaned: AtomicBool::new(false),
            is_fetched: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        lock(&self.child).kill()
    }

    /// Ends the process group that the child leads. Does nothing if the status has been fetched: the
    /// group's id may then belong to another group.
    pub(super) fn kill_group(&self) -> io::Result<()> {
        let _child = lock(&self.child);
        if self.is_fetched.load(Ordering::Relaxed) {
            return Ok(());
        }
        match rustix::process::kill_process_group(pid(self.id)?, Signal::KILL) {
            Err(Errno::SRCH) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "process {} leads no process group; start it with `Command::process_group(0)`",
                    self.id
                ),
            )),
            result => Ok(result?),
        }
    }

    /// Returns the status if the child has ended.
    pub(super) fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.fetch(&mut lock(&self.child))
    }

    /// Fetches the status if the child has ended.
    fn fetch(&self, child: &mut process::Child) -> io::Result<Option<ExitStatus>> {
        let status = child.try_wait();
        if matches!(status, Ok(Some(_))) {
            self.is_fetched.store(true, Ordering::Relaxed);
        }
        status
    }

    /// Waits until the child has ended.
    pub(super) fn wait(&self) -> io::Result<ExitStatus> {
        task::begin_wait()?;
        loop {
            match self.find_status(open_pidfd)? {
                Found::Ended(status) => return Ok(status),
                Found::Runs(sign) => wait_until_ready(sign, Interest::Read)?,
                Found::RunsUnseen => sleep(PAUSE)?,
            }
        }
    }

    /// Returns the status, or the descriptor that will become readable.
    ///
    /// # Errors
    /// Returns an error if the status can never be fetched.
    fn find_status(
        &self,
        open: impl FnOnce(u32) -> io::Result<OwnedDescriptor>,
    ) -> io::Result<Found<'_>> {
        let mut child = lock(&self.child);
        if let Some(status) = self.fetch(&mut child)? {
            return Ok(Found::Ended(status));
        }
        if let Some(sign) = self.ended.get() {
            return Ok(Found::Runs(sign));
        }
        // The status has not been fetched, so the id still belongs to this child.
        match open(self.id).or_else(|_| wait_on_a_thread(self.id)) {
            Ok(fd) => Ok(Found::Runs(self.ended.get_or_init(|| fd))),
            Err(_) => Ok(Found::RunsUnseen),
        }
    }

    /// Has the waiters in the list notified when the child ends. If it has ended already, notifies
    /// them now and returns false.
    pub(super) fn arm(self: &Arc<RunningChild>) -> bool {
        let sign = match self.find_status(open_pidfd) {
            Ok(Found::Runs(sign)) => Some(sign),
            Ok(Found::RunsUnseen) => None,
            // A caller that is about to wait checks the status once more before it parks.
            Ok(Found::Ended(_)) | Err(_) => {
                self.waiters.notify_all();
                return false;
            }
        };
        let this: Weak<RunningChild> = Arc::downgrade(self);
        self.alarm.arm(sign, Sides::READ, this);
        true
    }

    /// Handles the drop of the `Child`, after which the status may never be asked for.
    pub(super) fn orphan(self: &Arc<RunningChild>) {
        if !matches!(self.try_wait(), Ok(None)) {
            return;
        }
        self.orphaned.store(true, Ordering::Release);
        lock(&ORPHANS).push(Arc::clone(self));
        if !self.arm() {
            // The child has ended meanwhile.
            drop(self.adopt());
        }
    }

    /// Removes this child from the orphans, if it is among them.
    fn adopt(&self) -> Option<Arc<RunningChild>> {
        let mut orphans = lock(&ORPHANS);
        let own = orphans.iter().position(|orphan| ptr::eq(&raw const **orphan, self));
        own.map(|at| orphans.swap_remove(at))
    }
}

enum Found<'a> {
    Ended(ExitStatus),
    Runs(&'a OwnedDescriptor),
    /// The child runs, but neither a descriptor nor a thread is available to signal its end.
    RunsUnseen,
}

/// How long to wait between two checks if neither is available.
const PAUSE: Duration = Duration::from_millis(10);

impl Ring for RunningChild {
    fn ring(&self) {
        self.waiters.notify_all();
        if self.orphaned.load(Ordering::Acquire) {
            // If the child is still running, it becomes an orphan again.
            if let Some(own) = self.adopt() {
                own.orphan();
            }
        }
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.alarm.end(self.ended.get());
    }
}

impl fmt::Debug for RunningChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("id", &self.id).finish_non_exhaustive()
    }
}

fn pid(id: u32) -> io::Result<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn open_pidfd(id: u32) -> io::Result<OwnedDescriptor> {
    let fd = rustix::process::pidfd_open(pid(id)?, PidfdFlags::empty())?;
    Ok(OwnedDescriptor::new(fd))
}

/// Makes a replacement for a pidfd: the reading end of a pipe whose other end a thread closes when
/// the child ends. The thread does not fetch the status. If the status has been fetched before the
/// thread begins, there is nothing to wait for, and the thread closes the pipe at once.
fn wait_on_a_thread(id: u32) -> io::Result<OwnedDescriptor> {
    let pid = pid(id)?;
    let (sign, closed_at_end) = request(OpenPipe { nonblocking: false })?;
    thread::Builder::new().name(String::from("ecru-child")).spawn(move || {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), how) {}
        drop(closed_at_end);
    })?;
    Ok(sign)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn start(program: &str) -> Arc<RunningChild> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", program]).stdin(Stdio::piped());
        Arc::new(RunningChild::new(command.spawn().unwrap()))
    }

    fn without_pidfds(_: u32) -> io::Result<OwnedDescriptor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[test]
    fn where_pidfds_are_refused_a_thread_waits() {
        // The program ends when its input does. The input stays open until the test drops it.
        let running = start("read line; exit 7");
        let Ok(Found::Runs(sign)) = running.find_status(without_pidfds) else {
            panic!("it cannot have ended")
        };
        assert!(open_pidfd(running.id()).is_ok());
        let waits = thread::spawn({
            let running = Arc::clone(&running);
            move || running.wait()
        });
        drop(lock(&running.child).stdin.take());
        assert_eq!(waits.join().unwrap().unwrap().code(), Some(7));
        wait_until_ready(sign, Interest::Read).unwrap();
    }

    #[test]
    fn an_orphan_is_fetched_without_anybody_asking() {
        let running = start("read line");
        running.orphan();
        let process = format!("/proc/{}", running.id());
        assert!(lock(&ORPHANS).iter().any(|orphan| Arc::ptr_eq(orphan, &running)));
        drop(lock(&running.child).stdin.take());
        while lock(&ORPHANS).iter().any(|orphan| Arc::ptr_eq(orphan, &running)) {
            thread::yield_now();
        }
        assert!(!std::path::Path::new(&process).exists());
    }
}
