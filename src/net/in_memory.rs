//! Sockets of the `loopback` driver, for tests.

use super::socket::Socket;
use super::{TcpListener, TcpStream};
use crate::driver::loopback::Network;
use std::io;
use std::net::SocketAddr;

pub(crate) fn listen(network: &Network) -> (TcpListener, SocketAddr) {
    let (fd, address) = network.listen();
    (TcpListener(Socket::of(fd)), address)
}

pub(crate) fn connect(network: &Network, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::of(network.socket());
    socket.connect(&to, None)?;
    Ok(TcpStream(socket))
}
