//! Settings of a runtime.

use std::io;
use std::num::NonZero;
use std::thread;

use super::run::Runtime;
use crate::base::report;
use crate::coroutine::{STACK_DEFAULT, STACK_FLOOR};
use crate::diag;
use crate::driver::DriverKind;
use crate::sched::{Placement, Settings, WORKERS_MAX};

/// Settings of a [`Runtime`], from [`Runtime::builder`].
///
/// # Examples
/// ```
/// let runtime = ecru::Runtime::builder().workers(2).stack_size(1 << 20).name("crawler").build()?;
/// assert_eq!(runtime.run(|| 6 * 7), 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct RuntimeBuilder {
    settings: Settings,
    /// None: the environment decides.
    detect_deadlock: Option<bool>,
}

impl RuntimeBuilder {
    pub(super) fn new() -> RuntimeBuilder {
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
        RuntimeBuilder {
            settings: Settings {
                workers,
                stack_size: STACK_DEFAULT,
                driver: DriverKind::Auto,
                name: String::from("ecru"),
                placement: Placement::Auto,
                cancel_on_ctrl_c: false,
                cancel_on_terminate: false,
                on_deadlock: None,
                on_quiet: None,
            },
            detect_deadlock: None,
        }
    }

    /// How many OS threads run tasks; the thread that calls `run` is one of them. Default: as many as there are cores available
    /// to the process. At most 1024.
    pub fn workers(mut self, workers: usize) -> RuntimeBuilder {
        self.settings.workers = workers;
        self
    }

    /// The usable bytes of each task's stack, rounded up to whole pages. It is virtual memory: only what a task touches is
    /// real. Default: [`STACK_DEFAULT`], which is larger in debug builds. At least 16 KiB.
    pub fn stack_size(mut self, bytes: usize) -> RuntimeBuilder {
        self.settings.stack_size = bytes;
        self
    }

