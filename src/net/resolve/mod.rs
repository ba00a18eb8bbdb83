//! Resolution of the caller's address argument into a list of addresses.
//!
//! std's trait resolves while its caller waits. It does not tell whether a value is a name, and the
//! value need not be `Send`. So a value of an unknown type cannot be resolved on another thread.
//! The types that hold a name as text are known (see `named`). These are copied and resolved on the
//! pool for blocking calls, while the task waits and can be cancelled. All other values are
//! resolved in place, on the worker: addresses, which cost nothing, and user-defined types.

mod named;

#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::channel;
use crate::driver::request;
use crate::driver::request::{HostName, LookUp};
use crate::sched;
use crate::source::Source;
use crate::task;
use named::Named;
use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::vec;

/// Returns all addresses that the argument stands for.
fn resolve<A: net::ToSocketAddrs>(addresses: &A) -> io::Result<Vec<SocketAddr>> {
    match named::of(addresses) {
        Some(Named::Text(text)) => match text.parse() {
            Ok(literal) => Ok(vec![literal]),
            Err(_) => look_up(HostName::Text(text.to_owned())),
        },
        Some(Named::Host(host, port)) => match host.parse::<IpAddr>() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, port)]),
            Err(_) => look_up(HostName::Host(host.to_owned(), port)),
        },
        None => Ok(net::ToSocketAddrs::to_socket_addrs(addresses)?.collect()),
    }
}

/// Conversion of a value to the addresses that it stands for.
///
/// It is implemented for all types that implement std's trait of this name. So the functions of
/// this module take what those of std take. A user-defined type implements one of the two traits.
/// Unlike that of std, the method looks up a name as the functions do: the worker continues with
/// other tasks, the call can be cancelled, and in a simulation the names are those of its hosts.
///
/// # Examples
/// ```
/// use ecru::net::ToSocketAddrs;
///
/// let addresses = ecru::run(|| ("localhost", 80).to_socket_addrs())?;
/// assert!(addresses.into_iter().all(|address| address.ip().is_loopback()));
/// # std::io::Result::Ok(())
/// ```
pub trait ToSocketAddrs {
    /// The addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// Returns the addresses.
    ///
    /// # Errors
    /// Those of the lookup, or `Cancelled`.
    ///
    /// # Cancellation
    /// This is a cancellation point if the value is a name.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

impl<A: net::ToSocketAddrs + ?Sized> ToSocketAddrs for A {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<vec::IntoIter<SocketAddr>> {
        // One more reference, because `str` has no size.
        Ok(resolve(&self)?.into_iter())
    }
}

/// Looks up a name. In a simulation, another task may be about to make the host.
fn look_up(name: HostName) -> io::Result<Vec<SocketAddr>> {
    #[cfg(feature = "sim")]
    if simulated::is_simulated() {
        let found = ask(name.clone());
        // An error of a resolver has no number.
        let is_unknown = matches!(&found, Err(error) if error.raw_os_error().is_none());
        if !is_unknown || task::is_cancelled() || !sched::settle() {
            return found;
        }
    }
    ask(name)
}

/// Calls the system's resolver on a thread that may block. A cancelled task abandons the call, and
/// withdraws it if it has not begun.
fn ask(name: HostName) -> io::Result<Vec<SocketAddr>> {
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
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(none_at_all))
}

/// Returns the first address that the argument stands for.
pub(super) fn first_of(addresses: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    addresses.to_socket_addrs()?.next().ok_or_else(none_at_all)
}

fn none_at_all() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}
