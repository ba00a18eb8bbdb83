//! The simulated network: hosts, links, and the sockets and pipes of their programs.
//!
//! This is a model without input and output. Each method gets the time and a generator in a
//! [`Ctx`], changes the state, and notes what happens later and which watchers to tell. So a run
//! depends on nothing but the calls and the seed.
//!
//! # Words
//! - A *socket* ([`Socket`]) is also an end of a pipe and an eventfd: anything that has a
//!   descriptor and is no file of a disk. It is named by its [`Id`], which is never used again.
//! - A *name* is the address of a socket. Internet addresses lead to a *host*, over a *link* or
//!   back to the same host. Unix names belong to one host.
//! - An *endpoint* is one end of a connection. What is sent to it travels as *segments*, in order.
//!   Its bytes lie in one buffer, of which a part has arrived.
//! - A side of a socket has *watchers*. A change of the side takes them out and reports them.
//! - An [`Event`] is something that happens at a later time. An event for a socket that is closed
//!   has no effect.
//!
//! # What is simulated
//! - Between two hosts, each packet takes the latency of its link. On one host, everything arrives
//!   at once.
//! - A stream has a window of [`WINDOW`] bytes in each direction, or what `SO_SNDBUF` and
//!   `SO_RCVBUF` say. The room of bytes that were read comes back after the latency.
//! - A connection attempt takes one round trip. If it gets no answer, it is repeated after 1, 3, 7,
//!   15, 31 and 63 seconds, and fails with `ETIMEDOUT` after 127 seconds, as on Linux.
//! - A connection whose data gets no answer fails with `ETIMEDOUT` after [`ANSWER_LIMIT`], as on
//!   Linux. A connection that sends nothing never notices that its peer is gone, unless keep-alive
//!   is on.
//! - When the programs of a host are ended, its system closes their sockets as if the programs had
//!   done so: the peers learn of it.
//! - A host that loses its power sends nothing. If it has come back, it answers what belongs to its
//!   earlier connections with a reset.
//!
//! # Memory
//! A socket without bytes has no buffers, and a large buffer that has been read is freed. An idle
//! connection between two hosts takes some 900 bytes at both ends together, with the entries in
//! the indices, and 1,200 after its first kilobyte.

mod calls;
mod connect;
mod datagram;
mod host;
mod link;
mod name;
mod options;
mod pipe;
mod sockets;
mod stream;
#[cfg(all(test, not(loom)))]
mod tests;
mod travel;

use super::{Draws, Dropped, FaultKind, Incident, Journal, Watcher};
use crate::base::random::Generator;
use crate::driver::op::Interest;
use host::{Host, Route};
use link::Links;
use options::Options;
use rustix::io::Errno;
use smallvec::SmallVec;
use sockets::Sockets;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

pub(crate) use host::HostId;
pub(crate) use link::{LinkSettings, NetworkFaults};
pub(in crate::driver) use name::{Domain, Name, UnixName};

/// The result of a call, as the kernel would report it.
pub(in crate::driver) type Outcome<T> = Result<T, Errno>;

/// How many bytes of a stream are under way or unread in one direction, unless its sockets have
/// chosen another size.
pub(super) const WINDOW: usize = 64 << 10;

/// The name of the host on which the simulation's own closure runs.
pub(crate) const ROOT_NAME: &str = "root";

/// How long a connection waits for the answer to its data (Linux's `tcp_retries2`).
const ANSWER_LIMIT: Duration = Duration::from_millis(924_600);

/// The capacity of a buffer that is kept when it is empty.
const SMALL: usize = 512;

/// The name of a socket. It fits into the non-negative numbers of an op's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(in crate::driver) u32);

/// Something that happens at a later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Segments arrive at an endpoint.
    Arrival(Id),
    /// An endpoint learns that its peer has read.
    Room(Id),
    /// An endpoint stops waiting for an answer.
    GiveUp(Id),
    /// A request for a connection arrives.
    Request { client: Id, attempt: u32 },
    /// A connection is granted.
    Granted { client: Id, attempt: u32 },
    /// A request for a connection is repeated.
    Repeat { client: Id, attempt: u32 },
    /// A connection attempt has failed.
    Failed(Id, Errno),
    /// A datagram arrives.
    Datagram(u64),
    /// A socket learns that nothing has received its datagram.
    Undelivered(Id, SocketAddr),
}

