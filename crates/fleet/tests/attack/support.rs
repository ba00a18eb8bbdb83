//! Where the attacks take place.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::schedule::Delay;
use ecru::sim;
use ecru_fleet::{Fleet, Function, Job, Queue, Wire};

use crate::server::Server;

pub(crate) const SOON: Duration = Duration::from_millis(10);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(100);
/// A pause before a retry that a test can wait for.
pub(crate) const RETRY: Delay = Delay::Constant(SOON);

/// Runs `body` with a fleet in memory, in simulations with several seeds.
pub(crate) fn local(body: impl Fn(&Fleet<'_>) -> io::Result<()> + Send + Sync) {
    sim::test(|| ecru::scope(|s| body(&Fleet::local(s))).unwrap());
}

/// Runs `body` with a fleet in memory, on real workers.
pub(crate) fn native(body: impl Fn(&Fleet<'_>) -> io::Result<()> + Send + Sync) {
    let runtime = ecru::Runtime::builder().workers(4).build().unwrap();
    runtime.run(|| ecru::scope(|s| body(&Fleet::local(s)))).unwrap();
}

/// Runs `body` with a new server, if one is installed.
pub(crate) fn real(body: impl FnOnce(&mut Server) -> io::Result<()>) {
    if let Some(mut server) = Server::start("") {
        ecru::run(|| body(&mut server)).unwrap();
    }
}

/// Runs `body` with a fleet in memory, and with one on a real server.
pub(crate) fn both(body: impl Fn(&Fleet<'_>) -> io::Result<()> + Send + Sync) {
    local(&body);
    real(|server| ecru::scope(|s| body(&Fleet::connect(s, &server.url())?)));
}

/// The same without simulations, for what takes too long in many of them.
pub(crate) fn twice(body: impl Fn(&Fleet<'_>) -> io::Result<()> + Send + Sync) {
    native(&body);
    real(|server| ecru::scope(|s| body(&Fleet::connect(s, &server.url())?)));
}

/// Receives the next job of a queue.
pub(crate) fn next<T: Wire>(queue: &Queue<T>) -> io::Result<Job<T>> {
    let jobs = queue.jobs(1)?;
    ecru::timeout(LONG, || jobs.recv())?.map_err(Into::into)
}

/// Serves the function while `body` runs.
pub(crate) fn served<A: Wire, R: Wire, T>(
    function: &Function<'_, A, R>,
    window: usize,
    body: impl FnOnce() -> T,
) -> T {
    ecru::scope(|s| {
        s.spawn_daemon(|| function.serve(window).unwrap());
        body()
    })
}

/// Waits until `is_true` returns true.
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        ecru::sleep(SOON).unwrap();
    }
}

/// Waits until so many jobs are dead, and all others have ended. A job is among the dead before it
/// leaves the queue.
pub(crate) fn until_dead<T: Wire>(queue: &Queue<T>, count: u64) {
    until(|| {
        let stats = queue.stats().unwrap();
        (stats.queued + stats.running, stats.dead) == (0, count)
    });
}

/// Waits until a counter has at least this value.
pub(crate) fn reaches(counter: &AtomicU32, value: u32) {
    until(|| counter.load(Ordering::SeqCst) >= value);
}

/// Returns the text of a panic in `body`, if there was one.
pub(crate) fn panic_of<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// Panics without a message on the standard error.
pub(crate) fn panic_quietly(text: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(text))
}
