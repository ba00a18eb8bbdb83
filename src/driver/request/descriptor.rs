//! Descriptors of any kind.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::os::fd::{BorrowedFd, OwnedFd};

requests! {
    /// Returns another fd for the same open file.
    Duplicate<'a> { fd: BorrowedFd<'a> } -> OwnedFd {
        fd.try_clone_to_owned()
    }

    /// Sets the mode of the open file, which holds for every process that shares it.
    SetNonblockingMode<'a> { fd: BorrowedFd<'a>, nonblocking: bool } -> () {
        let mut flags = fcntl_getfl(fd)?;
        if flags.contains(OFlags::NONBLOCK) != nonblocking {
            flags.set(OFlags::NONBLOCK, nonblocking);
            fcntl_setfl(fd, flags)?;
        }
        Ok(())
    }
}
