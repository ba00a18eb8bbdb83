//! Conversion between std's addresses and the kernel's.
//!
//! `internet` and `local` know the structures of their families. This module provides the storage
//! that holds any of them, for ops and requests.
#![expect(unsafe_code, reason = "reads and writes the kernel's address structures")]

mod internet;
mod local;

use rustix::net::{AddressFamily, SocketAddrAny};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A system call that returns one of a socket's two addresses: getsockname(2) or getpeername(2).
type Asks = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// One of std's address types.
pub(crate) trait Address: Sized {
    fn family(&self) -> AddressFamily;

    fn to_raw(&self) -> RawAddress;

    /// # Errors
    /// Fails if the kernel has returned an address of another family.
    fn from_raw(raw: &RawAddress) -> io::Result<Self>;
}

/// An address in the kernel's layout, or space for one. Bytes past `length` are zero.
pub(crate) struct RawAddress {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl RawAddress {
    /// Returns space for any address.
    pub(crate) fn room() -> RawAddress {
        RawAddress {
            // SAFETY: an address structure consists of plain integers, for which zero is a valid
            // value.
            storage: unsafe { std::mem::zeroed() },
            length: length_of::<libc::sockaddr_storage>(),
        }
    }

    /// Returns the address that a socket is bound to.
    pub(crate) fn of_socket(fd: BorrowedFd<'_>) -> io::Result<RawAddress> {
        RawAddress::read_by(fd, libc::getsockname)
    }

    /// Returns the address that a socket is connected to.
    pub(crate) fn of_peer(fd: BorrowedFd<'_>) -> io::Result<RawAddress> {
        RawAddress::read_by(fd, libc::getpeername)
    }

    fn read_by(fd: BorrowedFd<'_>, asks: Asks) -> io::Result<RawAddress> {
        let mut raw = RawAddress::room();
        let storage = (&raw mut raw.storage).cast();
        // SAFETY: the fd is open, and the storage is as long as the length says. Both outlive the
        // call.
        match unsafe { asks(fd.as_raw_fd(), storage, &raw mut raw.length) } {
            0 => Ok(raw),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Converts the address to the type that rustix's calls take.
    pub(crate) fn to_any(&self) -> SocketAddrAny {
        // SAFETY: the storage is initialized, and holds an address of this length.
        unsafe { SocketAddrAny::read((&raw const self.storage).cast(), self.length) }
    }

    fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// Creates a raw address from a structure of which the first `length` bytes count.
    fn holding<T: Structure>(address: T, length: libc::socklen_t) -> RawAddress {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        const { assert!(align_of::<T>() <= align_of::<libc::sockaddr_storage>()) };
        let mut raw = RawAddress::room();
        // SAFETY: the storage is large enough and aligned, as asserted above, and not shared.
        unsafe { (&raw mut raw.storage).cast::<T>().write(address) };
        raw.length = length;
        raw
    }

    /// Reads the storage as one of the structures.
    fn as_structure<T: Structure>(&self) -> T {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        const { assert!(align_of::<T>() <= align_of::<libc::sockaddr_storage>()) };
        // SAFETY: the storage is large enough, aligned and initialized. A structure consists of
        // plain integers, for which any bits are valid.
        unsafe { (&raw const self.storage).cast::<T>().read() }
    }
}

/// The kernel's address structures: integers without padding, valid for any bits.
trait Structure: Copy {}
impl Structure for libc::sockaddr_in {}
impl Structure for libc::sockaddr_in6 {}
impl Structure for libc::sockaddr_un {}

fn length_of<T>() -> libc::socklen_t {
    const { assert!(size_of::<T>() <= 128) };
    size_of::<T>() as libc::socklen_t
}

fn family(family: i32) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).expect("address families are small numbers")
}

fn foreign(family: i32, wanted: &str) -> io::Error {
    let text = format!("the socket's address is of family {family}, not {wanted}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
