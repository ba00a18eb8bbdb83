//! The root task, and the end of a run.
//!
//! A run is a scope around the root task. `ecru::spawn` and
//! [`RuntimeHandle::spawn`](super::RuntimeHandle::spawn) put their tasks into that scope. The
//! runtime publishes the scope as long as tasks may be added. It is withdrawn under a lock, and
//! only when the scope's count shows that no task is left.
#![expect(unsafe_code, reason = "publishes a scope that lives on the stack of `run`")]

use std::io;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::record::Rings;
use crate::base::sync::atomic::Ordering;
use crate::base::{report, short_trace, simulated};
use crate::coroutine::STACK_DEFAULT;
use crate::coroutine::Stack;
use crate::diag;
use crate::driver::DriverKind;
use crate::park;
use crate::sched::{self, Pool, Scheduling, Settings, Worker};
#[cfg(feature = "sim")]
use crate::sched::{Director, Placement};
use crate::scope::{JoinHandle, Options, Plain, PlainFuture, ScopeCore};
use crate::signal::{self, Listening, SignalKind};
use crate::task::cancel::CancelByService;
use crate::task::{self, CancelReason, Header, Running, VTable};

/// A runtime: workers, stacks and a blocking pool, for one run at a time.
///
/// [`run`] makes a runtime for a single run. This type is for other settings, and for
/// several runs.
///
/// # Examples
/// ```
/// let runtime = ecru::Runtime::builder().workers(1).build()?;
/// let sum = runtime.run(|| ecru::scope(|s| s.spawn(|| 1 + 2).join()));
/// assert_eq!(sum.unwrap(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    pub(super) pool: Arc<Pool>,
    pub(super) inspect: Option<diag::Inspect>,
    /// The process that made it. Its threads are not in a process that was forked from that one.
    process: u32,
    /// Held for the duration of a run.
    turn: Mutex<()>,
}

/// Runs `root` as the root task of a new runtime that has a worker for each core. Returns the value
/// of `root` once every task has ended.
///
/// The root task runs on the calling thread and on its stack. Several threads may each call `run`
/// at the same time.
///
/// # Panics
/// Panics if `root` panics, or if a task made by [`spawn`] has panicked and was not
/// joined. Also panics inside a task and inside [`no_suspend`](crate::no_suspend), and if the
/// system refuses threads or memory.
///
/// # Panic hooks
/// The first run in a process installs a panic hook. If a task panics, the hook prints one line
/// that names the task and where it was spawned, and then calls the hook that was installed before.
/// A hook that is set later replaces it, unless it calls the one that
/// [`take_hook`](std::panic::take_hook) returned. Backtraces leave out the frames of this library,
/// unless `RUST_BACKTRACE=full` is set.
///
/// A panic hook may call everything that waits, but such a wait blocks the thread instead of
/// parking the task. `std` notes per thread that it runs the hook, so no other task of the worker
/// may run meanwhile. If only a task of the same worker can end the wait, the process is aborted
/// after a second, with a report on standard error. If that cannot be known, it is aborted after
/// ten seconds. So a hook should not wait for tasks: use `try_lock`, or
/// [`send`](crate::channel::Sender::send) to an unbounded channel whose receiver does the rest.
///
/// # Examples
/// ```
/// let answer = ecru::run(|| 6 * 7);
/// assert_eq!(answer, 42);
/// ```
#[track_caller]
pub fn run<T>(root: impl FnOnce() -> T) -> T {
    #[cfg(feature = "sim")]
    assert!(
        !sched::is_simulated(),
        "`ecru::run` called inside a simulation, which is a run already; use `ecru::scope` there instead"
    );
    assert!(
        task::current_header().is_none(),
        "`ecru::run` called from inside a task; use `ecru::scope` there instead"
    );
    match Runtime::builder().build() {
        Ok(runtime) => runtime.run(root),
        Err(error) => panic!("`ecru::run` could not set up its runtime: {error}"),
    }
}

