//! The socket ops that wait.
//!
//! The ops borrow the caller's buffers and the fd. [`perform`] returns only after the kernel has
//! finished with both (S3).
#![expect(unsafe_code, reason = "builds ops from borrowed buffers")]

use super::Socket;
use crate::driver::{
    Address, Interest, Op, OwnedDescriptor, RawAddress, clamp_buffers, clamp_length,
    without_waiting,
};
use crate::net::settings::Direction;
use crate::sched::io::{perform, perform_before};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Instant;

impl Socket {
    /// Reads from a stream.
    pub(in crate::net) fn receive(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let op = Op::Recv { fd: self.fd.name(), buf, len, flags, stream: true };
        // SAFETY: S3: the buffer is borrowed mutably, and the fd by `self`, until this returns.
        unsafe { self.transfer(op, Direction::Read) }
    }

    /// Reads from a stream without waiting, whatever the settings say. Writes only what it returns as
    /// the number of bytes.
    pub(in crate::net) fn receive_now(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        #[cfg(feature = "sim")]
        if crate::base::simulated::is_simulated() {
            // What stands for the kernel there takes the buffer as initialized bytes.
            buffer.fill(MaybeUninit::new(0));
        }
        let (buf, len) = (buffer.as_mut_ptr().cast(), clamp_length(buffer.len()));
        let op = Op::Recv { fd: self.fd.name(), buf, len, flags: 0, stream: true };
        // SAFETY: the buffer is borrowed mutably, and the fd by `self`, until this returns. The
        // kernel only writes to the buffer.
        unsafe { without_waiting(&op) }.map(|count| count as usize)
    }

