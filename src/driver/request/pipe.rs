//! Pipes and other means of notification.

#[cfg(feature = "sim")]
use crate::base::alarm::Ring;
use crate::driver::OwnedDescriptor;
#[cfg(feature = "sim")]
use crate::driver::Sides;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
#[cfg(feature = "sim")]
use std::sync::Weak;

requests! {
    /// Creates a pipe. Returns the end to read from, and the end to write to.
    OpenPipe { nonblocking: bool } -> (OwnedDescriptor, OwnedDescriptor) {
        let mode = if nonblocking { PipeFlags::NONBLOCK } else { PipeFlags::empty() };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | mode)?;
        Ok((OwnedDescriptor::new(reader), OwnedDescriptor::new(writer)))
    }

    /// Creates a notification with an fd, in non-blocking mode.
    OpenEventFd {} -> OwnedDescriptor {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(OwnedDescriptor::new(fd))
    }

    /// Makes an eventfd readable.
    NotifyEventFd<'a> { fd: &'a OwnedDescriptor } -> () {
        match rustix::io::write(fd.kernel()?, &1_u64.to_ne_bytes()) {
            // The counter is full, so there already is a notification.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the notification of an eventfd. Fails with `WouldBlock` if there is none.
    TakeEventFd<'a> { fd: &'a OwnedDescriptor } -> () {
        rustix::io::read(fd.kernel()?, &mut [0; 8])?;
        Ok(())
    }

    /// Creates an empty set of descriptors. The set's own fd is readable while a member is.
    OpenReadableSet {} -> OwnedDescriptor {
        Ok(OwnedDescriptor::new(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Adds a member to a set.
    AddToSet<'a> { set: &'a OwnedDescriptor, member: &'a OwnedDescriptor } -> () {
        Ok(epoll::add(set.kernel()?, member.kernel()?, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// Removes a member from a set.
    RemoveFromSet<'a> { set: &'a OwnedDescriptor, member: &'a OwnedDescriptor } -> () {
        Ok(epoll::delete(set.kernel()?, member.kernel()?)?)
    }
}

#[cfg(feature = "sim")]
requests! {
    /// Rings `what` once when a file in memory is ready on one of the sides. Returns false if that does not happen,
    /// for instance because the descriptor is not that of a file in memory.
    RingWhenReady<'a> { fd: &'a OwnedDescriptor, sides: Sides, what: Weak<dyn Ring> } -> bool {
        let _ = (fd, sides, what);
        Ok(false)
    }
}
