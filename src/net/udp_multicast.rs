//! A UDP socket's options for broadcast and multicast.

use super::udp_socket::UdpSocket;
use crate::driver::request;
use crate::driver::request::{
    Broadcast, Group, JoinGroup, LeaveGroup, MulticastLoopV4, MulticastLoopV6, MulticastTtlV4,
};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Options for broadcast and multicast.
impl UdpSocket {
    /// Sets whether datagrams may be sent to a broadcast address (`SO_BROADCAST`).
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.0.set_option(Broadcast, broadcast)
    }

    /// Returns whether broadcast is allowed. See [`set_broadcast`](UdpSocket::set_broadcast).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.0.option(Broadcast)
    }

    /// Sets whether datagrams sent to an IPv4 group are also delivered to this machine
    /// (`IP_MULTICAST_LOOP`). The default is `true`.
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_multicast_loop_v4(true)?;
    /// assert!(socket.multicast_loop_v4()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_multicast_loop_v4(&self, multicast_loop_v4: bool) -> io::Result<()> {
        self.0.set_option(MulticastLoopV4, multicast_loop_v4)
    }

    /// Returns whether datagrams sent to an IPv4 group are also delivered to this machine. See
    /// [`set_multicast_loop_v4`](UdpSocket::set_multicast_loop_v4).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.0.option(MulticastLoopV4)
    }

    /// Sets how many hops a datagram to an IPv4 group may take (`IP_MULTICAST_TTL`). The default is
    /// 1.
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_multicast_ttl_v4(3)?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 3);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_multicast_ttl_v4(&self, multicast_ttl_v4: u32) -> io::Result<()> {
        self.0.set_option(MulticastTtlV4, multicast_ttl_v4)
    }

    /// Returns how many hops a datagram to an IPv4 group may take. See
    /// [`set_multicast_ttl_v4`](UdpSocket::set_multicast_ttl_v4).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.0.option(MulticastTtlV4)
    }

    /// Sets whether datagrams sent to an IPv6 group are also delivered to this machine
    /// (`IPV6_MULTICAST_LOOP`). The default is `true`.
    ///
    /// # Examples
    /// ```
    /// # let Ok(socket) = ecru::net::UdpSocket::bind("[::1]:0") else { return Ok(()) }; // no such network
    /// socket.set_multicast_loop_v6(true)?;
    /// assert!(socket.multicast_loop_v6()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_multicast_loop_v6(&self, multicast_loop_v6: bool) -> io::Result<()> {
        self.0.set_option(MulticastLoopV6, multicast_loop_v6)
    }

    /// Returns whether datagrams sent to an IPv6 group are also delivered to this machine. See
    /// [`set_multicast_loop_v6`](UdpSocket::set_multicast_loop_v6).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.0.option(MulticastLoopV6)
    }

    /// Joins an IPv4 group, so that datagrams sent to it are received from now on. `interface` is
    /// the address of the interface to use; `UNSPECIFIED` lets the system choose one.
    ///
    /// # Examples
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// let socket = ecru::net::UdpSocket::bind("0.0.0.0:0")?;
    /// let (group, interface) = (Ipv4Addr::new(239, 255, 1, 7), Ipv4Addr::LOCALHOST);
    /// socket.join_multicast_v4(&group, &interface)?;
    /// socket.leave_multicast_v4(&group, &interface)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2), for instance if the address is not a multicast address.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn join_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let group = Group::V4 { address: multiaddr, interface };
        request(JoinGroup { socket: self.0.fd(), group })
    }

    /// Leaves an IPv4 group. See [`join_multicast_v4`](UdpSocket::join_multicast_v4).
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2), for instance if the socket is not in the group.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn leave_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let group = Group::V4 { address: multiaddr, interface };
        request(LeaveGroup { socket: self.0.fd(), group })
    }

    /// Joins an IPv6 group, so that datagrams sent to it are received from now on. `interface` is
    /// the index of the interface to use; 0 lets the system choose one.
    ///
    /// # Examples
    /// ```
    /// use std::net::Ipv6Addr;
    ///
    /// # let Ok(socket) = ecru::net::UdpSocket::bind("[::]:0") else { return Ok(()) }; // no such network
    /// let group = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 0x1234);
    /// if socket.join_multicast_v6(&group, 0).is_ok() {
    ///     socket.leave_multicast_v6(&group, 0)?;
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2), for instance if the address is not a multicast address.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        let group = Group::V6 { address: multiaddr, interface };
        request(JoinGroup { socket: self.0.fd(), group })
    }

    /// Leaves an IPv6 group. See [`join_multicast_v6`](UdpSocket::join_multicast_v6).
    ///
    /// # Errors
    /// Returns the errors of setsockopt(2), for instance if the socket is not in the group.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        let group = Group::V6 { address: multiaddr, interface };
        request(LeaveGroup { socket: self.0.fd(), group })
    }
}