    pub(in crate::net) fn receive_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut message = message(buffers.as_mut_ptr().cast(), buffers.len());
        let op = Op::RecvMsg { fd: self.fd.name(), message: &raw mut message, flags: 0 };
        // SAFETY: S3, as in `receive`. The message lives on this stack until this returns, and an
        // `IoSliceMut` has the layout of an iovec by its documentation.
        unsafe { self.transfer(op, Direction::Read) }
    }

    /// Receives a datagram. With an empty buffer it still takes one, and discards its content.
    pub(in crate::net) fn receive_datagram(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<usize> {
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let op = Op::Recv { fd: self.fd.name(), buf, len, flags, stream: false };
        // SAFETY: S3: the buffer is borrowed mutably, and the fd by `self`, until this returns.
        unsafe { self.transfer(op, Direction::Read) }
    }

    /// Receives a datagram and returns its sender's address as well.
    pub(in crate::net) fn receive_from<A: Address>(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<(usize, A)> {
        let mut address = RawAddress::room();
        let mut buffers = [IoSliceMut::new(buffer)];
        let mut message = message(buffers.as_mut_ptr().cast(), 1);
        message.msg_name = (&raw mut address.storage).cast();
        message.msg_namelen = address.length;
        let op = Op::RecvMsg { fd: self.fd.name(), message: &raw mut message, flags };
        // SAFETY: S3, as in `receive_vectored`. The address lives on this stack, too, and has as
        // much space as `msg_namelen` says.
        let count = unsafe { self.transfer(op, Direction::Read)? };
        address.length = message.msg_namelen;
        Ok((count, A::from_raw(&address)?))
    }

    pub(in crate::net) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = Op::Send { fd: self.fd.name(), buf, len, flags: libc::MSG_NOSIGNAL };
        // SAFETY: S3: the bytes are borrowed, and the fd by `self`, until this returns. The kernel
        // only reads them.
        unsafe { self.transfer(op, Direction::Write) }
    }

    pub(in crate::net) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let message = message(buffers.as_ptr().cast_mut().cast(), buffers.len());
        let op = Op::SendMsg {
            fd: self.fd.name(),
            message: &raw const message,
            flags: libc::MSG_NOSIGNAL,
        };
        // SAFETY: S3, as in `send`. The message lives on this stack until this returns, an
        // `IoSlice` has the layout of an iovec by its documentation, and the kernel only reads
        // through it.
        unsafe { self.transfer(op, Direction::Write) }
    }

    /// Sends a datagram to the given address.
    pub(in crate::net) fn send_to<A: Address>(&self, bytes: &[u8], to: &A) -> io::Result<usize> {
        let mut address = to.to_raw();
        let buffers = [IoSlice::new(bytes)];
        let mut message = message(buffers.as_ptr().cast_mut().cast(), 1);
        message.msg_name = (&raw mut address.storage).cast();
        message.msg_namelen = address.length;
        let op = Op::SendMsg {
            fd: self.fd.name(),
            message: &raw const message,
            flags: libc::MSG_NOSIGNAL,
        };
        // SAFETY: S3, as in `send_vectored`. The address lives on this stack, too.
        unsafe { self.transfer(op, Direction::Write) }
    }

    /// Takes the next connection from the queue.
    pub(in crate::net) fn accept<A: Address>(&self) -> io::Result<(Socket, A)> {
        let mut address = RawAddress::room();
        let (storage, length) = (&raw mut address.storage, &raw mut address.length);
        let accepting = self.settings.begin_to_accept();
        let shared = accepting.has_company();
        let op = Op::Accept { fd: self.fd.name(), address: storage, length, shared };
        // SAFETY: S3: the address lives on this stack until this returns, and the fd is borrowed by
        // `self`.
        let result = unsafe { self.transfer(op, Direction::Read)? };
        // SAFETY: this is the result of an accept on this listener.
        let fd = unsafe { OwnedDescriptor::accepted(self.fd.name(), result as u32) };
        let peer = A::from_raw(&address)?;
        Ok((Socket::of(fd, peer.family()), peer))
    }

    /// Connects. `set_nonblocking` does not affect this call: like std, it has no form that begins
    /// a connect and reports the outcome later.
    pub(in crate::net) fn connect<A: Address>(
        &self,
        to: &A,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let address = to.to_raw();
        let (storage, length) = (&raw const address.storage, address.length);
        let op = Op::Connect { fd: self.fd.name(), address: storage, length };
        // SAFETY: S3: the address lives on this stack until this returns, and the fd is borrowed by
        // `self`.
        unsafe { perform_before(op, deadline)? };
        Ok(())
    }

    /// Waits until a transfer in this direction would not have to wait, whatever the settings say.
    pub(in crate::net) fn wait_ready(&self, direction: Direction) -> io::Result<()> {
        let interest = match direction {
            Direction::Read => Interest::Read,
            Direction::Write => Interest::Write,
        };
        let op = Op::Readiness { fd: self.fd.name(), interest };
        // SAFETY: S3: the fd is borrowed by `self` until this returns; no memory is involved.
        unsafe { perform(op) }.map(drop)
    }

    /// Returns whether a read would return at once, be it with an error.
    pub(in crate::net) fn is_readable(&self) -> bool {
        let op = Op::Readiness { fd: self.fd.name(), interest: Interest::Read };
        // SAFETY: S3: the op does not wait, and no memory is involved.
        let result = unsafe { without_waiting(&op) };
        !result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Performs an op that transfers data: tries once in non-blocking mode, otherwise waits within
    /// the time limit.
    ///
    /// # Safety
    /// The caller must uphold the contract of [`perform`].
    unsafe fn transfer(&self, op: Op<'_>, direction: Direction) -> io::Result<usize> {
        let result = if self.settings.is_nonblocking() {
            // SAFETY: the caller upholds the same contract.
            unsafe { without_waiting(&op) }
        } else {
            let deadline = self.settings.deadline(direction);
            match direction {
                // SAFETY: the caller upholds the same contract.
                Direction::Write if self.is_local => unsafe { self.send_unless_shut(op, deadline) },
                // SAFETY: the caller upholds the same contract.
                _ => unsafe { perform_before(op, deadline) },
            }
        };
        result.map(|count| count as usize)
    }
}

/// Returns a message header for these buffers, without an address.
fn message(buffers: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a message header consists of plain integers and pointers, for which zero is a valid
    // value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = buffers;
    message.msg_iovlen = clamp_buffers(count) as usize;
    message
}
