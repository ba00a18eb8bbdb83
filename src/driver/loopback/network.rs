//! The networks of the `loopback` driver.
#![expect(unsafe_code, reason = "reads and writes addresses in memory that ops lend")]

use super::file::{Connection, File, Socket, tell, would_block};
use super::{Watcher, lock};
use crate::driver::OwnedDescriptor;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, Weak};

/// A network in memory, which all its clones refer to. It ends with its last socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network(Arc<Mutex<NetworkState>>);

#[derive(Debug, Default)]
struct NetworkState {
    listeners: BTreeMap<SocketAddr, Weak<Listening>>,
    /// The last port that was given to a socket without one.
    port: u16,
    /// Connections that were accepted, and are not owned by a descriptor yet.
    accepted: BTreeMap<u32, Connection>,
    next: u32,
}

/// The queue of a listener.
#[derive(Debug)]
pub(crate) struct Listening {
    network: Network,
    address: SocketAddr,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    connections: VecDeque<Connection>,
    watchers: Vec<Watcher>,
}

impl NetworkState {
    fn fresh_port(&mut self) -> SocketAddr {
        self.port += 1;
        SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000 + self.port))
    }
}

impl Network {
    /// Creates a listener on a port of the network's own choice. Returns its address as well.
    pub(crate) fn listen(&self) -> (OwnedDescriptor, SocketAddr) {
        let mut state = lock(&self.0);
        let address = state.fresh_port();
        let queue = Mutex::default();
        let listening = Arc::new(Listening { network: self.clone(), address, queue });
        state.listeners.insert(address, Arc::downgrade(&listening));
        (OwnedDescriptor::loopback(Arc::new(File::Listener(listening))), address)
    }

    /// Creates a socket that is not connected.
    pub(crate) fn socket(&self) -> OwnedDescriptor {
        self.own(None)
    }

    fn own(&self, connection: Option<Connection>) -> OwnedDescriptor {
        OwnedDescriptor::loopback(Arc::new(File::Socket(Socket::new(self.clone(), connection))))
    }

    /// Connects to a listener, and returns the connecting end.
    pub(super) fn connect(&self, to: SocketAddr) -> io::Result<Connection> {
        let mut state = lock(&self.0);
        let Some(listening) = state.listeners.get(&to).and_then(Weak::upgrade) else {
            return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
        };
        let (ours, theirs) = Connection::pair(state.fresh_port(), to);
        drop(state);
        let mut queue = lock(&listening.queue);
        queue.connections.push_back(theirs);
        tell(&mut queue.watchers);
        Ok(ours)
    }
}

impl Listening {
    /// Takes a connection. Returns the number under which it can be [adopted](Listening::adopt).
    pub(super) fn accept(&self) -> io::Result<(u32, SocketAddr)> {
        let Some(connection) = lock(&self.queue).connections.pop_front() else {
            return would_block();
        };
        let (peer, mut state) = (connection.peer, lock(&self.network.0));
        let number = state.next;
        state.next += 1;
        state.accepted.insert(number, connection);
        Ok((number, peer))
    }

    /// Returns the descriptor of a connection that was accepted.
    pub(in crate::driver) fn adopt(&self, number: u32) -> OwnedDescriptor {
        let connection = lock(&self.network.0).accepted.remove(&number);
        self.network.own(connection)
    }

    pub(super) fn is_ready(&self) -> bool {
        !lock(&self.queue).connections.is_empty()
    }

    pub(super) fn with_watchers(&self, f: impl FnOnce(&mut Vec<Watcher>)) {
        f(&mut lock(&self.queue).watchers);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.network.0).listeners.remove(&self.address);
    }
}

/// Reads an address in the kernel's layout.
///
/// # Safety
/// There is an address of this length.
pub(super) unsafe fn read_address(
    address: *const libc::sockaddr_storage,
    length: libc::socklen_t,
) -> io::Result<SocketAddr> {
    // SAFETY: the caller's promise.
    let family = i32::from(unsafe { (*address).ss_family });
    if family != libc::AF_INET || (length as usize) < size_of::<libc::sockaddr_in>() {
        return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    }
    // SAFETY: the caller's promise; the family says how to read it.
    let v4 = unsafe { *address.cast::<libc::sockaddr_in>() };
    let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
    Ok(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
}

/// Writes an address in the kernel's layout.
///
/// # Safety
/// There is room for any address, and for its length.
pub(super) unsafe fn write_address(
    from: SocketAddr,
    address: *mut libc::sockaddr_storage,
    length: *mut libc::socklen_t,
) {
    let SocketAddr::V4(from) = from else { unreachable!("a network has addresses of one family") };
    let v4 = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: SocketAddrV4::port(&from).to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(from.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: the caller's promise. The storage is aligned for each address.
    unsafe { address.cast::<libc::sockaddr_in>().write(v4) };
    // SAFETY: the caller's promise.
    unsafe { length.write(size_of::<libc::sockaddr_in>() as libc::socklen_t) };
}