/// What a call of the model gets from the world, and what it leaves there.
pub(crate) struct Ctx<'a> {
    pub(in crate::driver) now: Instant,
    pub(in crate::driver) draws: &'a mut Draws,
    pub(in crate::driver) journal: &'a mut Journal,
    /// What happens later.
    pub(in crate::driver) later: &'a mut Vec<(Instant, Event)>,
    /// What does not happen any more, and was to happen then.
    pub(in crate::driver) withdrawn: &'a mut Vec<(Instant, Event)>,
    /// The watchers to tell.
    pub(in crate::driver) woken: &'a mut Vec<Watcher>,
}

impl Ctx<'_> {
    fn later(&mut self, at: Instant, event: Event) {
        self.later.push((at.max(self.now), event));
    }

    /// Takes back something that was to happen at this time.
    fn withdraw(&mut self, at: Instant, event: Event) {
        self.withdrawn.push((at, event));
    }

    /// Notes what the first host does with the other one, or what happens to it, unless they are
    /// the same.
    fn note(&mut self, (own, other): (HostId, HostId), what: impl FnOnce(HostId) -> Incident) {
        if own != other {
            self.journal.note(self.now, own, what(other));
        }
    }

    /// Draws whether a fault strikes what the first host does with the other one. Returns a
    /// generator for the size of the fault if it does.
    fn strike(
        &mut self,
        kind: FaultKind,
        (own, other): (HostId, HostId),
        probability: f64,
    ) -> Option<Generator> {
        self.draws.strike(kind, own, Some(other), probability)
    }
}

type Watchers = SmallVec<[Watcher; 1]>;

/// Anything that has a descriptor and is no file of a disk.
#[derive(Debug)]
struct Socket {
    host: HostId,
    /// A program has a descriptor of it. Otherwise it waits to be accepted, or is not yet there.
    has_descriptor: bool,
    options: Options,
    /// What the next call reports (`SO_ERROR`).
    error: Option<Errno>,
    readers: Watchers,
    writers: Watchers,
    kind: Kind,
}

// Each step of a stream looks at both of its ends, so an end is one piece of memory.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most sockets are streams, and all are boxed")]
enum Kind {
    Stream(stream::Stream),
    Datagram(Box<datagram::Datagrams>),
    Reader(Box<pipe::Reader>),
    Writer(pipe::Writer),
    /// An eventfd, and its counter.
    Event(u64),
}

/// The kinds of sockets that a program opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Transport {
    Stream,
    Datagram,
}

/// What a receive has taken.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::driver) struct Received {
    pub(in crate::driver) count: usize,
    /// The sender of a datagram.
    pub(in crate::driver) from: Option<Name>,
    /// The datagram was longer than the buffers.
    pub(in crate::driver) is_cut: bool,
}

/// All hosts, their links and their sockets.
#[derive(Debug)]
pub(crate) struct Network {
    hosts: Vec<Host>,
    links: Links,
    faults: NetworkFaults,
    /// What may go wrong instead with what some hosts do, and between some two hosts.
    faults_of: BTreeMap<HostId, NetworkFaults>,
    faults_between: BTreeMap<(HostId, HostId), NetworkFaults>,
    /// Faults have ended.
    is_calm: bool,
    sockets: Sockets,
    next_socket: u32,
    /// The datagrams on their way.
    travellers: BTreeMap<u64, datagram::Traveller>,
    next_traveller: u64,
}

impl Network {
    /// Creates a network with the host on which the simulation's own closure runs.
    pub(crate) fn new() -> Network {
        Network {
            hosts: vec![Host::new(ROOT_NAME)],
            links: Links::default(),
            faults: NetworkFaults::default(),
            faults_of: BTreeMap::new(),
            faults_between: BTreeMap::new(),
            is_calm: false,
            sockets: Sockets::default(),
            next_socket: 1,
            travellers: BTreeMap::new(),
            next_traveller: 0,
        }
    }

    pub(crate) fn set_faults(&mut self, faults: NetworkFaults) {
        self.faults = faults;
    }

    /// Sets what may go wrong instead with what a host does.
    pub(crate) fn set_faults_of(&mut self, host: HostId, faults: NetworkFaults) {
        self.faults_of.insert(host, faults);
    }

    /// Sets what may go wrong instead between two hosts.
    pub(crate) fn set_faults_between(&mut self, one: HostId, other: HostId, faults: NetworkFaults) {
        self.faults_between.insert((one, other), faults);
        self.faults_between.insert((other, one), faults);
    }

    /// Returns what may go wrong with what a host does with another one, or with itself.
    fn faults(&self, path: (HostId, HostId)) -> &NetworkFaults {
        if self.is_calm {
            return &NetworkFaults::NONE;
        }
        let between = self.faults_between.get(&path);
        between.or_else(|| self.faults_of.get(&path.0)).unwrap_or(&self.faults)
    }

