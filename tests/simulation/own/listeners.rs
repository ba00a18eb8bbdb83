//! Listeners: each connection is served once or closed, and nothing of a server is left.

use super::everywhere_with_faults;
use ecru::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ecru::sim;
use ecru::{channel, shield};
use std::io::{self, Read, Write};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:700";

/// Asks a server for the answer to a number. Returns `Ok(None)` if the server has closed the
/// connection.
fn ask(mut stream: impl Read + Write, number: u8) -> io::Result<Option<u8>> {
    stream.write_all(&[number])?;
    let mut answer = [0];
    Ok((stream.read(&mut answer)? == 1).then_some(answer[0]))
}

/// Answers one number.
fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let mut number = [0];
    stream.read_exact(&mut number)?;
    stream.write_all(&[number[0] + 100])
}

/// A place that is free again.
#[track_caller]
fn is_free_again() {
    shield(|| {
        // Each operation may be the one that fails, and only one does.
        let again = || TcpListener::bind(ADDRESS).map(drop);
        let bound = again().or_else(|_| again());
        assert!(bound.is_ok(), "{bound:?}");
    });
}

/// Two tasks accept. If one of them is cancelled, the other serves all clients.
#[test]
fn each_connection_is_accepted_once_slow() {
    everywhere_with_faults(|| {
        let accepted = [const { AtomicU32::new(0) }; 3];
        if let Ok(listener) = TcpListener::bind(ADDRESS) {
            ecru::scope(|s| {
                let (listener, accepted) = (&listener, &accepted);
                let acceptors = [(); 2].map(|()| {
                    s.spawn(move || {
                        while let Ok((mut stream, _)) = listener.accept() {
                            let mut number = [0];
                            if stream.read_exact(&mut number).is_ok() {
                                accepted[usize::from(number[0])].fetch_add(1, Relaxed);
                                let _ = stream.write_all(&[number[0] + 100]);
                            }
                        }
                    })
                });
                let clients = [0, 1, 2].map(|number| {
                    s.spawn(move || {
                        let limit = Duration::from_secs(1);
                        let asked = ecru::timeout(limit, || {
                            let stream = TcpStream::connect(ADDRESS)?;
                            ask(stream, number)
                        });
                        (number, asked.unwrap_or(Ok(None)))
                    })
                });
                for client in &clients {
                    if let Ok((number, Ok(Some(answer)))) = shield(|| client.join()) {
                        assert_eq!(answer, number + 100);
                        assert_eq!(accepted[usize::from(number)].load(Relaxed), 1);
                    }
                }
                acceptors.iter().for_each(|acceptor| acceptor.cancel());
            });
        }
        assert!(accepted.iter().all(|times| times.load(Relaxed) <= 1), "{accepted:?}");
        is_free_again();
    });
}

/// Without a cancellation, each client gets its answer.
#[test]
fn a_server_serves_all_within_its_limit() {
    sim::test(|| {
        let served = Arc::new(AtomicU32::new(0));
        let now = Arc::clone(&served);
        sim::invariant("at most two at once", move || now.load(Relaxed) <= 2);
        let listener = TcpListener::bind(ADDRESS).unwrap();
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let served = &served;
            let server = s.spawn(move || {
                listener.server().limit(2).stop_when(stopped).serve(|stream, _| {
                    served.fetch_add(1, Relaxed);
                    let answered = ecru::yield_now().map_err(io::Error::from);
                    let answered = answered.and_then(|()| answer(&stream));
                    served.fetch_sub(1, Relaxed);
                    answered
                })
            });
            let clients = [0, 1, 2, 3, 4].map(|number| {
                s.spawn(move || ask(TcpStream::connect(ADDRESS).unwrap(), number).unwrap())
            });
            for (number, client) in clients.into_iter().enumerate() {
                assert_eq!(client.join().unwrap(), Some(number as u8 + 100));
            }
            drop(stop);
            server.join().unwrap().unwrap();
        });
        is_free_again();
    });
}

/// When `serve` returns, no connection is served any more, and each client has an answer or an end.
#[test]
fn nothing_of_a_server_is_left_slow() {
    everywhere_with_faults(|| {
        let served = AtomicU32::new(0);
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let served = &served;
            let server = s.spawn(move || -> io::Result<()> {
                let listener = TcpListener::bind(ADDRESS)?;
                let server = listener.server().limit(2).stop_when(stopped);
                let outcome = server.grace(Duration::from_secs(1)).serve(|stream, _| {
                    served.fetch_add(1, Relaxed);
                    let answered = answer(&stream);
                    served.fetch_sub(1, Relaxed);
                    answered
                });
                assert_eq!(served.load(Relaxed), 0);
                outcome
            });
            let clients = [0, 1, 2].map(|number| {
                s.spawn(move || -> io::Result<()> {
                    ecru::sleep(Duration::from_millis(1))?;
                    if let Some(answer) = ask(TcpStream::connect(ADDRESS)?, number)? {
                        assert_eq!(answer, number + 100);
                    }
                    Ok(())
                })
            });
            clients.iter().for_each(|client| drop(shield(|| client.join())));
            drop(stop);
            let _ = shield(|| server.join());
        });
        is_free_again();
    });
}

/// The same for Unix sockets, of which the path stays.
#[test]
fn nothing_of_a_unix_server_is_left_slow() {
    everywhere_with_faults(|| {
        let (stop, stopped) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let server = s.spawn(move || -> io::Result<()> {
                let listener = UnixListener::bind("socket")?;
                let server = listener.server().limit(1).stop_when(stopped);
                server.serve(|stream, _: UnixAddress| answer(&stream))
            });
            let clients = [0, 1].map(|number| {
                s.spawn(move || -> io::Result<()> {
                    ecru::sleep(Duration::from_millis(1))?;
                    if let Some(answer) = ask(UnixStream::connect("socket")?, number)? {
                        assert_eq!(answer, number + 100);
                    }
                    Ok(())
                })
            });
            clients.iter().for_each(|client| drop(shield(|| client.join())));
            drop(stop);
            let _ = shield(|| server.join());
        });
        shield(|| {
            let connected = UnixStream::connect("socket");
            assert!(connected.is_err(), "something listens");
            // A listener that has failed after its binding leaves the path, as on Linux.
            let again = || {
                let _ = ecru::fs::remove_file("socket");
                UnixListener::bind("socket")
            };
            let bound = again().or_else(|_| again());
            assert!(bound.is_ok(), "{bound:?}");
        });
    });
}

/// An attempt to connect by name ends with a connection or an error. Both are the caller's, and the
/// next attempt is not hindered by it.
#[test]
fn a_lookup_hinders_no_other_one_slow() {
    everywhere_with_faults(|| {
        let Ok(listener) = TcpListener::bind(ADDRESS) else { return };
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| TcpStream::connect("localhost:700"));
            }
            s.spawn(|| TcpStream::connect(("localhost", 700)));
            let missing = s.spawn(|| TcpStream::connect("missing:700").is_err());
            assert!(shield(|| missing.join()).unwrap_or(true));
        });
        shield(|| {
            let connect = || TcpStream::connect("localhost:700");
            let connected = connect().or_else(|_| connect());
            assert!(connected.is_ok(), "{connected:?}");
            // The attempts have come to an end, so the listener has all of them.
            let mut accepted = 0;
            while let Ok(outcome) = ecru::timeout(Duration::from_secs(1), || listener.accept()) {
                accepted += usize::from(outcome.is_ok());
            }
            assert!((1..=4).contains(&accepted), "{accepted}");
        });
    });
}
