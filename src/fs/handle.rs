//! Open files and the calls that move bytes.
//!
//! The ops borrow the caller's buffers and the fd. Each call returns only after the kernel has
//! finished with both (S3).
//!
//! # Transfers
//! 1. Files in memory ([`MayBlock::Never`]) are read and written by plain system calls of at most
//!    [`PIECE`] bytes, so that other tasks run in between.
//! 2. Other regular files: data in the page cache is moved in the same way, with `RWF_NOWAIT`. The
//!    rest is an op of the driver, or a call on a thread that may block. Each moves at most
//!    [`STRETCH`] bytes, so that a cancelled task waits for no more than that.
//! 3. A file that is not regular, such as a pipe, waits for its other end: by an op of the driver,
//!    or for readiness. Data that is available at once is moved in pieces, too.
//!
//! A transfer ends early at the end of the file, at an error, or when the task is cancelled. It
//! then returns the number of bytes moved so far. If no byte was moved, it returns the error.
#![expect(unsafe_code, reason = "a vector's length after a read into its room")]

use super::facts::{FileFacts, MayBlock};
use super::in_task;
use crate::driver::request::{Duplicate, FileKind, KindAndSize, SetLength};
use crate::driver::{
    Backing, CURSOR, LentCall, LentOp, OwnedDescriptor, clamp_buffers, request, try_now,
};
use crate::sched::io::perform;
use crate::task::Cancelled;
use crate::{sched, task};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// The number of bytes copied at once: about ten to a hundred microseconds of work.
pub(super) const PIECE: usize = 256 << 10;
/// A piece counts as that many operations. So a transfer lets other tasks run after 2 MiB, as other
/// operations do after a similar time. A yield after each piece is too much: if the others compute,
/// each piece waits for one of them.
const PIECE_OPERATIONS: u32 = task::BUDGET / 8;
/// The number of bytes that one op moves: some milliseconds of work for a fast device.
const STRETCH: usize = 8 << 20;
/// Truncating a file by more than this frees so much memory that a worker must not do it itself.
pub(super) const LARGE: u64 = 16 << 20;
/// The smallest buffer for a read of unknown length.
const ROOM: usize = 8 << 10;

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    fd: OwnedDescriptor,
    /// As of its opening.
    known: Option<FileFacts>,
    /// Else, what has been found since.
    found: OnceLock<FileFacts>,
}

impl Handle {
    pub(super) fn new(fd: OwnedDescriptor, facts: Option<FileFacts>) -> Handle {
        Handle { fd, known: facts, found: OnceLock::new() }
    }

    /// Returns the file's descriptor.
    pub(super) fn fd(&self) -> &OwnedDescriptor {
        &self.fd
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd.into_fd()
    }

    pub(super) fn duplicate(&self) -> io::Result<Handle> {
        let known = self.known.or(self.found.get().copied());
        Ok(Handle::new(request(Duplicate { fd: &self.fd })?, known))
    }

    /// Where the file lives; its size may be old.
    pub(super) fn facts(&self) -> io::Result<FileFacts> {
        if let Some(facts) = self.known.or_else(|| self.found.get().copied()) {
            return Ok(facts);
        }
        let facts = FileFacts::of(&self.fd)?;
        Ok(*self.found.get_or_init(|| facts))
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.transfer(Memory::Buffer(buffer), offset)
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.transfer(Memory::Bytes(bytes), offset)
    }

