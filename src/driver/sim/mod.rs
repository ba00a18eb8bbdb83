//! The `sim` driver: the kernel's work, done in memory and in virtual time.
//!
//! # Words
//! - A *world* ([`World`]) is everything that a simulation has in place of the kernel: networks and
//!   disks. There is one for each simulation.
//! - An *event* ([`Event`](world::Event)) is something that happens in the world at a certain time.
//! - A *file* ([`File`]) is what a [descriptor](super::Descriptor) names instead of an fd.
//! - An *answer* ([`Answer`](answers::Answer)) is what a world returns for one kind of request.
//! - A *watcher* ([`Watcher`]) is what a driver leaves with a file to be told of a change.
//!
//! # Time
//! The clock moves only in [`Sim::poll`], and the scheduler polls with [`PollTimeout::For`] only
//! when no task can run. The driver then moves the clock to the first event or alarm, or by the
//! given duration if that is shorter, and makes the events happen that are due. Alarms may call the
//! user's code, so the scheduler rings them itself.
//!
//! # Ops
//! An op is attempted, and if it has to wait, the driver leaves a watcher with its file. Nothing else
//! runs between the two, so no change is lost. A change takes the watchers of its side out of the
//! file, and notes their ops in the world. At its next poll the driver attempts these ops again,
//! until they end. A disk has to know the op that begins a sync, so its watcher is left before the
//! attempt.
//!
//! # Descriptors of the kernel
//! The standard streams are the only ones that a simulation uses. A write to one that is full
//! blocks the thread, and with it the simulation, for some real time. No other op on a descriptor
//! of the kernel is started.
#![expect(unsafe_code, reason = "implements an unsafe method")]

pub(super) mod answers;
mod disk;
mod disks;
mod draws;
mod events;
mod file;
mod journal;
mod network;
mod socket;
mod waiting;
mod world;

use super::flight::InFlight;
use super::request::perform::unsupported;
use super::{Completion, Driver, Op, PollTimeout, StartedOp, Thread, Token, Waker};
use crate::base::{clock, simulated};
use crate::task;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use disk::DiskFaults;
pub(crate) use draws::{DrawnFault, Draws, FaultKind, Struck};
pub(crate) use file::File;
use journal::Journal;
pub(crate) use journal::{Dropped, Events as HostEvents, Incident, mix};
pub(crate) use network::{HostId, LinkSettings, NetworkFaults, ROOT_NAME};
use waiting::Waiting;
pub(in crate::driver) use world::Watcher;
pub(crate) use world::{Trouble, World};

/// The driver of a simulation's worker.
#[derive(Debug)]
pub(crate) struct Sim {
    world: Arc<World>,
    waiting: Waiting,
    done: Vec<Completion>,
    /// The ops whose files have changed. Empty between two calls, and kept for its memory.
    news: Vec<u64>,
}

impl Sim {
    /// Opens the driver of the current simulation.
    ///
    /// # Panics
    /// Panics outside of simulations.
    pub(super) fn open() -> Sim {
        let world = World::current().expect("a simulation has a world");
        Sim { world, waiting: Waiting::default(), done: Vec::new(), news: Vec::new() }
    }

    /// The only thread that wakes the worker is its own, which is then not asleep.
    pub(super) fn waker(&self) -> Waker {
        unreachable!("a simulation's worker does not sleep")
    }

    /// Returns the time of the next event or alarm, or `None` if nothing is going to happen.
    pub(crate) fn next(&self) -> Option<Instant> {
        [self.world.next_event(), simulated::next_alarm()].into_iter().flatten().min()
    }

    /// Attempts an op. Leaves a watcher for it and returns `None` if it has to wait.
    ///
    /// # Safety
    /// S3: the op is in flight, or is about to be.
    unsafe fn attempt(&self, number: u64, flight: &InFlight<'_>) -> Option<Completion> {
        let file = flight.op().descriptor().file()?;
        let watcher = Watcher::Op(number);
        if let File::Disk(_) = file {
            file.watch(flight.op().interest(), watcher.clone());
            // SAFETY: S3, the caller's promise.
            return unsafe { flight.resume() }.inspect(|_| file.unwatch(&watcher));
        }
        // SAFETY: S3, the caller's promise.
        let completion = unsafe { flight.resume() };
        if completion.is_some() {
            return completion;
        }
        file.watch(flight.op().interest(), watcher);
        None
    }

