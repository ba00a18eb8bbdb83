//! The files of a world's network: ops on sockets, pipes and eventfds.
#![expect(unsafe_code, reason = "accesses memory that ops lend")]

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use super::file::{File, path_descriptor};
use super::network::{Ctx, Domain, Id, Name, Network, Outcome, Received, UnixName};
use super::{Watcher, World};
use crate::driver::op::Interest;
use crate::driver::{Op, OwnedDescriptor, RawAddress};

/// A socket, an end of a pipe, or an eventfd. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    /// Weak, because the world keeps the files of descriptors that were given away.
    world: Weak<World>,
    pub(super) id: Id,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade() {
            world.network(|network, ctx| network.close(ctx, self.id));
        }
    }
}

impl World {
    /// Returns the descriptor of a socket, which closes it.
    pub(super) fn own(&self, id: Id) -> OwnedDescriptor {
        let world = Weak::clone(&self.this);
        OwnedDescriptor::in_memory(Arc::new(File::Socket(SocketFile { world, id })))
    }

    /// Calls `f` with the socket of a descriptor.
    ///
    /// # Errors
    /// Fails with `ENOTSOCK` if the descriptor belongs to no socket, pipe or eventfd of a world.
    pub(super) fn with_socket<T>(
        &self,
        fd: &OwnedDescriptor,
        f: impl FnOnce(&mut Network, &mut Ctx<'_>, Id) -> Outcome<T>,
    ) -> io::Result<T> {
        let Some(File::Socket(socket)) = fd.name().file() else {
            return Err(Errno::NOTSOCK.into());
        };
        Ok(self.network(|network, ctx| f(network, ctx, socket.id))?)
    }
}

impl SocketFile {
    /// Calls `f` with the network. The world of a simulation that has ended knows no socket.
    fn network<T>(
        &self,
        f: impl FnOnce(&mut Network, &mut Ctx<'_>, Id) -> Outcome<T>,
    ) -> Outcome<T> {
        let world = self.world.upgrade().ok_or(Errno::CANCELED)?;
        world.network(|network, ctx| f(network, ctx, self.id))
    }

    /// Finds the world, for an op. The world of a simulation that has ended knows no socket.
    pub(super) fn reach(&self) -> Outcome<Reached> {
        Ok(Reached { world: self.world.upgrade().ok_or(Errno::CANCELED)?, id: self.id })
    }

    #[inline]
    pub(super) fn watch(&self, side: Interest, watcher: Watcher) {
        if let Some(world) = self.world.upgrade() {
            world.watch_socket(self.id, side, watcher);
        }
    }

    pub(super) fn unwatch(&self, watcher: &Watcher) {
        if let Some(world) = self.world.upgrade() {
            world.unwatch_socket(self.id, watcher);
        }
    }

    pub(super) fn accepted(&self, result: u32) -> OwnedDescriptor {
        let file = SocketFile { world: Weak::clone(&self.world), id: Id(result) };
        OwnedDescriptor::in_memory(Arc::new(File::Socket(file)))
    }

    pub(super) fn peer(&self) -> Option<String> {
        shown(self.network(|network, _, id| network.peer_name(id)).ok()?.1)
    }

    /// Returns the host and the address of a connection's other end on another host. Says what has
    /// become of the host, if it has forgotten the connection. An attempt to connect has a `to`
    /// before them.
    pub(super) fn shown_peer(&self) -> Option<String> {
        if let Ok(Some(to)) = self.network(|network, _, id| Ok(network.attempt_of(id))) {
            return Some(to);
        }
        let address = self.peer()?;
        let found = self.network(|network, _, id| Ok(network.peer_host(id))).ok()?;
        let (host, name, is_forgotten) = found?;
        let mut text = format!("'{name}' ({address})");
        if is_forgotten && let Some((what, at)) = self.world.upgrade()?.last_outage(host) {
            text.push_str(&format!(", which {what} at {at:?}"));
        }
        Some(text)
    }

    /// Returns the own address, unless the socket is connected, connects or has none.
    pub(super) fn own_name(&self) -> Option<String> {
        if self.peer().is_some() || self.shown_peer().is_some() {
            return None;
        }
        shown(self.network(|network, _, id| network.local_name(id)).ok()?.1)
    }

    /// Opens an unconnected socket for a stream, and a descriptor that leads nowhere for all else.
    pub(super) fn placeholder(&self) -> io::Result<OwnedFd> {
        let domain = self.network(|network, _, id| Ok(network.stream_domain(id))).unwrap_or(None);
        let family = match domain {
            Some(Domain::V4) => AddressFamily::INET,
            Some(Domain::V6) => AddressFamily::INET6,
            Some(Domain::Unix) => AddressFamily::UNIX,
            None => return path_descriptor(),
        };
        let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
        Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
    }
}

fn shown(name: Name) -> Option<String> {
    match name {
        Name::Internet(address) => Some(address.to_string()),
        Name::Unix(name) => name.shown(),
    }
}

/// A socket with its world, for as long as an op takes.
#[derive(Debug)]
pub(super) struct Reached {
    world: Arc<World>,
    id: Id,
}

impl Reached {
    /// Counts an operation, which may be the one that is to fail.
    fn operate(&self) -> Outcome<()> {
        self.world.operation(|_, _| Ok(()))
    }

