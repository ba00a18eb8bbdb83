//! Datagrams: UDP, and Unix sockets for datagrams.
//!
//! A UDP datagram may be lost: on its way, or because the receiver's buffer is full. A Unix
//! datagram is not: while the receiver's queue is full, its senders wait.

use super::host::{HostId, Place, Protocol, Route, destination};
use super::name::{Domain, Name, UnixName};
use super::stream::copy_in;
use super::{Ctx, Dropped, Event, Id, Incident, Kind, Network, Outcome, Received};
use crate::driver::request::{OptionKind, OptionValue};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr};

/// The most bytes in a UDP datagram over IPv4.
const LONGEST: usize = 65_507;
/// What a datagram takes in the receiver's buffer beside its bytes.
const OVERHEAD: usize = 256;
/// How many datagrams wait in a Unix socket (Linux's `net.unix.max_dgram_qlen`, plus one).
const UNIX_QUEUE: usize = 11;

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) domain: Domain,
    pub(super) local: Name,
    pub(super) place: Option<Place>,
    peer: Option<Peer>,
    queue: VecDeque<Datagram>,
    /// The bytes in the queue, with the overhead.
    queued: usize,
    reads_shut: bool,
    writes_shut: bool,
    /// Unix sockets whose sends wait for room in this queue.
    senders: Vec<Id>,
}

/// What a socket is connected to.
#[derive(Clone, Debug)]
enum Peer {
    Internet(Name),
    Unix(Id, Name),
}

#[derive(Debug)]
struct Datagram {
    from: Name,
    bytes: Box<[u8]>,
}

/// A datagram on its way.
#[derive(Debug)]
pub(super) struct Traveller {
    sender: Id,
    from_host: HostId,
    host: HostId,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Box<[u8]>,
}

impl Datagrams {
    pub(super) fn new(domain: Domain) -> Datagrams {
        Datagrams {
            domain,
            local: domain.unnamed(),
            place: None,
            peer: None,
            queue: VecDeque::new(),
            queued: 0,
            reads_shut: false,
            writes_shut: false,
            senders: Vec::new(),
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.queue.is_empty() || self.reads_shut
    }

    pub(super) fn peer_name(&self) -> Option<&Name> {
        match self.peer.as_ref()? {
            Peer::Internet(name) | Peer::Unix(_, name) => Some(name),
        }
    }

    /// Returns whether a socket with this address may send to this one.
    fn accepts(&self, from: &Name) -> bool {
        self.peer_name().is_none_or(|peer| peer == from)
    }

    fn take(&mut self, datagram: Datagram) {
        self.queued += datagram.bytes.len() + OVERHEAD;
        self.queue.push_back(datagram);
    }
}

impl Network {
    fn datagrams_mut(&mut self, id: Id) -> Option<&mut Datagrams> {
        match &mut self.sockets.get_mut(id)?.kind {
            Kind::Datagram(datagrams) => Some(datagrams),
            _ => None,
        }
    }

    fn datagrams(&self, id: Id) -> Option<&Datagrams> {
        match &self.sockets.get(id)?.kind {
            Kind::Datagram(datagrams) => Some(datagrams),
            _ => None,
        }
    }

    pub(super) fn pair_datagrams(&mut self, one: Id, other: Id) {
        for (from, to) in [(one, other), (other, one)] {
            if let Some(datagrams) = self.datagrams_mut(from) {
                datagrams.peer = Some(Peer::Unix(to, Domain::Unix.unnamed()));
            }
        }
    }

    /// Sets the destination of a socket, from which alone it receives from now on.
    pub(super) fn connect_datagrams(&mut self, id: Id, to: &Name) -> Outcome<()> {
        let own = self.host_of(id)?;
        let peer = match to {
            Name::Internet(to) => {
                let to = destination(*to);
                self.source_of(own, id, to)?;
                let source = own.source(to.ip(), self.route(own, to.ip()));
                let datagrams = self.datagrams_mut(id).ok_or(Errno::NOTSOCK)?;
                if let Name::Internet(local) = &mut datagrams.local
                    && local.ip().is_unspecified()
                {
                    local.set_ip(source);
                }
                Peer::Internet(Name::Internet(to))
            }
            Name::Unix(name) => {
                let peer = self.unix_receiver(own, name)?;
                self.check_unix(id, peer)?;
                Peer::Unix(peer, to.clone())
            }
        };
        let datagrams = self.datagrams_mut(id).ok_or(Errno::NOTSOCK)?;
        datagrams.peer = Some(peer);
        Ok(())
    }

