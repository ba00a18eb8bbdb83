//! Starting a program.
#![expect(unsafe_code, reason = "passes std's `pre_exec` on")]

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::child::Child;
use crate::sched::unblock;

/// A program to be started, with its arguments, environment and streams: as [`std::process::Command`], with the methods of std's
/// `CommandExt` for Unix.
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
    /// The child is to be made by the calling thread itself.
    in_place: bool,
    /// Which of its three streams have been said: each method that starts it has other ideas of the rest.
    said: [bool; 3],
}

impl Command {
    /// A command that starts `program`, which is looked for in `PATH` if it has no slash.
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

    /// Sets a variable of its environment, which is otherwise that of this process.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, value: V) -> &mut Command {
        self.std.env(key, value);
        self
    }

    /// Sets variables.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Takes a variable away.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.std.env_remove(key);
        self
    }

    /// Takes all variables away.
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// The directory to start it in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.std.current_dir(dir);
        self
    }

    /// Its standard input: inherited if nothing is said, and nothing at all for [`output`](Command::output).
    pub fn stdin<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stdin(stdio);
        self.said[0] = true;
        self
    }

    /// Its standard output: inherited if nothing is said, and piped for [`output`](Command::output).
    pub fn stdout<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stdout(stdio);
        self.said[1] = true;
        self
    }

    /// Its standard error: inherited if nothing is said, and piped for [`output`](Command::output).
    pub fn stderr<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.std.stderr(stdio);
        self.said[2] = true;
        self
    }

    /// Whether a [`Child`] that is dropped before it has ended is killed, by `SIGKILL`. As tokio's: no, if nothing is said.
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

    /// Starts it.
    ///
    /// The thread that asks for it is blocked until the program's file has been opened: 50 microseconds at best, milliseconds where the file has to
    /// be fetched from a disk, or where the memory of a large process has to be made ready for a copy of it (`uid`, `gid`). In a task that is
    /// another thread, so the worker goes on; but where a closure has been set by [`pre_exec`](Command::pre_exec) it is the worker itself,
    /// because what the closure does may depend on the thread (`PR_SET_PDEATHSIG` ends the child together with the thread that made it).
    ///
    /// # Errors
    /// As std: `NotFound` if there is no such program, `PermissionDenied`, `ExecutableFileBusy`; the system's limits.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// No cancel point.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let std = &mut self.std;
        let child = if self.in_place { std.spawn()? } else { unblock(|| std.spawn())? };
        Child::new(child, self.kill_on_drop)
    }

    /// Starts it, waits until it has ended, and gives what it has written.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    ///
    /// # Cancellation
    /// As [`Child::wait_with_output`].
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
        // As before, for whatever the command is used for next.
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

    /// Starts it, and waits until it has ended.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait`].
    ///
    /// # Cancellation
    /// A cancel point, once it has been started. The process lives on, unless [`kill_on_drop`](Command::kill_on_drop) was set.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// The program.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.std.get_program()
    }

    /// The arguments.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.std.get_args()
    }

    /// The variables that have been set (`Some`) or taken away.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.std.get_envs()
    }

    /// The directory, if it has been said.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.std.get_current_dir()
    }

    /// The user to run it as.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// The group to run it as.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// Its zeroth argument, if that is not to be the program.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg0(arg);
        self
    }

    /// The process group that it joins; 0: one of its own, which a Ctrl-C at the terminal does not reach.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.std.process_group(group);
        self
    }

    /// A closure that runs in the child before the program does.
    ///
    /// # Safety
    /// As std's [`pre_exec`](std::os::unix::process::CommandExt::pre_exec): between fork and exec little is allowed. No call of this
    /// library that may wait is.
    pub unsafe fn pre_exec<F>(&mut self, closure: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise.
        unsafe { self.std.pre_exec(closure) };
        self.in_place = true;
        self
    }

    /// Puts the program in the place of this process. Returns only if that fails.
    #[must_use]
    pub fn exec(&mut self) -> io::Error {
        self.std.exec()
    }

    /// std's command, with everything but what is said of [`kill_on_drop`](Command::kill_on_drop).
    #[must_use]
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }
}

/// As std's shows itself: as a line for a shell.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}

/// Everything that has been said to std's command stays so, but of its streams nobody can know: [`output`](Command::output) pipes them.
impl From<process::Command> for Command {
    fn from(std: process::Command) -> Command {
        Command { std, kill_on_drop: false, in_place: false, said: [false; 3] }
    }
}