    /// Returns what may go wrong with what is done with a socket.
    #[inline]
    fn faults_at(&self, id: Id) -> &NetworkFaults {
        if !self.is_calm && self.faults_of.is_empty() && self.faults_between.is_empty() {
            return &self.faults;
        }
        let own = self.sockets.get(id).map_or(HostId::ROOT, |socket| socket.host);
        let path = self.path(id).unwrap_or((own, own));
        self.faults(path)
    }

    pub(in crate::driver) fn host_names(&self) -> Vec<Box<str>> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// Adds a host, which is up. Returns `None` if another host has the name, or if there are as
    /// many as there are addresses.
    pub(crate) fn add_host(&mut self, name: &str) -> Option<HostId> {
        let number =
            u16::try_from(self.hosts.len()).ok().filter(|number| *number < u16::MAX - 1)?;
        if self.host_named(name).is_some() {
            return None;
        }
        self.hosts.push(Host::new(name));
        Some(HostId(number))
    }

    fn host_named(&self, name: &str) -> Option<HostId> {
        let same = |host: &Host| host.name.eq_ignore_ascii_case(name);
        self.hosts.iter().position(same).map(|number| HostId(number as u16))
    }

    /// Returns the address of a name, as a program on `host` sees it. Returns `None` if there is no
    /// such name.
    pub(in crate::driver) fn look_up(&self, host: HostId, name: &str) -> Option<IpAddr> {
        if name.eq_ignore_ascii_case("localhost") {
            return Some(IpAddr::from([127, 0, 0, 1]));
        }
        if let Ok(literal) = name.parse() {
            return Some(literal);
        }
        let _ = host;
        self.host_named(name).map(|host| host.addresses()[0])
    }

    pub(in crate::driver) fn open(
        &mut self,
        host: HostId,
        domain: Domain,
        transport: Transport,
    ) -> Outcome<Id> {
        self.check_up(host)?;
        let kind = match transport {
            Transport::Stream => Kind::Stream(stream::Stream::new(domain)),
            Transport::Datagram => Kind::Datagram(Box::new(datagram::Datagrams::new(domain))),
        };
        Ok(self.insert_open(host, kind))
    }

    /// Checks that the programs of a host run. The tasks of one that has crashed have no effect.
    fn check_up(&self, host: HostId) -> Outcome<()> {
        let host = self.hosts.get(usize::from(host.0));
        if host.is_some_and(|host| host.has_programs) { Ok(()) } else { Err(Errno::CANCELED) }
    }

    fn insert(&mut self, host: HostId, kind: Kind) -> Id {
        let id = Id(self.next_socket);
        self.next_socket += 1;
        assert!(self.next_socket < i32::MAX as u32, "a run opens fewer sockets than this");
        let socket = Socket {
            host,
            has_descriptor: false,
            options: Options::default(),
            error: None,
            readers: Watchers::new(),
            writers: Watchers::new(),
            kind,
        };
        self.sockets.insert(id, socket);
        id
    }

    /// Adds a socket of which a program gets a descriptor.
    fn insert_open(&mut self, host: HostId, kind: Kind) -> Id {
        let id = self.insert(host, kind);
        self.hand_out(id);
        id
    }

