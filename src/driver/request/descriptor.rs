//! Descriptors of any kind.

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl};
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

    /// Writes in one system call, which may block the thread. Returns the number of bytes written.
    WriteOnce<'a> { fd: BorrowedFd<'a>, bytes: &'a [u8] } -> usize {
        Ok(rustix::io::write(fd, bytes)?)
    }

    /// Returns which kind of file an fd refers to.
    KindOf<'a> { fd: BorrowedFd<'a> } -> FileType {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
    }
}
