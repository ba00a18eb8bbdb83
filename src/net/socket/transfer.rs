//! The socket ops that wait.
//!
//! The ops borrow the caller's buffers and the fd. [`perform_before`] returns only after the kernel
//! has finished with both (S3).
#![expect(unsafe_code, reason = "takes the fd that an accept has returned")]

use super::Socket;
use crate::driver::{Address, Interest, LentOp, Message, OwnedDescriptor, RawAddress, try_now};
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
        let op = LentOp::receive(self.fd.name(), buffer, flags, true);
        self.transfer(&op, Direction::Read)
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
        let op = LentOp::receive_uninit(self.fd.name(), buffer);
        try_now(&op).map(|count| count as usize)
    }

    pub(in crate::net) fn receive_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut message = Message::to_receive(buffers);
        let op = LentOp::receive_message(self.fd.name(), &mut message, 0);
        self.transfer(&op, Direction::Read)
    }

    /// Receives a datagram. With an empty buffer it still takes one, and discards its content.
    pub(in crate::net) fn receive_datagram(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<usize> {
        let op = LentOp::receive(self.fd.name(), buffer, flags, false);
        self.transfer(&op, Direction::Read)
    }

    /// Receives a datagram and returns its sender's address as well.
    pub(in crate::net) fn receive_from<A: Address>(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<(usize, A)> {
        let mut address = RawAddress::room();
        let mut buffers = [IoSliceMut::new(buffer)];
        let mut message = Message::to_receive(&mut buffers).with_address(&mut address);
        let op = LentOp::receive_message(self.fd.name(), &mut message, flags);
        let count = self.transfer(&op, Direction::Read)?;
        address.length = message.address_length();
        Ok((count, A::from_raw(&address)?))
    }

    pub(in crate::net) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let op = LentOp::send(self.fd.name(), bytes, libc::MSG_NOSIGNAL);
        self.transfer(&op, Direction::Write)
    }

    pub(in crate::net) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let message = Message::to_send(buffers);
        let op = LentOp::send_message(self.fd.name(), &message, libc::MSG_NOSIGNAL);
        self.transfer(&op, Direction::Write)
    }

    /// Sends a datagram to the given address.
    pub(in crate::net) fn send_to<A: Address>(&self, bytes: &[u8], to: &A) -> io::Result<usize> {
        let mut address = to.to_raw();
        let buffers = [IoSlice::new(bytes)];
        let message = Message::to_send(&buffers).with_address(&mut address);
        let op = LentOp::send_message(self.fd.name(), &message, libc::MSG_NOSIGNAL);
        self.transfer(&op, Direction::Write)
    }

    /// Takes the next connection from the queue.
    pub(in crate::net) fn accept<A: Address>(&self) -> io::Result<(Socket, A)> {
        let mut address = RawAddress::room();
        let accepting = self.settings.begin_to_accept();
        let shared = accepting.has_company();
        let op = LentOp::accept(self.fd.name(), &mut address, shared);
        let result = self.transfer(&op, Direction::Read)?;
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
        perform_before(&LentOp::connect(self.fd.name(), &address), deadline)?;
        Ok(())
    }

    /// Waits until a transfer in this direction would not have to wait, whatever the settings say.
    pub(in crate::net) fn wait_ready(&self, direction: Direction) -> io::Result<()> {
        let interest = match direction {
            Direction::Read => Interest::Read,
            Direction::Write => Interest::Write,
        };
        perform(&LentOp::readiness(self.fd.name(), interest)).map(drop)
    }

    /// Returns whether a read would return at once, be it with an error.
    pub(in crate::net) fn is_readable(&self) -> bool {
        let result = try_now(&LentOp::readiness(self.fd.name(), Interest::Read));
        !result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Performs an op that transfers data: tries once in non-blocking mode, otherwise waits within
    /// the time limit.
    fn transfer(&self, op: &LentOp<'_>, direction: Direction) -> io::Result<usize> {
        let result = if self.settings.is_nonblocking() {
            try_now(op)
        } else {
            let deadline = self.settings.deadline(direction);
            match direction {
                Direction::Write if self.is_local => self.send_unless_shut(op, deadline),
                _ => perform_before(op, deadline),
            }
        };
        result.map(|count| count as usize)
    }
}
