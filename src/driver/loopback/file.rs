//! The files of the `loopback` driver: ends of pipes, sockets and listeners.
#![expect(unsafe_code, reason = "accesses memory that ops lend")]

use super::network::{self, Listening, Network};
use super::{Watcher, lock};
use crate::driver::OwnedDescriptor;
use crate::driver::op::{Interest, Manner, Op};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::{io, ptr, slice};

/// The capacity of a pipe, and of each direction of a connection.
pub(super) const CAPACITY: usize = 64 << 10;

/// An open file; see the module above.
#[derive(Debug)]
pub(crate) enum File {
    Reader(Reader),
    Writer(Writer),
    Socket(Socket),
    Listener(Arc<Listening>),
}

/// Bytes on their way from a writer to a reader.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    has_no_reader: bool,
    has_no_writer: bool,
    readers: Vec<Watcher>,
    writers: Vec<Watcher>,
}

/// The reading end of a pipe, which closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Mutex<Pipe>>);

/// The writing end of a pipe, which closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Mutex<Pipe>>);

/// A stream socket, which may be connected.
#[derive(Debug)]
pub(crate) struct Socket {
    network: Network,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    incoming: Reader,
    outgoing: Writer,
}

/// Creates a pipe. Returns its reading and its writing end.
pub(crate) fn pipe() -> (OwnedDescriptor, OwnedDescriptor) {
    let (reader, writer) = ends();
    let descriptor = |file| OwnedDescriptor::loopback(Arc::new(file));
    (descriptor(File::Reader(reader)), descriptor(File::Writer(writer)))
}

fn ends() -> (Reader, Writer) {
    let pipe = Arc::new(Mutex::new(Pipe::default()));
    (Reader(Arc::clone(&pipe)), Writer(pipe))
}

impl Connection {
    /// Returns both ends of a new connection. The first belongs to `one`.
    pub(super) fn pair(one: SocketAddr, other: SocketAddr) -> (Connection, Connection) {
        let ((to_one, from_other), (to_other, from_one)) = (ends(), ends());
        (
            Connection { peer: other, incoming: to_one, outgoing: from_one },
            Connection { peer: one, incoming: to_other, outgoing: from_other },
        )
    }
}

impl Socket {
    pub(super) fn new(network: Network, connection: Option<Connection>) -> Socket {
        Socket { network, connection: Mutex::new(connection.map(Arc::new)) }
    }

    fn connection(&self) -> io::Result<Arc<Connection>> {
        lock(&self.connection).clone().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn connect(&self, to: SocketAddr) -> io::Result<u32> {
        let mut connection = lock(&self.connection);
        if connection.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EISCONN));
        }
        *connection = Some(Arc::new(self.network.connect(to)?));
        Ok(0)
    }
}

/// Returns the error of a call that would wait.
pub(super) fn would_block<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// Tells all watchers that a side has changed.
pub(super) fn tell(watchers: &mut Vec<Watcher>) {
    watchers.drain(..).for_each(|watcher| watcher.tell());
}

impl Reader {
    /// Moves bytes to the buffer, or copies them if `peek` is set.
    fn read(&self, buffer: &mut [u8], peek: bool) -> io::Result<u32> {
        let mut pipe = lock(&self.0);
        if pipe.bytes.is_empty() && !buffer.is_empty() {
            return if pipe.has_no_writer { Ok(0) } else { would_block() };
        }
        let count = buffer.len().min(pipe.bytes.len());
        let (front, back) = pipe.bytes.as_slices();
        let from_front = count.min(front.len());
        buffer[..from_front].copy_from_slice(&front[..from_front]);
        buffer[from_front..count].copy_from_slice(&back[..count - from_front]);
        if !peek {
            pipe.bytes.drain(..count);
            tell(&mut pipe.writers);
        }
        Ok(count as u32)
    }

    fn is_ready(&self) -> bool {
        let pipe = lock(&self.0);
        !pipe.bytes.is_empty() || pipe.has_no_writer
    }
}

impl Writer {
    fn write(&self, bytes: &[u8]) -> io::Result<u32> {
        let mut pipe = lock(&self.0);
        if pipe.has_no_reader {
            return Err(io::Error::from_raw_os_error(libc::EPIPE));
        }
        let count = bytes.len().min(CAPACITY - pipe.bytes.len());
        if count == 0 && !bytes.is_empty() {
            return would_block();
        }
        pipe.bytes.extend(&bytes[..count]);
        tell(&mut pipe.readers);
        Ok(count as u32)
    }

    fn is_ready(&self) -> bool {
        let pipe = lock(&self.0);
        pipe.bytes.len() < CAPACITY || pipe.has_no_reader
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.has_no_reader = true;
        tell(&mut pipe.writers);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.has_no_writer = true;
        tell(&mut pipe.readers);
    }
}

impl File {
    /// Calls `f` with the watchers of this side of the file, if it has that side.
    fn with_watchers(&self, side: Interest, f: impl FnOnce(&mut Vec<Watcher>)) {
        let connection = match self {
            File::Socket(socket) => socket.connection().ok(),
            _ => None,
        };
        match (self, side, &connection) {
            (File::Reader(reader), Interest::Read, _) => f(&mut lock(&reader.0).readers),
            (File::Writer(writer), Interest::Write, _) => f(&mut lock(&writer.0).writers),
            (File::Socket(_), Interest::Read, Some(connection)) => {
                f(&mut lock(&connection.incoming.0).readers);
            }
            (File::Socket(_), Interest::Write, Some(connection)) => {
                f(&mut lock(&connection.outgoing.0).writers);
            }
            (File::Listener(listening), Interest::Read, _) => listening.with_watchers(f),
            // An attempt fails instead of waiting.
            _ => {}
        }
    }

