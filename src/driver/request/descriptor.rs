//! Descriptors of any kind.

use crate::driver::{Descriptor, OwnedDescriptor};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

impl OwnedDescriptor {
    /// Returns the descriptor of an fd that was handed over by code outside the library.
    ///
    /// # Errors
    /// Fails if a simulated program hands over an fd that was not opened in its world. The fd is
    /// closed then.
    pub(crate) fn adopt(fd: OwnedFd) -> io::Result<OwnedDescriptor> {
        let known = super::perform::request(Adopt { fd: fd.as_fd() })?;
        Ok(known.unwrap_or_else(|| OwnedDescriptor::new(fd)))
    }

    /// Returns the descriptor of an fd that was handed over by code outside the library, for
    /// callers that cannot fail. Calls on an fd that would be refused fail instead.
    pub(crate) fn adopt_silently(fd: OwnedFd) -> OwnedDescriptor {
        let known = super::perform::request(Adopt { fd: fd.as_fd() }).unwrap_or(None);
        known.unwrap_or_else(|| OwnedDescriptor::new(fd))
    }
}

requests! {
    /// Returns the descriptor that this fd stands for, or `None` if it is an ordinary fd, which
    /// names its file by itself.
    Adopt<'a> { fd: BorrowedFd<'a> } -> Option<OwnedDescriptor> {
        let _ = fd;
        Ok(None)
    }

    /// Returns another descriptor of the same open file.
    Duplicate<'a> { fd: &'a OwnedDescriptor } -> OwnedDescriptor {
        fd.kernel()?.try_clone_to_owned().map(OwnedDescriptor::new)
    }

    /// Sets the mode of the open file, which holds for every process that shares it.
    SetNonblockingMode<'a> { fd: &'a OwnedDescriptor, nonblocking: bool } -> () {
        let fd = fd.kernel()?;
        let mut flags = fcntl_getfl(fd)?;
        if flags.contains(OFlags::NONBLOCK) != nonblocking {
            flags.set(OFlags::NONBLOCK, nonblocking);
            fcntl_setfl(fd, flags)?;
        }
        Ok(())
    }

    /// Returns whether reads and writes of the standard streams are awaited like others. Otherwise
    /// standard input is at its end, and writes are made by [`WriteOnce`].
    AwaitsStandardStreams {} -> bool {
        Ok(true)
    }

    /// Writes to a standard stream in one system call, which may block the thread. Returns the
    /// number of bytes written.
    WriteOnce<'a> { fd: &'a Descriptor, bytes: &'a [u8] } -> usize {
        Ok(rustix::io::write(fd.borrow(), bytes)?)
    }

    /// Returns which kind of file a standard stream is.
    KindOf<'a> { fd: &'a Descriptor } -> FileType {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(fd.borrow())?.st_mode))
    }
}
