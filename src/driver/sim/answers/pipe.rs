//! Pipes and other means of notification.

use super::Answer;
use crate::driver::OwnedDescriptor;
use crate::driver::op::Interest;
use crate::driver::request::*;
use crate::driver::sim::{File, Trouble, Watcher, World};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};

not_simulated! {
    OpenReadableSet => "epoll_create(2)",
    AddToSet<'_> => "epoll_ctl(2)",
    RemoveFromSet<'_> => "epoll_ctl(2)",
}

impl Answer<OpenPipe> for World {
    /// The mode makes no difference, because all waits are the scheduler's.
    fn answer(&self, _: OpenPipe) -> io::Result<(OwnedDescriptor, OwnedDescriptor)> {
        let host = self.here();
        self.operate_or(Trouble::Full)?;
        self.check_descriptors(host, 2)?;
        let (reader, writer) = self.network(|network, _| network.open_pipe(host))?;
        Ok((self.own(reader), self.own(writer)))
    }
}

impl Answer<OpenEventFd> for World {
    fn answer(&self, _: OpenEventFd) -> io::Result<OwnedDescriptor> {
        let host = self.here();
        self.operate_or(Trouble::Full)?;
        self.check_descriptors(host, 1)?;
        Ok(self.own(self.network(|network, _| network.open_event(host))?))
    }
}

impl Answer<NotifyEventFd<'_>> for World {
    fn answer(&self, request: NotifyEventFd<'_>) -> io::Result<()> {
        let one = 1_u64.to_ne_bytes();
        self.with_socket(request.fd, |network, ctx, id| {
            match network.send(ctx, id, &[IoSlice::new(&one)], None) {
                // The counter is full, so there already is a notification.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl Answer<TakeEventFd<'_>> for World {
    fn answer(&self, request: TakeEventFd<'_>) -> io::Result<()> {
        let mut count = [0; 8];
        self.with_socket(request.fd, |network, ctx, id| {
            network.receive(ctx, id, &mut [IoSliceMut::new(&mut count)], false)
        })?;
        Ok(())
    }
}

impl Answer<RingWhenReady<'_>> for World {
    fn answer(&self, request: RingWhenReady<'_>) -> io::Result<bool> {
        let Some(File::Socket(_)) = request.fd.name().file() else { return Ok(false) };
        let (watcher, sides) = (Watcher::Ring(request.what), request.sides);
        self.with_socket(request.fd, |network, ctx, id| {
            network.unwatch(id, &watcher);
            let sides = [(Interest::Read, sides.read), (Interest::Write, sides.write)];
            for (side, _) in sides.into_iter().filter(|(_, is_waited_for)| *is_waited_for) {
                network.watch(id, side, watcher.clone());
                if network.is_ready(ctx, id, side).unwrap_or(true) {
                    network.wake_side(ctx, id, side);
                }
            }
            Ok(())
        })?;
        Ok(true)
    }
}
