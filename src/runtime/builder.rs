//! The settings of a runtime.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::run::Runtime;
use crate::base::report;
use crate::coroutine::{STACK_DEFAULT, STACK_FLOOR};
use crate::diag::{self, RECORD_MAX, RECORD_MIN};
use crate::driver::DriverKind;
use crate::sched::{Placement, Settings, WORKERS_MAX};
use crate::signal::SignalKind;

/// The settings of a [`Runtime`], made by [`Runtime::builder`].
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
    /// `None` if the environment decides.
    detect_deadlock: Option<bool>,
    /// `None` if the environment decides, zero for no watchdog.
    watchdog: Option<Duration>,
    /// `None` if the environment decides.
    inspect: Option<PathBuf>,
}

impl Runtime {
    /// Returns a builder for the settings of a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }
}

impl RuntimeBuilder {
    fn new() -> RuntimeBuilder {
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
                dump_on_signal: None,
                explains: false,
                watchdog: None,
                record: None,
                record_on_panic: None,
                record_on_alarm: None,
                dump_on_alarm: false,
                on_quiet: None,
            },
            detect_deadlock: None,
            watchdog: None,
            inspect: None,
        }
    }

    /// Sets the number of OS threads that run tasks. The thread that calls `run` is one of them.
    /// The default is the number of cores that are available to the process. The maximum is 1024.
    pub fn workers(mut self, workers: usize) -> RuntimeBuilder {
        self.settings.workers = workers;
        self
    }

    /// Sets the usable size of each task's stack in bytes, rounded up to whole pages. This is
    /// virtual memory: only the pages that a task touches use physical memory. The default is
    /// [`STACK_DEFAULT`], which is larger in debug builds. The
    /// minimum is 16 KiB.
    pub fn stack_size(mut self, bytes: usize) -> RuntimeBuilder {
        self.settings.stack_size = bytes;
        self
    }

    /// Sets how the runtime talks to the kernel. The default is [`DriverKind::Auto`], with which
    /// the environment or the kernel decides. Any other kind is used without an alternative,
    /// whatever the environment says. The driver is opened at the first operation that needs it.
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

    /// Sets the names of the threads: `NAME-1` and so on for the workers, and `NAME-unblock` in the
    /// blocking pool. The default is `ecru`.
    ///
    /// A name must not contain a NUL byte; [`build`](RuntimeBuilder::build) refuses it.
    pub fn name(mut self, name: impl Into<String>) -> RuntimeBuilder {
        self.settings.name = name.into();
        self
    }

    /// Sets where tasks start. The default is [`Placement::Auto`].
    ///
    /// A started task stays on its worker until it ends. So this setting decides how the work of a
    /// program is distributed over the cores. To keep a single task beside its spawner because the
    /// two communicate much, use [`near`](crate::TaskBuilder::near).
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

    /// Sets whether Ctrl-C (SIGINT) cancels the root of a run, and with it everything in the run,
    /// with the reason [`Shutdown`](crate::CancelReason::Shutdown). The program can then end in
    /// order. The default is false.
    ///
    /// Only the first Ctrl-C of a run does this. A second one has the effect that it would have
    /// without this setting, which is to end the process. No handler is installed before the run
    /// begins, and the previous action is restored when the run ends. A function that was installed
    /// for the signal before is still called, both times. If several such runs are active, each is
    /// cancelled.
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

    /// Sets whether SIGTERM cancels the root of a run, as
    /// [`cancel_on_ctrl_c`](RuntimeBuilder::cancel_on_ctrl_c) does for SIGINT. The default is
    /// false.
    ///
    /// SIGTERM is what service managers, containers and kill(1) send to a program that has to end.
    /// The two settings are independent of each other. The second delivery of either signal during
    /// a run ends the process.
    ///
    /// # Examples
    /// ```no_run
    /// let service =
    ///     ecru::Runtime::builder().cancel_on_ctrl_c(true).cancel_on_terminate(true).build()?;
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

    /// Sets whether a run that is stuck is ended instead of hanging. A run is stuck if every task
    /// waits, and none of them waits for a timer, an operation of the kernel or a closure of
    /// [`unblock`](crate::unblock).
    ///
    /// A run that is found stuck prints to standard error what each task waits for, with stack
    /// traces. Then it is cancelled with the reason [`Shutdown`](crate::CancelReason::Shutdown):
    /// its waits return [`Cancelled`](crate::Cancelled), and its tasks end. Finally `run` panics
    /// with a text that begins with `deadlock: ` and names the tasks. This panic calls no panic
    /// hook, because the report has been printed by then.
    ///
    /// If waits remain that cannot be cancelled, for example in a [`shield`](crate::shield), these
    /// are printed too, and the process is aborted. If standard error cannot be written to, because
    /// it is a pipe that no process reads, the report is given up after half a second.
    ///
    /// Without this setting the environment variable `ECRU_DETECT_DEADLOCK` decides: a run is
    /// checked if the variable is set and neither empty nor `0`. If neither enables the check, a
    /// run is not ended, because a thread outside the run could still wake a task. A debug build
    /// then prints one line if every task has waited for a second. Programs that rely on such a
    /// thread set `detect_deadlock(false)`, which also turns this line off.
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

    /// Sets a signal that prints every task of a run to standard error, with what each waits for and
    /// its stack trace, as [`RuntimeHandle::dump`](crate::RuntimeHandle::dump) finds them. The
    /// program goes on. The default is no signal.
    ///
    /// While a run lasts, the signal has no other effect, and a handler that was installed before is
    /// still called. Signals that arrive while a dump is being made cause one further dump. If several
    /// runs have this setting, each prints its tasks.
    ///
    /// # Panics
    /// [`Runtime::run`] panics if the system refuses a descriptor or a thread.
    ///
    /// # Examples
    /// ```no_run
    /// use ecru::signal::SignalKind;
    ///
    /// let runtime = ecru::Runtime::builder().dump_on_signal(SignalKind::user_defined1()).build()?;
    /// // `kill -USR1 PID` in a shell says what this task waits for.
    /// runtime.run(|| ecru::sleep(std::time::Duration::from_secs(3600)))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "SIGUSR1")]
    pub fn dump_on_signal(mut self, signal: impl Into<SignalKind>) -> RuntimeBuilder {
        self.settings.dump_on_signal = Some(signal.into().as_raw_value());
        self
    }

    /// Sets after which time a worker that has not switched tasks is reported on standard error. A
    /// report names the task that the worker runs, where that task was spawned, and what its thread
    /// does: it computes, sleeps, or is blocked by a lock of `std` or by a system call. It says what
    /// to use instead. Each such episode is reported once.
    ///
    /// A worker that does not switch runs none of its other tasks, and their time limits do not end
    /// them. That is the usual reason for a program that hangs. A root that computes while its worker
    /// has no other tasks is not reported.
    ///
    /// The watchdog also reports, once in a run, which tasks are left if the root has returned for the
    /// limit, and for at least a second: their number, and where they were spawned. Such tasks keep
    /// [`run`](crate::run) from returning.
    ///
    /// Without this setting the environment variable `ECRU_WATCHDOG` decides: a time such as `200ms`
    /// or `2s`, or `0` for no watchdog. If it is not set, debug builds have a watchdog with a limit
    /// of one second, and release builds have none. A limit of zero switches the watchdog off.
    ///
    /// A report comes between the limit and one and a half times the limit after the last switch.
    /// Time in which the system gives the worker's thread no processor does not count. To be
    /// watched costs a running task nothing. The watchdog's thread wakes up twice in each limit.
    /// With a watchdog, tasks are noted as holders of locks, as with
    /// [`inspect`](RuntimeBuilder::inspect), so that
    /// [`dump_on_alarm`](RuntimeBuilder::dump_on_alarm) names them.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = ecru::Runtime::builder().watchdog(Duration::from_millis(200)).build()?;
    /// runtime.run(|| {
    ///     // A report would name this place if the closure took 200 ms without a wait.
    ///     ecru::scope(|s| s.spawn(|| 6 * 7).join().unwrap());
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn watchdog(mut self, limit: Duration) -> RuntimeBuilder {
        self.watchdog = Some(limit);
        self
    }

    /// Sets whether a report of the [watchdog](RuntimeBuilder::watchdog) is followed by a dump of all
    /// tasks, as by [`RuntimeHandle::dump`](crate::RuntimeHandle::dump). The default is `false`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = ecru::Runtime::builder().watchdog(Duration::from_millis(200));
    /// let runtime = builder.dump_on_alarm(true).build()?;
    /// runtime.run(|| println!("a blocked worker would be reported with all tasks"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dump_on_alarm(mut self, dumps: bool) -> RuntimeBuilder {
        self.settings.dump_on_alarm = dumps;
        self
    }

    /// Opens a Unix socket at this path, by which other programs of the same user can ask what the
    /// run is doing: the command `ecru` of the crate `ecru-cli` does (`ecru dump PATH`, `ecru top
    /// PATH`). The default is no socket.
    ///
    /// Without this setting the environment variable `ECRU_INSPECT` decides: a path, or `1` for the
    /// default place, `$XDG_RUNTIME_DIR/ecru/PID.sock`. If `XDG_RUNTIME_DIR` is not set, the folder is
    /// `/tmp/ecru-UID`. The command finds a socket there by the id of the process. Further runtimes of
    /// the process have the sockets `PID-2.sock` and so on, which the command finds by their numbers
    /// or by the [names](RuntimeBuilder::name) of the runtimes. If a socket that the environment asks
    /// for cannot be opened, a line on standard error says so, and the program goes on.
    ///
    /// The socket has the mode 0600, and clients of other users are refused. A thread of its own
    /// serves it, so that a blocked worker does not silence it. Time, memory and connections of the
    /// clients are limited. A client can delay other clients, but not the program, except that a dump
    /// takes some time of each worker: together at most about a fifth.
    ///
    /// With this setting, tasks that acquire locks and permits are noted as their
    /// [holders](crate::diag::Wait::holders), so that dumps name them. In a build without
    /// `debug_assertions`, acquiring and releasing one takes 10 to 50 ns longer in tasks of this
    /// runtime. The notes of an object are behind a lock of their own, so tasks on many cores that
    /// read under one [`RwLock`](crate::sync::RwLock) wait for each other for about that long. Nothing
    /// else becomes slower.
    ///
    /// The socket exists from [`build`](RuntimeBuilder::build) until the runtime is dropped. A socket
    /// that a process has left behind is replaced. A process that is forked from the program leaves
    /// it alone. The protocol is one line of text for a request: the command `help` lists the others.
    ///
    /// # Examples
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let path = std::env::temp_dir().join(format!("example-{}.sock", std::process::id()));
    /// let runtime = ecru::Runtime::builder().workers(1).inspect(&path).build()?;
    /// let answer = runtime.run(|| {
    ///     // Another program would do this.
    ///     ecru::unblock(|| {
    ///         let mut client = UnixStream::connect(&path)?;
    ///         client.write_all(b"ecru/1 dump\n")?;
    ///         std::io::read_to_string(client)
    ///     })
    /// })?;
    /// assert!(answer.starts_with("ecru/1 ok ") && answer.contains("1 task"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inspect(mut self, path: impl Into<PathBuf>) -> RuntimeBuilder {
        self.inspect = Some(path.into());
        self
    }

    /// Sets the size of the flight recorder's memory for each worker, in bytes. The recorder keeps the
    /// last events of each worker: which task it ran and why that task stopped, which task woke which,
    /// spawns, operations with their bytes, cancellations, thefts, and the program's own
    /// [marks](crate::diag::mark). An event takes 40 bytes, so 1 MiB holds some 26,000 of them. The
    /// default is to record nothing. With a recorder, tasks are noted as holders of locks, as with
    /// [`inspect`](RuntimeBuilder::inspect).
    ///
    /// [`RuntimeHandle::record_to`](crate::RuntimeHandle::record_to) writes the events as a trace for
    /// Perfetto, and [`Recorder`](crate::diag::Recorder) as a page for a browser.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).record(1 << 20).build()?;
    /// runtime.run(|| ecru::scope(|s| s.builder().name("child").spawn(|| 6 * 7).join().unwrap()));
    /// let mut trace = Vec::new();
    /// runtime.handle().record_to(&mut trace)?;
    /// assert!(String::from_utf8(trace).unwrap().contains("child"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record(mut self, bytes_per_worker: usize) -> RuntimeBuilder {
        self.settings.record = Some(bytes_per_worker);
        self
    }

    /// Sets a file to which the recorder's page is written if a run ends by a panic, and one line on
    /// standard error that says so. A file that exists is replaced. The default is to write none.
    ///
    /// This needs a [recorder](RuntimeBuilder::record). A task that panics and is joined does not end
    /// its run.
    ///
    /// # Examples
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    ///
    /// let path = std::env::temp_dir().join(format!("ecru-{}.html", std::process::id()));
    /// let builder = ecru::Runtime::builder().workers(1).record(1 << 20).record_on_panic(&path);
    /// let runtime = builder.build()?;
    /// let fails = AssertUnwindSafe(|| runtime.run(|| resume_unwind(Box::new("failed"))));
    /// assert!(catch_unwind(fails).is_err());
    /// assert!(std::fs::read_to_string(&path)?.starts_with("<!doctype html>"));
    /// std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_on_panic(mut self, path: impl Into<PathBuf>) -> RuntimeBuilder {
        self.settings.record_on_panic = Some(path.into());
        self
    }

    /// Sets a file to which the recorder's page is written when the [watchdog](RuntimeBuilder::watchdog)
    /// reports a worker, and one line on standard error that says so. A file that exists is replaced,
    /// so the page of the last report stays. The default is to write none.
    ///
    /// This needs a [recorder](RuntimeBuilder::record).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = ecru::Runtime::builder().watchdog(Duration::from_millis(200));
    /// let runtime = builder.record(1 << 20).record_on_alarm("/tmp/blocked.html").build()?;
    /// runtime.run(|| println!("a blocked worker would be reported with its last events"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_on_alarm(mut self, path: impl Into<PathBuf>) -> RuntimeBuilder {
        self.settings.record_on_alarm = Some(path.into());
        self
    }

    /// Builds the runtime. Its threads start with its first run.
    ///
    /// # Errors
    /// Returns an error of kind `InvalidInput` if a setting (a signal that cannot be caught, too), or one of the environment variables
    /// `ECRU_DRIVER` and `ECRU_WATCHDOG`, has an invalid value. Returns `Unsupported` or `PermissionDenied` if io_uring
    /// was requested by name and is not available. Returns the system's error if the socket of
    /// [`inspect`](RuntimeBuilder::inspect) cannot be opened, `AddrInUse` if a running program serves
    /// it, and `AlreadyExists` if there is another file. The text of the error says what to do.
    ///
    /// # Examples
    /// ```
    /// let error = ecru::Runtime::builder().workers(0).build().unwrap_err();
    /// assert!(error.to_string().contains("at least 1"));
    /// ```
    pub fn build(mut self) -> io::Result<Runtime> {
        let Settings { workers, stack_size, driver, record, .. } = self.settings;
        if workers == 0 {
            return Err(invalid(
                "workers(0): a runtime needs at least 1 worker; leave the setting out for one worker per core",
            ));
        }
        if self.settings.name.contains('\0') {
            let text = format!(
                "name({:?}): a thread's name cannot contain a NUL byte; leave it out",
                self.settings.name
            );
            return Err(invalid(text));
        }
        if workers > WORKERS_MAX {
            let text = format!(
                "workers({workers}): the maximum is {WORKERS_MAX}; one worker per core is enough"
            );
            return Err(invalid(text));
        }
        if stack_size < STACK_FLOOR {
            let text = format!(
                "stack_size({stack_size}): below the minimum of {STACK_FLOOR} bytes (16 KiB), which a panic with a \
                 backtrace needs; pass a larger value, or leave the setting out"
            );
            return Err(invalid(text));
        }
        for (setting, path) in [
            ("record_on_panic", &self.settings.record_on_panic),
            ("record_on_alarm", &self.settings.record_on_alarm),
        ] {
            if record.is_none() && path.is_some() {
                return Err(invalid(format!(
                    "{setting}: there is nothing to write, because nothing is recorded; set `record(1 << 20)`, too"
                )));
            }
        }
        if let Some(bytes) = record
            && !(RECORD_MIN..=RECORD_MAX).contains(&bytes)
        {
            let text = format!(
                "record({bytes}): a worker's events need between {RECORD_MIN} and {RECORD_MAX} bytes; pass `1 << 20` for \
                 the last 26,000 events, or leave the setting out"
            );
            return Err(invalid(text));
        }
        crate::driver::check(driver)?;
        self.settings.watchdog = match self.watchdog {
            None => diag::limit_by_default().map_err(invalid)?,
            Some(Duration::ZERO) => None,
            Some(limit) if limit < diag::LIMIT_MIN => {
                let text = format!(
                    "watchdog({limit:?}): below the minimum of 10 ms; pass a longer time, or zero for no watchdog"
                );
                return Err(invalid(text));
            }
            Some(limit) => Some(limit),
        };
        if let Some(signal) = self.settings.dump_on_signal {
            SignalKind::from(signal).check()?;
        }
        let decided = self.detect_deadlock;
        let detect = decided.unwrap_or_else(|| report::is_set("ECRU_DETECT_DEADLOCK"));
        self.settings.on_deadlock = detect.then_some(diag::found);
        let wanted = self.inspect.map(diag::InspectAt::Path);
        let by_default = if wanted.is_none() { diag::inspected_by_default() } else { None };
        let is_inspected = wanted.is_some() || by_default.is_some();
        self.settings.explains = detect || is_inspected || self.settings.shows_waits();
        let notes = decided.is_none() && !detect && cfg!(debug_assertions);
        self.settings.on_quiet = notes.then(|| (diag::patience(), diag::noticed as fn()));
        let mut runtime = Runtime::new(self.settings)?;
        runtime.inspect = match (wanted, by_default) {
            (Some(at), _) => Some(diag::Inspect::begin(&runtime.pool, &at)?),
            (None, Some(at)) => diag::Inspect::begin_if_possible(&runtime.pool, &at),
            (None, None) => None,
        };
        Ok(runtime)
    }
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}
