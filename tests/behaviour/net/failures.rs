//! Connections that fail, and closed peers.

use super::everywhere;
use crate::streams::{listen, pair, refusing};
use crate::support::{HOUR, each_run, is_child, ms, settle, start_again, until};
use ecru::net::{TcpListener, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

/// - given: a port without a listener
/// - when: `connect` is called
/// - then: `ConnectionRefused`
#[test]
fn net_08_refused() {
    everywhere(|| {
        let (address, _kept) = refusing();
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&address, HOUR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

/// - given: a port with a listener
/// - when: another binds it
/// - then: `AddrInUse`
#[test]
fn net_09_taken() {
    everywhere(|| {
        let (listener, address) = listen();
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        // Another process may have been given the port meanwhile, for a while.
        until(|| TcpListener::bind(address).is_ok());
    });
}

/// Closes a connection so that the other end sees a reset.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

/// - given: a peer that resets the connection
/// - when: the stream is read
/// - then: `ConnectionReset`
#[test]
fn net_10_reset() {
    everywhere(|| {
        let (mut client, server) = pair();
        reset(server);
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]));
            settle();
            reset(server);
            assert_eq!(read.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
        });
    });
}

/// - given: a peer in another process: idle, with bytes it has not read, or that never reads
/// - when: it is killed
/// - then: a parked read returns `Ok(0)` or `ConnectionReset`; a parked write fails
#[test]
fn net_34_killed_peer() {
    const TEST: &str = "net::failures::net_34_killed_peer";
    const ADDRESS: &str = "ECRU_BEHAVIOUR_ADDRESS";
    if is_child(TEST) {
        let address = std::env::var(ADDRESS).unwrap();
        let streams: Vec<_> = (0..3)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect(&address).unwrap();
                stream.write_all(b"x").unwrap();
                stream
            })
            .collect();
        thread::sleep(HOUR);
        drop(streams);
    }
    each_run(|| {
        let (listener, address) = listen();
        let mut child = start_again(TEST)
            .env(ADDRESS, address.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let streams: Vec<_> = (0..3)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0]).unwrap();
                stream
            })
            .collect();
        let [idle, unread, full] = &streams[..] else { unreachable!() };
        let mut unread = unread;
        unread.write_all(b"never read").unwrap();
        ecru::scope(|s| {
            let idle = s.spawn(|| { idle }.read(&mut [0]));
            let unread = s.spawn(|| { unread }.read(&mut [0]));
            let full = s.spawn(|| { full }.write_all(&vec![0; 16 << 20]));
            settle();
            ecru::sleep(ms(3)).unwrap();
            assert!(!idle.is_finished() && !unread.is_finished() && !full.is_finished());
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(idle.join().unwrap().unwrap(), 0, "the kernel closes what it leaves");
            let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            let error = unread.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "what it had not read is lost");
            assert!(reset.contains(&full.join().unwrap().unwrap_err().kind()));
        });
    });
}
