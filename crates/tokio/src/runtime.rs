//! The tokio runtime behind [`wait`](crate::wait).

use std::fmt;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::runtime::{self, Handle, Runtime};

/// The runtime that is used, from its first use on.
static USED: OnceLock<Used> = OnceLock::new();

/// Held while a runtime is started, so that there is only one.
static STARTING: Mutex<()> = Mutex::new(());

struct Used {
    handle: Handle,
    /// `None` if the runtime belongs to the program.
    _own: Option<Runtime>,
}

/// Settings of the tokio runtime, for programs that need other ones than the defaults. A program
/// calls it once, before the first use of this crate.
///
/// # Examples
/// ```standalone_crate
/// ecru_tokio::Builder::new().workers(2).max_blocking_threads(8).start()?;
/// assert_eq!(ecru_tokio::handle().metrics().num_workers(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    workers: usize,
    max_blocking_threads: Option<usize>,
}

impl Builder {
    /// Returns the default settings: one worker, and as many threads for `spawn_blocking` as tokio
    /// allows.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a builder is made by one call")]
    pub fn new() -> Builder {
        Builder { workers: 1, max_blocking_threads: None }
    }

    /// Sets the number of threads that run tokio's reactor, its timers and the tasks of
    /// `tokio::spawn`.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = workers;
        self
    }

    /// Sets how many threads run the closures of `spawn_blocking` at most.
    #[must_use]
    pub fn max_blocking_threads(mut self, threads: usize) -> Builder {
        self.max_blocking_threads = Some(threads);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// Returns an error of the kind `InvalidInput` if a number of threads is 0, an error of the kind
    /// `AlreadyExists` that contains [`AlreadyStarted`] if there is a runtime already, and the
    /// errors of starting threads.
    pub fn start(self) -> io::Result<()> {
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if USED.get().is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, AlreadyStarted));
        }
        let runtime = self.build()?;
        let used = Used { handle: runtime.handle().clone(), _own: Some(runtime) };
        // The lock is held, so there is none.
        let _ = USED.set(used);
        Ok(())
    }

    fn build(self) -> io::Result<Runtime> {
        if self.workers == 0 || self.max_blocking_threads == Some(0) {
            let text = "a tokio runtime needs at least one thread of each kind";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut builder = runtime::Builder::new_multi_thread();
        builder.worker_threads(self.workers).thread_name("ecru-tokio").enable_all();
        if let Some(threads) = self.max_blocking_threads {
            builder.max_blocking_threads(threads);
        }
        builder.build()
    }

    /// Uses a runtime of the program instead of one of its own. The runtime must last as long as
    /// waits use it, and a current-thread runtime must be running (`block_on`) meanwhile, because
    /// nothing else runs its timers and its reactor.
    ///
    /// # Errors
    /// Returns [`AlreadyStarted`] if there is a runtime already.
    ///
    /// # Examples
    /// ```standalone_crate
    /// let own = tokio::runtime::Runtime::new()?;
    /// ecru_tokio::Builder::use_handle(own.handle().clone())?;
    /// assert_eq!(ecru_tokio::wait(async { 7 }), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn use_handle(handle: Handle) -> Result<(), AlreadyStarted> {
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        USED.set(Used { handle, _own: None }).map_err(|_| AlreadyStarted)
    }
}

/// Returns the handle of the tokio runtime, which is started if this is its first use.
///
/// # Panics
/// Panics if the runtime's threads cannot be started.
///
/// # Examples
/// ```
/// let task = ecru_tokio::handle().spawn(async { 6 * 7 });
/// assert_eq!(ecru_tokio::wait(task).unwrap().unwrap(), 42);
/// ```
#[must_use]
pub fn handle() -> &'static Handle {
    if let Some(used) = USED.get() {
        return &used.handle;
    }
    // Another thread may be faster.
    match Builder::new().start() {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            panic!("a tokio runtime cannot be started: {error}")
        }
        _ => &USED.get().expect("a runtime has been started").handle,
    }
}

/// Calls a function inside the context of the tokio runtime. This is for functions that are not
/// futures and need a runtime, such as `connect_lazy` of several crates, and `tokio::spawn`.
///
/// # Panics
/// Panics if `f` panics. A call of ecru that may wait panics inside `f`, as in
/// [`no_suspend`](ecru::no_suspend).
///
/// # Examples
/// ```
/// let task = ecru_tokio::enter(|| tokio::spawn(async { 7 }));
/// assert_eq!(ecru_tokio::wait(task).unwrap().unwrap(), 7);
/// ```
pub fn enter<T>(f: impl FnOnce() -> T) -> T {
    // The context belongs to the thread, which must not run another task meanwhile.
    ecru::no_suspend(|| {
        let _inside = handle().enter();
        f()
    })
}

/// The error of a [`Builder`] that is used after the runtime has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyStarted;

impl fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the tokio runtime has already been started; use the builder before the first wait",
        )
    }
}

impl std::error::Error for AlreadyStarted {}
