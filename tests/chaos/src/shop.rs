//! What all processes open: the queues and the function, with the same settings.

use std::io;
use std::time::Duration;

use ecru::{Cancelled, Scope};
use ecru_fleet::{Fleet, Function, JobError, Queue, Run};
use ecru_nats::Options;
use serde::{Deserialize, Serialize};

/// Short, so that leases end often.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

/// How many jobs a worker has at once.
pub(crate) const WINDOW: usize = 4;

/// How many workers there are.
pub(crate) const WORKERS: usize = 6;

/// How many items a map has.
pub(crate) const ITEMS: u64 = 40;

/// After so many attempts a poison job is dead.
pub(crate) const POISON_ATTEMPTS: u32 = 3;

/// How long results are kept.
const KEEP: Duration = Duration::from_secs(1200);

/// The pause before the brokers are asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// What journals call it.
    pub(crate) id: String,
    /// How long it takes.
    pub(crate) millis: u64,
    /// It does not let its thread do anything else meanwhile.
    #[serde(default)]
    pub(crate) blocks: bool,
}

impl Work {
    /// Returns a job. A few take longer than a lease, which is renewed then.
    pub(crate) fn new(id: String, random: &mut fastrand::Rng) -> Work {
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let long = random.u8(..) < 3;
        let millis = if long { lease + lease / 4 } else { random.u64(1..120) };
        Work { id, millis, blocks: false }
    }
}

/// The name of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The innocent jobs. They have attempts without end, because each kill costs one, so a job
    /// among the dead of this queue is always a fault.
    Jobs,
    /// The jobs that abort their process, jobs of another release, and innocent ones that are handed
    /// out ahead beside them, which take no time and should not die of their neighbours.
    Poison,
    /// The jobs of the control run.
    Control,
}

impl Name {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Name::Jobs => "jobs",
            Name::Poison => "poison",
            Name::Control => "control",
        }
    }
}

/// Connects as a client that notices soon when a connection is silent.
pub(crate) fn connect<'s>(s: &'s Scope<'s, '_>, urls: &str) -> io::Result<Fleet<'s>> {
    until(|| Fleet::connect_with(s, urls, options()))
}

pub(crate) fn options() -> Options {
    Options::new()
        .name("ecru-chaos")
        .connect_timeout(Duration::from_secs(3))
        .request_timeout(Duration::from_secs(3))
        .ping_interval(Duration::from_secs(1))
        .reconnect_delay(Duration::from_millis(20), Duration::from_millis(500))
}

pub(crate) fn queue(fleet: &Fleet<'_>, name: Name) -> io::Result<Queue<Work>> {
    let attempts = if name == Name::Poison { POISON_ATTEMPTS } else { u32::MAX };
    let open = || {
        let queue = fleet.queue(name.text()).lease(LEASE).attempts(attempts);
        queue.capacity(400).replicas(3).open()
    };
    until(open)
}

/// Opens the function of the maps. Each run of it has another result, so that two stored results of
/// one index are seen to be two.
pub(crate) fn square<'s>(fleet: &Fleet<'s>) -> io::Result<Function<'s, u64, String>> {
    // The account has little room, so results are kept for as long as a map can take.
    let open = || {
        let square = fleet.function("square", body).lease(LEASE).attempts(u32::MAX);
        square.keep_results(KEEP).replicas(3).open()
    };
    until(open)
}

fn body(number: u64, run: &Run) -> Result<String, JobError> {
    ecru::sleep(Duration::from_millis(fastrand::u64(1..60)))?;
    let (pid, nonce) = (std::process::id(), fastrand::u64(..));
    Ok(format!("{} attempt {} pid {pid} {nonce:016x}", number * number, run.attempt()))
}

/// Calls `f` until it succeeds. Brokers that are dead, cut off or without a leader answer with
/// errors, or not at all. What cannot become better is returned.
pub(crate) fn until<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        let error = match f() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let is_final = matches!(
            error.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected | io::ErrorKind::Unsupported
        );
        if is_final || Cancelled::find(&error).is_some() {
            return Err(error);
        }
        eprintln!("again, after: {error}");
        ecru::sleep(AGAIN)?;
    }
}
