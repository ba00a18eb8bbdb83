//! Ops on memory that is borrowed as long as they exist.
//!
//! An [`Op`] is plain data, with pointers for which the code that makes it answers (S3). A
//! [`LentOp`] is an op that was made from references. It keeps their borrows, so a function that
//! takes it, or a reference to it, may carry the op out until the function returns.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::address::RawAddress;
use super::descriptor::Descriptor;
use super::message::Message;
use super::op::{Backing, FileCall, FileOp, Interest, Manner, Op, clamp_buffers, clamp_length};

/// An op with the borrows of its descriptor and its memory: see the module.
#[derive(Debug)]
pub(crate) struct LentOp<'a> {
    op: Op<'a>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> LentOp<'a> {
    #[inline]
    fn new(op: Op<'a>) -> LentOp<'a> {
        LentOp { op, memory: PhantomData }
    }

    /// Returns the op, whose pointers are valid as long as the borrow of `self`.
    #[inline]
    pub(crate) fn op(&self) -> &Op<'a> {
        &self.op
    }

    #[inline]
    pub(crate) fn receive(
        fd: &'a Descriptor,
        buffer: &'a mut [u8],
        flags: i32,
        stream: bool,
    ) -> LentOp<'a> {
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        LentOp::new(Op::Recv { fd, buf, len, flags, stream })
    }

    /// Reads from a stream to memory that need not be initialized. The kernel only writes to it.
    #[inline]
    pub(crate) fn receive_uninit(
        fd: &'a Descriptor,
        buffer: &'a mut [MaybeUninit<u8>],
    ) -> LentOp<'a> {
        let (buf, len) = (buffer.as_mut_ptr().cast(), clamp_length(buffer.len()));
        LentOp::new(Op::Recv { fd, buf, len, flags: 0, stream: true })
    }

    #[inline]
    pub(crate) fn send(fd: &'a Descriptor, bytes: &'a [u8], flags: i32) -> LentOp<'a> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        LentOp::new(Op::Send { fd, buf, len, flags })
    }

    pub(crate) fn receive_message(
        fd: &'a Descriptor,
        message: &'a mut Message<'_>,
        flags: i32,
    ) -> LentOp<'a> {
        LentOp::new(Op::RecvMsg { fd, message: message.header_mut(), flags })
    }

    pub(crate) fn send_message(
        fd: &'a Descriptor,
        message: &'a Message<'_>,
        flags: i32,
    ) -> LentOp<'a> {
        LentOp::new(Op::SendMsg { fd, message: message.header(), flags })
    }

    pub(crate) fn accept(
        fd: &'a Descriptor,
        address: &'a mut RawAddress,
        shared: bool,
    ) -> LentOp<'a> {
        let (address, length) = (&raw mut address.storage, &raw mut address.length);
        LentOp::new(Op::Accept { fd, address, length, shared })
    }

    pub(crate) fn connect(fd: &'a Descriptor, address: &'a RawAddress) -> LentOp<'a> {
        let (address, length) = (&raw const address.storage, address.length);
        LentOp::new(Op::Connect { fd, address, length })
    }

    #[inline]
    pub(crate) fn read(fd: &'a Descriptor, buffer: &'a mut [u8], manner: Manner) -> LentOp<'a> {
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        LentOp::new(Op::Read { fd, buf, len, manner })
    }

    #[inline]
    pub(crate) fn write(fd: &'a Descriptor, bytes: &'a [u8], manner: Manner) -> LentOp<'a> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        LentOp::new(Op::Write { fd, buf, len, manner })
    }

    pub(crate) fn read_vectored(
        fd: &'a Descriptor,
        buffers: &'a mut [IoSliceMut<'_>],
        manner: Manner,
    ) -> LentOp<'a> {
        let (buffers, count) = parts_mut(buffers);
        LentOp::new(Op::ReadVectored { fd, buffers, count, manner })
    }

    pub(crate) fn write_vectored(
        fd: &'a Descriptor,
        slices: &'a [IoSlice<'_>],
        manner: Manner,
    ) -> LentOp<'a> {
        let (buffers, count) = parts(slices);
        LentOp::new(Op::WriteVectored { fd, buffers, count, manner })
    }

    pub(crate) fn readiness(fd: &'a Descriptor, interest: Interest) -> LentOp<'a> {
        LentOp::new(Op::Readiness { fd, interest })
    }

    /// Makes a call on a file: see [`FileOp`].
    pub(crate) fn of_file(
        fd: &'a Descriptor,
        call: LentCall<'a>,
        offset: u64,
        backing: Backing,
        at_once: u32,
    ) -> LentOp<'a> {
        LentOp::new(Op::File(FileOp { fd, call: call.call, offset, backing, at_once }))
    }
}

/// A call on a file, with the borrow of its memory.
#[derive(Debug)]
pub(crate) struct LentCall<'a> {
    call: FileCall,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> LentCall<'a> {
    #[inline]
    fn new(call: FileCall) -> LentCall<'a> {
        LentCall { call, memory: PhantomData }
    }

    pub(crate) fn read(buffer: &'a mut [u8]) -> LentCall<'a> {
        LentCall::new(FileCall::Read { buf: buffer.as_mut_ptr(), len: clamp_length(buffer.len()) })
    }

    /// Reads into memory that need not be initialized.
    pub(crate) fn read_into(room: &'a mut [MaybeUninit<u8>]) -> LentCall<'a> {
        let (buf, len) = (room.as_mut_ptr().cast(), clamp_length(room.len()));
        LentCall::new(FileCall::Read { buf, len })
    }

    pub(crate) fn write(bytes: &'a [u8]) -> LentCall<'a> {
        LentCall::new(FileCall::Write { buf: bytes.as_ptr(), len: clamp_length(bytes.len()) })
    }

    pub(crate) fn read_vectored(buffers: &'a mut [IoSliceMut<'_>]) -> LentCall<'a> {
        let (buffers, count) = parts_mut(buffers);
        LentCall::new(FileCall::ReadVectored { buffers, count })
    }

    pub(crate) fn write_vectored(slices: &'a [IoSlice<'_>]) -> LentCall<'a> {
        let (buffers, count) = parts(slices);
        LentCall::new(FileCall::WriteVectored { buffers, count })
    }

    pub(crate) fn sync(data_only: bool) -> LentCall<'a> {
        LentCall::new(FileCall::Sync { data_only })
    }
}

/// Returns buffers as the kernel takes them: an `IoSliceMut` is documented to have the layout of an
/// iovec.
fn parts_mut(buffers: &mut [IoSliceMut<'_>]) -> (*const libc::iovec, u32) {
    (buffers.as_mut_ptr().cast_const().cast(), clamp_buffers(buffers.len()))
}

/// Returns slices as the kernel takes them: an `IoSlice` is documented to have the layout of an
/// iovec. The kernel only reads through it.
fn parts(slices: &[IoSlice<'_>]) -> (*const libc::iovec, u32) {
    (slices.as_ptr().cast(), clamp_buffers(slices.len()))
}