    fn unix_receiver(&mut self, host: HostId, name: &UnixName) -> Outcome<Id> {
        let id = self.host_mut(host).socket_of(name)?;
        self.datagrams(id).map(|_| id).ok_or(Errno::PROTOTYPE)
    }

    /// Checks whether one Unix socket may send to another.
    fn check_unix(&self, from: Id, to: Id) -> Outcome<()> {
        match self.datagrams(to).and_then(|receiver| receiver.peer.as_ref()) {
            Some(Peer::Unix(peer, _)) if *peer != from => Err(Errno::PERM),
            _ => Ok(()),
        }
    }

    /// Binds a UDP socket that sends, if it is not bound yet. Returns the address that its
    /// datagrams come from.
    fn source_of(&mut self, own: HostId, id: Id, to: SocketAddr) -> Outcome<SocketAddr> {
        let route = self.route(own, to.ip());
        if route == Route::NoNetwork {
            return Err(Errno::NETUNREACH);
        }
        let datagrams = self.datagrams(id).ok_or(Errno::NOTSOCK)?;
        if datagrams.place.is_none() {
            let any = datagrams.local.clone();
            self.bind(id, &any)?;
        }
        let datagrams = self.datagrams(id).ok_or(Errno::NOTSOCK)?;
        let local = datagrams.local.internet().ok_or(Errno::AFNOSUPPORT)?;
        if local.ip().is_loopback() && route != Route::Local {
            return Err(Errno::INVAL);
        }
        let ip = if local.ip().is_unspecified() { own.source(to.ip(), route) } else { local.ip() };
        Ok(SocketAddr::new(ip, local.port()))
    }

