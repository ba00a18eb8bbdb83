//! Helpers of these attacks.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::time::Duration;

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) struct OnDrop<F: FnMut()>(pub(super) F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)()
    }
}

/// Ends the process, naming the test, unless it is dropped within a minute.
pub(super) struct Watchdog(
    #[expect(dead_code, reason = "its drop is the signal")] mpsc::Sender<()>,
);
impl Watchdog {
    #[track_caller]
    pub(super) fn new() -> Watchdog {
        let (tell, told) = mpsc::channel::<()>();
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        std::thread::spawn(move || {
            if told.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("WATCHDOG: {name} hangs");
                std::process::abort();
            }
        });
        Watchdog(tell)
    }
}

#[track_caller]
pub(super) fn run_on<T>(workers: usize, body: impl FnOnce() -> T) -> T {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder()
        .workers(workers)
        .placement(ecru::Placement::Together)
        .build()
        .unwrap()
        .run(body)
}

#[track_caller]
pub(super) fn each_run(body: impl Fn()) {
    for workers in [1, 2] {
        run_on(workers, &body);
    }
}

/// Returns the text of the panic of `f`.
pub(super) fn panic_of<T>(f: impl FnOnce() -> T) -> Option<String> {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => None,
        Err(payload) => Some(text(&*payload)),
    }
}

pub(super) fn text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "<no text>".into())
}
