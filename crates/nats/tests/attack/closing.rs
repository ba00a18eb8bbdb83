//! `Client::close`.

use ecru::net::TcpListener;
use ecru::sim;
use ecru_nats::{Client, ErrorKind};

use crate::peer::{ADDRESS, Peer, SECOND, against, ms, quick, simulate};

/// Reads everything. Returns how many messages there were.
fn count(listener: &TcpListener) -> usize {
    let mut peer = Peer::greet(listener).unwrap();
    std::iter::from_fn(|| peer.published().ok()).count()
}

/// - given: a client with a subscription, a request and pulled messages, which has published
/// - when: it is closed, twice and from two tasks
/// - then: the server has received everything when `close` returns `Ok`, calls answer `Closed`, the
///   subscription is disconnected, and the scope goes on
#[test]
fn nats_121_close() {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            let counted = s.spawn(|| count(&listener));
            let client = Client::connect(s, ADDRESS).unwrap();
            let words = client.subscribe("words").unwrap();
            for _ in 0..100 {
                client.publish("numbers", vec![b'x'; 1000]).unwrap();
            }
            let request = client.request("numbers", "").unwrap();
            let other = client.clone();
            let closing = s.spawn(move || other.close());
            client.close().unwrap();
            closing.join().unwrap().unwrap();
            client.close().unwrap();
            assert_eq!(counted.join().unwrap(), 101);
            assert_eq!(request.get().unwrap_err().kind(), ErrorKind::Closed);
            assert!(words.recv().unwrap_err().is_disconnected());
            assert_eq!(client.publish("a", "").unwrap_err().kind(), ErrorKind::Closed);
            assert_eq!(client.flush().unwrap_err().kind(), ErrorKind::Closed);
            assert!(!client.is_connected() && client.events().iter().count() == 1);
            ecru::sleep(SECOND).unwrap();
        });
    });
}

/// - given: a client whose server does not read, or is gone
/// - when: the client is closed
/// - then: `close` fails with `Disconnected` when its time limit has passed, or at once, and the
///   client has ended
#[test]
fn nats_122_close_without_a_server() {
    let deaf = |listener: &TcpListener| {
        let _peer = Peer::greet(listener)?;
        Ok(ecru::sleep(3600 * SECOND)?)
    };
    against(&quick().flush_timeout(SECOND), deaf, |client| {
        client.publish("a", "")?;
        let begun = sim::elapsed();
        assert_eq!(client.close().unwrap_err().kind(), ErrorKind::Disconnected);
        assert!(sim::elapsed() - begun <= 2 * SECOND);
        assert_eq!(client.close().unwrap_err().kind(), ErrorKind::Disconnected);
        assert_eq!(client.publish("a", "").unwrap_err().kind(), ErrorKind::Closed);
        Ok(())
    });
    simulate(|| {
        ecru::scope(|s| {
            for publishes in [false, true] {
                let listener = TcpListener::bind(ADDRESS).unwrap();
                let client = ecru::scope(|accepting| {
                    accepting.spawn(|| drop(Peer::greet(&listener)));
                    quick().connect(s, ADDRESS).unwrap()
                });
                drop(listener);
                while client.is_connected() {
                    ecru::sleep(ms(1)).unwrap();
                }
                if publishes {
                    client.publish("a", "").unwrap();
                }
                let begun = sim::elapsed();
                let closed = client.close();
                assert_eq!(closed.is_err(), publishes, "{closed:?}");
                assert!(sim::elapsed() - begun <= ms(100));
            }
        });
    });
}

/// - given: a task that closes a client
/// - when: it is cancelled
/// - then: `close` fails with `Cancelled`, and the client ends all the same, with everything sent
#[test]
fn nats_123_a_cancelled_close() {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            let counted = s.spawn(|| count(&listener));
            let client = Client::connect(s, ADDRESS).unwrap();
            for _ in 0..100 {
                client.publish("numbers", vec![b'x'; 1000]).unwrap();
            }
            let error = ecru::cancel_scope(|c| {
                c.cancel();
                client.close().unwrap_err()
            });
            assert_eq!(error.kind(), ErrorKind::Cancelled);
            assert_eq!(counted.join().unwrap(), 100);
            client.close().unwrap();
        });
    });
}

#[test]
fn a_client_that_is_closed_in_a_destructor_or_at_once() {
    struct Last(Client);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.close();
        }
    }
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while !ecru::is_cancelled() {
                    let _ = Peer::greet(&listener).map(Peer::idle);
                }
            });
            for _ in 0..5 {
                let client = ecru::scope(|s| {
                    let client = Client::connect(s, ADDRESS).unwrap();
                    let _first = Last(client.clone());
                    client
                });
                // The scope has ended, too.
                client.close().unwrap();
            }
        });
    });
}
