//! An fd of ours that carries a stream of bytes and is no socket: an end of a pipe.
//!
//! It is in non-blocking mode while nobody else has the same open file. That mode would surprise another process, so an end
//! that is given away goes back to blocking mode; and what may have been given away is asked, call by call, not to wait.
#![expect(unsafe_code, reason = "makes ops of borrowed buffers")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::driver::{Manner, Op, OwnedDescriptor, clamp_length};
use crate::sched::io::perform;

/// See the module.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: OwnedDescriptor,
    /// Others may have the same open file. Relaxed: whoever gives an end to others while somebody uses it orders the two himself.
    shared: AtomicBool,
    /// It is in non-blocking mode because that was set here.
    was_set: bool,
}

impl Stream {
    /// Takes an fd whose open file nobody else has, in whichever mode.
    pub(crate) fn sole(fd: OwnedFd) -> io::Result<Stream> {
        let fd = OwnedDescriptor::new(fd);
        fd.set_nonblocking_mode(true)?;
        Ok(Stream { fd, shared: AtomicBool::new(false), was_set: true })
    }

    /// Takes an fd whose open file others may have, and leaves its mode alone.
    pub(crate) fn shared(fd: OwnedFd) -> Stream {
        Stream { fd: OwnedDescriptor::new(fd), shared: AtomicBool::new(true), was_set: false }
    }

    fn manner(&self) -> Manner {
        if self.shared.load(Ordering::Relaxed) { Manner::Shared } else { Manner::Nonblocking }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let op = Op::Read { fd: self.fd.name(), buf, len, manner: self.manner() };
        // SAFETY: S3: the buffer is borrowed mutably, and the fd by `self`, until this returns.
        unsafe { perform(op) }.map(|count| count as usize)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = Op::Write { fd: self.fd.name(), buf, len, manner: self.manner() };
        // SAFETY: S3: the bytes are borrowed, and the fd by `self`, until this returns; the kernel only reads them.
        unsafe { perform(op) }.map(|count| count as usize)
    }

    /// [`Stream::read`] that fails with `WouldBlock` rather than wait.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let op = Op::Read { fd: self.fd.name(), buf, len, manner: self.manner() };
        // SAFETY: S3: as in `read`.
        unsafe { op.attempt() }.map(|count| count as usize)
    }

    pub(crate) fn duplicate(&self) -> io::Result<Stream> {
        self.shared.store(true, Ordering::Relaxed);
        let duplicate = Stream::shared(self.fd.as_fd().try_clone_to_owned()?);
        Ok(Stream { was_set: self.was_set, ..duplicate })
    }

    /// The fd, in blocking mode, unless it came from outside: then in whichever mode it is.
    pub(crate) fn into_fd(self) -> OwnedFd {
        if self.was_set {
            // It fails for what is no open fd, and then whoever uses it next is told.
            let _ = self.fd.set_nonblocking_mode(false);
        }
        self.fd.into_fd()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `Read` or `Write`, by value and by reference, and conversions, for a type that is a [`Stream`] in a tuple.
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
        }
    )* };
    (write by $($ours:ty),*) => { $(
        impl std::io::Write for $ours {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.write(bytes)
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

        /// The fd, in blocking mode, unless it came from outside: then in whichever mode it is.
        impl std::os::fd::IntoRawFd for $ours {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self).into_raw_fd()
            }
        }

        /// The fd, in blocking mode, unless it came from outside: then in whichever mode it is.
        impl From<$ours> for std::os::fd::OwnedFd {
            fn from(ours: $ours) -> std::os::fd::OwnedFd {
                ours.0.into_fd()
            }
        }

        /// In blocking mode, as other programs expect it, unless the fd came from outside: then in whichever mode it is.
        impl From<$ours> for std::process::Stdio {
            fn from(ours: $ours) -> std::process::Stdio {
                std::os::fd::OwnedFd::from(ours).into()
            }
        }

        /// The mode of the open file, which others may have, is left alone.
        impl From<std::os::fd::OwnedFd> for $ours {
            fn from(fd: std::os::fd::OwnedFd) -> $ours {
                $ours($crate::io::Stream::shared(fd))
            }
        }
    };
}
pub(crate) use stream_type;
