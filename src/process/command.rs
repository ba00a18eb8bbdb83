//! Starting a program.
#![expect(unsafe_code, reason = "forwards to std's `pre_exec`")]

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::child::Child;
use crate::driver::needs_kernel;
use crate::sched::unblock;

/// A program to be started, with its arguments, environment and streams. It has the methods of
/// [`std::process::Command`] and of std's `CommandExt` for Unix.
///
/// # Examples
/// ```
/// use ecru::process::Command;
///
/// ecru::run(|| {
///     let output = Command::new("echo").args(["undyed", "cloth"]).output().unwrap();
///     assert!(output.status.success());
///     assert_eq!(output.stdout, b"undyed cloth\n");
/// });
/// ```
pub struct Command {
    std: process::Command,
    kill_on_drop: bool,
    /// Whether the calling thread itself has to make the child.
    in_place: bool,
    /// Which of the three standard streams have been set. The defaults of the others depend on the
    /// method that starts the program.
    said: [bool; 3],
}

impl Command {
    /// Creates a command that starts `program`, which is searched in `PATH` if it contains no
    /// slash.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command::from(process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(args);
        self
    }

    /// Sets an environment variable of the child. Variables that are not set are inherited.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, value: V) -> &mut Command {
        self.std.env(key, value);
        self
    }

    /// Sets several environment variables.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.std.env_remove(key);
        self
    }

    /// Removes all environment variables.
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// Sets the working directory of the child.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.std.current_dir(dir);
        self
    }

    /// Sets the child's standard input. By default it is inherited, except that
    /// [`output`](Command::output) uses an empty input.
    pub fn stdin<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stdin(stdio);
        self.said[0] = true;
        self
    }

    /// Sets the child's standard output. By default it is inherited, except that
    /// [`output`](Command::output) pipes it.
    pub fn stdout<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stdout(stdio);
        self.said[1] = true;
        self
    }

    /// Sets the child's standard error. By default it is inherited, except that
    /// [`output`](Command::output) pipes it.
    pub fn stderr<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stderr(stdio);
        self.said[2] = true;
        self
    }

    /// Sets whether a [`Child`] that is dropped before it has ended is killed by `SIGKILL`. The
    /// default is false, as in tokio.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru::process::Command;
    ///
    /// let child = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
    /// let exit = child.exit();
    /// drop(child);
    /// assert!(!exit.wait().unwrap().unwrap().success());
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Starts the program.
    ///
    /// Starting a program blocks a thread until the program's file has been opened. That takes 50
    /// microseconds at best. It takes milliseconds if the file has to be read from a disk, or if
    /// the memory of a large process has to be prepared for a copy of it (`uid`, `gid`). In a task
    /// another thread is blocked, and the worker goes on. If a closure was set by
    /// [`pre_exec`](Command::pre_exec), however, the worker itself is blocked, because what the
    /// closure does may depend on the thread: `PR_SET_PDEATHSIG` ends the child together with the
    /// thread that made it.
    ///
    /// # Errors
    /// Returns the errors that std returns: `NotFound` if there is no such program,
    /// `PermissionDenied`, `ExecutableFileBusy`, or an error about the system's limits. Returns
    /// `Unsupported` in a simulation.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn spawn(&mut self) -> io::Result<Child> {
        needs_kernel("`process::Command::spawn`")?;
        let std = &mut self.std;
        let child = if self.in_place { std.spawn()? } else { unblock(|| std.spawn())? };
        Child::new(child, self.kill_on_drop)
    }

    /// Starts the program, waits until it has ended, and returns its status and output.
    ///
    /// # Errors
    /// Returns the errors of [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    ///
    /// # Cancellation
    /// This is a cancellation point, like [`Child::wait_with_output`].
    ///
    /// # Examples
    /// ```
    /// use ecru::process::Command;
    ///
    /// let output = Command::new("echo").arg("hello").output()?;
    /// assert!(output.status.success());
    /// assert_eq!(output.stdout, b"hello\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn output(&mut self) -> io::Result<Output> {
        let said = self.said;
        if !said[0] {
            self.std.stdin(Stdio::null());
        }
        if !said[1] {
            self.std.stdout(Stdio::piped());
        }
        if !said[2] {
            self.std.stderr(Stdio::piped());
        }
        let child = self.spawn();
        // The streams are reset for the next use of the command.
        if !said[0] {
            self.std.stdin(Stdio::inherit());
        }
        if !said[1] {
            self.std.stdout(Stdio::inherit());
        }
        if !said[2] {
            self.std.stderr(Stdio::inherit());
        }
        child?.wait_with_output()
    }

    /// Starts the program, and waits until it has ended.
    ///
    /// # Errors
    /// Returns the errors of [`spawn`](Command::spawn) and [`Child::wait`].
    ///
    /// # Cancellation
    /// This is a cancellation point once the program has been started. The process lives on, unless
    /// [`kill_on_drop`](Command::kill_on_drop) was set.
    ///
    /// # Examples
    /// ```
    /// use ecru::process::Command;
    ///
    /// // The worker continues with other tasks until the program has ended.
    /// assert!(!Command::new("false").status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Returns the program.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.std.get_program()
    }

    /// Returns the arguments.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.std.get_args()
    }

    /// Returns the environment variables that have been set (`Some`) or removed (`None`).
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.std.get_envs()
    }

    /// Returns the working directory if it has been set.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.std.get_current_dir()
    }

    /// Sets the user as which the program runs.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// Sets the group as which the program runs.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// Sets the zeroth argument, which is the program by default.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg0(arg);
        self
    }

    /// Sets the process group that the child joins. With 0 the child gets a new group, which a
    /// Ctrl-C at the terminal does not reach.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.std.process_group(group);
        self
    }

    /// Adds a closure that runs in the child before the program does.
    ///
    /// # Safety
    /// The requirements are those of std's
    /// [`pre_exec`](std::os::unix::process::CommandExt::pre_exec): few operations are allowed
    /// between fork and exec. A call of this library that may wait is not one of them.
    pub unsafe fn pre_exec<F>(&mut self, closure: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller upholds the requirements of `pre_exec`.
        unsafe { self.std.pre_exec(closure) };
        self.in_place = true;
        self
    }

    /// Replaces this process with the program. Returns only if that fails.
    #[must_use]
    pub fn exec(&mut self) -> io::Error {
        match needs_kernel("`process::Command::exec`") {
            Ok(()) => self.std.exec(),
            Err(error) => error,
        }
    }

    /// Returns std's command. It contains every setting except
    /// [`kill_on_drop`](Command::kill_on_drop).
    #[must_use]
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }
}

/// Formats the command like std's type: as a line for a shell.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}

/// Keeps all settings of std's command. Whether its streams have been set cannot be queried, so
/// [`output`](Command::output) pipes them.
impl From<process::Command> for Command {
    fn from(std: process::Command) -> Command {
        Command { std, kill_on_drop: false, in_place: false, said: [false; 3] }
    }
}
