//! Pipes and other means of notification.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{BorrowedFd, OwnedFd};

requests! {
    /// Creates a pipe. Returns the end to read from, and the end to write to.
    OpenPipe { nonblocking: bool } -> (OwnedFd, OwnedFd) {
        let mode = if nonblocking { PipeFlags::NONBLOCK } else { PipeFlags::empty() };
        Ok(pipe_with(PipeFlags::CLOEXEC | mode)?)
    }

    /// Creates a notification with an fd, in non-blocking mode.
    OpenEventFd {} -> OwnedFd {
        Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
    }

    /// Makes an eventfd readable.
    NotifyEventFd<'a> { fd: BorrowedFd<'a> } -> () {
        match rustix::io::write(fd, &1_u64.to_ne_bytes()) {
            // The counter is full, so there already is a notification.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the notification of an eventfd. Fails with `WouldBlock` if there is none.
    TakeEventFd<'a> { fd: BorrowedFd<'a> } -> () {
        rustix::io::read(fd, &mut [0; 8])?;
        Ok(())
    }

    /// Creates an empty set of descriptors. The set's own fd is readable while a member is.
    OpenReadableSet {} -> OwnedFd {
        Ok(epoll::create(CreateFlags::CLOEXEC)?)
    }

    /// Adds a member to a set.
    AddToSet<'a> { set: BorrowedFd<'a>, member: BorrowedFd<'a> } -> () {
        Ok(epoll::add(set, member, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// Removes a member from a set.
    RemoveFromSet<'a> { set: BorrowedFd<'a>, member: BorrowedFd<'a> } -> () {
        Ok(epoll::delete(set, member)?)
    }
}
