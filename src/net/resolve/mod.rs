//! From what a caller names to addresses to try.
//!
//! std's trait resolves while its caller waits, says neither whether a value is a name nor anything else about it, and a value
//! need not be `Send`; so nothing that implements it can be resolved elsewhere without knowing what it is. The types that hold a name as text are known
//! (see `named`): these are resolved on the pool for blocking calls, from a copy, and the task waits in such a way that it
//! can be cancelled. Whatever else there is resolves where it stands, on the worker: addresses, which cost nothing, and types of the
//! caller's own.

mod named;

use crate::channel;
use crate::sched;
use crate::source::Source;
use crate::task;
use named::Named;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// All addresses that are meant.
fn resolve<A: ToSocketAddrs>(addresses: &A) -> io::Result<Vec<SocketAddr>> {
    match named::of(addresses) {
        Some(Named::Text(text)) => match text.parse() {
            Ok(literal) => Ok(vec![literal]),
            Err(_) => look_up(text.to_owned()),
        },
        Some(Named::Host(host, port)) => match host.parse::<IpAddr>() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, port)]),
            Err(_) => look_up((host.to_owned(), port)),
        },
        None => Ok(addresses.to_socket_addrs()?.collect()),
    }
}

/// Asks the system's resolver, on a thread that may block. A cancelled task leaves it to itself.
fn look_up<A>(name: A) -> io::Result<Vec<SocketAddr>>
where
    A: ToSocketAddrs + Send + 'static,
{
    task::begin_wait()?;
    let (sender, receiver) = channel::oneshot();
    let ask = move || {
        // Lest names that nobody waits for any more keep the pool from everybody else, if the resolver is slow.
        if sender.is_closed() {
            return;
        }
        let answer = name.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // Nobody listens any more if the task was cancelled.
        let _ = sender.send(answer);
    };
    let _expecting = match sched::leave(ask) {
        Ok(expecting) => Some(expecting),
        Err(ask) => {
            // On a plain thread, which may block; or no thread is to be had, and it is better to hold up this worker than to fail.
            ask();
            None
        }
    };
    receiver.wait()?.unwrap_or_else(|_| Err(io::Error::other("the system's resolver panicked")))
}

/// Tries each address in turn: the first success, or the last failure.
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

/// The first address that is meant.
pub(super) fn first_of(addresses: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    resolve(&addresses)?.first().copied().ok_or_else(none_at_all)
}

fn none_at_all() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}
