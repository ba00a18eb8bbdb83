//! Sockets for datagrams.

use crate::program::{Model, scratch_path, shown, shown_error};
use ecru::fs;
use ecru::net::{UdpSocket, UnixDatagram};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;

/// Three sockets, of which programs operate on two, and an address without a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Udp;

#[derive(Clone, Copy, Debug)]
pub(crate) enum UdpOp {
    Send(usize),
    /// To a socket, or to no socket (3).
    SendTo(usize, usize),
    /// Without the option that allows it.
    Broadcast(usize),
    Recv(usize),
    Peek(usize),
    Connect(usize, usize),
    TakeError(usize),
    PeerAddr(usize),
    Close(usize),
}

pub(crate) struct UdpState {
    sockets: [Option<UdpSocket>; 3],
    addresses: [SocketAddr; 4],
    sent: u8,
}

impl UdpState {
    /// Describes an address.
    fn name(&self, address: SocketAddr) -> String {
        match self.addresses.iter().position(|other| *other == address) {
            Some(number) => number.to_string(),
            None => String::from("another"),
        }
    }
}

impl Model for Udp {
    type Op = UdpOp;
    type State = UdpState;

    fn operations(self) -> Vec<UdpOp> {
        let of = |own: usize| {
            let mut ops = vec![
                UdpOp::Send(own),
                UdpOp::Broadcast(own),
                UdpOp::Recv(own),
                UdpOp::Recv(own),
                UdpOp::Peek(own),
                UdpOp::TakeError(own),
                UdpOp::PeerAddr(own),
                UdpOp::Close(own),
            ];
            ops.extend((0..4).map(|to| UdpOp::SendTo(own, to)));
            ops.extend((0..4).map(|to| UdpOp::Connect(own, to)));
            ops
        };
        [of(0), of(1)].concat()
    }

    fn begin(self) -> UdpState {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (sockets, free) = ([bind(), bind(), bind()], bind());
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let [a, b, c] = sockets.each_ref().map(address);
        let addresses = [a, b, c, address(&free)];
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        UdpState { sockets: sockets.map(Some), addresses, sent: 0 }
    }

    fn step(self, state: &mut UdpState, op: UdpOp) -> String {
        let (UdpOp::Send(own)
        | UdpOp::SendTo(own, _)
        | UdpOp::Broadcast(own)
        | UdpOp::Recv(own)
        | UdpOp::Peek(own)
        | UdpOp::Connect(own, _)
        | UdpOp::TakeError(own)
        | UdpOp::PeerAddr(own)
        | UdpOp::Close(own)) = op;
        if let UdpOp::Close(_) = op {
            state.sockets[own] = None;
            return String::from("closes");
        }
        let Some(socket) = &state.sockets[own] else { return String::from("closed") };
        let mut bytes = [0; 8];
        let name = |from: SocketAddr| state.name(from);
        match op {
            UdpOp::Send(_) | UdpOp::SendTo(..) | UdpOp::Broadcast(_) => {
                state.sent += 1;
                let byte = [state.sent];
                shown(match op {
                    UdpOp::SendTo(_, to) => socket.send_to(&byte, state.addresses[to]),
                    UdpOp::Broadcast(_) => socket.send_to(&byte, "255.255.255.255:9"),
                    _ => socket.send(&byte),
                })
            }
            UdpOp::Recv(_) => {
                let received = socket.recv_from(&mut bytes);
                shown(received.map(|(count, from)| (bytes[..count].to_vec(), name(from))))
            }
            UdpOp::Peek(_) => {
                let received = socket.peek_from(&mut bytes);
                shown(received.map(|(count, from)| (bytes[..count].to_vec(), name(from))))
            }
            UdpOp::Connect(_, to) => shown(socket.connect(state.addresses[to])),
            UdpOp::TakeError(_) => shown_option(socket.take_error()),
            UdpOp::PeerAddr(_) => shown(socket.peer_addr().map(name)),
            UdpOp::Close(_) => unreachable!("done above"),
        }
    }

    fn excuse(self, _: &[UdpOp], _: &str, _: &str) -> Option<&'static str> {
        None
    }
}

fn shown_option(result: io::Result<Option<io::Error>>) -> String {
    shown(result.map(|error| error.map(|error| shown_error(&error))))
}

/// Two sockets with paths, of which programs operate on both, and other paths.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnixDatagrams {
    Bound,
    Pair,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum UnixOp {
    Send(usize),
    /// To one of the two, a regular file (2), a path that is free (3), or a directory (4).
    SendTo(usize, usize),
    Recv(usize),
    Peek(usize),
    Connect(usize, usize),
    Shut(usize, Shutdown),
    TakeError(usize),
    PeerAddr(usize),
    LocalAddr(usize),
    Close(usize),
}

