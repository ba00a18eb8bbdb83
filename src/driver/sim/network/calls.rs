//! The calls that programs make on sockets of all kinds. Each kind carries out its part.

use super::host::{HostId, Place};
use super::name::{Domain, Name};
use super::{Ctx, Id, Kind, Network, Outcome, Received, Socket, stream};
use crate::driver::op::Interest;
use crate::driver::request::{OptionKind, OptionValue};
use crate::driver::sim::Watcher;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::net::Shutdown;

impl Network {
    /// Leaves a watcher with one side of a socket, until that side changes.
    pub(in crate::driver) fn watch(&mut self, id: Id, side: Interest, watcher: Watcher) {
        // The side of a socket that is gone does not change. An attempt fails instead of waiting.
        if let Some(socket) = self.sockets.get_mut(id) {
            match side {
                Interest::Read => socket.readers.push(watcher),
                Interest::Write => socket.writers.push(watcher),
            }
        }
    }

    pub(in crate::driver) fn unwatch(&mut self, id: Id, watcher: &Watcher) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.readers.retain(|other| other != watcher);
            socket.writers.retain(|other| other != watcher);
        }
    }

    /// Receives a datagram with its sender, or [reads](Network::read) from anything else.
    pub(in crate::driver) fn receive(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Outcome<Received> {
        if let Kind::Datagram(_) = &self.get(id)?.kind {
            return self.receive_datagram(ctx, id, buffers, peek);
        }
        let count = self.read(ctx, id, buffers, peek)?;
        Ok(Received { count, from: None, is_cut: false })
    }

    /// Reads from a stream, a pipe or an eventfd, or receives a datagram. `peek`: leaves it there.
    pub(in crate::driver) fn read(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Outcome<usize> {
        match &self.get(id)?.kind {
            Kind::Stream(_) => self.read_stream(ctx, id, buffers, peek),
            Kind::Datagram(_) => Ok(self.receive_datagram(ctx, id, buffers, peek)?.count),
            Kind::Reader(_) => self.read_pipe(ctx, id, buffers),
            Kind::Writer(_) => Err(Errno::BADF),
            Kind::Event(_) => self.read_event(ctx, id, buffers),
        }
    }

    /// Writes to a stream, a pipe or an eventfd, or sends a datagram.
    pub(in crate::driver) fn send(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &[IoSlice<'_>],
        to: Option<&Name>,
    ) -> Outcome<usize> {
        match &self.get(id)?.kind {
            Kind::Stream(_) => self.write_stream(ctx, id, buffers),
            Kind::Datagram(_) => self.send_datagram(ctx, id, buffers, to),
            Kind::Reader(_) => Err(Errno::BADF),
            Kind::Writer(_) => self.write_pipe(ctx, id, buffers),
            Kind::Event(_) => self.write_event(ctx, id, buffers),
        }
    }

    /// Returns whether a call on this side would not have to wait.
    pub(in crate::driver) fn is_ready(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        side: Interest,
    ) -> Outcome<bool> {
        let socket = self.get(id)?;
        if socket.error.is_some() {
            return Ok(true);
        }
        Ok(match (&socket.kind, side) {
            (Kind::Stream(stream), Interest::Read) => stream.is_readable(),
            (Kind::Stream(_), Interest::Write) => self.is_stream_writable(ctx, id),
            (Kind::Datagram(datagrams), Interest::Read) => datagrams.is_readable(),
            (Kind::Datagram(_), Interest::Write) => self.may_send_datagram(id),
            (Kind::Reader(reader), Interest::Read) => reader.is_readable(),
            (Kind::Writer(_), Interest::Write) => self.is_pipe_writable(id),
            (Kind::Event(count), Interest::Read) => *count > 0,
            (Kind::Event(count), Interest::Write) => *count < u64::MAX - 1,
            (Kind::Reader(_), Interest::Write) | (Kind::Writer(_), Interest::Read) => false,
        })
    }

    /// Ends one or both directions of a connection.
    pub(in crate::driver) fn shut_down(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        how: Shutdown,
    ) -> Outcome<()> {
        match self.get(id)?.kind {
            Kind::Stream(_) => self.shut_down_stream(ctx, id, how),
            Kind::Datagram(_) => self.shut_down_datagram(ctx, id, how),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Closes a socket: its last descriptor is gone.
    pub(in crate::driver) fn close(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        self.close_as(ctx, id, false);
    }

    /// Closes a socket. `hard`: its connection is reset.
    pub(super) fn close_as(&mut self, ctx: &mut Ctx<'_>, id: Id, hard: bool) {
        let Some(mut socket) = self.sockets.remove(id) else { return };
        ctx.woken.extend(socket.readers.drain(..));
        ctx.woken.extend(socket.writers.drain(..));
        let (host, hard) = (socket.host, hard || socket.options.closes_hard());
        self.host_mut(host).descriptors -= usize::from(socket.has_descriptor);
        match socket.kind {
            Kind::Stream(stream) => self.close_stream(ctx, id, host, stream, hard),
            Kind::Datagram(datagrams) => self.close_datagrams(ctx, id, host, *datagrams),
            Kind::Reader(reader) => self.close_reader(ctx, *reader),
            Kind::Writer(writer) => self.close_writer(ctx, writer),
            Kind::Event(_) => {}
        }
    }

    pub(super) fn release_place(
        &mut self,
        host: HostId,
        id: Id,
        place: Option<Place>,
        name: &Name,
    ) {
        let host = self.host_mut(host);
        match (place, name) {
            (Some(place), _) => host.release(&place),
            (None, Name::Unix(name)) => host.release_name(name, id),
            _ => {}
        }
    }

    /// Returns the address that a socket is bound to.
    pub(in crate::driver) fn local_name(&self, id: Id) -> Outcome<(Domain, Name)> {
        match &self.get(id)?.kind {
            Kind::Stream(stream) => Ok((stream.domain, stream.local.clone())),
            Kind::Datagram(datagrams) => Ok((datagrams.domain, datagrams.local.clone())),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Returns the address that a socket is connected to.
    pub(in crate::driver) fn peer_name(&self, id: Id) -> Outcome<(Domain, Name)> {
        let (domain, peer) = match &self.get(id)?.kind {
            Kind::Stream(stream) => (stream.domain, stream.peer_name()),
            Kind::Datagram(datagrams) => (datagrams.domain, datagrams.peer_name()),
            _ => return Err(Errno::NOTSOCK),
        };
        Ok((domain, peer.cloned().ok_or(Errno::NOTCONN)?))
    }

    /// Returns where a socket connects to at the moment, as messages show it.
    pub(in crate::driver) fn attempt_of(&self, id: Id) -> Option<String> {
        let Kind::Stream(stream) = &self.get(id).ok()?.kind else { return None };
        let stream::State::Connecting(attempt) = &stream.state else { return None };
        let host = attempt.host.and_then(|host| self.hosts.get(usize::from(host.0)));
        Some(match host {
            Some(host) => format!("to '{}' ({})", host.name, attempt.to),
            None => format!("to {}", attempt.to),
        })
    }

    /// Returns the host at the other end of a connection, its name, and whether it has forgotten the
    /// connection. Returns `None` if that is the socket's own host.
    pub(in crate::driver) fn peer_host(&self, id: Id) -> Option<(HostId, Box<str>, bool)> {
        let socket = self.get(id).ok()?;
        let Kind::Stream(stream) = &socket.kind else { return None };
        let (host, is_forgotten) = stream.peer_host()?;
        let other = self.hosts.get(usize::from(host.0)).filter(|_| host != socket.host)?;
        Some((host, other.name.clone(), is_forgotten))
    }

    /// Returns the family of a socket.
    pub(in crate::driver) fn domain(&self, id: Id) -> Outcome<Domain> {
        self.local_name(id).map(|(domain, _)| domain)
    }

    /// Returns whether the descriptor is one of a stream socket.
    pub(in crate::driver) fn stream_domain(&self, id: Id) -> Option<Domain> {
        match &self.get(id).ok()?.kind {
            Kind::Stream(stream) => Some(stream.domain),
            _ => None,
        }
    }

    /// Returns the pending error, and clears it.
    pub(in crate::driver) fn take_error(&mut self, id: Id) -> Outcome<Option<Errno>> {
        Ok(self.get_mut(id)?.error.take())
    }

    pub(in crate::driver) fn option(&self, id: Id, kind: OptionKind) -> Outcome<OptionValue> {
        Ok(self.get_socket(id)?.options.get(kind))
    }

    pub(in crate::driver) fn set_option(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        kind: OptionKind,
        value: OptionValue,
    ) -> Outcome<()> {
        self.get_socket(id)?;
        self.get_mut(id)?.options.set(kind, value)?;
        if kind == OptionKind::Keepalive {
            self.probe(ctx);
        }
        Ok(())
    }

    fn get_socket(&self, id: Id) -> Outcome<&Socket> {
        let socket = self.get(id)?;
        match socket.kind {
            Kind::Stream(_) | Kind::Datagram(_) => Ok(socket),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Removes a path that is the name of a Unix socket. Returns false if it is none.
    pub(in crate::driver) fn remove_path(&mut self, host: HostId, path: &[u8]) -> bool {
        self.host_mut(host).remove_path(path)
    }
}
