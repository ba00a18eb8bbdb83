//! The longest addresses, and names that are looked up.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ecru::net::{TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};

use crate::common::HOUR;
use crate::each;

/// Returns a path of this length for a socket, and its directory.
fn path_of_length(length: usize) -> std::path::PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, SeqCst);
    let mut path = std::env::temp_dir().into_os_string();
    path.push(format!("/ecru-attack-{}-{number}-", std::process::id()));
    while path.len() < length {
        path.push("x");
    }
    path.into()
}

/// Returns a socket that is bound to the longest path that the kernel accepts, without a zero byte
/// after it. std does not bind to such paths.
fn bound_to_longest(kind: rustix::net::SocketType) -> (OwnedFd, std::path::PathBuf) {
    let path = path_of_length(108);
    assert_eq!(path.as_os_str().len(), 108);
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
    let mut address =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    for (place, byte) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "binds to a path that std refuses")]
    // SAFETY: the address is valid and has the given length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(bound, 0, "{}", io::Error::last_os_error());
    (socket, path)
}

#[test]
fn a_client_with_the_longest_name_there_is_is_served_and_does_not_end_the_server() {
    each(|| {
        let path = path_of_length(60);
        let listener = UnixListener::bind(&path).unwrap();
        let (client, name) = bound_to_longest(rustix::net::SocketType::STREAM);
        ecru::scope(|s| {
            s.spawn_daemon(|| serve_until_cancelled(&listener));
            let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
            rustix::net::connect(&client, &address).unwrap();
            let mut client = UnixStream::from(client);
            client.set_read_timeout(Some(HOUR)).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
            let mut text = String::new();
            UnixStream::connect(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
        });
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(name).unwrap();
    });
}

/// Greets all clients until it is cancelled. Nothing else may end it.
fn serve_until_cancelled(listener: &UnixListener) {
    let error = listener.serve(10, |mut stream, _| stream.write_all(b"hello")).unwrap_err();
    assert!(ecru::Cancelled::find(&error).is_some(), "the server has ended: {error}");
}

#[test]
fn a_datagram_from_whoever_has_the_longest_name_there_is_arrives() {
    each(|| {
        let path = path_of_length(60);
        let receiver = UnixDatagram::bind(&path).unwrap();
        receiver.set_read_timeout(Some(HOUR)).unwrap();
        let (sender, name) = bound_to_longest(rustix::net::SocketType::DGRAM);
        let sender = UnixDatagram::from(sender);
        sender.send_to(b"one", &path).unwrap();
        sender.send_to(b"two", &path).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receiver.recv_from(&mut buffer).unwrap().0, 3);
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"two");
        sender.local_addr().unwrap();
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(name).unwrap();
    });
}

/// A type that is not known to hold a name. It is resolved in place, on the task's stack.
struct Mine(&'static str);

impl std::net::ToSocketAddrs for Mine {
    type Iter = std::vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.0.to_socket_addrs()
    }
}

#[test]
fn names_of_ones_own_types_are_resolved_on_a_tasks_stack() {
    each(|| {
        ecru::scope(|s| {
            let found = s.spawn(|| UdpSocket::bind(Mine("localhost:0")).map(drop));
            found.join().unwrap().unwrap();
            let missing = s.spawn(|| UdpSocket::bind(Mine("no-such-name.invalid:0")).map(drop));
            missing.join().unwrap().unwrap_err();
            let nested: &'static &'static &'static str = &&"localhost:0";
            let nested = s.spawn(move || UdpSocket::bind(nested).map(drop));
            nested.join().unwrap().unwrap();
        });
    });
}

/// Look-ups of names that were given up. Other look-ups share the pool with them.
#[test]
fn names_that_were_given_up_leave_the_pool_to_others() {
    each(|| {
        for _ in 0..50 {
            let outcome = ecru::timeout(Duration::from_micros(1), || {
                TcpStream::connect("no-such-name.invalid:1")
            });
            if let Ok(outcome) = outcome {
                outcome.unwrap_err();
            }
        }
        assert_eq!(ecru::unblock(|| 7), 7);
    });
}