    pub(super) fn send_datagram(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &[IoSlice<'_>],
        to: Option<&Name>,
    ) -> Outcome<usize> {
        let is_unix = self.datagrams(id).ok_or(Errno::NOTSOCK)?.domain == Domain::Unix;
        if is_unix && let Some(error) = self.get_mut(id)?.error.take() {
            return Err(error);
        }
        let datagrams = self.datagrams(id).ok_or(Errno::NOTSOCK)?;
        if datagrams.writes_shut {
            return Err(Errno::PIPE);
        }
        let peer = datagrams.peer.clone();
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut bytes = VecDeque::with_capacity(length);
        copy_in(&mut bytes, length, buffers);
        let bytes = Vec::from(bytes).into_boxed_slice();
        ctx.journal.note_bytes(length, buffers);
        match (to, peer) {
            (Some(Name::Internet(to)), _) => self.send_udp(ctx, id, *to, bytes)?,
            (None, Some(Peer::Internet(Name::Internet(to)))) => {
                self.send_udp(ctx, id, to, bytes)?
            }
            (Some(Name::Unix(name)), _) => {
                let own = self.host_of(id)?;
                let to = self.unix_receiver(own, name)?;
                self.send_unix(ctx, id, to, bytes)?;
            }
            (None, Some(Peer::Unix(to, _))) => self.send_unix(ctx, id, to, bytes)?,
            (None, _) if is_unix => return Err(Errno::NOTCONN),
            (None, _) => return Err(Errno::DESTADDRREQ),
        }
        Ok(length)
    }

    fn send_udp(
        &mut self,
        ctx: &mut Ctx<'_>,
        sender: Id,
        to: SocketAddr,
        bytes: Box<[u8]>,
    ) -> Outcome<()> {
        if bytes.len() > LONGEST {
            return Err(Errno::MSGSIZE);
        }
        let (own, to) = (self.host_of(sender)?, destination(to));
        let is_broadcast = matches!(to.ip(), IpAddr::V4(ip) if ip.is_broadcast());
        let may_broadcast = self.get(sender)?.options.get(OptionKind::Broadcast);
        if is_broadcast && may_broadcast != OptionValue::Flag(true) {
            return Err(Errno::ACCESS);
        }
        let is_to_many = match to.ip() {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_multicast(),
        };
        if is_to_many {
            return Err(Errno::OPNOTSUPP);
        }
        if to.port() == 0 {
            return Err(Errno::INVAL);
        }
        let from = self.source_of(own, sender, to)?;
        // As on Linux, an error that waits comes behind those of the call.
        if let Some(error) = self.get_mut(sender)?.error.take() {
            return Err(error);
        }
        let host = match self.route(own, to.ip()) {
            Route::Local => own,
            Route::Host(host) => host,
            // It is lost.
            Route::NoHost | Route::NoNetwork => return Ok(()),
        };
        let length = bytes.len();
        let traveller = Traveller { sender, from_host: own, host, from, to, bytes };
        if host == own {
            self.deliver_datagram(ctx, traveller);
            return Ok(());
        }
        ctx.note((own, host), |to| Incident::SendsDatagram { to, bytes: length });
        let [first, second] = self.datagram_arrivals(ctx, (own, host), length);
        let copy = second.map(|at| (at, Traveller { bytes: traveller.bytes.clone(), ..traveller }));
        for (at, traveller) in first.map(|at| (at, traveller)).into_iter().chain(copy) {
            let number = self.next_traveller;
            self.next_traveller += 1;
            self.travellers.insert(number, traveller);
            ctx.later(at, Event::Datagram(number));
        }
        Ok(())
    }

    pub(super) fn datagram_arrives(&mut self, ctx: &mut Ctx<'_>, number: u64) {
        let Some(traveller) = self.travellers.remove(&number) else { return };
        let (from, to) = (traveller.from_host, traveller.host);
        if self.is_held(from, to) {
            self.travellers.insert(number, traveller);
            self.keep_held(from, to, number);
        } else if !self.is_blocked(from, to) {
            self.deliver_datagram(ctx, traveller);
        } else {
            ctx.note((to, from), |from| Incident::Drops { from, why: Dropped::Cut });
        }
    }

    /// Hands a datagram to the socket that is bound to its destination.
    fn deliver_datagram(&mut self, ctx: &mut Ctx<'_>, traveller: Traveller) {
        let Traveller { sender, from_host, host, from, to, bytes } = traveller;
        let from = Name::Internet(from);
        let receiver = self.hosts[usize::from(host.0)].receiver(Protocol::Udp, to);
        let Some(receiver) = receiver
            .filter(|id| self.datagrams(*id).is_some_and(|datagrams| datagrams.accepts(&from)))
        else {
            let why = Dropped::NoSocket;
            ctx.note((host, from_host), |from| Incident::Drops { from, why });
            let at = ctx.now + self.least_latency(host, from_host);
            if host == from_host {
                self.undelivered(ctx, sender, to);
            } else if !self.is_cut(host, from_host) {
                ctx.later(at, Event::Undelivered(sender, to));
            }
            return;
        };
        let Ok(socket) = self.get_mut(receiver) else { return };
        let limit = socket.options.receive_buffer();
        let Kind::Datagram(datagrams) = &mut socket.kind else { return };
        if datagrams.queued + bytes.len() + OVERHEAD > limit {
            let why = Dropped::NoRoom;
            ctx.note((host, from_host), |from| Incident::Drops { from, why });
            return;
        }
        let length = bytes.len();
        ctx.note((host, from_host), |from| Incident::ReceivesDatagram { from, bytes: length });
        datagrams.take(Datagram { from, bytes });
        self.wake_readers(ctx, receiver);
    }

    /// Nothing listens at an address that a socket has sent to. The socket learns of it if it is
    /// connected to that address.
    pub(super) fn undelivered(&mut self, ctx: &mut Ctx<'_>, sender: Id, to: SocketAddr) {
        if let Ok(socket) = self.get_mut(sender)
            && let Kind::Datagram(datagrams) = &socket.kind
            && datagrams.peer_name() == Some(&Name::Internet(to))
        {
            socket.error = Some(Errno::CONNREFUSED);
            self.wake(ctx, sender);
        }
    }

    fn send_unix(&mut self, ctx: &mut Ctx<'_>, from: Id, to: Id, bytes: Box<[u8]>) -> Outcome<()> {
        let name = self.datagrams(from).ok_or(Errno::NOTSOCK)?.local.clone();
        if self.datagrams(to).is_none() {
            // As on Linux, a socket whose peer is gone is no longer connected.
            if let Some(datagrams) = self.datagrams_mut(from) {
                datagrams.peer = None;
            }
            return Err(Errno::CONNREFUSED);
        }
        self.check_unix(from, to)?;
        let receiver = self.datagrams_mut(to).ok_or(Errno::CONNREFUSED)?;
        if receiver.reads_shut {
            return Err(Errno::PIPE);
        }
        if receiver.queue.len() >= UNIX_QUEUE {
            if !receiver.senders.contains(&from) {
                receiver.senders.push(from);
            }
            return Err(Errno::AGAIN);
        }
        receiver.take(Datagram { from: name, bytes });
        self.wake_readers(ctx, to);
        Ok(())
    }

    /// Returns whether a send would not have to wait.
    pub(super) fn may_send_datagram(&mut self, id: Id) -> bool {
        let Some(Peer::Unix(to, _)) = self.datagrams(id).and_then(|own| own.peer.clone()) else {
            return true;
        };
        let Some(receiver) = self.datagrams_mut(to) else { return true };
        let is_full = receiver.queue.len() >= UNIX_QUEUE && !receiver.reads_shut;
        if is_full && !receiver.senders.contains(&id) {
            receiver.senders.push(id);
        }
        !is_full
    }

    pub(super) fn receive_datagram(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Outcome<Received> {
        let socket = self.get_mut(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let Kind::Datagram(datagrams) = &mut socket.kind else { return Err(Errno::NOTSOCK) };
        let Some(first) = datagrams.queue.front() else {
            if datagrams.reads_shut {
                return Ok(Received { count: 0, from: None, is_cut: false });
            }
            return Err(Errno::AGAIN);
        };
        let mut count = 0;
        for buffer in buffers {
            let length = buffer.len().min(first.bytes.len() - count);
            buffer[..length].copy_from_slice(&first.bytes[count..][..length]);
            count += length;
        }
        let is_cut = count < first.bytes.len();
        let received = Received { count, from: Some(first.from.clone()), is_cut };
        if !peek && let Some(taken) = datagrams.queue.pop_front() {
            datagrams.queued -= taken.bytes.len() + OVERHEAD;
            let senders = std::mem::take(&mut datagrams.senders);
            senders.into_iter().for_each(|sender| self.wake_writers(ctx, sender));
        }
        Ok(received)
    }

    pub(super) fn shut_down_datagram(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        how: Shutdown,
    ) -> Outcome<()> {
        let datagrams = self.datagrams_mut(id).ok_or(Errno::NOTSOCK)?;
        if datagrams.peer.is_none() && datagrams.domain != Domain::Unix {
            return Err(Errno::NOTCONN);
        }
        datagrams.reads_shut |= how != Shutdown::Write;
        datagrams.writes_shut |= how != Shutdown::Read;
        let senders = std::mem::take(&mut datagrams.senders);
        senders.into_iter().for_each(|sender| self.wake_writers(ctx, sender));
        self.wake(ctx, id);
        Ok(())
    }

    pub(super) fn close_datagrams(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        host: HostId,
        datagrams: Datagrams,
    ) {
        self.release_place(host, id, datagrams.place, &datagrams.local);
        // Their sends fail now.
        datagrams.senders.into_iter().for_each(|sender| self.wake_writers(ctx, sender));
    }
}