impl Runtime {
    pub(super) fn new(settings: Settings) -> io::Result<Runtime> {
        Ok(Runtime {
            pool: Pool::new(settings)?,
            inspect: None,
            process: std::process::id(),
            turn: Mutex::new(()),
        })
    }

    /// Runs `root` as the root task on the calling thread, which is one of the workers during the
    /// run. Returns the value of `root` once every task has ended. A second run on the same runtime
    /// waits for the first.
    ///
    /// # Panics
    /// Panics in the same cases as [`run`], and if it is called by a closure of
    /// [`unblock`](crate::unblock) in a run of the same runtime, or in a run that such a closure
    /// has begun, because it would wait for itself. A run that waits for a thread of the program's
    /// own, which calls `run` on the same runtime, waits forever. The library does not know of it.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).build()?;
    /// assert_eq!(runtime.run(|| "first"), "first");
    /// assert_eq!(runtime.run(|| "second"), "second");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn run<T>(&self, root: impl FnOnce() -> T) -> T {
        #[cfg(feature = "sim")]
        assert!(
            !sched::is_simulated(),
            "`Runtime::run` called inside a simulation, which is a run already; use `ecru::scope` there instead"
        );
        self.run_at(Location::caller(), Scheduling::default(), root)
    }

    /// Runs `root` as [`Runtime::run`] does. If the run is simulated, the runtime has one worker.
    fn run_at<T>(
        &self,
        at: &'static Location<'static>,
        scheduling: Scheduling,
        root: impl FnOnce() -> T,
    ) -> T {
        let mut root = Some(root);
        let mut value = None;
        let mut body = || value = root.take().map(short_trace::begin);
        let mut page = self.pool.settings.record_on_panic.as_deref().map(|path| {
            let recorder = self.pool.recorder.as_ref();
            PageOnPanic { recorder, path, is_over: false }
        });
        let verdict = self.__rust_end_short_backtrace(&mut body, scheduling, at);
        if let Some(page) = &mut page {
            page.is_over = verdict.is_none();
        }
        if let Some(text) = verdict {
            // The cause matters more than the value that the root returned after its cancellation.
            task::drop_quietly(value);
            // A task may have held the lock of standard error until just now.
            report::flush();
            // The report has been printed. A hook would print it once more, and might hang where
            // the report was given up: on a pipe that no process reads.
            panic::resume_unwind(Box::new(text));
        }
        value.expect("the body has returned")
    }

    /// Calls [`Runtime::run_body`]. The name of this function tells std's backtraces that the
    /// frames further out are worth printing again; see [`short_trace`]. It contains no closures,
    /// because their names would contain its own.
    #[inline(never)]
    #[track_caller]
    fn __rust_end_short_backtrace(
        &self,
        root: &mut dyn FnMut(),
        scheduling: Scheduling,
        at: &'static Location<'static>,
    ) -> Option<String> {
        self.run_body(root, scheduling, at)
    }

    /// Runs the part of a run that does not depend on the body's type, so it is compiled once.
    /// Returns the text to panic with if the run was stuck.
    #[track_caller]
    fn run_body(
        &self,
        root: &mut dyn FnMut(),
        scheduling: Scheduling,
        at: &'static Location<'static>,
    ) -> Option<String> {
        assert!(
            task::current_header().is_none(),
            "`Runtime::run` called from inside a task; use `ecru::scope` there instead"
        );
        // The tasks of this thread must neither count as part of a section that encloses the run,
        // nor end a wait of the thread itself.
        park::refuse_if_no_suspend();
        assert!(
            !self.pool.blocking.is_around_caller(),
            "`Runtime::run` called from inside a task of the same runtime, by way of `unblock`: it would wait for itself; use another \
             runtime, or call it after the run"
        );
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _begun = self.pool.blocking.begin_run();
        task::install_hook();
        if let Err(error) = self.pool.start_threads() {
            panic!("`run` could not start: {error}");
        }
        let stack = match Stack::new(STACK_DEFAULT) {
            Ok(stack) => stack,
            Err(error) => panic!("`run` could not start: no stack for the scheduler: {error}"),
        };
        let header = Header::new(
            &ROOT,
            ptr::null(),
            task::current_node(),
            task::bindings_now(),
            true,
            false,
            None,
            at,
        );
        header.started.store(true, Ordering::Relaxed);
        header.node.set_owner(&raw const header);
        task::label_root(&header);
        if header.node.parent().is_null() {
            header.node.set_root();
            header.reachable.store(true, Ordering::Relaxed);
        }
        let running = Running::new(&raw const header.node);
        running.enter(&raw const header);
        header.running.set(&raw const running);
        // SAFETY: T1: the header stays in this frame until the call has returned.
        unsafe {
            Worker::run_root(Arc::clone(&self.pool), &raw const header, stack, scheduling, || {
                self.root(root, at)
            })
        }
    }

    /// Runs the root task's body and its scope.
    fn root(&self, root: &mut dyn FnMut(), at: &'static Location<'static>) -> Option<String> {
        // These guards are dropped before the root's header is, so no cancellation arrives after
        // that.
        let settings = &self.pool.settings;
        let _ctrl_c = settings.cancel_on_ctrl_c.then(|| cancel_at(signal::CTRL_C, "Ctrl-C"));
        let _terminate =
            settings.cancel_on_terminate.then(|| cancel_at(signal::TERMINATE, "SIGTERM"));
        let _dumps = settings.dump_on_signal.map(|signal| self.dump_at(signal));
        let watchdog = settings.watchdog.map(|limit| diag::Watchdog::begin(&self.pool, limit));
        let core = ScopeCore::opened_at(task::current_node(), at);
        let opened = core.open();
        self.publish(&raw const core);
        let result = panic::catch_unwind(AssertUnwindSafe(root));
        if result.is_err() {
            core.cancel(CancelReason::Shutdown);
        }
        if let Some(watchdog) = &watchdog {
            watchdog.root_has_returned();
        }
        loop {
            core.finish();
            let mut published = self.published();
            if core.is_over() {
                // No task can be added any more.
                *published = ptr::null();
                break;
            }
        }
        core.close();
        drop(opened);
        // A simulation wants to know where it was. Other callers get the payload as it was thrown.
        let unclaimed = if simulated::is_simulated() {
            core.unclaimed_and_located()
        } else {
            core.unclaimed_panic()
        };
        if let Some(text) = diag::verdict(&self.pool) {
            task::drop_quietly((result, unclaimed));
            return Some(text);
        }
        match (result, unclaimed) {
            (Err(payload), unclaimed) => {
                // It must not be dropped while the other panic unwinds, because a second panic
                // would abort the process.
                task::drop_quietly(unclaimed);
                panic::resume_unwind(payload)
            }
            (Ok(()), Some(payload)) => panic::resume_unwind(payload),
            (Ok(()), None) => None,
        }
    }

    fn dump_at(&self, signal: i32) -> diag::DumpOnSignal {
        match diag::DumpOnSignal::begin(&self.pool, signal) {
            Ok(dumps) => dumps,
            Err(error) => panic!("`run` could not listen to {}: {error}", SignalKind::from(signal)),
        }
    }

    fn published(&self) -> MutexGuard<'_, *const ()> {
        self.pool.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, core: *const ScopeCore) {
        *self.published() = core.cast();
    }

    /// Returns the driver that this runtime's tasks use for what has to wait:
    /// [`Uring`](DriverKind::Uring) or [`Poll`](DriverKind::Poll). If no driver has been needed
    /// yet, this call finds out which one it will be. It returns [`Auto`](DriverKind::Auto) if that
    /// cannot be determined at the moment, for example because the process has no file descriptors
    /// left.
    ///
    /// # Examples
    /// ```
    /// use ecru::DriverKind;
    ///
    /// let runtime = ecru::Runtime::builder().build()?;
    /// assert!(matches!(runtime.driver_kind(), DriverKind::Uring | DriverKind::Poll));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn driver_kind(&self) -> DriverKind {
        self.pool.driver().map_or(DriverKind::Auto, |choice| choice.kind)
    }
}

