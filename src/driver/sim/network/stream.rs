//! Streams: connected endpoints of TCP and of Unix sockets.
//!
//! The bytes on their way to an endpoint lie in the endpoint's own buffer. Its first part has
//! arrived. The list of segments says when the rest does, so that bytes are never copied between
//! the write and the read. One event is due for the first segment of the list.
//!
//! `unread` counts what the endpoint has sent and the peer has not read, as far as the endpoint
//! knows. That bounds what is under way.

use super::host::Place;
use super::name::{Domain, Name};
use super::{
    Ctx, Event, FaultKind, HostId, Id, Incident, Kind, Network, Outcome, SMALL, Socket, WINDOW,
};
use crate::driver::request::OptionKind;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A socket for streams.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) domain: Domain,
    pub(super) local: Name,
    /// The port that the socket has reserved.
    pub(super) place: Option<Place>,
    pub(super) state: State,
}

/// The connections that wait to be accepted.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) ready: VecDeque<Id>,
}

/// A connection attempt between two hosts.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) to: SocketAddr,
    /// The host of that address.
    pub(super) host: Option<HostId>,
    pub(super) began: Instant,
    /// The server's end, once the listener's host has granted the connection.
    pub(super) server: Option<Id>,
}

impl Attempt {
    pub(super) fn host_crashed(&mut self, host: HostId) {
        if self.host == Some(host) {
            self.server = None;
        }
    }
}

#[derive(Debug)]
pub(super) enum State {
    Idle,
    Listening(Queue),
    Connecting(Attempt),
    Connected(Endpoint),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) is_unix: bool,
    /// The other end. `None` if it is closed, or if its host has forgotten the connection.
    pub(super) peer: Option<Id>,
    pub(super) peer_name: Name,
    pub(super) peer_host: HostId,
    /// The listener in whose queue the endpoint is, before it is accepted.
    pub(super) listener: Option<Id>,

    /// What was sent to this end and not read.
    pub(super) bytes: VecDeque<u8>,
    /// How much of it has arrived.
    pub(super) arrived: usize,
    pub(super) segments: VecDeque<(Instant, Segment)>,
    /// An event is due for the first segment.
    pub(super) is_scheduled: bool,
    /// The first segment waits for the link.
    pub(super) is_stalled: bool,
    /// The peer's last segment has arrived.
    pub(super) has_ended: bool,

    /// How much the peer has not read, as far as this end knows.
    pub(super) unread: usize,
    /// When this end learns that the peer has read, and how much.
    pub(super) reads: VecDeque<(Instant, usize)>,
    /// A write waits for room.
    pub(super) wants_room: bool,
    pub(super) is_room_scheduled: bool,

    pub(super) reads_shut: bool,
    pub(super) writes_shut: bool,
    /// The connection has failed or was reset.
    pub(super) is_over: bool,
    /// When this end gives up, if it does not get an answer.
    pub(super) patience: Option<Instant>,
    /// This end is in the list of a direction that is cut.
    pub(super) is_waiting: bool,
    /// An answer to the effect that there is no such connection is under way.
    pub(super) expects_reset: bool,
}

/// What travels to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// The client has learned that the connection is granted. Comes first.
    Open,
    Bytes(usize),
    /// The peer sends nothing more.
    End,
    Reset,
}