pub(crate) struct UnixState {
    sockets: [Option<UnixDatagram>; 2],
    paths: [PathBuf; 5],
    sent: u8,
}

impl Drop for UnixState {
    fn drop(&mut self) {
        for path in &self.paths[..3] {
            let _ = fs::remove_file(path);
        }
    }
}

impl UnixState {
    fn name(&self, address: &std::os::unix::net::SocketAddr) -> String {
        let path = address.as_pathname();
        match self.paths.iter().position(|other| Some(&**other) == path) {
            Some(number) => number.to_string(),
            None if address.is_unnamed() => String::from("unnamed"),
            None => String::from("another"),
        }
    }
}

impl Model for UnixDatagrams {
    type Op = UnixOp;
    type State = UnixState;

    fn operations(self) -> Vec<UnixOp> {
        let of = |own: usize| {
            let mut ops = vec![
                UnixOp::Send(own),
                UnixOp::Recv(own),
                UnixOp::Recv(own),
                UnixOp::Peek(own),
                UnixOp::Shut(own, Shutdown::Read),
                UnixOp::Shut(own, Shutdown::Write),
                UnixOp::Shut(own, Shutdown::Both),
                UnixOp::TakeError(own),
                UnixOp::PeerAddr(own),
                UnixOp::LocalAddr(own),
                UnixOp::Close(own),
            ];
            ops.extend((0..5).map(|to| UnixOp::SendTo(own, to)));
            ops.extend((0..5).map(|to| UnixOp::Connect(own, to)));
            ops
        };
        [of(0), of(1)].concat()
    }

    fn begin(self) -> UnixState {
        let paths: [PathBuf; 5] =
            [scratch_path(), scratch_path(), scratch_path(), scratch_path(), PathBuf::from("/tmp")];
        fs::write(&paths[2], "text").unwrap();
        let sockets = match self {
            UnixDatagrams::Bound => {
                [0, 1].map(|number| UnixDatagram::bind(&paths[number]).unwrap())
            }
            UnixDatagrams::Pair => UnixDatagram::pair().unwrap().into(),
        };
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        UnixState { sockets: sockets.map(Some), paths, sent: 0 }
    }

    fn step(self, state: &mut UnixState, op: UnixOp) -> String {
        let (UnixOp::Send(own)
        | UnixOp::SendTo(own, _)
        | UnixOp::Recv(own)
        | UnixOp::Peek(own)
        | UnixOp::Connect(own, _)
        | UnixOp::Shut(own, _)
        | UnixOp::TakeError(own)
        | UnixOp::PeerAddr(own)
        | UnixOp::LocalAddr(own)
        | UnixOp::Close(own)) = op;
        if let UnixOp::Close(_) = op {
            state.sockets[own] = None;
            return String::from("closes");
        }
        let Some(socket) = &state.sockets[own] else { return String::from("closed") };
        let mut bytes = [0; 8];
        match op {
            UnixOp::Send(_) => {
                state.sent += 1;
                shown(socket.send(&[state.sent]))
            }
            UnixOp::SendTo(_, to) => {
                state.sent += 1;
                shown(socket.send_to(&[state.sent], &state.paths[to]))
            }
            UnixOp::Recv(_) => named(socket.recv_from(&mut bytes), state),
            UnixOp::Peek(_) => named(socket.peek_from(&mut bytes), state),
            UnixOp::Connect(_, to) => shown(socket.connect(&state.paths[to])),
            UnixOp::Shut(_, how) => shown(socket.shutdown(how)),
            UnixOp::TakeError(_) => shown_option(socket.take_error()),
            UnixOp::PeerAddr(_) => shown(socket.peer_addr().map(|address| state.name(&address))),
            UnixOp::LocalAddr(_) => shown(socket.local_addr().map(|address| state.name(&address))),
            UnixOp::Close(_) => unreachable!("done above"),
        }
    }

    fn excuse(self, program: &[UnixOp], real: &str, simulated: &str) -> Option<&'static str> {
        let receives = matches!(program.last(), Some(UnixOp::Recv(_) | UnixOp::Peek(_)));
        let is_known = receives && real.starts_with("WouldBlock") && simulated.starts_with("(0,");
        is_known.then_some("a socket that does not block")
    }
}

fn named(
    received: io::Result<(usize, std::os::unix::net::SocketAddr)>,
    state: &UnixState,
) -> String {
    shown(received.map(|(count, from)| (count, state.name(&from))))
}
