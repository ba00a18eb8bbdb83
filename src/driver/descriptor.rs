//! The fds that ops name.
//!
//! The kernel reuses the number of a closed fd for the next fd that is opened, so a number alone
//! does not say which file is meant. Some drivers remember something about an fd, for instance that
//! it is registered for readiness. They would apply it to an unrelated file. So each use of a
//! number has a generation of its own.

use crate::base::sync::StaticU64;
use crate::base::sync::atomic::Ordering;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// An fd, and which use of its number this is. Plain data: the code that makes an op of it keeps
/// the fd open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) fd: RawFd,
    pub(super) generation: u64,
}

/// An owned fd that ops can name.
#[derive(Debug)]
pub(crate) struct OwnedDescriptor {
    fd: OwnedFd,
    generation: u64,
}

impl OwnedDescriptor {
    pub(crate) fn new(fd: OwnedFd) -> OwnedDescriptor {
        OwnedDescriptor { fd, generation: next_generation() }
    }

    /// Returns the name for ops.
    pub(crate) fn name(&self) -> Descriptor {
        Descriptor { fd: self.fd.as_raw_fd(), generation: self.generation }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for OwnedDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Descriptor {
    /// Returns a name for an fd that other code keeps open, for the life of the process or of a
    /// test. Called once for each fd.
    pub(crate) fn of(fd: &impl AsRawFd) -> Descriptor {
        Descriptor { fd: fd.as_raw_fd(), generation: next_generation() }
    }
}

fn next_generation() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