    /// Calls `f` with the network.
    fn network<T>(&self, f: impl FnOnce(&mut Network, &mut Ctx<'_>, Id) -> T) -> T {
        self.world.network(|network, ctx| f(network, ctx, self.id))
    }

    fn receive(&self, buffers: &mut [IoSliceMut<'_>], flags: i32) -> Outcome<Received> {
        let peek = flags & libc::MSG_PEEK != 0;
        self.world.operation(|network, ctx| network.receive(ctx, self.id, buffers, peek))
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], flags: i32) -> Outcome<usize> {
        let peek = flags & libc::MSG_PEEK != 0;
        self.world.operation(|network, ctx| network.read(ctx, self.id, buffers, peek))
    }

    fn send(&self, buffers: &[IoSlice<'_>], to: Option<&Name>) -> Outcome<usize> {
        self.world.operation(|network, ctx| network.send(ctx, self.id, buffers, to))
    }

    /// Returns the error for a name that no Unix socket has. A file that is none refuses.
    fn about_path(&self, error: Errno, to: &Name) -> Errno {
        let Name::Unix(UnixName::Path(path)) = to else { return error };
        let path = Path::new(OsStr::from_bytes(path));
        if error != Errno::NOENT {
            return error;
        }
        let found = self.world.with_disk(|disk, _| disk.look(path, true));
        found.map_or(error, |_| Errno::CONNREFUSED)
    }

    fn domain(&self) -> Outcome<Domain> {
        self.network(|network, _, id| network.domain(id))
    }

    /// Checks that the host may have a descriptor of the next connection to accept. A listener
    /// without such a connection waits in any case.
    fn check_descriptors(&self) -> Outcome<()> {
        let read = Interest::Read;
        let (host, waits) = self.network(|network, ctx, id| {
            Ok::<_, Errno>((network.host_of(id)?, network.is_ready(ctx, id, read)?))
        })?;
        let checked = if waits { self.world.check_descriptors(host, 1) } else { Ok(()) };
        checked.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
    }

    /// Carries out an op without waiting, as the kernel would.
    ///
    /// # Safety
    /// Everything that the op points to is valid for this call, and no other code accesses it
    /// meanwhile.
    pub(super) unsafe fn attempt(&self, op: &Op<'_>) -> Outcome<u32> {
        match *op {
            Op::Recv { buf, len, flags, .. } => {
                // SAFETY: the caller promises a buffer of this length. (It is only written to.)
                let buffer = unsafe { slice::from_raw_parts_mut(buf, len as usize) };
                counted(self.read(&mut [IoSliceMut::new(buffer)], flags)?)
            }
            Op::Read { buf, len, .. } => {
                // SAFETY: the caller promises a buffer of this length. (It is only written to.)
                let buffer = unsafe { slice::from_raw_parts_mut(buf, len as usize) };
                counted(self.read(&mut [IoSliceMut::new(buffer)], 0)?)
            }
            Op::Send { buf, len, .. } | Op::Write { buf, len, .. } => {
                // SAFETY: the caller promises a buffer of this length.
                let bytes = unsafe { slice::from_raw_parts(buf, len as usize) };
                counted(self.send(&[IoSlice::new(bytes)], None)?)
            }
            Op::ReadVectored { buffers, count: number, .. } => {
                // SAFETY: the caller promises valid buffers.
                let buffers = unsafe { parts_mut(buffers.cast_mut(), number as usize) };
                counted(self.read(buffers, 0)?)
            }
            Op::WriteVectored { buffers, count: number, .. } => {
                // SAFETY: the caller promises valid buffers.
                counted(self.send(unsafe { parts(buffers, number as usize) }, None)?)
            }
            // SAFETY: the caller's promise, passed on.
            Op::RecvMsg { message, flags, .. } => unsafe { self.receive_message(message, flags) },
            // SAFETY: the caller's promise, passed on.
            Op::SendMsg { message, .. } => unsafe { self.send_message(message) },
            // SAFETY: the caller's promise, passed on.
            Op::Accept { address, length, .. } => unsafe { self.accept(address.cast(), length) },
            Op::Connect { address, length, .. } => {
                // SAFETY: the caller's promise, passed on.
                unsafe { self.connect(address.cast(), length) }
            }
            Op::Readiness { interest, .. } => {
                self.operate()?;
                let is_ready =
                    self.network(|network, ctx, id| network.is_ready(ctx, id, interest))?;
                if !is_ready {
                    return Err(Errno::AGAIN);
                }
                Ok(u32::from(interest.events().cast_unsigned()))
            }
            Op::File(_) => Err(Errno::OPNOTSUPP),
        }
    }

    // Addresses are large. In functions of their own, they are not on the stacks of tasks that read
    // and write.

    /// # Safety
    /// The message is valid with all its parts, and no other code accesses it.
    #[inline(never)]
    unsafe fn receive_message(&self, message: *mut libc::msghdr, flags: i32) -> Outcome<u32> {
        // SAFETY: the caller promises a message whose parts are all valid.
        let buffers = unsafe { buffers_mut(message) };
        let received = self.receive(buffers, flags)?;
        let domain = if received.from.is_some() { self.domain().ok() } else { None };
        let from = domain.zip(received.from).map(|(domain, name)| domain.write(&name));
        // SAFETY: the caller promises a message whose parts are all valid.
        unsafe { set_sender(message, from.as_ref(), received.is_cut) };
        counted(received.count)
    }

    /// # Safety
    /// The message is valid with all its parts.
    #[inline(never)]
    unsafe fn send_message(&self, message: *const libc::msghdr) -> Outcome<u32> {
        // SAFETY: the caller promises a message whose parts are all valid.
        let to = unsafe { receiver(message) };
        let to = to.map(|raw| self.domain()?.read(&raw)).transpose()?;
        // SAFETY: the caller promises a message whose parts are all valid.
        let sent = self.send(unsafe { buffers(message) }, to.as_ref());
        counted(sent.map_err(|error| match &to {
            Some(to) => self.about_path(error, to),
            None => error,
        })?)
    }

    /// # Safety
    /// There is room for an address of this length, and for its length.
    #[inline(never)]
    unsafe fn accept(&self, address: *mut u8, length: *mut libc::socklen_t) -> Outcome<u32> {
        self.operate()?;
        self.check_descriptors()?;
        let (Id(number), from) = self.network(|network, _, id| network.accept(id))?;
        let raw = self.domain()?.write(&from);
        // SAFETY: the caller promises room for an address.
        let copied = unsafe { copy_address(&raw, address, raw.length) };
        // SAFETY: the caller promises room for its length.
        unsafe { length.write(copied) };
        Ok(number)
    }

    /// # Safety
    /// There is an address of this length.
    #[inline(never)]
    unsafe fn connect(&self, address: *const u8, length: libc::socklen_t) -> Outcome<u32> {
        self.operate()?;
        // SAFETY: the caller promises an address of this length.
        let raw = unsafe { read_address(address, length) };
        let to = self.domain()?.read(&raw)?;
        let connected = self.network(|network, ctx, id| network.connect(ctx, id, &to));
        connected.map_err(|error| self.about_path(error, &to))?;
        Ok(0)
    }
}

/// Returns a number of bytes as the result of an op.
fn counted(count: usize) -> Outcome<u32> {
    u32::try_from(count).map_err(|_| Errno::INVAL)
}

/// Returns the buffers of a message to receive.
///
/// # Safety
/// The message and its buffers are valid, and no other code accesses them.
unsafe fn buffers_mut<'a>(message: *mut libc::msghdr) -> &'a mut [IoSliceMut<'a>] {
    // SAFETY: the caller's promise.
    let message = unsafe { ptr::read(message) };
    // SAFETY: the caller's promise.
    unsafe { parts_mut(message.msg_iov, message.msg_iovlen) }
}

/// Returns buffers to read into.
///
/// # Safety
/// The `count` buffers are valid, and no other code accesses them.
unsafe fn parts_mut<'a>(buffers: *mut libc::iovec, count: usize) -> &'a mut [IoSliceMut<'a>] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise. An `IoSliceMut` has the layout of an iovec by its
    // documentation.
    unsafe { slice::from_raw_parts_mut(buffers.cast(), count) }
}

/// Returns the buffers of a message to send.
///
/// # Safety
/// The message and its buffers are valid.
unsafe fn buffers<'a>(message: *const libc::msghdr) -> &'a [IoSlice<'a>] {
    // SAFETY: the caller's promise.
    let message = unsafe { ptr::read(message) };
    // SAFETY: the caller's promise.
    unsafe { parts(message.msg_iov, message.msg_iovlen) }
}

/// Returns buffers to write from.
///
/// # Safety
/// The `count` buffers are valid.
unsafe fn parts<'a>(buffers: *const libc::iovec, count: usize) -> &'a [IoSlice<'a>] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise. An `IoSlice` has the layout of an iovec by its documentation.
    unsafe { slice::from_raw_parts(buffers.cast(), count) }
}

/// Returns the address that a message is to be sent to.
///
/// # Safety
/// The message and its address are valid.
unsafe fn receiver(message: *const libc::msghdr) -> Option<RawAddress> {
    // SAFETY: the caller's promise.
    let message = unsafe { ptr::read(message) };
    if message.msg_name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { read_address(message.msg_name.cast(), message.msg_namelen) })
}

/// Writes the sender's address and the flags of a message that was received.
///
/// # Safety
/// The message is valid, and has as much room for an address as it says.
unsafe fn set_sender(message: *mut libc::msghdr, from: Option<&RawAddress>, is_cut: bool) {
    // SAFETY: the caller's promise.
    let message = unsafe { &mut *message };
    message.msg_flags = if is_cut { libc::MSG_TRUNC } else { 0 };
    if message.msg_name.is_null() {
        return;
    }
    message.msg_namelen = match from {
        // SAFETY: the caller's promise.
        Some(raw) => unsafe { copy_address(raw, message.msg_name.cast(), message.msg_namelen) },
        None => 0,
    };
}

/// Reads an address.
///
/// # Safety
/// There is an address of this length.
unsafe fn read_address(address: *const u8, length: libc::socklen_t) -> RawAddress {
    let mut raw = RawAddress::room();
    let length = (length as usize).min(mem::size_of_val(&raw.storage));
    // SAFETY: the caller's promise. The storage has this much room.
    unsafe { ptr::copy_nonoverlapping(address, (&raw mut raw.storage).cast(), length) };
    raw.length = length as libc::socklen_t;
    raw
}

/// Writes as much of an address as there is room for. Returns its length.
///
/// # Safety
/// There is room for this many bytes.
unsafe fn copy_address(raw: &RawAddress, to: *mut u8, room: libc::socklen_t) -> libc::socklen_t {
    let length = raw.length.min(room) as usize;
    // SAFETY: the caller's promise. The storage is as long as the address.
    unsafe { ptr::copy_nonoverlapping((&raw const raw.storage).cast(), to, length) };
    raw.length
}