    /// Notes that a program gets a descriptor of a socket.
    fn hand_out(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.has_descriptor = true;
            let host = socket.host;
            self.host_mut(host).descriptors += 1;
        }
    }

    /// Returns how many sockets and ends of pipes the programs of a host have open.
    pub(in crate::driver) fn descriptors(&self, host: HostId) -> usize {
        self.hosts[usize::from(host.0)].descriptors
    }

    /// Returns a socket. One that does not exist belonged to a host that has crashed.
    fn get(&self, id: Id) -> Outcome<&Socket> {
        self.sockets.get(id).ok_or(Errno::CANCELED)
    }

    fn get_mut(&mut self, id: Id) -> Outcome<&mut Socket> {
        self.sockets.get_mut(id).ok_or(Errno::CANCELED)
    }

    pub(in crate::driver) fn host_of(&self, id: Id) -> Outcome<HostId> {
        Ok(self.get(id)?.host)
    }

    fn host_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[usize::from(host.0)]
    }

    /// Returns where packets from a host to an address go.
    fn route(&self, from: HostId, to: IpAddr) -> Route {
        if to.is_loopback() || to.is_unspecified() || from.addresses().contains(&to) {
            return Route::Local;
        }
        match host::number_of(to) {
            Some(number) if usize::from(number.0) < self.hosts.len() => Route::Host(number),
            Some(_) => Route::NoHost,
            None => Route::NoNetwork,
        }
    }

    pub(in crate::driver) fn wake_readers(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        if let Some(socket) = self.sockets.get_mut(id) {
            ctx.woken.extend(socket.readers.drain(..));
        }
    }

    pub(in crate::driver) fn wake_side(&mut self, ctx: &mut Ctx<'_>, id: Id, side: Interest) {
        match side {
            Interest::Read => self.wake_readers(ctx, id),
            Interest::Write => self.wake_writers(ctx, id),
        }
    }

    fn wake_writers(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        if let Some(socket) = self.sockets.get_mut(id) {
            ctx.woken.extend(socket.writers.drain(..));
        }
    }

    fn wake(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        self.wake_readers(ctx, id);
        self.wake_writers(ctx, id);
    }

    /// Lets an event happen whose time has come.
    pub(in crate::driver) fn happen(&mut self, ctx: &mut Ctx<'_>, event: Event) {
        match event {
            Event::Arrival(id) => self.arrive(ctx, id),
            Event::Room(id) => self.room_arrives(ctx, id),
            Event::GiveUp(id) => self.give_up(ctx, id),
            Event::Request { client, attempt } => self.request_arrives(ctx, client, attempt),
            Event::Granted { client, attempt } => self.grant_arrives(ctx, client, attempt),
            Event::Repeat { client, attempt } => self.send_request(ctx, client, attempt),
            Event::Failed(client, error) => self.attempt_failed(ctx, client, error),
            Event::Datagram(number) => self.datagram_arrives(ctx, number),
            Event::Undelivered(id, to) => self.undelivered(ctx, id, to),
        }
    }

    /// Returns whether an event has no effect, because what it is for is gone.
    pub(in crate::driver) fn is_moot(&self, event: &Event) -> bool {
        let connects = |client| match self.sockets.get(client).map(|socket| &socket.kind) {
            Some(Kind::Stream(stream)) => matches!(stream.state, stream::State::Connecting(_)),
            _ => false,
        };
        match *event {
            Event::Arrival(id)
            | Event::Room(id)
            | Event::GiveUp(id)
            | Event::Undelivered(id, _) => !self.sockets.contains(id),
            Event::Request { client, .. }
            | Event::Granted { client, .. }
            | Event::Repeat { client, .. }
            | Event::Failed(client, _) => !connects(client),
            Event::Datagram(_) => false,
        }
    }

    /// Ends the programs of a host. Its system goes on, and closes their sockets.
    pub(crate) fn crash(&mut self, ctx: &mut Ctx<'_>, host: HostId) {
        self.host_mut(host).has_programs = false;
        let own = self.sockets.iter().filter(|(_, socket)| socket.host == host);
        for id in Vec::from_iter(own.map(|(id, _)| id)) {
            self.close(ctx, id);
        }
    }

    /// Stops a host without a farewell. Its sockets are gone, and their watchers are told.
    pub(crate) fn lose_power(&mut self, ctx: &mut Ctx<'_>, host: HostId) {
        self.host_mut(host).lose_power();
        let gone = self.sockets.extract(|socket| socket.host == host);
        let mut unanswered = Vec::new();
        for (id, mut socket) in gone {
            ctx.woken.extend(socket.readers.drain(..));
            ctx.woken.extend(socket.writers.drain(..));
            if let Kind::Stream(stream) = &socket.kind {
                unanswered.extend(stream.unanswered_peer());
                stream.withdraw_timer(ctx, id);
                if let Some(server) = stream.granted() {
                    self.sockets.remove(server);
                }
            }
        }
        let mut forgotten = Vec::new();
        for (id, socket) in self.sockets.iter_mut() {
            if let Kind::Stream(stream) = &mut socket.kind {
                if stream.is_forgotten_by(host) {
                    forgotten.push(id);
                }
                if stream.peer_crashed(host) {
                    unanswered.push(id);
                }
            }
        }
        forgotten.into_iter().for_each(|id| self.forget_segments(id));
        unanswered.into_iter().for_each(|id| self.miss_answer(ctx, id));
        self.probe(ctx);
    }

    /// Starts a host again that has crashed or lost its power. It has no sockets.
    pub(crate) fn restart(&mut self, ctx: &mut Ctx<'_>, host: HostId) {
        let own = self.host_mut(host);
        (own.is_up, own.has_programs) = (true, true);
        self.reconnect(ctx, host);
    }

    /// Returns the number of sockets, for tests of what is left.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.sockets.count()
    }
}
