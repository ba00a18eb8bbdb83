//! Conversions from and to std's file and raw fds. Unlike a socket, a file needs no change of mode
//! for this.
#![expect(unsafe_code, reason = "implements FromRawFd")]

use super::File;
use super::handle::Handle;
use crate::driver::OwnedDescriptor;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> File {
        // SAFETY: by this method's contract, the fd is open and has no other owner.
        File::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> File {
        File::from_handle(Handle::new(OwnedDescriptor::adopt_silently(fd), None))
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.handle.into_fd()
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File::from(OwnedFd::from(file))
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        std::fs::File::from(OwnedFd::from(file))
    }
}

/// Lets a child process read from the file or write to it, with the same cursor, like std's
/// conversion.
impl From<File> for std::process::Stdio {
    fn from(file: File) -> std::process::Stdio {
        OwnedFd::from(file).into()
    }
}