    /// Makes everything happen that is due, and attempts the ops whose files have changed.
    fn hear(&mut self) {
        self.world.happen(&mut self.news);
        let mut news = mem::take(&mut self.news);
        for number in news.drain(..) {
            // An op that has ended may still be in the list.
            let Some(flying) = self.waiting.get(number) else { continue };
            // SAFETY: S3: an op in the table is in flight.
            let flight = unsafe { &*flying };
            // SAFETY: S3: an op in the table is in flight.
            let completion = unsafe { self.attempt(number, flight) };
            if let Some(Completion { result, .. }) = completion
                && let Some(token) = self.waiting.remove(number)
            {
                self.done.push(Completion { token, result });
            }
        }
        self.news = news;
    }
}

impl Driver for Sim {
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        if let Some(file) = flight.op().descriptor().file() {
            let number = self.waiting.add(flight, token);
            if let (File::Socket(socket), true) = (file, flight.was_attempted()) {
                // Nothing has happened since the attempt. Most waits begin here, at the deepest
                // place of their tasks' stacks, so there are few calls below it.
                socket.watch(flight.op().interest(), Watcher::Op(number));
                return StartedOp::Pending;
            }
            // SAFETY: S3, the caller's promise.
            let completion = unsafe { self.attempt(number, flight) };
            if let Some(completion) = completion {
                self.waiting.remove(number);
                return StartedOp::Done(completion.into_result().map_err(error_on_this_host));
            }
            return StartedOp::Pending;
        }
        if let Op::Write { .. } | Op::WriteVectored { .. } = flight.op() {
            // SAFETY: S3, the caller's promise: the op ends in this call.
            return StartedOp::Done(unsafe { carry_out(flight, token) });
        }
        StartedOp::Done(Err(unsupported("an operation on a descriptor of the kernel")))
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        let Some(number) = self.waiting.number_of(flight) else { return };
        let Some(token) = self.waiting.remove(number) else { return };
        if let Some(file) = flight.op().descriptor().file() {
            file.unwatch(&Watcher::Op(number));
        }
        self.done.push(Completion { token, result: Completion::CANCELLED });
    }

    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.hear();
        if wait != PollTimeout::Poll && self.done.is_empty() {
            let limit = match wait {
                // Beyond the end of time there is nothing to wait for.
                PollTimeout::For(limit) => clock::common_now().checked_add(limit),
                PollTimeout::Poll | PollTimeout::Forever => None,
            };
            if let Some(time) = [limit, self.next()].into_iter().flatten().min() {
                simulated::advance_to(time);
            }
            self.hear();
        }
        completions.append(&mut self.done);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.done.len()
    }
}

/// Carries an op out, and blocks the thread for as long as that takes.
///
/// # Safety
/// S3: the flight and its op stay valid during the call.
unsafe fn carry_out(flight: &InFlight<'_>, token: Token) -> io::Result<u32> {
    let (mut thread, mut completions) = (Thread::default(), Vec::new());
    // SAFETY: S3, the caller's promise. The loop below waits for the completion.
    match unsafe { thread.start(flight, token) } {
        StartedOp::Pending => {}
        StartedOp::Done(result) => return result,
        StartedOp::Blocking | StartedOp::Untold => {
            return Err(unsupported("an operation that blocks its thread"));
        }
    }
    loop {
        thread.poll(PollTimeout::Forever, &mut completions)?;
        if let Some(completion) = completions.pop() {
            return completion.into_result();
        }
    }
}

/// Returns the error that a call reports. On a host that is down everything fails with `ECANCELED`,
/// and its tasks are cancelled, so that is what they are told. Outside of simulations it is the
/// error itself.
#[cold]
pub(super) fn error_on_this_host(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ECANCELED) if simulated::is_simulated() => task::cancelled_wait().into(),
        _ => error,
    }
}
