//! Connections between hosts.

use super::{MS, SECOND, ask, each_seed, echo_host};
use ecru::net::{Shutdown, TcpListener, TcpStream, UnixListener, UnixStream};
use ecru::sim::{self, Failure, Simulation};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// - given: a server on another host, and links that take 20 ms
/// - when: a client connects and sends three requests
/// - then: each of the four round trips takes exactly 40 ms of virtual time
#[test]
fn sim_100_an_echo_takes_the_latency_of_its_link() {
    let slow = ecru::sim::Link::new().latency(20 * MS..=20 * MS);
    let report = Simulation::new(1).network(slow).run(|| {
        echo_host("server");
        let mut stream = TcpStream::connect("server:80").unwrap();
        assert_eq!(sim::elapsed(), 40 * MS);
        assert_eq!(stream.peer_addr().unwrap(), "10.0.0.1:80".parse().unwrap());
        for _ in 0..3 {
            ask(&mut stream, b"hello").unwrap();
        }
        sim::elapsed()
    });
    assert_eq!(report.unwrap(), 160 * MS);
}

/// - given: a server on the same host
/// - when: a client connects and sends requests
/// - then: no virtual time passes
#[test]
fn sim_101_one_host_takes_no_time() {
    each_seed(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
            });
            let mut stream = TcpStream::connect(address).unwrap();
            ask(&mut stream, b"hello").unwrap();
        });
        assert_eq!(sim::elapsed(), Duration::ZERO);
    });
}

/// - given: a host without a listener, and a network without a host of that address
/// - when: a client connects
/// - then: the first refuses after one round trip, and the second is not reached after 3 s
#[test]
fn sim_102_a_connection_is_refused_or_finds_no_host() {
    each_seed(|| {
        sim::host("idle", || Ok(()));
        let error = TcpStream::connect("idle:80").unwrap_err();
        assert_eq!((error.kind(), sim::elapsed()), (ErrorKind::ConnectionRefused, 2 * MS));
        let error = TcpStream::connect("10.0.7.7:80").unwrap_err();
        assert_eq!(
            (error.kind(), sim::elapsed()),
            (ErrorKind::HostUnreachable, 2 * MS + 3 * SECOND)
        );
        let error = TcpStream::connect("192.0.2.1:80").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
    });
}

/// - given: a connection whose peer does not read
/// - when: a client writes without an end
/// - then: it waits when 64 KiB are under way, and goes on when the peer reads
#[test]
fn sim_103_a_reader_holds_up_its_writer() {
    each_seed(|| {
        sim::host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
            ecru::sleep(60 * SECOND)?;
            io::copy(&mut stream, &mut io::sink()).map(drop)
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        let error = loop {
            match stream.write(&[7; 10_000]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), sent), (ErrorKind::WouldBlock, 64 << 10));
        stream.set_nonblocking(false).unwrap();
        stream.write_all(&[7; 100_000]).unwrap();
        assert!(sim::elapsed() > 60 * SECOND);
    });
}

/// - given: a connection
/// - when: one end shuts its writing half down, and the other answers and closes
/// - then: each reads to the end of what the other has sent
#[test]
fn sim_104_halves_end_one_after_the_other() {
    each_seed(|| {
        sim::host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            stream.write_all(text.to_uppercase().as_bytes())
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        stream.write_all(b"question").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "QUESTION");
    });
}

