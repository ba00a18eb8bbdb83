//! Clients that come after a server has stopped: rows of `doc/behaviour/serve.md`.

use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddress;

use ecru::channel;
use ecru::net::{Shutdown, TcpStream, UnixListener, UnixStream};

use crate::serve::{ask, echo};
use crate::streams::listen;
use crate::support::each_run;

/// - given: a server that refuses late clients, a connection in progress, and clients in the queue
/// - when: it stops
/// - then: the connection goes on to its end; the clients in the queue are reset, and later ones are
///   refused while the server drains
#[test]
fn serve_23_late_clients_are_refused() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let server =
                s.spawn(|| listener.server().limit(1).stop_when(stopped).refuse_late().serve(echo));
            let mut client = ask(address);
            let mut queued = TcpStream::connect(address).unwrap();
            drop(stop);
            assert_eq!(queued.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            let late = TcpStream::connect(address).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::ConnectionRefused);
            client.write_all(b"more").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            server.join().unwrap().unwrap();
        });
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

/// - given: a server on a Unix socket that refuses late clients
/// - when: it has stopped
/// - then: a client is refused
#[test]
fn serve_24_late_clients_of_a_unix_socket() {
    each_run(|| {
        let name = format!("ecru-late-{}-{}", std::process::id(), ecru::task::current().id());
        let place = UnixAddress::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&place).unwrap();
        let (stop, stopped) = channel::bounded::<()>(0);
        drop(stop);
        listener.server().stop_when(stopped).refuse_late().serve(|_, _| Ok(())).unwrap();
        let late = UnixStream::connect_addr(&place).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::ConnectionRefused);
    });
}