/// Writes the page of the recorder to a file, unless the run ends as it should.
struct PageOnPanic<'r> {
    recorder: Option<&'r Arc<Rings>>,
    path: &'r Path,
    is_over: bool,
}

impl Drop for PageOnPanic<'_> {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder
            && !self.is_over
        {
            diag::write_page_of_panic(recorder, self.path);
        }
    }
}

/// Cancels the running root, and with it the whole run, when the signal arrives next. The guard has
/// to be dropped before the root ends.
fn cancel_at(signal: i32, name: &str) -> (Listening, CancelByService) {
    let root = task::current_header().expect("called in the root");
    // SAFETY: K5: the result is dropped before the root's header is.
    let request = unsafe { CancelByService::new(&raw const root.node, CancelReason::Shutdown) };
    match signal::listen(signal, request.ring()) {
        Ok(listening) => (listening, request),
        Err(error) => panic!("`run` could not listen to {name}: {error}"),
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The socket is the parent's. To wait for threads that are not here would never end.
            let _ = ManuallyDrop::new(self.inspect.take());
            return;
        }
        drop(self.inspect.take());
        self.pool.stop();
    }
}

/// Runs `root` as the root task of a simulated run, on the calling thread, which is that of a
/// simulation. `at` is where the run is said to begin. `begun` is called with the pool of the run.
///
/// # Panics
/// Panics in the same cases as [`run`].
#[cfg(feature = "sim")]
pub(crate) fn run_simulated<T>(
    at: &'static Location<'static>,
    (stack_size, record): (usize, Option<usize>),
    director: Box<dyn Director>,
    begun: impl FnOnce(&Arc<Pool>),
    root: impl FnOnce() -> T,
) -> T {
    let settings = Settings {
        workers: 1,
        stack_size,
        driver: DriverKind::Auto,
        name: String::from("ecru-sim"),
        // So that all spawns go the way on which the simulation takes them.
        placement: Placement::Spread,
        cancel_on_ctrl_c: false,
        cancel_on_terminate: false,
        on_deadlock: None,
        dump_on_signal: None,
        explains: true,
        watchdog: None,
        record,
        record_on_panic: None,
        record_on_alarm: None,
        dump_on_alarm: false,
        on_quiet: None,
    };
    match Runtime::new(settings) {
        Ok(runtime) => {
            begun(&runtime.pool);
            runtime.run_at(at, Scheduling::by(director), root)
        }
        Err(error) => panic!("the simulation could not set up its runtime: {error}"),
    }
}

