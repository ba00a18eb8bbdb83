//! Sockets.

use super::Answer;
use crate::driver::request::*;
use crate::driver::sim::network::{Ctx, Domain, Name, Network, Transport, UnixName};
use crate::driver::sim::{Trouble, World, unsupported};
use crate::driver::{OwnedDescriptor, RawAddress};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the kind of a socket that `call` opens.
fn transport(kind: SocketType, call: &str) -> io::Result<Transport> {
    match kind {
        SocketType::STREAM => Ok(Transport::Stream),
        SocketType::DGRAM => Ok(Transport::Datagram),
        _ => Err(unsupported(&format!("{call} of another kind than streams and datagrams"))),
    }
}

impl Answer<OpenSocket> for World {
    fn answer(&self, request: OpenSocket) -> io::Result<OwnedDescriptor> {
        let domain = match request.family {
            AddressFamily::INET => Domain::V4,
            AddressFamily::INET6 => Domain::V6,
            AddressFamily::UNIX => Domain::Unix,
            _ => return Err(unsupported("socket(2) of another family than IP and Unix")),
        };
        let (host, transport) = (self.here(), transport(request.kind, "socket(2)")?);
        self.operate_or(Trouble::Full)?;
        self.check_descriptors(host, 1)?;
        Ok(self.own(self.network(|network, _| network.open(host, domain, transport))?))
    }
}

impl Answer<OpenSocketPair> for World {
    fn answer(&self, request: OpenSocketPair) -> io::Result<(OwnedDescriptor, OwnedDescriptor)> {
        let (host, transport) = (self.here(), transport(request.kind, "socketpair(2)")?);
        self.operate_or(Trouble::Full)?;
        self.check_descriptors(host, 2)?;
        let (one, other) = self.network(|network, _| network.open_pair(host, transport))?;
        Ok((self.own(one), self.own(other)))
    }
}

impl Answer<Bind<'_>> for World {
    /// A Unix socket that is bound to a path has a name on the host's disk, too.
    fn answer(&self, request: Bind<'_>) -> io::Result<()> {
        self.operate_or(Trouble::InUse)?;
        let read =
            |network: &mut Network, _: &mut Ctx<'_>, id| network.domain(id)?.read(request.address);
        let (name, here) = (self.with_socket(request.socket, read)?, self.here());
        let path = match &name {
            Name::Unix(UnixName::Path(path)) => Some(Path::new(OsStr::from_bytes(path))),
            _ => None,
        };
        if let Some(path) = path {
            self.with_disk(|disk, context| disk.make_socket(path, context))?;
            // A socket that had the name before has lost it.
            self.network(|network, _| network.remove_path(here, path.as_os_str().as_bytes()));
        }
        let bound = self.with_socket(request.socket, |network, _, id| network.bind(id, &name));
        if let (Some(path), Err(_)) = (path, &bound) {
            self.with_disk(|disk, context| disk.remove_file(path, context))?;
        }
        bound
    }
}

impl Answer<Listen<'_>> for World {
    /// Another socket may listen at the address, if both have been bound with `SO_REUSEADDR`.
    fn answer(&self, request: Listen<'_>) -> io::Result<()> {
        self.operate_or(Trouble::InUse)?;
        self.with_socket(request.socket, |network, _, id| network.listen(id))
    }
}

impl Answer<LocalAddress<'_>> for World {
    fn answer(&self, request: LocalAddress<'_>) -> io::Result<RawAddress> {
        let named = self.with_socket(request.socket, |network, _, id| network.local_name(id));
        named.map(|(domain, name)| domain.write(&name))
    }
}

impl Answer<PeerAddress<'_>> for World {
    fn answer(&self, request: PeerAddress<'_>) -> io::Result<RawAddress> {
        let named = self.with_socket(request.socket, |network, _, id| network.peer_name(id));
        named.map(|(domain, name)| domain.write(&name))
    }
}

impl Answer<ShutDown<'_>> for World {
    fn answer(&self, request: ShutDown<'_>) -> io::Result<()> {
        self.with_socket(request.socket, |network, ctx, id| network.shut_down(ctx, id, request.how))
    }
}

impl Answer<ShutDownByFd<'_>> for World {
    fn answer(&self, request: ShutDownByFd<'_>) -> io::Result<()> {
        let socket = self.known(request.socket)?;
        self.with_socket(&socket, |network, ctx, id| network.shut_down(ctx, id, request.how))
    }
}

impl Answer<TakeError<'_>> for World {
    fn answer(&self, request: TakeError<'_>) -> io::Result<Option<io::Error>> {
        let error = self.with_socket(request.socket, |network, _, id| network.take_error(id))?;
        Ok(error.map(Errno::into))
    }
}
