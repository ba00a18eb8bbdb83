//! Files in memory: what a descriptor names instead of an fd.
//!
//! Code outside of the library sees fds only. If it asks for one, a *placeholder* is opened,
//! through which nothing can be done. The world knows its placeholders by their inodes, which
//! duplicates share, and so it finds the file when such an fd is handed back. The file of a
//! descriptor that was given away stays open until it is handed back or the simulation ends.
#![expect(unsafe_code, reason = "carries out ops on raw pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::fs::{MemfdFlags, Mode, OFlags, fstat, memfd_create, open};

use super::disks::DiskFile;
use super::socket::SocketFile;
use super::{Watcher, World};
use crate::driver::op::Interest;
use crate::driver::{Op, OwnedDescriptor};

/// An open file in memory. The file is closed when the last descriptor of it is dropped.
#[derive(Debug)]
pub(crate) enum File {
    Socket(SocketFile),
    Disk(DiskFile),
}

/// A file for which a placeholder was opened.
#[derive(Debug)]
pub(super) enum Lent {
    /// The file belongs to a descriptor.
    Borrowed(Weak<File>),
    /// The descriptor was given away.
    Given(Arc<File>),
}

/// The device and the number of an inode.
pub(super) type Inode = (u64, u64);

impl File {
    /// Carries out an op without waiting, as the kernel would. Returns `WouldBlock` if the op has
    /// to wait.
    ///
    /// # Safety
    /// Everything that the op points to is valid for this call, and no other code accesses it
    /// meanwhile.
    pub(in crate::driver) unsafe fn attempt(&self, op: &Op<'_>) -> io::Result<u32> {
        match self {
            File::Socket(socket) => {
                // SAFETY: the caller's promise, passed on.
                Ok(unsafe { socket.reach()?.attempt(op) }?)
            }
            // SAFETY: the caller's promise, passed on.
            File::Disk(file) => unsafe { file.attempt(op) },
        }
    }

    /// Leaves a watcher with one side of the file, until that side changes.
    pub(super) fn watch(&self, side: Interest, watcher: Watcher) {
        match self {
            File::Socket(socket) => socket.watch(side, watcher),
            File::Disk(file) => file.watch(&watcher),
        }
    }

    pub(super) fn unwatch(&self, watcher: &Watcher) {
        match self {
            File::Socket(socket) => socket.unwatch(watcher),
            File::Disk(file) => file.unwatch(watcher),
        }
    }

    /// Returns the descriptor of the connection that an accept on this file has returned as its
    /// result. Called once for each such result.
    pub(in crate::driver) fn accepted(&self, result: u32) -> OwnedDescriptor {
        match self {
            File::Socket(socket) => socket.accepted(result),
            File::Disk(_) => unreachable!("a file accepts no connection"),
        }
    }

    /// Returns the address of the other side of a connected socket, for dumps.
    pub(in crate::driver) fn peer(&self) -> Option<String> {
        match self {
            File::Socket(socket) => socket.peer(),
            File::Disk(_) => None,
        }
    }

    /// Returns the other side of a connection to another host, for messages.
    pub(in crate::driver) fn shown_peer(&self) -> Option<String> {
        match self {
            File::Socket(socket) => socket.shown_peer(),
            File::Disk(_) => None,
        }
    }

    /// Returns the own address of a socket that is not connected, for dumps.
    pub(in crate::driver) fn own_name(&self) -> Option<String> {
        match self {
            File::Socket(socket) => socket.own_name(),
            File::Disk(_) => None,
        }
    }

    /// Returns the number that the world has for the file. It is never used again in the world.
    pub(in crate::driver) fn shown_number(&self) -> u64 {
        match self {
            File::Socket(socket) => u64::from(socket.id.0),
            File::Disk(file) => file.number().0,
        }
    }

    /// Opens an fd that stands for the file where one is asked for, and through which its content
    /// cannot be reached.
    ///
    /// # Panics
    /// Panics if the process has too many open files.
    pub(in crate::driver) fn placeholder(self: &Arc<File>) -> OwnedFd {
        let opened = match &**self {
            File::Socket(socket) => socket.placeholder(),
            File::Disk(file) => file.placeholder(),
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) => panic!("an fd that stands for a simulated file: {error}"),
        };
        if let Some(world) = World::current() {
            world.lend(fd.as_fd(), Lent::Borrowed(Arc::downgrade(self)));
        }
        fd
    }

    /// Notes that the fd that stands for the file is given away.
    pub(in crate::driver) fn give_away(self: &Arc<File>, fd: &OwnedFd) {
        if let Some(world) = World::current() {
            world.lend(fd.as_fd(), Lent::Given(Arc::clone(self)));
        }
    }
}

/// Opens a descriptor that leads nowhere.
pub(super) fn path_descriptor() -> io::Result<OwnedFd> {
    let memory = memfd_create(c"ecru-simulated", MemfdFlags::CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the inode of a placeholder.
fn inode(fd: BorrowedFd<'_>) -> io::Result<Inode> {
    let found = fstat(fd)?;
    Ok((found.st_dev, found.st_ino))
}

impl World {
    fn lend(&self, fd: BorrowedFd<'_>, file: Lent) {
        if let Ok(inode) = inode(fd) {
            // An earlier file may be closed by this.
            let earlier = self.lent(|lent| lent.insert(inode, file));
            drop(earlier);
        }
    }

    /// Returns the descriptor of the file for which this fd stands.
    ///
    /// # Errors
    /// Fails if the fd does not stand for a file of this world.
    pub(super) fn adopt(&self, fd: BorrowedFd<'_>) -> io::Result<OwnedDescriptor> {
        let inode = inode(fd)?;
        let file = self.lent(|lent| match lent.remove(&inode)? {
            Lent::Given(file) => {
                lent.insert(inode, Lent::Borrowed(Arc::downgrade(&file)));
                Some(file)
            }
            Lent::Borrowed(file) => {
                let known = file.upgrade();
                lent.extend(known.is_some().then_some((inode, Lent::Borrowed(file))));
                known
            }
        });
        file.map(OwnedDescriptor::in_memory).ok_or_else(unknown)
    }

    /// Returns a descriptor of the file for which this fd stands. The fd stays with its owner.
    ///
    /// # Errors
    /// Fails if the fd does not stand for a file of this world.
    pub(super) fn known(&self, fd: BorrowedFd<'_>) -> io::Result<OwnedDescriptor> {
        let inode = inode(fd)?;
        let file = self.lent(|lent| match lent.get(&inode)? {
            Lent::Given(file) => Some(Arc::clone(file)),
            Lent::Borrowed(file) => file.upgrade(),
        });
        file.map(OwnedDescriptor::in_memory).ok_or_else(unknown)
    }
}

/// The error for an fd that stands for no file.
fn unknown() -> io::Error {
    let text = "a simulation cannot use a descriptor that was opened outside of it; open the file \
                or the socket inside";
    io::Error::new(io::ErrorKind::Unsupported, text)
}
