//! Sockets at the edge of what they can do.

use super::{MS, SECOND, run};
use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use ecru::sim;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

#[test]
fn seventy_thousand_binds_slow() {
    run(1, || {
        let mut all = Vec::new();
        let failed = loop {
            match UdpSocket::bind("127.0.0.1:0") {
                Ok(socket) => all.push(socket),
                Err(error) => break error,
            }
            assert!(all.len() <= 70_000);
        };
        assert_eq!(failed.kind(), ErrorKind::AddrInUse);
        let ports: std::collections::BTreeSet<_> =
            all.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), all.len());
        all.truncate(10);
        UdpSocket::bind("127.0.0.1:0").unwrap();
    });
}

#[test]
fn connections_until_the_ports_are_used_up_slow() {
    run(1, || {
        let listener = TcpListener::bind("127.0.0.1:80").unwrap();
        let mut all = Vec::new();
        let failed = loop {
            match TcpStream::connect("127.0.0.1:80") {
                Ok(stream) => all.push((stream, listener.accept().unwrap())),
                Err(error) => break error,
            }
            assert!(all.len() <= 70_000);
        };
        assert_eq!(failed.kind(), ErrorKind::AddrNotAvailable);
        all.clear();
        TcpStream::connect("127.0.0.1:80").unwrap();
    });
}

#[test]
fn half_closes_of_both_sides_in_each_order() {
    for seed in 0..10 {
        run(seed, || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut other = listener.accept().unwrap().0;
            ecru::scope(|s| {
                let text = s.spawn(|| {
                    let mut text = String::new();
                    other.read_to_string(&mut text).unwrap();
                    assert_eq!(other.read(&mut [0]).unwrap(), 0);
                    other.write_all(text.to_uppercase().as_bytes()).unwrap();
                    other.shutdown(Shutdown::Write).unwrap();
                    let again = other.write(b"x").unwrap_err();
                    assert_eq!(again.kind(), ErrorKind::BrokenPipe);
                    text
                });
                one.write_all(&[b'a'; 200_000]).unwrap();
                one.shutdown(Shutdown::Write).unwrap();
                let mut answer = String::new();
                one.read_to_string(&mut answer).unwrap();
                assert_eq!(answer.len(), 200_000);
                assert_eq!(text.join().unwrap().len(), 200_000);
            });
            let _ = one.shutdown(Shutdown::Both);
            let _ = one.shutdown(Shutdown::Both);
            assert_eq!(one.read(&mut [0]).unwrap(), 0);
        });
    }
}

#[test]
fn a_port_that_opens_while_a_connection_is_under_way() {
    run(1, || {
        let host = sim::host("late", || {
            ecru::sleep(SECOND)?;
            let listener = TcpListener::bind("0.0.0.0:80")?;
            loop {
                listener.accept()?.0.write_all(b"x")?;
            }
        });
        let refused = TcpStream::connect("late:80").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        sim::partition(&[&host], &[]);
        let mut tries = 0;
        let mut stream = loop {
            tries += 1;
            match TcpStream::connect("late:80") {
                Ok(stream) => break stream,
                Err(_) => ecru::sleep(MS * 100).unwrap(),
            }
        };
        stream.read_exact(&mut [0]).unwrap();
        assert!((9..=11).contains(&tries), "{tries}");
    });
}

#[test]
fn a_listener_is_dropped_with_connections_in_its_queue() {
    for seed in 0..5 {
        run(seed, || {
            let listener = TcpListener::bind("127.0.0.1:80").unwrap();
            let mut queued: Vec<_> =
                (0..20).map(|_| TcpStream::connect("127.0.0.1:80").unwrap()).collect();
            queued[0].write_all(b"never read").unwrap();
            ecru::scope(|s| {
                let last = queued.pop().unwrap();
                let reads = s.spawn(move || {
                    let mut last = last;
                    last.read(&mut [0]).map_err(|error| error.kind())
                });
                sim::settle();
                drop(listener);
                assert_eq!(reads.join().unwrap(), Err(ErrorKind::ConnectionReset));
            });
            for mut stream in queued {
                assert!(stream.read(&mut [0]).is_err());
            }
            let refused = TcpStream::connect("127.0.0.1:80").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            TcpListener::bind("127.0.0.1:80").unwrap();
        });
    }
}

#[test]
fn a_listener_is_dropped_by_another_task_while_one_accepts() {
    run(1, || {
        let listener = std::sync::Arc::new(TcpListener::bind("127.0.0.1:80").unwrap());
        ecru::scope(|s| {
            let accepts = std::sync::Arc::clone(&listener);
            let task = s.spawn(move || accepts.accept().map(drop));
            sim::settle();
            drop(listener);
            sim::settle();
            task.cancel();
            assert!(task.join().unwrap().is_err());
        });
    });
}

