//! Helpers shared by the test programs: a watchdog, runs, and both ends of a connection. Test
//! programs of other packages include this file by its path. It needs only std and the library.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::any::Any;
use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ecru::Placement;
use ecru::diag::{TaskInfo, TaskState};
use ecru::net::{TcpListener, TcpStream};

/// Longer than any test takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 60 });

/// Longer than any test runs.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns the time that has passed since `start`. In a simulation it is virtual.
pub(crate) fn since(start: Instant) -> Duration {
    ecru::time::now() - start
}

/// Ends the process and names the test, unless it is dropped in time. It also prints the latest
/// panics. After a panic a test may wait for ever for a thread that waits for what it has not done,
/// and the test runner shows the text of the panic only when the test ends.
pub(crate) struct Watchdog {
    _in_time: mpsc::Sender<()>,
}

impl Watchdog {
    #[track_caller]
    pub(crate) fn new() -> Watchdog {
        Watchdog::within(PATIENCE)
    }

    #[track_caller]
    pub(crate) fn within(limit: Duration) -> Watchdog {
        note_panics();
        let (in_time, ended) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let place = std::panic::Location::caller();
        let name = thread::current().name().unwrap_or("a thread without a name").to_owned();
        thread::spawn(move || {
            let _ = begun.send(());
            if ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Not `eprintln!`, whose text the test runner would keep.
                let mut errors = std::io::stderr();
                let _ = writeln!(errors, "{name} hangs; see {place}");
                for panic in latest_panics().iter() {
                    let _ = writeln!(errors, "an earlier panic in this process: {panic}");
                }
                std::process::abort();
            }
        });
        // From here on the thread maps no more memory, which tests may limit.
        has_begun.recv().expect("the thread sends at once");
        Watchdog { _in_time: in_time }
    }
}

/// Returns the texts of the latest panics of this process, which may belong to other tests.
fn latest_panics() -> MutexGuard<'static, VecDeque<String>> {
    static LATEST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
    LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the first call on, the text of each panic is kept for [`latest_panics`].
fn note_panics() {
    static NOTED: Once = Once::new();
    if thread::panicking() {
        return; // A hook cannot be set then.
    }
    NOTED.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let mut latest = latest_panics();
            latest.truncate(9);
            latest.push_front(panic.to_string());
            drop(latest);
            print(panic);
        }));
    });
}

/// Runs `body` as the root task of a runtime with `workers` workers.
///
/// Tasks begin beside their spawner, unless `ECRU_TEST_PLACEMENT` is `auto`. A task that was placed
/// on another worker begins when the system gives that worker a core. Many tests spawn, let others
/// run for a while and then cancel, and expect that all tasks have begun.
#[track_caller]
pub(crate) fn run_on<T>(workers: usize, body: impl FnOnce() -> T) -> T {
    run_placed(workers, if places_tasks() { Placement::Auto } else { Placement::Together }, body)
}

/// Returns whether the tests run with the default placement.
fn places_tasks() -> bool {
    std::env::var("ECRU_TEST_PLACEMENT").is_ok_and(|said| said == "auto")
}

/// Runs `body` as [`run_on`] does, with this placement.
#[track_caller]
pub(crate) fn run_placed<T>(workers: usize, placement: Placement, body: impl FnOnce() -> T) -> T {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(workers).placement(placement).build().unwrap().run(body)
}

/// Runs `body` with one worker, then with two. If `ECRU_TEST_WORKERS` is set, both runs have that
/// number.
#[track_caller]
pub(crate) fn each_run(body: impl Fn()) {
    each_run_of(&body);
}

/// A single function for all tests, so that it is compiled only once.
#[track_caller]
fn each_run_of(body: &dyn Fn()) {
    let said = std::env::var("ECRU_TEST_WORKERS").ok();
    let said = said.map(|workers| workers.parse().expect("ECRU_TEST_WORKERS is a number"));
    for workers in [1, 2] {
        run_on(said.unwrap_or(workers), body);
    }
}

const CHILD: &str = "ECRU_TEST_CHILD";

/// Starts the named test again in a process of its own, in which [`is_child`] returns true. The
/// name is the full path, as the test runner prints it.
pub(crate) fn start_again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, test).env_remove("RUST_BACKTRACE");
    command
}

/// Returns whether [`start_again`] started this process for that test.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var(CHILD).as_deref() == Ok(test)
}

/// Runs a test in a process of its own.
#[track_caller]
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    alone_with(test, |_| {}, body);
}

