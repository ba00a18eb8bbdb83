//! A child process and its pipes.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::{self, ExitStatus, Output};
use std::sync::Arc;

use super::collect;
use super::exit::Exit;
use super::running::RunningChild;
use crate::driver::OwnedDescriptor;
use crate::io::{Stream, stream_type};

/// A process that was started by [`Command::spawn`](super::Command::spawn), like
/// [`std::process::Child`].
///
/// Dropping a `Child` does not end the process, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) was set. The drop does not wait for the process,
/// and no zombie is left behind.
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
    /// The child's standard input, if it was [piped](super::Stdio::piped). Taking it out and
    /// dropping it ends the child's input.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
    running: Arc<RunningChild>,
    kill_on_drop: bool,
}

/// The writing end of a [`Child`]'s standard input.
///
/// # Examples
/// ```
/// use ecru::process::{ChildStdin, ChildStdout, Command, Stdio};
/// use std::io::{self, Read, Write};
///
/// /// Has a program translate a text. It ends when its input does.
/// fn translate(mut to: ChildStdin, mut from: ChildStdout, text: &str) -> io::Result<String> {
///     to.write_all(text.as_bytes())?;
///     drop(to);
///     let mut answer = String::new();
///     from.read_to_string(&mut answer)?;
///     Ok(answer)
/// }
///
/// let mut command = Command::new("tr");
/// command.args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped());
/// let mut child = command.spawn()?;
/// let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
/// assert_eq!(translate(to, from, "undyed")?, "UNDYED");
/// assert!(child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ChildStdin(Stream);

/// The reading end of a [`Child`]'s standard output.
///
/// # Examples
/// See [`ChildStdin`].
#[derive(Debug)]
pub struct ChildStdout(Stream);

/// The reading end of a [`Child`]'s standard error.
///
/// # Examples
/// See [`Child`].
#[derive(Debug)]
pub struct ChildStderr(Stream);

stream_type!(write ChildStdin);
stream_type!(read ChildStdout);
stream_type!(read ChildStderr);

impl Child {
    pub(super) fn new(mut child: process::Child, kill_on_drop: bool) -> io::Result<Child> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = Arc::new(RunningChild::new(child));
        // The `Child` is made first, so that its drop takes care of the process if a later step
        // fails.
        let mut child = Child { stdin: None, stdout: None, stderr: None, running, kill_on_drop };
        child.stdin = stdin.map(|pipe| stream(pipe).map(ChildStdin)).transpose()?;
        child.stdout = stdout.map(|pipe| stream(pipe).map(ChildStdout)).transpose()?;
        child.stderr = stderr.map(|pipe| stream(pipe).map(ChildStderr)).transpose()?;
        Ok(child)
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Ends the process by `SIGKILL`. Does nothing if the process has been waited for.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn kill(&mut self) -> io::Result<()> {
        self.running.kill()
    }

    /// Ends the process and those that it has started, by `SIGKILL` to the process group that it
    /// leads. The process must have been started with
    /// [`process_group(0)`](super::Command::process_group). Processes that have moved to a group of
    /// their own live on. Does nothing if the process has been waited for, because another group may
    /// have the same id by then.
    ///
    /// # Errors
    /// Returns an error of the kind [`NotFound`](io::ErrorKind::NotFound) if the process leads no
    /// group, and the errors of the system call.
    ///
    /// # Examples
    /// ```
    /// use ecru::process::Command;
    ///
    /// ecru::run(|| {
    ///     let mut shell = Command::new("sh");
    ///     let mut child = shell.args(["-c", "sleep 60 & wait"]).process_group(0).spawn().unwrap();
    ///     child.kill_group().unwrap();
    ///     assert!(!child.wait().unwrap().success());
    /// });
    /// ```
    pub fn kill_group(&mut self) -> io::Result<()> {
        self.running.kill_group()
    }

    /// Waits until the process has ended. Closes the child's standard input first, so that the
    /// child does not wait for input from this process. Once the process has ended, each call
    /// returns the same status.
    ///
    /// # Errors
    /// Returns the errors of the system call. One of them occurs if this process ignores `SIGCHLD`,
    /// because the system then discards the status. Also returns a cancellation.
    ///
    /// # Cancellation
    /// This is a cancellation point. The process lives on and can be waited for again.
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

    /// Returns the status if the process has ended. Never waits, and leaves the child's standard
    /// input open.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.running.try_wait()
    }

    /// Waits until the process has ended, and returns its status and output. Closes the child's
    /// standard input first. Then reads its standard output and standard error concurrently until
    /// they end, if they were piped and have not been taken out.
    ///
    /// # Errors
    /// Returns the errors of the system calls, or a cancellation.
    ///
    /// # Cancellation
    /// This is a cancellation point. What has been read is lost. The process lives on, unless
    /// [`kill_on_drop`](super::Command::kill_on_drop) was set.
    ///
    /// # Examples
    /// ```
    /// use ecru::process::{Command, Stdio};
    ///
    /// let child = Command::new("echo").arg("undyed").stdout(Stdio::piped()).spawn()?;
    /// let output = child.wait_with_output()?;
    /// assert!(output.status.success());
    /// assert_eq!(output.stdout, b"undyed\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = collect::both(
            stdout.as_ref().map(|pipe| &pipe.0),
            stderr.as_ref().map(|pipe| &pipe.0),
        )?;
        Ok(Output { status: self.running.wait()?, stdout, stderr })
    }

    /// Returns the end of the process as a [`Source`](crate::Source) that yields its status. It can
    /// be waited for together with other sources. It does not close the child's standard input.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::new(Arc::clone(&self.running))
    }
}

/// Wraps the end of a pipe to the child.
fn stream(pipe: impl Into<OwnedFd>) -> io::Result<Stream> {
    Stream::sole(OwnedDescriptor::new(pipe.into()))
}

// Like std's type. The shared state is behind locks under which no code panics.
impl UnwindSafe for Child {}
impl RefUnwindSafe for Child {}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop {
            // This fails if the process has ended, which is fine.
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
