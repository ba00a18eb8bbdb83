//! The world of a simulation: what it has in place of the kernel.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::disk::{self, Disk};
use super::disks::Disks;
use super::events::Events;
use super::file::{Inode, Lent};
use super::network::{self, Ctx, HostId, Id, Network, Outcome};
use super::{DrawnFault, Draws, FaultKind, HostEvents, Incident, Journal, Struck, mix};
use crate::base::alarm::Ring;
use crate::base::random::Generator;
use crate::base::sync::{SpinGuard, SpinLock};
use crate::base::{clock, simulated};
use crate::driver::op::Interest;
use rustix::io::Errno;

/// See the module. It is shared because descriptors name parts of it, and descriptors may be sent
/// to other threads. In a simulation, only its own thread uses it, so the lock is free. A thread that
/// has got a descriptor waits for no longer than an operation takes.
pub(crate) struct World {
    /// The world itself, for its files.
    pub(super) this: Weak<World>,
    state: SpinLock<WorldState>,
}

// Descriptors name it, and may be used after a caught panic. No code of the user runs while it is
// locked.
impl UnwindSafe for World {}
impl RefUnwindSafe for World {}

struct WorldState {
    events: Events<Event>,
    draws: Draws,
    journal: Journal,
    /// The number of events that have happened.
    happened: u64,
    network: Network,
    disks: Disks,
    /// The driver's numbers of the ops whose files have changed.
    news: Vec<u64>,
    /// What a call of the network leaves, kept for its memory.
    later: Vec<(Instant, network::Event)>,
    withdrawn: Vec<(Instant, network::Event)>,
    woken: Vec<Watcher>,
    /// The files for which fds were opened.
    lent: BTreeMap<Inode, Lent>,
    /// Returns the host on which the current code runs. Set by the layer that starts simulations.
    here: fn() -> HostId,
    /// The number of I/O operations that a program could see fail.
    operations: u64,
    /// The operation that fails, counted from 1.
    failing: Option<u64>,
    /// How many [`WithoutFault`]s there are. Meanwhile, operations are not counted.
    without_fault: u32,
    /// How that operation has failed.
    has_failed: Option<Trouble>,
}

/// How an I/O operation fails that was [chosen](World::fail_operation) to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The device fails.
    Device,
    /// There are too many open files.
    Full,
    /// Another socket has the address.
    InUse,
}

impl Trouble {
    /// Returns the name of the error.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Trouble::Device => "EIO",
            Trouble::Full => "EMFILE",
            Trouble::InUse => "EADDRINUSE",
        }
    }

    fn error(self) -> Errno {
        match self {
            Trouble::Device => Errno::IO,
            Trouble::Full => Errno::MFILE,
            Trouble::InUse => Errno::ADDRINUSE,
        }
    }
}

/// Something that happens in the world.
#[derive(PartialEq)]
pub(super) enum Event {
    Network(network::Event),
    /// The sync of this op ends.
    Sync(u64),
}

/// What is left with a file to be told of a change.
#[derive(Clone)]
pub(in crate::driver) enum Watcher {
    /// The driver's number of an op.
    Op(u64),
    Ring(Weak<dyn Ring>),
}

impl PartialEq for Watcher {
    fn eq(&self, other: &Watcher) -> bool {
        match (self, other) {
            (Watcher::Op(one), Watcher::Op(other)) => one == other,
            (Watcher::Ring(one), Watcher::Ring(other)) => Weak::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watcher::Op(number) => f.debug_tuple("Op").field(number).finish(),
            Watcher::Ring(_) => f.debug_tuple("Ring").finish_non_exhaustive(),
        }
    }
}

impl World {
    /// Creates the world of the current thread's simulation.
    pub(crate) fn create(mut random: Generator) {
        let state = WorldState {
            events: Events::default(),
            draws: Draws::new(random.any()),
            journal: Journal::default(),
            happened: 0,
            network: Network::new(),
            disks: Disks::default(),
            news: Vec::new(),
            later: Vec::new(),
            withdrawn: Vec::new(),
            woken: Vec::new(),
            lent: BTreeMap::new(),
            here: || HostId::ROOT,
            operations: 0,
            failing: None,
            without_fault: 0,
            has_failed: None,
        };
        let state = SpinLock::new(state);
        simulated::set_world(Arc::new_cyclic(|this| World { this: Weak::clone(this), state }));
    }

    /// Returns the world of the current thread's simulation, or `None` outside of simulations.
    #[inline(always)]
    pub(crate) fn current() -> Option<Arc<World>> {
        if simulated::is_simulated() { simulated::world() } else { None }
    }