/// Copies the first bytes into buffers.
pub(super) fn copy_out(bytes: &VecDeque<u8>, count: usize, buffers: &mut [IoSliceMut<'_>]) {
    let (front, back) = bytes.as_slices();
    let mut from = 0;
    for buffer in buffers {
        let length = buffer.len().min(count - from);
        let in_front = front.len().saturating_sub(from).min(length);
        buffer[..in_front].copy_from_slice(&front[from.min(front.len())..][..in_front]);
        if in_front < length {
            let start = from + in_front - front.len();
            buffer[in_front..length].copy_from_slice(&back[start..][..length - in_front]);
        }
        from += length;
        if from == count {
            break;
        }
    }
}

/// Removes the first bytes. The memory of a large buffer is freed when the buffer is empty.
pub(super) fn consume(bytes: &mut VecDeque<u8>, count: usize) {
    if count < bytes.len() {
        bytes.drain(..count);
    } else if bytes.capacity() > SMALL {
        *bytes = VecDeque::new();
    } else {
        bytes.clear();
    }
}

/// Appends the first bytes of buffers.
pub(super) fn copy_in(bytes: &mut VecDeque<u8>, count: usize, buffers: &[IoSlice<'_>]) {
    let mut left = count;
    for buffer in buffers {
        let length = buffer.len().min(left);
        bytes.extend(&buffer[..length]);
        left -= length;
    }
}

impl Stream {
    pub(super) fn new(domain: Domain) -> Stream {
        Stream { domain, local: domain.unnamed(), place: None, state: State::Idle }
    }

    pub(super) fn peer_name(&self) -> Option<&Name> {
        match &self.state {
            State::Connected(end) if !end.is_closed() => Some(&end.peer_name),
            _ => None,
        }
    }

    /// Returns the address of the peer, even if the connection has failed.
    pub(super) fn connected_to(&self) -> Option<Name> {
        match &self.state {
            State::Connected(end) => Some(end.peer_name.clone()),
            _ => None,
        }
    }

    /// Returns the host of the other end, and whether it has forgotten the connection.
    pub(super) fn peer_host(&self) -> Option<(HostId, bool)> {
        match &self.state {
            State::Connected(end) => Some((end.peer_host, end.peer.is_none())),
            _ => None,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.state {
            // As on Linux, a socket without a connection is ready, and its calls fail.
            State::Idle => true,
            State::Listening(queue) => !queue.ready.is_empty(),
            State::Connecting(_) => false,
            State::Connected(end) => end.is_readable(),
        }
    }

    /// Forgets the other end, if it was on this host. Returns whether this end has sent something
    /// that gets no answer.
    pub(super) fn peer_crashed(&mut self, host: HostId) -> bool {
        match &mut self.state {
            State::Connected(end) if end.peer_host == host => {
                end.peer = None;
                end.wants_room
            }
            State::Connecting(attempt) => {
                attempt.host_crashed(host);
                false
            }
            _ => false,
        }
    }

    /// Withdraws the time limit for an answer.
    pub(super) fn withdraw_timer(&self, ctx: &mut Ctx<'_>, id: Id) {
        if let State::Connected(end) = &self.state
            && let Some(at) = end.patience
        {
            ctx.withdraw(at, Event::GiveUp(id));
        }
    }

    /// Returns whether something that has not arrived waits for the link, and was sent by a host
    /// that does not repeat it any more.
    pub(super) fn is_forgotten_by(&self, host: HostId) -> bool {
        matches!(&self.state, State::Connected(end) if end.peer_host == host && end.is_stalled)
    }

    /// Returns the server's end of a connection that the client has not heard of yet.
    pub(super) fn granted(&self) -> Option<Id> {
        match &self.state {
            State::Connecting(attempt) => attempt.server,
            _ => None,
        }
    }

    /// Returns the peer, if it has sent something that has not arrived.
    pub(super) fn unanswered_peer(&self) -> Option<Id> {
        match &self.state {
            State::Connected(end) if !end.segments.is_empty() => end.peer,
            _ => None,
        }
    }
}

impl Endpoint {
    pub(super) fn new(peer: Id, peer_name: Name, peer_host: HostId) -> Endpoint {
        Endpoint {
            is_unix: matches!(peer_name, Name::Unix(_)),
            peer: Some(peer),
            peer_name,
            peer_host,
            listener: None,
            bytes: VecDeque::new(),
            arrived: 0,
            segments: VecDeque::new(),
            is_scheduled: false,
            is_stalled: false,
            has_ended: false,
            unread: 0,
            reads: VecDeque::new(),
            wants_room: false,
            is_room_scheduled: false,
            reads_shut: false,
            writes_shut: false,
            is_over: false,
            patience: None,
            is_waiting: false,
            expects_reset: false,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.arrived > 0 || self.has_ended || self.is_over || self.reads_shut
    }

    /// Returns whether the connection is over for this end. As on Linux, that is also so when both
    /// ends have ended their streams, and never for a Unix socket.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over || (!self.is_unix && self.has_ended && self.writes_shut)
    }

    /// Returns whether data that arrives is answered by a reset, because the program has shut both
    /// directions.
    pub(super) fn refuses_data(&self) -> bool {
        !self.is_unix && self.reads_shut && self.writes_shut
    }

    /// Returns whether the news that the connection stands has not arrived.
    pub(super) fn is_unopened(&self) -> bool {
        matches!(self.segments.front(), Some((_, Segment::Open)))
    }

    /// Forgets what has not arrived.
    pub(super) fn forget_segments(&mut self) {
        self.segments = VecDeque::new();
        self.bytes.truncate(self.arrived);
    }

    /// Takes the news of reads that have arrived by now.
    pub(super) fn hear_of_reads(&mut self, now: Instant) {
        while let Some(&(at, count)) = self.reads.front()
            && at <= now
        {
            self.reads.pop_front();
            self.unread = self.unread.saturating_sub(count);
        }
    }
}

impl Network {
    pub(super) fn stream_mut(&mut self, id: Id) -> Option<&mut Stream> {
        match &mut self.sockets.get_mut(id)?.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Returns the endpoint of a connected socket.
    #[inline]
    pub(super) fn end_mut(&mut self, id: Id) -> Option<&mut Endpoint> {
        match &mut self.stream_mut(id)?.state {
            State::Connected(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the host of an endpoint, and that of its peer.
    #[inline]
    pub(super) fn path(&self, id: Id) -> Option<(HostId, HostId)> {
        let socket = self.sockets.get(id)?;
        match &socket.kind {
            Kind::Stream(Stream { state: State::Connected(end), .. }) => {
                Some((socket.host, end.peer_host))
            }
            _ => None,
        }
    }

    /// Returns how much an endpoint may have under way.
    pub(super) fn window(&self, id: Id, peer: Option<Id>) -> usize {
        let chosen = |id: Id, kind| self.sockets.get(id)?.options.chosen_size(kind);
        let own = chosen(id, OptionKind::SendBufferSize);
        let other = peer.and_then(|peer| chosen(peer, OptionKind::ReceiveBufferSize));
        match (own, other) {
            (Some(own), Some(other)) => own + other,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => WINDOW,
        }
    }

    pub(super) fn is_stream_writable(&mut self, ctx: &mut Ctx<'_>, id: Id) -> bool {
        let Some(stream) = self.stream_mut(id) else { return true };
        match &mut stream.state {
            State::Idle => true,
            State::Listening(_) | State::Connecting(_) => false,
            State::Connected(end) if end.writes_shut || end.is_over => true,
            State::Connected(_) => {
                let has_room = self.room(ctx, id) > 0;
                if !has_room {
                    self.want_room(ctx, id);
                }
                has_room
            }
        }
    }

    pub(super) fn read_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Outcome<usize> {
        let short = self.faults_at(id).short;
        let socket = self.get_mut(id)?;
        let Socket { host, kind: Kind::Stream(stream), error, .. } = socket else {
            return Err(Errno::NOTSOCK);
        };
        let State::Connected(end) = &mut stream.state else {
            let is_unix = stream.domain == Domain::Unix;
            return Err(error.take().unwrap_or(if is_unix {
                Errno::INVAL
            } else {
                Errno::NOTCONN
            }));
        };
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        if length == 0 {
            return Ok(0);
        }
        if end.arrived == 0 {
            if !end.is_unix && end.has_ended {
                // As on Linux, the end of the stream comes before an error, which stays.
                return Ok(0);
            }
            return match error.take() {
                Some(error) => Err(error),
                None if end.is_readable() => Ok(0),
                None => Err(Errno::AGAIN),
            };
        }
        let count = ctx.draws.part_of(*host, length.min(end.arrived), short);
        copy_out(&end.bytes, count, buffers);
        if !peek {
            consume(&mut end.bytes, count);
            end.arrived -= count;
            let path = (*host, end.peer_host);
            if let Some(peer) = end.peer {
                self.report_read(ctx, path, peer, count);
            }
        }
        Ok(count)
    }

    pub(super) fn write_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &[IoSlice<'_>],
    ) -> Outcome<usize> {
        let faults = *self.faults_at(id);
        let socket = self.get_mut(id)?;
        let Kind::Stream(stream) = &mut socket.kind else { return Err(Errno::NOTSOCK) };
        let is_unix = stream.domain == Domain::Unix;
        if !is_unix && let Some(error) = socket.error.take() {
            return Err(error);
        }
        let State::Connected(end) = &mut stream.state else {
            return Err(if is_unix { Errno::NOTCONN } else { Errno::PIPE });
        };
        if end.writes_shut || end.is_over || (is_unix && end.peer.is_none()) {
            // The error of a Unix socket is for reads.
            return Err(Errno::PIPE);
        }
        let path = (socket.host, end.peer_host);
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        if length == 0 {
            return Ok(0);
        }
        if path.0 != path.1 && ctx.strike(FaultKind::Reset, path, faults.reset).is_some() {
            self.reset_connection(ctx, id);
            let error = self.get_mut(id)?.error.take();
            return Err(error.unwrap_or(Errno::CONNRESET));
        }
        let room = self.room(ctx, id);
        if room == 0 {
            self.want_room(ctx, id);
            return Err(Errno::AGAIN);
        }
        let count = ctx.draws.part_of(path.0, length.min(room), faults.short);
        let Some(end) = self.end_mut(id) else { return Err(Errno::CANCELED) };
        ctx.journal.note_bytes(count, buffers);
        ctx.note(path, |to| Incident::Sends { to, bytes: count });
        end.unread += count;
        match end.peer {
            Some(peer) => {
                if let Some(other) = self.end_mut(peer) {
                    copy_in(&mut other.bytes, count, buffers);
                }
                self.send_segment(ctx, id, Segment::Bytes(count));
            }
            None => self.expect_reset(ctx, id),
        }
        Ok(count)
    }

    pub(super) fn shut_down_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        how: Shutdown,
    ) -> Outcome<()> {
        let stream = self.stream_mut(id).ok_or(Errno::NOTCONN)?;
        let is_unix = stream.domain == Domain::Unix;
        if let State::Listening(queue) = &mut stream.state
            && how != Shutdown::Write
        {
            // It listens no more, and its queue is reset.
            let waiting = std::mem::take(&mut queue.ready);
            stream.state = State::Idle;
            waiting.into_iter().for_each(|waiting| self.close_as(ctx, waiting, true));
            self.wake_readers(ctx, id);
            return Ok(());
        }
        let end = self.end_mut(id).filter(|end| !end.is_closed()).ok_or(Errno::NOTCONN)?;
        let peer = end.peer;
        if how != Shutdown::Read && !std::mem::replace(&mut end.writes_shut, true) {
            self.send_segment(ctx, id, Segment::End);
            self.wake_writers(ctx, id);
        }
        if how != Shutdown::Write {
            if let Some(end) = self.end_mut(id) {
                end.reads_shut = true;
            }
            self.wake_readers(ctx, id);
            // The peer of a Unix socket learns of it.
            if is_unix
                && let Some(peer) = peer
                && let Some(other) = self.end_mut(peer)
            {
                other.writes_shut = true;
                self.wake_writers(ctx, peer);
            }
        }
        Ok(())
    }

    pub(super) fn close_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        host: HostId,
        stream: Stream,
        hard: bool,
    ) {
        stream.withdraw_timer(ctx, id);
        if matches!(stream.domain, Domain::Unix) || stream.place.is_some() {
            self.release_place(host, id, stream.place, &stream.local);
        }
        match stream.state {
            State::Idle => {}
            State::Listening(queue) => {
                queue.ready.into_iter().for_each(|waiting| self.close_as(ctx, waiting, true));
            }
            State::Connecting(attempt) => {
                // The server's end was never opened.
                if let Some(server) = attempt.server {
                    self.sockets.remove(server);
                }
            }
            State::Connected(end) => self.close_end(ctx, host, &end, hard),
        }
    }

    /// Tells the peer that an endpoint is closed.
    fn close_end(&mut self, ctx: &mut Ctx<'_>, host: HostId, end: &Endpoint, hard: bool) {
        let Some(peer) = end.peer.filter(|_| !end.is_over) else { return };
        let path = (host, end.peer_host);
        let hard = hard || end.arrived > 0;
        let unarrived = end.segments.iter().find(|(_, what)| matches!(what, Segment::Bytes(_)));
        if hard {
            self.send_to_end(ctx, path, peer, Segment::Reset, Duration::ZERO);
        } else if !end.writes_shut {
            self.send_to_end(ctx, path, peer, Segment::End, Duration::ZERO);
        }
        if let (false, Some((at, _))) = (hard, unarrived) {
            // When these bytes arrive, there is nothing to receive them.
            let delay = at.saturating_duration_since(ctx.now);
            self.send_to_end(ctx, path, peer, Segment::Reset, delay);
        }
        let Some(other) = self.end_mut(peer) else { return };
        other.peer = None;
        if path.0 == path.1 {
            // Writes fail from now on.
            self.wake_writers(ctx, peer);
        } else if other.wants_room || other.is_waiting {
            // Its data gets no answer but a reset.
            self.expect_reset(ctx, peer);
        }
    }
}