#[test]
fn datagrams_at_the_edge() {
    run(1, || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = socket.local_addr().unwrap();
        socket.send_to(b"", own).unwrap();
        assert_eq!(socket.recv_from(&mut [0; 4]).unwrap(), (0, own));
        socket.send_to(&[7; 65_507], own).unwrap();
        let mut short = [0; 3];
        assert_eq!(socket.recv(&mut short).unwrap(), 3);
        assert!(socket.send_to(&[7; 65_508], own).is_err());
        assert!(socket.send_to(&vec![7; 10 << 20], own).is_err());
        let _ = socket.send_to(b"x", "127.0.0.1:0");
        let _ = socket.send_to(b"x", "255.255.255.255:9");
        let _ = socket.send_to(b"x", "192.0.2.1:9");
        let _ = socket.send_to(b"x", "[::1]:9");
        // A flood is lost at some point, and fills no memory.
        for _ in 0..10_000 {
            let _ = socket.send_to(&[7; 60_000], own);
        }
        let mut count = 0;
        let mut buffer = vec![0; 65_536];
        while let Ok(Ok(_)) = ecru::timeout(MS, || socket.recv(&mut buffer)) {
            count += 1;
        }
        assert!((1..10_000).contains(&count), "{count}");
    });
}

#[test]
fn addresses_that_cannot_be_bound_or_reached() {
    run(1, || {
        for address in ["255.255.255.255:80", "224.0.0.1:80", "192.0.2.1:80", "[2001:db8::1]:80"] {
            let bound = TcpListener::bind(address);
            assert!(bound.is_err(), "{address}: {bound:?}");
            let connected = ecru::timeout(600 * SECOND, || TcpStream::connect(address));
            assert!(!matches!(connected, Ok(Ok(_))), "{address}");
        }
        for name in
            ["", ":", "nowhere:80", "a:b", "x:99999", "\0:1", &format!("{}:1", "y".repeat(10_000))]
        {
            assert!(TcpStream::connect(name).is_err());
            assert!(UdpSocket::bind(name).is_err());
        }
        for address in ["0.0.0.0:80", "[::]:80", "[::1]:81"] {
            let bound = TcpListener::bind(address);
            if let Ok(listener) = &bound {
                let port = listener.local_addr().unwrap().port();
                let host = if address.starts_with("[::1") { "::1" } else { "127.0.0.1" };
                TcpStream::connect((host, port)).unwrap();
            }
        }
        assert_eq!(
            TcpStream::connect("0.0.0.0:1").unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        assert!(TcpStream::connect("127.0.0.1:0").is_err());
    });
}

#[test]
fn a_connection_of_a_socket_with_itself_at_both_ends() {
    run(1, || {
        let listener = TcpListener::bind("127.0.0.1:80").unwrap();
        let mut one = TcpStream::connect("127.0.0.1:80").unwrap();
        let other = listener.accept().unwrap().0;
        let clone = other.try_clone().unwrap();
        ecru::scope(|s| {
            // Two readers on two clones of one end, one of which is dropped meanwhile.
            let a = s.spawn(move || (&other).read(&mut [0; 1]).unwrap());
            let b = s.spawn(move || (&clone).read(&mut [0; 1]).unwrap());
            sim::settle();
            one.write_all(b"xy").unwrap();
            assert_eq!(a.join().unwrap() + b.join().unwrap(), 2);
        });
    });
}

#[test]
fn unix_sockets_and_the_files_of_their_names() {
    run(1, || {
        let listener = UnixListener::bind("/tmp/s").unwrap();
        assert_eq!(UnixListener::bind("/tmp/s").unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        // As on Linux the name stays, and nothing listens there.
        assert_eq!(UnixListener::bind("/tmp/s").unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixStream::connect("/tmp/s").unwrap_err().kind(), ErrorKind::ConnectionRefused);
        ecru::fs::remove_file("/tmp/s").unwrap();
        assert_eq!(UnixStream::connect("/tmp/s").unwrap_err().kind(), ErrorKind::NotFound);
        let long = format!("/tmp/{}", "x".repeat(200));
        assert!(UnixListener::bind(&long).is_err());
        ecru::fs::write("/tmp/file", "x").unwrap();
        assert!(UnixStream::connect("/tmp/file").is_err());
        assert!(UnixListener::bind("/tmp/file").is_err());
        let (one, other) = UnixDatagram::pair().unwrap();
        one.send(b"x").unwrap();
        drop(one);
        let mut buffer = [0; 4];
        assert_eq!(other.recv(&mut buffer).unwrap(), 1);
        assert!(other.send(b"y").is_err());
    });
}

#[test]
fn time_limits_of_sockets_at_the_edge() {
    run(1, || {
        let listener = TcpListener::bind("127.0.0.1:80").unwrap();
        let mut one = TcpStream::connect("127.0.0.1:80").unwrap();
        let other = listener.accept().unwrap().0;
        assert!(one.set_read_timeout(Some(std::time::Duration::ZERO)).is_err());
        one.set_read_timeout(Some(std::time::Duration::MAX)).unwrap();
        assert!(ecru::timeout(SECOND, || one.read(&mut [0])).is_err());
        one.set_read_timeout(Some(std::time::Duration::from_nanos(1))).unwrap();
        let failed = one.read(&mut [0]).unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{failed}");
        one.set_write_timeout(Some(SECOND)).unwrap();
        let failed = one.write_all(&vec![0; 64 << 20]).unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{failed}");
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(other);
    });
}
