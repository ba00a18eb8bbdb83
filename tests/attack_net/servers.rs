//! Servers that cannot serve, and servers that are stopped.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream};

use crate::common::until;
use crate::{each, ms};

#[test]
fn a_listener_in_nonblocking_mode_serves_nobody_and_says_so() {
    each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let error = listener.serve(1, |_, _: SocketAddr| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_server_that_is_told_to_stop_in_an_instant_or_never_stops_so() {
    each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..20 {
            let served = AtomicUsize::new(0);
            let client = std::net::TcpStream::connect(address).unwrap();
            listener
                .server()
                .stop_when(ecru::source::ready(()))
                .grace(Duration::ZERO)
                .serve(|mut stream, _| {
                    served.fetch_add(1, SeqCst);
                    stream.read_exact(&mut [0])
                })
                .unwrap();
            drop(client);
        }
        // With an unlimited grace period.
        let accepted = AtomicBool::new(false);
        ecru::scope(|s| {
            let (stop, stopped) = ecru::channel::bounded::<()>(0);
            let server = s.spawn(|| {
                listener.server().stop_when(stopped).grace(Duration::MAX).serve(|mut stream, _| {
                    accepted.store(true, SeqCst);
                    stream.read_exact(&mut [0])
                })
            });
            let mut client = TcpStream::connect(address).unwrap();
            until(|| accepted.load(SeqCst));
            drop(stop);
            ecru::sleep(ms(5)).unwrap();
            assert!(!server.is_finished());
            client.write_all(b"x").unwrap();
            server.join().unwrap().unwrap();
        });
    });
}