    fn state(&self) -> SpinGuard<'_, WorldState> {
        self.state.lock()
    }

    /// Returns a number that differs if other events have happened, more faults have struck, or
    /// other bytes were sent or written.
    pub(crate) fn happened(&self) -> u64 {
        let state = self.state();
        let events = state.happened ^ (state.draws.struck().len() as u64) << 32;
        mix(events, state.journal.content())
    }

    /// Sets the function that returns the host on which the current code runs.
    pub(crate) fn set_here(&self, here: fn() -> HostId) {
        self.state().here = here;
    }

    /// Returns the host on which the current code runs.
    pub(super) fn here(&self) -> HostId {
        let here = self.state().here;
        here()
    }

    /// Counts an I/O operation that the program can see fail.
    ///
    /// # Errors
    /// Fails with `EIO` if this is the operation that was [chosen](World::fail_operation).
    pub(super) fn operate(&self) -> io::Result<()> {
        self.operate_or(Trouble::Device)
    }

    /// Counts an I/O operation that has an error of its own.
    ///
    /// # Errors
    /// Fails with that error if this is the operation that was [chosen](World::fail_operation).
    pub(super) fn operate_or(&self, trouble: Trouble) -> io::Result<()> {
        self.state().operate(trouble).map_err(io::Error::from)
    }

    /// Counts an operation on the network, and calls `f` with it if the operation is not the one
    /// that is to fail.
    ///
    /// # Errors
    /// Fails with `EIO` if it is, and with the errors of `f`.
    pub(super) fn operation<T>(
        &self,
        f: impl FnOnce(&mut Network, &mut Ctx<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut state = self.state();
        state.operate(Trouble::Device)?;
        state.network(clock::common_now(), f)
    }

    /// Chooses the I/O operation that fails, counted from 1.
    pub(crate) fn fail_operation(&self, number: Option<u64>) {
        self.state().failing = number;
    }

    /// Counts no operation until the result is dropped, so that none is the one that fails.
    pub(crate) fn without_fault(self: &Arc<World>) -> WithoutFault {
        self.state().without_fault += 1;
        WithoutFault(Arc::clone(self))
    }

    /// Returns how the operation has failed that was chosen to fail, or `None` if it has not.
    pub(crate) fn failed_operation(&self) -> Option<Trouble> {
        self.state().has_failed
    }

    /// Sets which of the faults strike that are otherwise drawn, unless that is `None`. Sets
    /// whether all durations are the least of their ranges.
    pub(crate) fn impose(&self, faults: Option<&[DrawnFault]>, is_steady: bool) {
        self.state().draws.impose(faults, is_steady);
    }

    /// Draws whether a fault of a host strikes later, as [`Draws::plan`] does.
    pub(crate) fn plan_fault(
        &self,
        kind: FaultKind,
        host: HostId,
        probability: f64,
    ) -> Option<(DrawnFault, Generator)> {
        self.state().draws.plan(kind, host, probability)
    }

    /// Notes that such a fault strikes now.
    pub(crate) fn note_struck(&self, fault: DrawnFault, to: Option<HostId>) {
        self.state().draws.note_struck(fault, to);
    }

    /// Draws a chance of the program's own.
    pub(crate) fn chance(&self, host: HostId, probability: f64) -> bool {
        self.state().draws.strike(FaultKind::Chance, host, None, probability).is_some()
    }

    /// Ends what is drawn, because the run is over.
    pub(crate) fn end_draws(&self) {
        self.state().draws.end();
    }

    /// Notes an event of a host, now.
    pub(crate) fn note(&self, host: HostId, what: Incident) {
        self.note_at(clock::common_now(), host, what);
    }

    /// Notes an event of a host.
    pub(crate) fn note_at(&self, at: Instant, host: HostId, what: Incident) {
        self.state().journal.note(at, host, what);
    }

    /// Ends the journal, because the run is over.
    pub(crate) fn end_journal(&self) {
        self.state().journal.end();
    }

    /// Takes the events that were noted.
    pub(crate) fn take_journal(&self) -> HostEvents {
        self.state().journal.take()
    }

    /// Returns how a host was stopped the last time, and at which virtual time. For messages.
    pub(super) fn last_outage(&self, host: HostId) -> Option<(&'static str, Duration)> {
        let (what, at) = self.state().journal.last_outage(host)?;
        Some((what, at.saturating_duration_since(simulated::start()?)))
    }

    /// Returns the faults that were drawn, and whether a duration was.
    pub(crate) fn drawn(&self) -> (Vec<Struck>, bool) {
        let state = self.state();
        (state.draws.struck().to_vec(), state.draws.varies())
    }

    /// Returns the names of the hosts, in the order of their numbers.
    pub(crate) fn host_names(&self) -> Vec<Box<str>> {
        self.state().network.host_names()
    }

    /// Returns the time of the next event that may have an effect.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let mut guard = self.state();
        let WorldState { events, network, .. } = &mut *guard;
        events.skip(|event| match event {
            Event::Network(event) => network.is_moot(event),
            Event::Sync(_) => false,
        });
        events.next()
    }

    /// Makes everything happen that is due. Then moves the ops whose files have changed to a list,
    /// which is empty.
    pub(super) fn happen(&self, news: &mut Vec<u64>) {
        let now = clock::common_now();
        let mut state = self.state();
        while let Some(event) = state.events.take_due(now) {
            state.happened += 1;
            match event {
                Event::Network(event) => state.network(now, |network, ctx| {
                    network.happen(ctx, event);
                }),
                Event::Sync(op) => {
                    drop(state);
                    if self.finish_sync(op) {
                        self.note_news(vec![op]);
                    }
                    state = self.state();
                }
            }
        }
        mem::swap(&mut state.news, news);
    }

    /// Calls `f` with the network. Then tells those that watch what has changed.
    pub(crate) fn network<T>(&self, f: impl FnOnce(&mut Network, &mut Ctx<'_>) -> T) -> T {
        self.state().network(clock::common_now(), f)
    }

    /// Leaves a watcher with one side of a socket. This changes nothing else, so it needs no
    /// [`Ctx`], which would be on the stack of a task at the beginning of its wait.
    #[inline]
    pub(super) fn watch_socket(&self, id: Id, side: Interest, watcher: Watcher) {
        self.state().network.watch(id, side, watcher);
    }

    pub(super) fn unwatch_socket(&self, id: Id, watcher: &Watcher) {
        self.state().network.unwatch(id, watcher);
    }

    /// Calls `f` with the disk of a host, and with the number of the op that the driver attempts,
    /// if it does.
    pub(super) fn disk<T>(
        &self,
        host: HostId,
        f: impl FnOnce(&mut Disk, &mut disk::Context<'_>, Option<u64>) -> T,
    ) -> T {
        let mut guard = self.state();
        let state = &mut *guard;
        let sockets = state.network.descriptors(host);
        let (result, begun) =
            state.disks.with(host, sockets, (&mut state.draws, &mut state.journal), f);
        for (latency, op) in begun {
            state.events.add(clock::common_now() + latency, Event::Sync(op));
        }
        result
    }

    /// Calls `f` with the disks of all hosts.
    pub(super) fn disks<T>(&self, f: impl FnOnce(&mut Disks) -> T) -> T {
        f(&mut self.state().disks)
    }

    /// Calls `f` with the files for which fds were opened.
    pub(super) fn lent<T>(&self, f: impl FnOnce(&mut BTreeMap<Inode, Lent>) -> T) -> T {
        f(&mut self.state().lent)
    }

    /// Notes ops whose files have changed.
    pub(super) fn note_news(&self, ops: Vec<u64>) {
        self.state().news.extend(ops);
    }

    /// Ends the programs of a host.
    pub(crate) fn crash_host(&self, host: HostId) {
        self.network(|network, ctx| network.crash(ctx, host));
        self.crash_disk(host);
    }

    /// Cuts the power of a host.
    pub(crate) fn fail_power(&self, host: HostId) {
        self.network(|network, ctx| network.lose_power(ctx, host));
        self.fail_power_of_disk(host);
    }

    /// Ends all faults.
    pub(crate) fn calm(&self) {
        self.network(|network, ctx| network.calm(ctx));
        self.calm_disks();
    }

    /// Starts a host again.
    pub(crate) fn restart_host(&self, host: HostId) {
        self.network(|network, ctx| network.restart(ctx, host));
        self.restart_disk(host);
    }
}

/// While it exists, the world [counts no operation](World::without_fault).
#[derive(Debug)]
pub(crate) struct WithoutFault(Arc<World>);

impl Drop for WithoutFault {
    fn drop(&mut self) {
        self.0.state().without_fault -= 1;
    }
}

impl WorldState {
    /// Counts an operation, which fails if it is the one that is to fail.
    fn operate(&mut self, trouble: Trouble) -> Outcome<()> {
        if self.without_fault > 0 {
            return Ok(());
        }
        self.operations += 1;
        if self.failing != Some(self.operations) {
            return Ok(());
        }
        self.has_failed = Some(trouble);
        Err(trouble.error())
    }

    /// Calls `f` with the network, as [`World::network`] does.
    fn network<T>(&mut self, now: Instant, f: impl FnOnce(&mut Network, &mut Ctx<'_>) -> T) -> T {
        let WorldState { draws, journal, later, withdrawn, woken, .. } = self;
        let mut ctx = Ctx { now, draws, journal, later, withdrawn, woken };
        let result = f(&mut self.network, &mut ctx);
        if !(self.later.is_empty() && self.withdrawn.is_empty() && self.woken.is_empty()) {
            self.settle();
        }
        result
    }

    /// Takes over what a call of the network has left. A function of its own, so that its variables
    /// are not on the stacks of tasks while they call the network.
    #[inline(never)]
    fn settle(&mut self) {
        for (when, event) in self.later.drain(..) {
            self.events.add(when, Event::Network(event));
        }
        for (when, event) in self.withdrawn.drain(..) {
            self.events.withdraw(when, &Event::Network(event));
        }
        for watcher in self.woken.drain(..) {
            match watcher {
                Watcher::Op(number) => self.news.push(number),
                // The scheduler rings it, because that may run the user's code.
                Watcher::Ring(what) => simulated::ring_soon(what),
            }
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}