/// Spawns a task that belongs to the run itself. It is like a task of a scope around the whole run,
/// and is awaited when the run ends.
///
/// # Panics
/// Panics outside a task.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let handle = ecru::spawn(|| String::from("from a task of the run"));
///     assert_eq!(handle.join().unwrap().len(), 22);
/// });
/// ```
#[track_caller]
pub fn spawn<F, U>(f: F) -> JoinHandle<'static, U>
where
    F: FnOnce() -> U + Send + 'static,
    U: Send + 'static,
{
    let Some(pool) = sched::current_pool() else {
        panic!(
            "`ecru::spawn` called on a thread that runs no tasks; use `RuntimeHandle::spawn`, or call it inside `ecru::run`"
        )
    };
    match spawn_here(&pool, new_task(f)) {
        Some(handle) => handle,
        None => panic!(
            "`ecru::spawn` called after the end of the run; destructors of values that outlive it cannot spawn"
        ),
    }
}

/// Spawns a task of the run itself that polls a future to its end. It is like one of
/// [`Scope::spawn_future`](crate::Scope::spawn_future) in a scope around the whole run.
///
/// # Panics
/// Panics outside a task.
///
/// # Cancellation
/// Cancellation has the same effect as in [`Scope::spawn_future`](crate::Scope::spawn_future).
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let handle = ecru::spawn_future(async { 6 * 7 });
///     assert_eq!(handle.join().unwrap(), 42);
/// });
/// ```
#[track_caller]
pub fn spawn_future<F>(future: F) -> JoinHandle<'static, F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(pool) = sched::current_pool() else {
        panic!(
            "`ecru::spawn_future` called on a thread that runs no tasks; use `RuntimeHandle::spawn_future`, or call it inside `ecru::run`"
        )
    };
    match spawn_here(&pool, new_future(future)) {
        Some(handle) => handle,
        None => panic!(
            "`ecru::spawn_future` called after the end of the run; destructors of values that outlive it cannot spawn"
        ),
    }
}

