//! The options of sockets.

use super::perform::Request;
use crate::driver::OwnedDescriptor;
#[cfg(feature = "sim")]
use crate::driver::sim::{World, answers::Answer};
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

#[cfg(feature = "sim")]
mod kept;
#[cfg(feature = "sim")]
pub(crate) use kept::{OptionData, OptionValue};

/// An option of a socket.
pub(crate) trait SocketOption {
    /// The option, for code that keeps the values of many options.
    #[cfg(feature = "sim")]
    const KIND: OptionKind;

    /// The option's value.
    #[cfg(feature = "sim")]
    type Value: OptionData;

    /// The option's value.
    #[cfg(not(feature = "sim"))]
    type Value: Copy;

    fn get(self, socket: BorrowedFd<'_>) -> rustix::io::Result<Self::Value>;

    fn set(self, socket: BorrowedFd<'_>, value: Self::Value) -> rustix::io::Result<()>;
}

/// Returns the value of a socket's option.
pub(crate) struct GetOption<'a, O> {
    pub(crate) socket: &'a OwnedDescriptor,
    pub(crate) option: O,
}

impl<O: SocketOption> Request for GetOption<'_, O> {
    type Answer = O::Value;

    #[inline]
    fn perform(self) -> io::Result<O::Value> {
        Ok(self.option.get(self.socket.kernel()?)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(self, world: &World) -> io::Result<O::Value> {
        world.answer(self)
    }
}

/// Sets an option of a socket.
pub(crate) struct SetOption<'a, O: SocketOption> {
    pub(crate) socket: &'a OwnedDescriptor,
    pub(crate) option: O,
    pub(crate) value: O::Value,
}

impl<O: SocketOption> Request for SetOption<'_, O> {
    type Answer = ();

    #[inline]
    fn perform(self) -> io::Result<()> {
        Ok(self.option.set(self.socket.kernel()?, self.value)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(self, world: &World) -> io::Result<()> {
        world.answer(self)
    }
}

/// Declares options. A declaration has the option's name, the type of its value, and the calls that
/// get and set it.
macro_rules! options {
    ($( $(#[$doc:meta])* $name:ident: $value:ty = $get:expr, $set:expr; )*) => {
        /// The name of an option.
        #[cfg(feature = "sim")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum OptionKind {
            $($name,)*
        }

        $(
        $(#[$doc])*
        pub(crate) struct $name;

        impl SocketOption for $name {
            #[cfg(feature = "sim")]
            const KIND: OptionKind = OptionKind::$name;

            type Value = $value;

            #[inline]
            fn get(self, socket: BorrowedFd<'_>) -> rustix::io::Result<$value> {
                $get(socket)
            }

            #[inline]
            fn set(self, socket: BorrowedFd<'_>, value: $value) -> rustix::io::Result<()> {
                $set(socket, value)
            }
        }
        )*
    };
}

options! {
    /// Whether an address can be bound again as soon as its last listener is closed.
    ReuseAddress: bool = sockopt::socket_reuseaddr, sockopt::set_socket_reuseaddr;
    /// The time limit of each read, for owners of the fd that let the kernel wait.
    ReceiveTimeout: Option<Duration> =
        |socket| sockopt::socket_timeout(socket, Timeout::Recv),
        |socket, limit| sockopt::set_socket_timeout(socket, Timeout::Recv, limit);
    /// The time limit of each write, for owners of the fd that let the kernel wait.
    SendTimeout: Option<Duration> =
        |socket| sockopt::socket_timeout(socket, Timeout::Send),
        |socket, limit| sockopt::set_socket_timeout(socket, Timeout::Send, limit);
    ReceiveBufferSize: usize =
        sockopt::socket_recv_buffer_size, sockopt::set_socket_recv_buffer_size;
    SendBufferSize: usize = sockopt::socket_send_buffer_size, sockopt::set_socket_send_buffer_size;
    TimeToLive: u32 = sockopt::ip_ttl, sockopt::set_ip_ttl;
    Keepalive: bool = sockopt::socket_keepalive, sockopt::set_socket_keepalive;
    KeepaliveTime: Duration = sockopt::tcp_keepidle, sockopt::set_tcp_keepidle;
    KeepaliveInterval: Duration = sockopt::tcp_keepintvl, sockopt::set_tcp_keepintvl;
    KeepaliveRetries: u32 = sockopt::tcp_keepcnt, sockopt::set_tcp_keepcnt;
    NoDelay: bool = sockopt::tcp_nodelay, sockopt::set_tcp_nodelay;
    Linger: Option<Duration> = sockopt::socket_linger, sockopt::set_socket_linger;
    QuickAck: bool = sockopt::tcp_quickack, sockopt::set_tcp_quickack;
    Broadcast: bool = sockopt::socket_broadcast, sockopt::set_socket_broadcast;
    MulticastLoopV4: bool = sockopt::ip_multicast_loop, sockopt::set_ip_multicast_loop;
    MulticastTtlV4: u32 = sockopt::ip_multicast_ttl, sockopt::set_ip_multicast_ttl;
    MulticastLoopV6: bool = sockopt::ipv6_multicast_loop, sockopt::set_ipv6_multicast_loop;
}

/// A multicast group, and the interface on which its datagrams arrive.
#[derive(Clone, Copy)]
pub(crate) enum Group<'a> {
    V4 { address: &'a Ipv4Addr, interface: &'a Ipv4Addr },
    V6 { address: &'a Ipv6Addr, interface: u32 },
}

requests! {
    /// Joins a multicast group.
    JoinGroup<'a> { socket: &'a OwnedDescriptor, group: Group<'a> } -> () {
        let outcome = match group {
            Group::V4 { address, interface } => {
                sockopt::set_ip_add_membership(socket.kernel()?, address, interface)
            }
            Group::V6 { address, interface } => {
                sockopt::set_ipv6_add_membership(socket.kernel()?, address, interface)
            }
        };
        Ok(outcome?)
    }

    /// Leaves a multicast group.
    LeaveGroup<'a> { socket: &'a OwnedDescriptor, group: Group<'a> } -> () {
        let outcome = match group {
            Group::V4 { address, interface } => {
                sockopt::set_ip_drop_membership(socket.kernel()?, address, interface)
            }
            Group::V6 { address, interface } => {
                sockopt::set_ipv6_drop_membership(socket.kernel()?, address, interface)
            }
        };
        Ok(outcome?)
    }
}
