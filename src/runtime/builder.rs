//! Settings of a runtime.

use std::io;
use std::num::NonZero;
use std::thread;

use super::run::Runtime;
use crate::coroutine::{STACK_DEFAULT, STACK_FLOOR};
use crate::driver::DriverKind;
use crate::sched::{Settings, WORKERS_MAX};

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
pub struct Builder {
    settings: Settings,
}

impl Builder {
    pub(super) fn new() -> Builder {
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
        Builder {
            settings: Settings {
                workers,
                stack_size: STACK_DEFAULT,
                driver: DriverKind::Auto,
                name: String::from("ecru"),
                spread: false,
            },
        }
    }

    /// How many OS threads run tasks; the thread that calls `run` is one of them. Default: as many as there are cores available
    /// to the process. At most 1024.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.settings.workers = workers;
        self
    }

    /// The usable bytes of each task's stack, rounded up to whole pages. It is virtual memory: only what a task touches is
    /// real. Default: 192 KiB, which with its guard makes 256 KiB; at least 16 KiB.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.settings.stack_size = bytes;
        self
    }

    /// How to talk to the kernel. Default: [`DriverKind::Auto`]. The driver is opened at the first operation that needs it.
    pub fn driver(mut self, driver: DriverKind) -> Builder {
        self.settings.driver = driver;
        self
    }

    /// What the threads are called: `NAME-1` and so on for the workers, `NAME-unblock` in the blocking pool. Default: `ecru`.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.settings.name = name.into();
        self
    }

    /// Whether spawned tasks are dealt out to all workers in turn, instead of starting where they are spawned unless another
    /// worker is idle. Default: no; tasks that talk to each other are faster together.
    pub fn spread(mut self, spread: bool) -> Builder {
        self.settings.spread = spread;
        self
    }

    /// Builds the runtime. Its threads start with its first run.
    ///
    /// # Errors
    /// A setting that makes no sense (kind `InvalidInput`), a driver that is not to be had (`Unsupported`); the text says what to do.
    ///
    /// # Examples
    /// ```
    /// let error = ecru::Runtime::builder().workers(0).build().unwrap_err();
    /// assert!(error.to_string().contains("at least 1"));
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
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
        if driver == DriverKind::Poll {
            crate::driver::probe(driver)?;
        }
        Runtime::new(self.settings)
    }
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}