    /// How to talk to the kernel. Default: [`DriverKind::Auto`], for which the environment or the kernel decides. The driver is opened at the
    /// first operation that needs it. Any other kind is used and no other, whatever the environment says.
    ///
    /// # Examples
    /// ```
    /// use ecru::{DriverKind, Runtime};
    ///
    /// let runtime = Runtime::builder().driver(DriverKind::Poll).build()?;
    /// assert_eq!(runtime.driver_kind(), DriverKind::Poll);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn driver(mut self, driver: DriverKind) -> RuntimeBuilder {
        self.settings.driver = driver;
        self
    }

    /// What the threads are called: `NAME-1` and so on for the workers, `NAME-unblock` in the blocking pool. Default: `ecru`.
    pub fn name(mut self, name: impl Into<String>) -> RuntimeBuilder {
        self.settings.name = name.into();
        self
    }

    /// Sets where tasks start. Default: [`Placement::Auto`].
    ///
    /// A started task stays on its worker until it ends, so this decides how the work of a program is divided among the cores. Single
    /// tasks that talk much to their spawner are kept beside it by [`near`](crate::TaskBuilder::near).
    ///
    /// # Examples
    /// ```
    /// use ecru::{Placement, Runtime};
    ///
    /// let runtime = Runtime::builder().placement(Placement::Together).build()?;
    /// assert_eq!(runtime.run(|| ecru::scope(|s| s.spawn(|| 7).join().unwrap())), 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn placement(mut self, placement: Placement) -> RuntimeBuilder {
        self.settings.placement = placement;
        self
    }

    /// Whether a Ctrl-C (SIGINT) cancels the root of a run and with it everything in it, with the reason
    /// [`Shutdown`](crate::CancelReason::Shutdown), so that a program can end in order. Default: no.
    ///
    /// The first Ctrl-C of a run is taken; a second one does what it would have done without this setting, which is to end the
    /// process. Nothing is installed before the run begins, and what was there before is put back when it ends. A function that
    /// had been installed for the signal is called all the same, both times. With several such runs at once, each is cancelled.
    ///
    /// # Examples
    /// ```no_run
    /// let runtime = ecru::Runtime::builder().cancel_on_ctrl_c(true).build()?;
    /// let slept = runtime.run(|| ecru::sleep(std::time::Duration::from_secs(3600)));
    /// println!("{}", if slept.is_ok() { "an hour has passed" } else { "interrupted" });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel_on_ctrl_c(mut self, cancel: bool) -> RuntimeBuilder {
        self.settings.cancel_on_ctrl_c = cancel;
        self
    }

    /// Sets whether SIGTERM cancels the root of a run, as [`cancel_on_ctrl_c`](RuntimeBuilder::cancel_on_ctrl_c) does at SIGINT.
    /// Default: no.
    ///
    /// SIGTERM is what service managers, containers and kill(1) send to a program that is to end. The two settings are independent
    /// of each other, and each signal's second delivery during a run ends the process.
    ///
    /// # Examples
    /// ```no_run
    /// let service = ecru::Runtime::builder().cancel_on_ctrl_c(true).cancel_on_terminate(true).build()?;
    /// service.run(|| {
    ///     while ecru::sleep(std::time::Duration::from_secs(1)).is_ok() {
    ///         println!("at work");
    ///     }
    ///     println!("asked to end");
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "SIGTERM")]
    pub fn cancel_on_terminate(mut self, cancel: bool) -> RuntimeBuilder {
        self.settings.cancel_on_terminate = cancel;
        self
    }

    /// Sets whether a run that is stuck is ended instead of hanging. A run is stuck if every task waits, and none for a timer, an
    /// operation of the kernel or a closure of [`unblock`](crate::unblock).
    ///
    /// A run that is found stuck prints what each task waits for, with stack traces, to standard error, and is cancelled with the reason
    /// [`Shutdown`](crate::CancelReason::Shutdown): its waits return [`Cancelled`](crate::Cancelled), its tasks end. Then `run`
    /// panics with a text that begins with `deadlock: ` and names the tasks. As the report has been printed by then, this panic calls no
    /// panic hook. If waits are left that cannot be cancelled, in a [`shield`](crate::shield) say, the process is aborted after it has
    /// printed those too. If standard error cannot be written to, because it is a pipe that nothing reads, the report is left out after
    /// half a second.
    ///
    /// Without this setting the environment variable `ECRU_DETECT_DEADLOCK` decides: a run is checked if it is set, and neither empty
    /// nor `0`. Otherwise a run is not ended, because a thread outside of it could still wake a task. A debug build then prints one line
    /// if every task has waited for a second. Programs that rely on such a thread set `detect_deadlock(false)`, which turns
    /// this line off too.
    ///
    /// # Examples
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    /// use std::time::Duration;
    ///
    /// let runtime = ecru::Runtime::builder().workers(1).detect_deadlock(true).build()?;
    /// // Past the end of time: there is no timer for it.
    /// let sleeps = AssertUnwindSafe(|| runtime.run(|| ecru::sleep(Duration::MAX)));
    /// let stuck = catch_unwind(sleeps);
    /// assert!(stuck.unwrap_err().downcast_ref::<String>().unwrap().starts_with("deadlock: "));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn detect_deadlock(mut self, detect: bool) -> RuntimeBuilder {
        self.detect_deadlock = Some(detect);
        self
    }

    /// Builds the runtime. Its threads start with its first run.
    ///
    /// # Errors
    /// A setting that makes no sense (kind `InvalidInput`), the environment variable `ECRU_DRIVER` included; io_uring was asked for by name and
    /// is not to be had (`Unsupported` or `PermissionDenied`). The text says what to do.
    ///
    /// # Examples
    /// ```
    /// let error = ecru::Runtime::builder().workers(0).build().unwrap_err();
    /// assert!(error.to_string().contains("at least 1"));
    /// ```
    pub fn build(mut self) -> io::Result<Runtime> {
        let Settings { workers, stack_size, driver, .. } = self.settings;
        if workers == 0 {
            return Err(invalid(
                "workers(0): a runtime needs at least 1 worker; leave the setting out for one a core",
            ));
        }
        if workers > WORKERS_MAX {
            let text = format!(
                "workers({workers}): more than the limit of {WORKERS_MAX}; a worker a core is enough"
            );
            return Err(invalid(text));
        }
        if stack_size < STACK_FLOOR {
            let text = format!(
                "stack_size({stack_size}): below the floor of {STACK_FLOOR} bytes (16 KiB), which a panic with a backtrace \
                 needs; ask for more, or leave the setting out"
            );
            return Err(invalid(text));
        }
        crate::driver::check(driver)?;
        let decided = self.detect_deadlock;
        let detect = decided.unwrap_or_else(|| report::is_set("ECRU_DETECT_DEADLOCK"));
        self.settings.on_deadlock = detect.then_some(diag::found);
        let notes = decided.is_none() && !detect && cfg!(debug_assertions);
        self.settings.on_quiet = notes.then(|| (diag::patience(), diag::noticed as fn()));
        Runtime::new(self.settings)
    }
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}