/// - given: a peer that closes its end without having read everything
/// - when: this end reads
/// - then: it fails with `ConnectionReset`
#[test]
fn sim_105_a_close_with_unread_bytes_resets() {
    each_seed(|| {
        sim::host("server", || {
            let (stream, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
            stream.wait_readable()
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        stream.write_all(b"unread").unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(stream.write(b"x").is_err());
    });
}

/// - given: three hosts
/// - when: names are looked up on them
/// - then: the names of hosts are their addresses, `localhost` is each one's own, and others are
///   not known
#[test]
fn sim_106_names_are_those_of_the_hosts() {
    each_seed(|| {
        let server = echo_host("server");
        assert_eq!(server.addr().to_string(), "10.0.0.1");
        for address in ["server:80", "SERVER:80", "10.0.0.1:80", "[fd00::1]:80"] {
            // The listener has bound an IPv4 address.
            let result = TcpStream::connect(address).map(drop);
            assert_eq!(result.is_ok(), !address.starts_with('['), "{address}: {result:?}");
        }
        assert!(TcpStream::connect(("server", 80)).is_ok());
        let error = TcpStream::connect("nobody:80").unwrap_err();
        assert!(error.to_string().contains("Name or service not known"), "{error}");
        assert_eq!(TcpStream::connect("server").unwrap_err().kind(), ErrorKind::InvalidInput);
        // The root has no listener of its own.
        let error = TcpStream::connect("localhost:80").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let all = TcpListener::bind("[::]:80").unwrap();
        let client = TcpStream::connect("127.0.0.1:80").unwrap();
        let mapped: SocketAddr = client.local_addr().unwrap();
        let (_, from) = all.accept().unwrap();
        assert_eq!(from.to_string(), format!("[::ffff:127.0.0.1]:{}", mapped.port()));
    });
}

/// - given: Unix listeners with one path on two hosts
/// - when: programs on both connect to it
/// - then: each reaches its own, and the path refuses when the listener is gone
#[test]
fn sim_107_unix_names_belong_to_a_host() {
    fn serve(text: &'static str) -> io::Result<()> {
        let listener = UnixListener::bind("/tmp/socket")?;
        ecru::scope(|s| {
            let client = s.spawn(|| {
                let mut found = String::new();
                UnixStream::connect("/tmp/socket")?.read_to_string(&mut found).map(|_| found)
            });
            listener.accept()?.0.write_all(text.as_bytes())?;
            assert_eq!(client.join().unwrap()?, text);
            io::Result::Ok(())
        })?;
        drop(listener);
        let error = UnixStream::connect("/tmp/socket").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(UnixListener::bind("/tmp/socket").unwrap_err().kind(), ErrorKind::AddrInUse);
        ecru::fs::remove_file("/tmp/socket")?;
        let error = UnixStream::connect("/tmp/socket").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        Ok(())
    }
    each_seed(|| {
        assert!(super::on_host("one", || serve("one").is_ok()));
        assert!(super::on_host("other", || serve("other").is_ok()));
    });
}

/// - given: a server that forgets a time limit, and a client that vanishes without a word
/// - when: nothing else happens
/// - then: the simulation fails with `Deadlock`, and names the wait and the peer
#[test]
fn sim_108_a_forgotten_time_limit_is_found() {
    let report = Simulation::new(1).run(|| {
        let client = sim::host("client", || {
            let _stream = TcpStream::connect("10.0.255.254:80")?;
            ecru::sleep(3600 * SECOND)?;
            Ok(())
        });
        let (mut stream, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
        client.power_fail();
        stream.read(&mut [0])
    });
    let Err(Failure::Deadlock(tree)) = report.result else {
        panic!("{:?}", report.result);
    };
    let text = tree.to_string();
    let waits = "waits to read from 'client' (10.0.0.1:";
    assert!(text.contains(waits) && text.contains("), which lost its power at 3ms"), "{text}");
}

/// - given: a proxy on a host between a client and a server, which calls `copy_bidirectional`
/// - when: the client ends its stream, and the server answers and ends
/// - then: the proxy passes on the bytes and the ends of both directions, and counts the bytes
#[test]
fn sim_109_a_proxy_passes_on_bytes_and_ends() {
    let report = Simulation::new(1).run(|| {
        let _server = sim::host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
            let mut question = String::new();
            stream.read_to_string(&mut question)?;
            stream.write_all(format!("{question}!").as_bytes())
        });
        let _proxy = sim::host("proxy", || {
            let (front, _) = TcpListener::bind("0.0.0.0:80")?.accept()?;
            let back = TcpStream::connect("server:80")?;
            assert_eq!(ecru::io::copy_bidirectional(&front, &back)?, (4, 5));
            Ok(())
        });
        ecru::sleep(Duration::from_secs(1))?;
        let mut client = TcpStream::connect("proxy:80")?;
        client.write_all(b"what")?;
        client.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        io::Result::Ok(answer)
    });
    assert_eq!(report.unwrap().unwrap(), "what!");
}
