//! The options of sockets.

use super::Answer;
use crate::driver::OwnedDescriptor;
use crate::driver::request::*;
use crate::driver::sim::World;
use std::io;

impl<O: SocketOption> Answer<GetOption<'_, O>> for World {
    fn answer(&self, request: GetOption<'_, O>) -> io::Result<O::Value> {
        let value = self.option(request.socket, O::KIND)?;
        O::Value::from_value(value).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl<O: SocketOption> Answer<SetOption<'_, O>> for World {
    fn answer(&self, request: SetOption<'_, O>) -> io::Result<()> {
        self.set_option(request.socket, O::KIND, request.value.into_value())
    }
}

impl World {
    /// Returns the value of a socket's option.
    fn option(&self, socket: &OwnedDescriptor, kind: OptionKind) -> io::Result<OptionValue> {
        self.with_socket(socket, |network, _, id| network.option(id, kind))
    }

    /// Sets the value of a socket's option.
    fn set_option(
        &self,
        socket: &OwnedDescriptor,
        kind: OptionKind,
        value: OptionValue,
    ) -> io::Result<()> {
        self.with_socket(socket, |network, ctx, id| network.set_option(ctx, id, kind, value))
    }
}

not_simulated! {
    JoinGroup<'_> => "joining a multicast group",
    LeaveGroup<'_> => "leaving a multicast group",
}