/// Runs a test in a process of its own with a prepared command, and returns what it has written.
/// Returns `None` in that process.
#[track_caller]
pub(crate) fn alone_with(
    test: &str,
    prepare: impl FnOnce(&mut Command),
    body: impl FnOnce(),
) -> Option<Output> {
    if is_child(test) {
        body();
        return None;
    }
    let mut command = start_again(test);
    prepare(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The runner would succeed without running a test if no test had this name.
    let good = output.status.success() && text.contains("1 passed");
    assert!(good, "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

/// Returns whether the caller runs in a simulation. Some programs with these helpers are built
/// without the simulator.
fn is_simulated() -> bool {
    #[cfg(feature = "sim")]
    return ecru::sim::is_simulated();
    #[cfg(not(feature = "sim"))]
    false
}

/// Lets other tasks run until `condition` holds. It ignores cancellation.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let start = ecru::time::now();
    while !condition() {
        assert!(since(start) < PATIENCE / 2, "what is waited for does not happen");
        if is_simulated() {
            // Virtual time stands still while a task can run.
            let _ = ecru::shield(|| ecru::sleep(ms(1)));
        } else {
            let _ = ecru::yield_now();
        }
    }
}

/// Returns when each worker of the run has begun. From then on the workers' threads map no more
/// memory for themselves, so a test may limit it. The stacks of the tasks that this needs are
/// smaller than others.
pub(crate) fn await_workers(workers: usize) {
    let all = std::sync::Barrier::new(workers);
    ecru::scope(|s| {
        for _ in 1..workers {
            // It blocks its worker, so the next task goes to another one.
            s.builder().stack_size(64 << 10).spawn(|| _ = all.wait());
        }
        all.wait();
    });
}

/// Lets other tasks run for a while, so that tasks that are about to wait do so.
pub(crate) fn settle() {
    #[cfg(feature = "sim")]
    if is_simulated() {
        return ecru::sim::settle();
    }
    // On a slow machine such a task may have been preempted. Preempted tasks are let in one at a
    // time, after 127 turns of others.
    for _ in 0..260 {
        let _ = ecru::yield_now();
    }
    if places_tasks() {
        settle_everywhere();
    }
}

/// Does the same where tasks begin on other workers, which turns of this worker do not wait for.
fn settle_everywhere() {
    let Ok(handle) = std::panic::catch_unwind(ecru::RuntimeHandle::current) else { return };
    for _ in 0..100 {
        let tree = handle.dump();
        let waits =
            |task: &TaskInfo| matches!(task.state(), TaskState::Running | TaskState::Waiting(_));
        if tree.left_out() == 0 && tree.busy_workers().is_empty() && tree.tasks().all(waits) {
            return;
        }
        let _ = ecru::yield_now();
    }
}

/// Spawns a task that is at work when this returns, so that cancelling it meets a wait of it.
pub(crate) fn begin<'scope, T: Send + 'scope>(
    s: &'scope ecru::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> ecru::JoinHandle<'scope, T> {
    let begun = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let handle = s.spawn({
        let begun = std::sync::Arc::clone(&begun);
        move || {
            begun.store(true, std::sync::atomic::Ordering::SeqCst);
            body()
        }
    });
    until(|| begun.load(std::sync::atomic::Ordering::SeqCst));
    settle();
    handle
}

/// Waits until it is cancelled.
pub(crate) fn forever() -> ecru::Cancelled {
    ecru::sleep(HOUR).unwrap_err()
}

/// A panic that prints nothing.
pub(crate) fn quiet_panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// Returns the payload that `body` panics with.
#[track_caller]
pub(crate) fn payload_of<T>(body: impl FnOnce() -> T) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => payload,
    }
}

/// Returns the text that `body` panics with.
#[track_caller]
pub(crate) fn panic_text<T>(body: impl FnOnce() -> T) -> String {
    text_of(&*payload_of(body)).to_owned()
}

/// Returns the resident bytes of this process, without pages of files. The program's own code is
/// mapped when it first runs, and in pieces whose size depends on the file system.
pub(crate) fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// The processor time that a thread has used. Other programs do not move this clock, so a test
/// measures by it how late something is on a thread that is always busy.
#[derive(Clone)]
pub(crate) struct ProcessorClock(std::path::PathBuf);

impl ProcessorClock {
    /// Returns the clock of the calling thread.
    pub(crate) fn of_this_thread() -> ProcessorClock {
        // Not the path of "this thread", because other threads may read the clock.
        ProcessorClock(std::fs::canonicalize("/proc/thread-self").unwrap().join("schedstat"))
    }

    /// Returns the time used so far, to a tick of the kernel's clock if that thread is running.
    pub(crate) fn used(&self) -> Duration {
        let times = std::fs::read_to_string(&self.0).unwrap();
        Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
    }
}

/// Returns the text of a panic.
#[track_caller]
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => panic!("a payload without text"),
    }
}

/// Calls a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pub(crate) fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns both ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let client = TcpStream::connect(address).unwrap();
    (client, listener.accept().unwrap().0)
}
