//! How streams begin: addresses, listeners and connection attempts.

use super::host::{HostId, Protocol, Route, destination};
use super::link::SLOW;
use super::name::{Domain, Name, UnixName};
use super::stream::{Attempt, Endpoint, Queue, Segment, State, Stream};
use super::{Ctx, Event, FaultKind, Id, Incident, Kind, Network, Outcome, Transport};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest queue of a listener (Linux's `net.core.somaxconn`).
const LONGEST_QUEUE: usize = 4_096;
/// How often a request for a connection is repeated (Linux's `tcp_syn_retries`).
const REPETITIONS: u32 = 6;
/// How long a host looks for another one in its own network.
const SEARCH: Duration = Duration::from_secs(3);

impl Network {
    /// Binds a socket to an address.
    pub(in crate::driver) fn bind(&mut self, id: Id, name: &Name) -> Outcome<()> {
        let host = self.host_of(id)?;
        let (protocol, is_bound, domain) = match &self.get(id)?.kind {
            Kind::Stream(stream) => {
                (Protocol::Tcp, stream.local != stream.domain.unnamed(), stream.domain)
            }
            Kind::Datagram(datagrams) => {
                (Protocol::Udp, datagrams.local != datagrams.domain.unnamed(), datagrams.domain)
            }
            _ => return Err(Errno::NOTSOCK),
        };
        if is_bound {
            return Err(Errno::INVAL);
        }
        match name {
            Name::Internet(address) if domain != Domain::Unix => {
                let place = self.host_mut(host).bind(host, protocol, *address, id)?;
                let local = Name::Internet(SocketAddr::new(address.ip(), place.1));
                match &mut self.get_mut(id)?.kind {
                    Kind::Stream(stream) => (stream.local, stream.place) = (local, Some(place)),
                    Kind::Datagram(datagrams) => {
                        (datagrams.local, datagrams.place) = (local, Some(place));
                    }
                    _ => return Err(Errno::NOTSOCK),
                }
            }
            Name::Unix(UnixName::Unnamed) if domain == Domain::Unix => return Err(Errno::INVAL),
            Name::Unix(unix) if domain == Domain::Unix => {
                self.host_mut(host).bind_name(unix, id)?;
                match &mut self.get_mut(id)?.kind {
                    Kind::Stream(stream) => stream.local = name.clone(),
                    Kind::Datagram(datagrams) => datagrams.local = name.clone(),
                    _ => return Err(Errno::NOTSOCK),
                }
            }
            _ => return Err(Errno::AFNOSUPPORT),
        }
        Ok(())
    }

    /// Makes a socket a listener.
    pub(in crate::driver) fn listen(&mut self, id: Id) -> Outcome<()> {
        let Kind::Stream(stream) = &self.get(id)?.kind else { return Err(Errno::OPNOTSUPP) };
        match stream.state {
            State::Idle => {}
            State::Listening(_) => return Ok(()),
            _ => return Err(Errno::INVAL),
        }
        if stream.local == stream.domain.unnamed() {
            let any = stream.local.clone();
            self.bind(id, &any)?;
        }
        let stream = self.stream_mut(id).ok_or(Errno::NOTSOCK)?;
        stream.state = State::Listening(Queue::default());
        Ok(())
    }

    /// Takes the next connection from a listener's queue. Returns its socket, and the peer's
    /// address.
    pub(in crate::driver) fn accept(&mut self, id: Id) -> Outcome<(Id, Name)> {
        self.get(id)?;
        let stream = self.stream_mut(id).ok_or(Errno::OPNOTSUPP)?;
        let State::Listening(queue) = &mut stream.state else { return Err(Errno::INVAL) };
        let accepted = queue.ready.pop_front().ok_or(Errno::AGAIN)?;
        self.hand_out(accepted);
        if let Some(end) = self.end_mut(accepted) {
            end.listener = None;
        }
        let name = match &self.get(accepted)?.kind {
            Kind::Stream(stream) => stream.connected_to(),
            _ => None,
        };
        Ok((accepted, name.ok_or(Errno::CONNABORTED)?))
    }

    /// Begins to connect a socket, or reports how the attempt has ended.
    ///
    /// # Errors
    /// Fails with `EINPROGRESS` or `EALREADY` while the attempt is under way, and with `EISCONN`
    /// after its success.
    pub(in crate::driver) fn connect(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        to: &Name,
    ) -> Outcome<()> {
        let socket = self.get_mut(id)?;
        let stream = match &socket.kind {
            Kind::Stream(stream) => stream,
            Kind::Datagram(_) => return self.connect_datagrams(id, to),
            _ => return Err(Errno::NOTSOCK),
        };
        match (&stream.state, to) {
            (State::Idle, _) if socket.error.is_some() => {
                Err(socket.error.take().unwrap_or(Errno::CONNREFUSED))
            }
            (State::Idle, Name::Internet(to)) => self.connect_internet(ctx, id, *to),
            (State::Idle, Name::Unix(name)) => self.connect_unix(ctx, id, name),
            (State::Connecting(_), _) => Err(Errno::ALREADY),
            (State::Connected(_), _) => Err(Errno::ISCONN),
            (State::Listening(_), _) => Err(Errno::INVAL),
        }
    }

    fn connect_internet(&mut self, ctx: &mut Ctx<'_>, id: Id, to: SocketAddr) -> Outcome<()> {
        let (own, to) = (self.host_of(id)?, destination(to));
        let route = self.route(own, to.ip());
        if route == Route::NoNetwork {
            return Err(Errno::NETUNREACH);
        }
        self.bind_source(own, id, to, route)?;
        let host = match route {
            Route::Local => Some(own),
            Route::Host(host) => Some(host),
            Route::NoHost | Route::NoNetwork => None,
        };
        if host == Some(own) {
            match self.listener_at(own, to) {
                None => return Err(Errno::CONNREFUSED),
                Some(listener) if self.has_queue_room(listener) => {
                    let server = self.open_server(listener, id, own, to)?;
                    self.connected(id, server, own, Name::Internet(to));
                    self.opened(ctx, server);
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        let attempt = Attempt { to, host, began: ctx.now, server: None };
        let stream = self.stream_mut(id).ok_or(Errno::NOTSOCK)?;
        stream.state = State::Connecting(attempt);
        if let Some(host) = host {
            ctx.note((own, host), |to| Incident::Connects { to });
        }
        if host.is_none() {
            ctx.later(ctx.now + SEARCH, Event::Failed(id, Errno::HOSTUNREACH));
        } else {
            self.send_request(ctx, id, 0);
        }
        Err(Errno::INPROGRESS)
    }

    /// Gives a socket that connects its own address.
    fn bind_source(&mut self, own: HostId, id: Id, to: SocketAddr, route: Route) -> Outcome<()> {
        let source = own.source(to.ip(), route);
        let stream = self.stream_mut(id).ok_or(Errno::NOTSOCK)?;
        let Some(local) = stream.local.internet() else { return Err(Errno::AFNOSUPPORT) };
        let port = if stream.place.is_some() {
            if local.ip().is_loopback() && route != Route::Local {
                return Err(Errno::INVAL);
            }
            local.port()
        } else {
            let any = SocketAddr::new(source, 0);
            let bound = self.host_mut(own).bind(own, Protocol::Tcp, any, id);
            let place = bound.map_err(|_| Errno::ADDRNOTAVAIL)?;
            self.stream_mut(id).ok_or(Errno::NOTSOCK)?.place = Some(place);
            place.1
        };
        if local.ip().is_unspecified() {
            let stream = self.stream_mut(id).ok_or(Errno::NOTSOCK)?;
            stream.local = Name::Internet(SocketAddr::new(source, port));
        }
        Ok(())
    }

    fn connect_unix(&mut self, ctx: &mut Ctx<'_>, id: Id, name: &UnixName) -> Outcome<()> {
        let own = self.host_of(id)?;
        let listener = self.host_mut(own).socket_of(name)?;
        let stream = self.stream_mut(listener).ok_or(Errno::PROTOTYPE)?;
        let State::Listening(queue) = &stream.state else { return Err(Errno::CONNREFUSED) };
        if queue.ready.len() >= LONGEST_QUEUE {
            return Err(Errno::AGAIN);
        }
        let local = stream.local.clone();
        let server = self.insert_server(listener, id, own, local.clone())?;
        self.connected(id, server, own, local);
        self.opened(ctx, server);
        Ok(())
    }

    /// Creates two Unix sockets that are connected to each other.
    pub(in crate::driver) fn open_pair(
        &mut self,
        host: HostId,
        transport: Transport,
    ) -> Outcome<(Id, Id)> {
        let one = self.open(host, Domain::Unix, transport)?;
        let other = self.open(host, Domain::Unix, transport)?;
        match transport {
            Transport::Stream => {
                self.connected(one, other, host, Domain::Unix.unnamed());
                self.connected(other, one, host, Domain::Unix.unnamed());
            }
            Transport::Datagram => self.pair_datagrams(one, other),
        }
        Ok((one, other))
    }

    fn listener_at(&self, host: HostId, to: SocketAddr) -> Option<Id> {
        let id = self.hosts[usize::from(host.0)].receiver(Protocol::Tcp, to)?;
        match &self.sockets.get(id)?.kind {
            Kind::Stream(stream) if matches!(stream.state, State::Listening(_)) => Some(id),
            _ => None,
        }
    }

    fn has_queue_room(&mut self, listener: Id) -> bool {
        match self.stream_mut(listener).map(|stream| &stream.state) {
            Some(State::Listening(queue)) => queue.ready.len() < LONGEST_QUEUE,
            _ => false,
        }
    }

    /// Makes a socket one end of a connection.
    fn connected(&mut self, id: Id, peer: Id, peer_host: HostId, peer_name: Name) {
        if let Some(stream) = self.stream_mut(id) {
            stream.state = State::Connected(Endpoint::new(peer, peer_name, peer_host));
        }
    }

    /// Creates the server's end of an internet connection.
    fn open_server(
        &mut self,
        listener: Id,
        client: Id,
        host: HostId,
        to: SocketAddr,
    ) -> Outcome<Id> {
        self.insert_server(listener, client, host, Name::Internet(to))
    }

    /// Creates the server's end of a connection that `client`, a socket of `host`, has asked for.
    fn insert_server(
        &mut self,
        listener: Id,
        client: Id,
        host: HostId,
        local: Name,
    ) -> Outcome<Id> {
        let name = match &self.get(client)?.kind {
            Kind::Stream(stream) => stream.local.clone(),
            _ => return Err(Errno::NOTSOCK),
        };
        let socket = self.get(listener)?;
        let (own, options) = (socket.host, socket.options.clone());
        let domain = match &socket.kind {
            Kind::Stream(stream) => stream.domain,
            _ => return Err(Errno::NOTSOCK),
        };
        let mut end = Endpoint::new(client, name, host);
        end.listener = Some(listener);
        let state = State::Connected(end);
        let stream = Stream { domain, local, place: None, state };
        let server = self.insert(own, Kind::Stream(stream));
        self.get_mut(server)?.options = options;
        Ok(server)
    }

    /// The client has told the server's end that the connection stands. It waits to be accepted
    /// now, unless the listener is closed.
    pub(super) fn opened(&mut self, ctx: &mut Ctx<'_>, server: Id) {
        let Some(listener) = self.end_mut(server).and_then(|end| end.listener) else { return };
        match self.stream_mut(listener).map(|stream| &mut stream.state) {
            Some(State::Listening(queue)) => {
                queue.ready.push_back(server);
                self.wake_readers(ctx, listener);
            }
            _ => self.close_as(ctx, server, true),
        }
    }

    fn attempt_mut(&mut self, client: Id) -> Option<&mut Attempt> {
        match &mut self.stream_mut(client)?.state {
            State::Connecting(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Returns the host of a connecting socket, and the one it connects to.
    fn attempt_path(&mut self, client: Id) -> Option<(HostId, HostId)> {
        let own = self.sockets.get(client)?.host;
        Some((own, self.attempt_mut(client)?.host?))
    }

    /// Sends the request for a connection.
    pub(super) fn send_request(&mut self, ctx: &mut Ctx<'_>, client: Id, attempt: u32) {
        let Some(path) = self.attempt_path(client) else { return };
        let mut at = self.segment_arrival(ctx, path, 0);
        if path.0 != path.1
            && let Some(mut delay) =
                ctx.strike(FaultKind::Slow, path, self.faults(path).slow_connect)
        {
            at += ctx.draws.within(&mut delay, &(Duration::ZERO..=SLOW));
        }
        ctx.later(at, Event::Request { client, attempt });
    }

    pub(super) fn request_arrives(&mut self, ctx: &mut Ctx<'_>, client: Id, attempt: u32) {
        let Some((own, host)) = self.attempt_path(client) else { return };
        let Some(&mut Attempt { to, server, .. }) = self.attempt_mut(client) else { return };
        if self.is_cut(own, host) || self.is_cut(host, own) {
            return self.repeat_request(ctx, client, attempt);
        }
        let listener = self.listener_at(host, to);
        let is_refused = own != host
            && ctx
                .strike(FaultKind::Refused, (own, host), self.faults((own, host)).refusal)
                .is_some();
        let at = self.segment_arrival(ctx, (host, own), 0);
        let Some(listener) = listener.filter(|_| !is_refused) else {
            ctx.later(at, Event::Failed(client, Errno::CONNREFUSED));
            return;
        };
        if !self.has_queue_room(listener) {
            return self.repeat_request(ctx, client, attempt);
        }
        if server.is_none_or(|server| !self.sockets.contains(server))
            && let Ok(server) = self.open_server(listener, client, own, to)
            && let Some(attempt) = self.attempt_mut(client)
        {
            attempt.server = Some(server);
        }
        ctx.later(at, Event::Granted { client, attempt });
    }

    pub(super) fn grant_arrives(&mut self, ctx: &mut Ctx<'_>, client: Id, attempt: u32) {
        let Some((own, host)) = self.attempt_path(client) else { return };
        let Some(&mut Attempt { to, server, .. }) = self.attempt_mut(client) else { return };
        let Some(server) = server.filter(|_| !self.is_cut(host, own)) else {
            return self.repeat_request(ctx, client, attempt);
        };
        let exists = self.sockets.contains(server);
        ctx.note((own, host), |to| Incident::Connected { to });
        self.connected(client, server, host, Name::Internet(to));
        if exists {
            self.send_segment(ctx, client, Segment::Open);
        } else {
            // The server has crashed since. Its system answers with a reset.
            if let Some(end) = self.end_mut(client) {
                end.peer = None;
            }
            self.expect_reset(ctx, client);
        }
        self.wake(ctx, client);
    }

    /// Sends the request once more, as long after the last one as Linux does.
    fn repeat_request(&mut self, ctx: &mut Ctx<'_>, client: Id, attempt: u32) {
        let Some(began) = self.attempt_mut(client).map(|attempt| attempt.began) else { return };
        let next = attempt + 1;
        let at = began + Duration::from_secs((1 << next) - 1);
        let event = if next > REPETITIONS {
            Event::Failed(client, Errno::TIMEDOUT)
        } else {
            Event::Repeat { client, attempt: next }
        };
        ctx.later(at, event);
    }

    pub(super) fn attempt_failed(&mut self, ctx: &mut Ctx<'_>, client: Id, error: Errno) {
        if let Some(path) = self.attempt_path(client) {
            ctx.note(path, |to| Incident::NotConnected { to });
        }
        let Some(attempt) = self.attempt_mut(client) else { return };
        if let Some(server) = attempt.server {
            self.sockets.remove(server);
        }
        if let Some(socket) = self.sockets.get_mut(client) {
            socket.error = Some(error);
        }
        if let Some(stream) = self.stream_mut(client) {
            stream.state = State::Idle;
        }
        self.wake(ctx, client);
    }
}
