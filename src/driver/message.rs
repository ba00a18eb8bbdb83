//! The header of a message for recvmsg(2) and sendmsg(2).
#![expect(unsafe_code, reason = "zeroes a structure of the kernel")]

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;

use super::address::RawAddress;
use super::op::clamp_buffers;

/// A header that points to borrowed buffers, and to a borrowed address if it has one.
pub(crate) struct Message<'a> {
    header: libc::msghdr,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Message<'a> {
    fn new(buffers: *mut libc::iovec, count: usize) -> Message<'a> {
        // SAFETY: a message header consists of plain integers and pointers, for which zero is a
        // valid value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = buffers;
        header.msg_iovlen = clamp_buffers(count) as _;
        Message { header, memory: PhantomData }
    }

    /// Returns a message to receive into these buffers. An `IoSliceMut` is documented to have the
    /// layout of an iovec.
    pub(crate) fn to_receive(buffers: &'a mut [IoSliceMut<'_>]) -> Message<'a> {
        Message::new(buffers.as_mut_ptr().cast(), buffers.len())
    }

    /// Returns a message to send from these slices. An `IoSlice` is documented to have the layout
    /// of an iovec. The kernel only reads through it.
    pub(crate) fn to_send(slices: &'a [IoSlice<'_>]) -> Message<'a> {
        Message::new(slices.as_ptr().cast_mut().cast(), slices.len())
    }

    /// Lets the kernel write the sender's address, or read the receiver's.
    pub(crate) fn with_address(mut self, address: &'a mut RawAddress) -> Message<'a> {
        self.header.msg_name = (&raw mut address.storage).cast();
        self.header.msg_namelen = address.length;
        self
    }

    /// Returns the length of the address that the kernel has written.
    pub(crate) fn address_length(&self) -> libc::socklen_t {
        self.header.msg_namelen
    }

    pub(super) fn header(&self) -> *const libc::msghdr {
        &raw const self.header
    }

    pub(super) fn header_mut(&mut self) -> *mut libc::msghdr {
        &raw mut self.header
    }
}