    pub(super) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = clamp_buffers(buffers.len()) as usize;
        let length = buffers[..count].iter().map(|buffer| buffer.len()).sum();
        self.in_one_call(LentCall::read_vectored(buffers), length)
    }

    pub(super) fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = clamp_buffers(buffers.len()) as usize;
        let length = buffers[..count].iter().map(|buffer| buffer.len()).sum();
        self.in_one_call(LentCall::write_vectored(buffers), length)
    }

    /// Appends everything from the cursor to the end. `hint` is the probable number of bytes.
    pub(super) fn read_to_end(&self, bytes: &mut Vec<u8>, hint: usize) -> io::Result<usize> {
        let before = bytes.len();
        // One byte more than needed, so that the end shows in the same read.
        let room = if hint == 0 { ROOM } else { hint.saturating_add(1) };
        bytes.try_reserve_exact(room)?;
        loop {
            let free = bytes.spare_capacity_mut();
            let room = free.len();
            let count = self.transfer(Memory::Room(free), CURSOR)?;
            // SAFETY: the kernel has written `count` bytes.
            unsafe { bytes.set_len(bytes.len() + count) };
            let read = bytes.len() - before;
            // Files that do not know their size, such as those of procfs, may return less than they
            // have.
            if count == 0 || (count < room && read == hint) {
                return Ok(read);
            }
            if bytes.len() == bytes.capacity() {
                bytes.try_reserve(ROOM)?;
            }
        }
    }

    /// Waits until the device has written everything.
    pub(super) fn sync(&self, data_only: bool) -> io::Result<()> {
        self.in_one_call_that(LentCall::sync(data_only), 0, true).map(drop)
    }

    pub(super) fn set_len(&self, size: u64) -> io::Result<()> {
        let gives_back_much = || {
            request(KindAndSize { file: &self.fd })
                .is_ok_and(|(_, before)| before.saturating_sub(size) > LARGE)
        };
        self.change_unless(gives_back_much, |file| request(SetLength { file, size }))
    }

    /// Changes the file: at once if it lives in memory, otherwise on a thread that may block.
    pub(super) fn change<T: Send>(
        &self,
        call: impl FnOnce(&OwnedDescriptor) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        self.change_unless(|| false, call)
    }

    /// Changes the file as [`Handle::change`] does. If `takes_long` returns true, the call is made
    /// on a thread that may block even for a file in memory.
    fn change_unless<T: Send>(
        &self,
        takes_long: impl FnOnce() -> bool,
        call: impl FnOnce(&OwnedDescriptor) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        task::begin_wait()?;
        if !in_task() || (self.facts()?.may_block == MayBlock::Never && !takes_long()) {
            return call(&self.fd);
        }
        sched::unblock(|| call(&self.fd))
    }

    /// Makes a call that the kernel can answer from memory, except for files that live elsewhere.
    pub(super) fn query<T: Send>(
        &self,
        call: impl FnOnce(&OwnedDescriptor) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        task::begin_wait()?;
        self.query_always(call)
    }

    /// Makes the call as [`Handle::query`] does, but is not a cancellation point.
    pub(super) fn query_always<T: Send>(
        &self,
        call: impl FnOnce(&OwnedDescriptor) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if in_task() && self.facts()?.may_block == MayBlock::Always {
            return sched::unblock(|| call(&self.fd));
        }
        call(&self.fd)
    }

    /// Transfers bytes as described in the module.
    fn transfer(&self, mut memory: Memory<'_>, offset: u64) -> io::Result<usize> {
        let (fd, length) = (self.fd.name(), memory.len());
        if !in_task() {
            let call = memory.part(0, length);
            let op = LentOp::of_file(fd, call, offset, Backing::Device, 0);
            return perform(&op).map(|count| count as usize);
        }
        let facts = self.facts()?;
        let backing = backing(facts);
        let mut done = 0;
        loop {
            let at = if offset == CURSOR { CURSOR } else { offset + done as u64 };
            let left = length - done;
            let piece = left.min(PIECE);
            let most = match backing {
                Backing::Memory => piece,
                Backing::Device | Backing::Inherited => left.min(STRETCH),
                Backing::Stream { .. } => left,
            };
            let call = memory.part(done, most);
            // An empty transfer is attempted as well.
            let at_once = piece.max(1) as u32;
            let op = LentOp::of_file(fd, call, at, backing, at_once);
            let outcome = match backing {
                // After the first part, only what is available at once is moved.
                Backing::Stream { .. } if done > 0 => try_now(&op),
                // What has been moved is returned, and the next wait answers a request.
                _ if done > 0 => task::keeping_answers(|| perform(&op)),
                _ => perform(&op),
            };
            let count = match outcome {
                Ok(count) => count as usize,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            };
            done += count;
            // On a device, less than was asked for does not mean that the file ends. A device that
            // generates its data, such as `/dev/zero`, has no end.
            let ended = count == 0 || (count < piece && backing != Backing::Device);
            if ended || done == length {
                return Ok(done);
            }
            if count >= piece && task::keeping_answers(let_others_run).is_err() {
                return Ok(done);
            }
        }
    }

    /// Transfers in one call: at once if the length is small.
    fn in_one_call(&self, call: LentCall<'_>, length: usize) -> io::Result<usize> {
        self.in_one_call_that(call, length, false)
    }

    /// Makes one call, which `syncs` or transfers `length` bytes.
    fn in_one_call_that(
        &self,
        call: LentCall<'_>,
        length: usize,
        syncs: bool,
    ) -> io::Result<usize> {
        let facts = self.facts()?;
        let (mut backing, small) = (backing(facts), length <= PIECE);
        if !in_task()
            || (syncs && backing != Backing::Memory)
            || (backing == Backing::Memory && !small)
        {
            backing = Backing::Device;
        }
        let at_once = match backing {
            Backing::Device if !in_task() || syncs || !small => 0,
            // A call with no bytes is attempted as well.
            _ => PIECE as u32,
        };
        let op = LentOp::of_file(self.fd.name(), call, CURSOR, backing, at_once);
        perform(&op).map(|count| count as usize)
    }
}

/// What a transfer moves bytes from or to.
enum Memory<'a> {
    Buffer(&'a mut [u8]),
    Room(&'a mut [MaybeUninit<u8>]),
    Bytes(&'a [u8]),
}

impl Memory<'_> {
    fn len(&self) -> usize {
        match self {
            Memory::Buffer(buffer) => buffer.len(),
            Memory::Room(room) => room.len(),
            Memory::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns the call for the part of this length, or of as much of it as one call can move.
    fn part(&mut self, start: usize, length: usize) -> LentCall<'_> {
        let part = start..start + length;
        match self {
            Memory::Buffer(buffer) => LentCall::read(&mut buffer[part]),
            Memory::Room(room) => LentCall::read_into(&mut room[part]),
            Memory::Bytes(bytes) => LentCall::write(&bytes[part]),
        }
    }
}

/// Returns what a call on the file may have to wait for.
fn backing(facts: FileFacts) -> Backing {
    if !facts.is_regular() {
        // Files of other kinds may always be reported as ready.
        Backing::Stream { tells: matches!(facts.kind, FileKind::Fifo | FileKind::Socket) }
    } else if facts.may_block == MayBlock::Never {
        Backing::Memory
    } else {
        Backing::Device
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Called between two pieces. Lets other tasks run if the running task has had its turn. Fails if
/// it is cancelled.
fn let_others_run() -> Result<(), Cancelled> {
    task::spend_budget_of(PIECE_OPERATIONS);
    task::checkpoint()
}
