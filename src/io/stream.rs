//! An owned fd that carries a stream of bytes and is not a socket: an end of a pipe.
//!
//! The fd is in non-blocking mode while its open file is not shared. Another process would not
//! expect that mode, so an end that is given away is set back to blocking mode. If the open file
//! may be shared, each call separately asks the kernel not to wait.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::driver::request::{Duplicate, SetNonblockingMode};
use crate::driver::{LentOp, Manner, OwnedDescriptor, request, try_now};
use crate::sched::io::perform;

/// An end of a pipe; see the module.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: OwnedDescriptor,
    /// Whether the open file may be shared. Relaxed: a program that shares an end while another
    /// thread uses it must order the two itself.
    shared: AtomicBool,
    /// Whether the fd is in non-blocking mode because this type has set it.
    was_set: bool,
}

impl Stream {
    /// Takes an fd whose open file is not shared, in either mode.
    pub(crate) fn sole(fd: OwnedDescriptor) -> io::Result<Stream> {
        request(SetNonblockingMode { fd: &fd, nonblocking: true })?;
        Ok(Stream { fd, shared: AtomicBool::new(false), was_set: true })
    }

    /// Takes an fd whose open file may be shared, and does not change its mode.
    pub(crate) fn shared(fd: OwnedDescriptor) -> Stream {
        Stream { fd, shared: AtomicBool::new(true), was_set: false }
    }

    fn manner(&self) -> Manner {
        if self.shared.load(Ordering::Relaxed) { Manner::Shared } else { Manner::Nonblocking }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        counted(perform(&LentOp::read(self.fd.name(), buffer, self.manner())))
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        counted(perform(&LentOp::write(self.fd.name(), bytes, self.manner())))
    }

    pub(crate) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        counted(perform(&LentOp::read_vectored(self.fd.name(), buffers, self.manner())))
    }

    pub(crate) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        counted(perform(&LentOp::write_vectored(self.fd.name(), slices, self.manner())))
    }

    /// Reads like [`Stream::read`], but fails with `WouldBlock` instead of waiting.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        counted(try_now(&LentOp::read(self.fd.name(), buffer, self.manner())))
    }

    pub(crate) fn duplicate(&self) -> io::Result<Stream> {
        self.shared.store(true, Ordering::Relaxed);
        let duplicate = Stream::shared(request(Duplicate { fd: &self.fd })?);
        Ok(Stream { was_set: self.was_set, ..duplicate })
    }

    /// Wraps an fd that was created elsewhere, and that may be shared with other processes.
    pub(crate) fn adopt(fd: OwnedFd) -> Stream {
        Stream::shared(OwnedDescriptor::adopt_silently(fd))
    }

    /// Returns the stream's descriptor.
    pub(crate) fn fd(&self) -> &OwnedDescriptor {
        &self.fd
    }

    /// Returns the fd: in blocking mode if it was created here, otherwise in the mode it has.
    pub(crate) fn into_fd(self) -> OwnedFd {
        if self.was_set {
            // This fails only if the fd is not open, and then its next use reports that.
            let _ = request(SetNonblockingMode { fd: &self.fd, nonblocking: false });
        }
        self.fd.into_fd()
    }
}

/// Returns a number of bytes.
fn counted(result: io::Result<u32>) -> io::Result<usize> {
    result.map(|count| count as usize)
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Implements `Read` or `Write`, by value and by reference, and the conversions, for a tuple struct
/// around a [`Stream`].
macro_rules! stream_type {
    (read $ours:ident) => {
        $crate::io::stream_type!(read by $ours, &$ours);

        $crate::io::stream_type!(fd $ours);
    };
    (write $ours:ident) => {
        $crate::io::stream_type!(write by $ours, &$ours);

        $crate::io::stream_type!(fd $ours);
    };
    (read by $($ours:ty),*) => { $(
        impl std::io::Read for $ours {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buffer)
            }

            fn read_vectored(
                &mut self,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.0.read_vectored(buffers)
            }
        }
    )* };
    (write by $($ours:ty),*) => { $(
        impl std::io::Write for $ours {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.write(bytes)
            }

            fn write_vectored(&mut self, slices: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.write_vectored(slices)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    )* };
    (fd $ours:ident) => {
        impl std::os::fd::AsFd for $ours {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $ours {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsFd::as_fd(&self.0).as_raw_fd()
            }
        }

        /// The fd is set to blocking mode if it was created here. Otherwise it keeps the mode it
        /// has.
        impl std::os::fd::IntoRawFd for $ours {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self).into_raw_fd()
            }
        }

        /// The fd is set to blocking mode if it was created here. Otherwise it keeps the mode it
        /// has.
        impl From<$ours> for std::os::fd::OwnedFd {
            fn from(ours: $ours) -> std::os::fd::OwnedFd {
                ours.0.into_fd()
            }
        }

        /// The fd is set to blocking mode, as other programs expect it, if it was created here.
        /// Otherwise it keeps the mode it has.
        impl From<$ours> for std::process::Stdio {
            fn from(ours: $ours) -> std::process::Stdio {
                std::os::fd::OwnedFd::from(ours).into()
            }
        }

        /// The mode of the open file, which may be shared, is not changed.
        impl From<std::os::fd::OwnedFd> for $ours {
            fn from(fd: std::os::fd::OwnedFd) -> $ours {
                $ours($crate::io::Stream::adopt(fd))
            }
        }
    };
}
pub(crate) use stream_type;
