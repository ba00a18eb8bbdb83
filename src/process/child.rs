//! A child process, and its pipes.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::{self, ExitStatus, Output};
use std::sync::Arc;

use super::collect;
use super::exit::Exit;
use super::running::Running;
use crate::io::{Stream, stream_type};

/// A process that was started by [`Command::spawn`](super::Command::spawn): as [`std::process::Child`].
///
/// Dropping it does not end the process, unless [`kill_on_drop`](super::Command::kill_on_drop) was set; it is not waited for, and leaves no
/// zombie behind.
///
/// # Examples
/// ```
/// use ecru::io::{Read, Write};
/// use ecru::process::{Command, Stdio};
///
/// ecru::run(|| {
///     let mut child =
///         Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
///     child.stdin.take().unwrap().write_all(b"meow").unwrap();
///     let mut said = String::new();
///     child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
///     assert_eq!(said, "meow");
///     assert!(child.wait().unwrap().success());
/// });
/// ```
pub struct Child {
    /// What the child reads, if it was [piped](super::Stdio::piped). To take it out and drop it ends the child's input.
    pub stdin: Option<ChildStdin>,
    /// What the child writes, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// What the child complains of, if it was piped.
    pub stderr: Option<ChildStderr>,
    running: Arc<Running>,
    kill_on_drop: bool,
}

/// The standard input of a [`Child`], to be written.
#[derive(Debug)]
pub struct ChildStdin(Stream);

/// The standard output of a [`Child`], to be read.
#[derive(Debug)]
pub struct ChildStdout(Stream);

/// The standard error of a [`Child`], to be read.
#[derive(Debug)]
pub struct ChildStderr(Stream);

stream_type!(write ChildStdin);
stream_type!(read ChildStdout);
stream_type!(read ChildStderr);

impl Child {
    pub(super) fn new(mut child: process::Child, kill_on_drop: bool) -> io::Result<Child> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = Arc::new(Running::new(child));
        // First the child, so that it is looked after whatever happens next.
        let mut child = Child { stdin: None, stdout: None, stderr: None, running, kill_on_drop };
        child.stdin =
            stdin.map(|pipe| Stream::sole(OwnedFd::from(pipe)).map(ChildStdin)).transpose()?;
        child.stdout =
            stdout.map(|pipe| Stream::sole(OwnedFd::from(pipe)).map(ChildStdout)).transpose()?;
        child.stderr =
            stderr.map(|pipe| Stream::sole(OwnedFd::from(pipe)).map(ChildStderr)).transpose()?;
        Ok(child)
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Ends the process by `SIGKILL`. For one that has been waited for nothing happens.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(&mut self) -> io::Result<()> {
        self.running.kill()
    }

    /// Waits until the process has ended. Its input is closed first, so that it does not wait for us; and once it has ended, the
    /// same status is given again and again.
    ///
    /// # Errors
    /// The system's, such as that the process's parent ignores `SIGCHLD`, so that nobody knows the status; a cancellation.
    ///
    /// # Cancellation
    /// A cancel point. The process lives on, and may be waited for again.
    ///
    /// # Examples
    /// ```
    /// use ecru::process::Command;
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    ///     assert!(ecru::timeout(Duration::from_millis(1), || child.wait()).is_err());
    ///     child.kill().unwrap();
    ///     assert!(!child.wait().unwrap().success());
    /// });
    /// ```
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.running.wait()
    }

    /// The status, if the process has ended. Never waits, and leaves its input open.
    ///
    /// # Errors
    /// The system's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.running.try_wait()
    }

    /// Closes the process's input, reads its output and its complaints, as far as they were piped and not taken, both at
    /// once until they end, and waits until the process has ended.
    ///
    /// # Errors
    /// The system's; a cancellation.
    ///
    /// # Cancellation
    /// A cancel point. What has been read is lost. The process lives on, unless [`kill_on_drop`](super::Command::kill_on_drop) was set.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = collect::both(
            stdout.as_ref().map(|pipe| &pipe.0),
            stderr.as_ref().map(|pipe| &pipe.0),
        )?;
        Ok(Output { status: self.running.wait()?, stdout, stderr })
    }

    /// The end of the process as a [`Source`](crate::Source) of its status, to be waited for together with other things. It does not close the
    /// process's input.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::new(Arc::clone(&self.running))
    }
}

// As std's: what it shares is behind locks that nothing panics under.
impl UnwindSafe for Child {}
impl RefUnwindSafe for Child {}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop {
            // It fails for one that has ended, which is as well.
            let _ = self.running.kill();
        }
        self.running.orphan();
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}
