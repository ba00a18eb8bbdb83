//! What the tests share: runs with one and with two workers, a watchdog, and panics that print nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than any test lives.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Ends the process, naming the test, unless it is dropped in time.
pub(crate) struct Watchdog {
    _in_time: mpsc::Sender<()>,
}

impl Watchdog {
    #[track_caller]
    pub(crate) fn new() -> Watchdog {
        let (in_time, ended) = mpsc::channel::<()>();
        let place = std::panic::Location::caller();
        let name = thread::current().name().unwrap_or("a thread without a name").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{name} hangs; see {place}");
                std::process::abort();
            }
        });
        Watchdog { _in_time: in_time }
    }
}

/// Runs `body` as the root task of a runtime with so many workers.
#[track_caller]
pub(crate) fn run_on<T>(workers: usize, body: impl FnOnce() -> T) -> T {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(workers).build().unwrap().run(body)
}

/// Runs `body` with one worker, then with two.
#[track_caller]
pub(crate) fn each_run(body: impl Fn()) {
    run_on(1, &body);
    run_on(2, &body);
}

/// Lets others run until `condition` holds; deaf to cancellation.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE / 2, "what is waited for does not happen");
        let _ = ecru::yield_now();
    }
}

/// Lets others run for a while, so that what has been told to wait does.
pub(crate) fn settle() {
    for _ in 0..10 {
        let _ = ecru::yield_now();
    }
}

/// Waits until it is cancelled.
pub(crate) fn forever() -> ecru::Cancelled {
    ecru::sleep(HOUR).unwrap_err()
}

/// A panic that prints nothing.
pub(crate) fn quiet_panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// What `body` panics with.
#[track_caller]
pub(crate) fn payload_of<T>(body: impl FnOnce() -> T) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => payload,
    }
}

/// The text of a panic.
#[track_caller]
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => panic!("a payload without text"),
    }
}

/// The text that `body` panics with.
#[track_caller]
pub(crate) fn panic_text<T>(body: impl FnOnce() -> T) -> String {
    text_of(&*payload_of(body)).to_owned()
}

/// Counts its drops.
pub(crate) struct Counted<'c>(pub(crate) &'c std::sync::atomic::AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Calls a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

const CHILD: &str = "ECRU_BEHAVIOUR_CHILD";

/// Starts the named test again in a process of its own, in which [`is_child`] is true.
pub(crate) fn start_again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, test).env_remove("RUST_BACKTRACE");
    command
}

/// Whether this process was started by [`start_again`] for that test.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var(CHILD).as_deref() == Ok(test)
}