    pub(super) fn watch(&self, side: Interest, watcher: Watcher) {
        self.with_watchers(side, |watchers| watchers.push(watcher));
    }

    pub(super) fn unwatch(&self, watcher: &Watcher) {
        let is_another =
            |other: &Watcher| other.op != watcher.op || !Arc::ptr_eq(&other.inbox, &watcher.inbox);
        for side in [Interest::Read, Interest::Write] {
            self.with_watchers(side, |watchers| watchers.retain(is_another));
        }
    }

    fn read(&self, buffer: &mut [u8], peek: bool) -> io::Result<u32> {
        match self {
            File::Reader(reader) => reader.read(buffer, peek),
            File::Socket(socket) => socket.connection()?.incoming.read(buffer, peek),
            _ => unsupported(),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<u32> {
        match self {
            File::Writer(writer) => writer.write(bytes),
            File::Socket(socket) => socket.connection()?.outgoing.write(bytes),
            _ => unsupported(),
        }
    }

    fn is_ready(&self, side: Interest) -> io::Result<bool> {
        Ok(match (self, side) {
            (File::Reader(reader), Interest::Read) => reader.is_ready(),
            (File::Writer(writer), Interest::Write) => writer.is_ready(),
            (File::Socket(socket), Interest::Read) => socket.connection()?.incoming.is_ready(),
            (File::Socket(socket), Interest::Write) => socket.connection()?.outgoing.is_ready(),
            (File::Listener(listening), Interest::Read) => listening.is_ready(),
            _ => return unsupported(),
        })
    }
}

/// Carries out an op without waiting, as the kernel would.
///
/// # Safety
/// Everything that the op points to is valid for this call, and no other code accesses it
/// meanwhile.
pub(in crate::driver) unsafe fn attempt(file: &File, op: &Op<'_>) -> io::Result<u32> {
    match *op {
        Op::Recv { buf, len, flags, .. } => {
            // SAFETY: the caller promises a buffer of this length. (It is only written to.)
            let buffer = unsafe { slice::from_raw_parts_mut(buf, len as usize) };
            file.read(buffer, flags & libc::MSG_PEEK != 0)
        }
        Op::Read { buf, len, manner, .. } => {
            debug_assert!(manner != Manner::Terminal, "no file is a terminal");
            // SAFETY: as above.
            file.read(unsafe { slice::from_raw_parts_mut(buf, len as usize) }, false)
        }
        Op::Send { buf, len, .. } | Op::Write { buf, len, .. } => {
            // SAFETY: the caller promises a buffer of this length.
            file.write(unsafe { slice::from_raw_parts(buf, len as usize) })
        }
        Op::RecvMsg { message, flags, .. } => {
            let peek = flags & libc::MSG_PEEK != 0;
            // SAFETY: the caller promises a message whose parts are all valid.
            let parts = unsafe { parts(message) };
            each_part(parts, |part| {
                let start = part.iov_base.cast::<u8>();
                // SAFETY: as above.
                file.read(unsafe { slice::from_raw_parts_mut(start, part.iov_len) }, peek)
            })
        }
        Op::SendMsg { message, .. } => {
            // SAFETY: the caller promises a message whose parts are all valid.
            let parts = unsafe { parts(message) };
            each_part(parts, |part| {
                let start = part.iov_base.cast::<u8>();
                // SAFETY: as above.
                file.write(unsafe { slice::from_raw_parts(start, part.iov_len) })
            })
        }
        Op::Accept { address, length, .. } => {
            let File::Listener(listening) = file else { return unsupported() };
            let (number, peer) = listening.accept()?;
            // SAFETY: the caller promises room for an address and for its length.
            unsafe { network::write_address(peer, address, length) };
            Ok(number)
        }
        Op::Connect { address, length, .. } => {
            let File::Socket(socket) = file else { return unsupported() };
            // SAFETY: the caller promises an address of this length.
            socket.connect(unsafe { network::read_address(address, length) }?)
        }
        Op::Readiness { interest, .. } => match file.is_ready(interest)? {
            true => Ok(u32::from(interest.events().cast_unsigned())),
            false => would_block(),
        },
        Op::File(_) => unsupported(),
    }
}

/// Returns the parts of a message.
///
/// # Safety
/// The message and its list of parts are valid.
unsafe fn parts<'a>(message: *const libc::msghdr) -> &'a [libc::iovec] {
    // SAFETY: the caller's promise.
    let message = unsafe { ptr::read(message) };
    if message.msg_iovlen == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

/// Transfers part by part, until one is not transferred as a whole.
fn each_part(
    parts: &[libc::iovec],
    mut transfer: impl FnMut(&libc::iovec) -> io::Result<u32>,
) -> io::Result<u32> {
    let mut done = 0;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        match transfer(part) {
            Ok(count) => {
                done += count;
                if (count as usize) < part.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