/// A new task that is to be queued, with its queue's reference, and its handle.
type NewTask<U> = (*const Header, JoinHandle<'static, U>);

/// Returns a function that makes a task with this closure.
#[inline]
#[track_caller]
pub(super) fn new_task<F, U>(f: F) -> impl FnOnce(&ScopeCore) -> NewTask<U>
where
    F: FnOnce() -> U,
{
    let at = Location::caller();
    move |core| {
        let task = core.allocate(Plain(f), Options::default(), at);
        // SAFETY: T2: this is the handle's reference.
        (task, unsafe { JoinHandle::new(task) })
    }
}

/// Returns a function that makes a task with this future.
#[track_caller]
pub(super) fn new_future<F: Future>(future: F) -> impl FnOnce(&ScopeCore) -> NewTask<F::Output> {
    let at = Location::caller();
    move |core| {
        let task = core.allocate_future(PlainFuture(future), Options::default(), at);
        // SAFETY: T2: this is the handle's reference.
        (task, unsafe { JoinHandle::new(task) })
    }
}

/// Puts a task into the run of the pool that the current thread works for. Drops its work if that
/// run has ended.
#[inline]
fn spawn_here<U>(
    pool: &Arc<Pool>,
    new: impl FnOnce(&ScopeCore) -> NewTask<U>,
) -> Option<JoinHandle<'static, U>> {
    let published = pool.run.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: S5: the run's scope is withdrawn under this lock, after its last child.
    let core = unsafe { published.cast::<ScopeCore>().as_ref() }?;
    let (task, handle) = new(core);
    // In a simulation, other tasks may run in the call below. The hook may spawn, too.
    drop(published);
    // SAFETY: T1: no other thread knows the task yet.
    unsafe { task::announce(task) };
    // SAFETY: T1: the task is new. It is counted, so the run does not end before it.
    let queued = unsafe { sched::spawn(task, Arc::as_ptr(pool).cast()) };
    debug_assert!(queued, "the current thread is a worker of this pool");
    Some(handle)
}

/// Puts a task into the run of a pool, from any thread. Drops its work if there is no run.
pub(super) fn spawn_into<U>(
    pool: &Arc<Pool>,
    new: impl FnOnce(&ScopeCore) -> NewTask<U>,
) -> Option<JoinHandle<'static, U>> {
    if sched::current_pool().is_some_and(|current| Arc::ptr_eq(&current, pool)) {
        // The caller is in the run itself, so the task is spawned as by `spawn`, without going
        // through a worker's inbox.
        return spawn_here(pool, new);
    }
    let published = pool.run.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: S5: the run's scope is withdrawn under this lock, after its last child.
    let core = unsafe { published.cast::<ScopeCore>().as_ref() }?;
    task::hear_of_hook();
    let (task, handle) = new(core);
    // The hook may spawn.
    drop(published);
    // SAFETY: T1: no other thread knows the task yet.
    unsafe { task::announce(task) };
    // SAFETY: T1: the task is new. It is counted, so the run does not end before it.
    unsafe { sched::Remote::new(pool).spawn(task) };
    Some(handle)
}

/// The root task has no box, because it is not queued before it runs, and never joined or
/// freed.
const ROOT: VTable = VTable::bare(sched::notify_cancelled);
