//! Resolution of the caller's address argument into a list of addresses.
//!
//! std's trait resolves while its caller waits. It does not tell whether a value is a name, and the
//! value need not be `Send`. So a value of an unknown type cannot be resolved on another thread.
//! The types that hold a name as text are known (see `named`). These are copied and resolved on the
//! pool for blocking calls, while the task waits and can be cancelled. All other values are
//! resolved in place, on the worker: addresses, which cost nothing, and user-defined types.

mod named;

use crate::channel;
use crate::driver::request;
use crate::driver::request::{HostName, LookUp};
use crate::sched;
use crate::source::Source;
use crate::task;
use named::Named;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Returns all addresses that the argument stands for.
fn resolve<A: ToSocketAddrs>(addresses: &A) -> io::Result<Vec<SocketAddr>> {
    match named::of(addresses) {
        Some(Named::Text(text)) => match text.parse() {
            Ok(literal) => Ok(vec![literal]),
            Err(_) => look_up(HostName::Text(text.to_owned())),
        },
        Some(Named::Host(host, port)) => match host.parse::<IpAddr>() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, port)]),
            Err(_) => look_up(HostName::Host(host.to_owned(), port)),
        },
        None => Ok(addresses.to_socket_addrs()?.collect()),
    }
}

/// Calls the system's resolver on a thread that may block. A cancelled task abandons the call, and
/// withdraws it if it has not begun.
fn look_up(name: HostName) -> io::Result<Vec<SocketAddr>> {
    task::begin_wait()?;
    let (sender, receiver) = channel::oneshot();
    let ask = move || {
        // The receiver is dropped if the task was cancelled.
        let _ = sender.send(request(LookUp { name: &name }));
    };
    let _expecting = match sched::look_up(ask) {
        Ok(expecting) => Some(expecting),
        Err(ask) => {
            // Either this is a plain thread, which may block, or no thread could be started. In the
            // second case it is better to hold up this worker than to fail.
            ask();
            None
        }
    };
    receiver.wait()?.unwrap_or_else(|_| Err(io::Error::other("the system's resolver panicked")))
}

/// Tries each address in turn. Returns the first success, or the last failure.
pub(super) fn try_each<T>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut failure = None;
    for address in resolve(&addresses)? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(none_at_all))
}

/// Returns the first address that the argument stands for.
pub(super) fn first_of(addresses: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    resolve(&addresses)?.first().copied().ok_or_else(none_at_all)
}

fn none_at_all() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}
