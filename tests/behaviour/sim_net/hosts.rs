//! What belongs to a host, and pipes and notifications within one.

use super::{SECOND, each_seed, run};
use crate::support::panic_text;
use ecru::Source;
use ecru::io::{EventFd, pipe};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim;
use std::io::{ErrorKind, Read, Write};

/// - given: hosts and the root
/// - when: each binds the same port
/// - then: none is in the other's way, and a second bind on one host fails with `AddrInUse`
#[test]
fn sim_140_each_host_has_ports_of_its_own() {
    each_seed(|| {
        let bind = || TcpListener::bind("0.0.0.0:80");
        let own = bind().unwrap();
        assert_eq!(bind().unwrap_err().kind(), ErrorKind::AddrInUse);
        for name in ["one", "other"] {
            let address = super::on_host(name, move || bind().unwrap().local_addr().unwrap());
            assert_eq!(address.port(), 80);
        }
        assert_eq!(
            TcpListener::bind("10.0.0.1:1").unwrap_err().kind(),
            ErrorKind::AddrNotAvailable
        );
        drop(own);
        bind().unwrap();
    });
}

/// - given: a task that a host has spawned in a scope, in a scope of it, and through `unblock`
/// - when: it uses the network
/// - then: it does so on that host
#[test]
fn sim_141_tasks_run_on_the_host_of_their_scope() {
    each_seed(|| {
        let seen = super::on_host("host", || {
            let own = || {
                let listener = TcpListener::bind("10.0.0.1:0")?;
                TcpStream::connect(listener.local_addr()?)?.local_addr()
            };
            ecru::scope(|s| {
                let inner = s.spawn(|| ecru::scope(|s| s.spawn(own).join().unwrap()));
                let blocking = s.spawn(|| ecru::unblock(own));
                [inner.join().unwrap(), blocking.join().unwrap(), own()]
            })
        });
        for address in seen {
            assert_eq!(address.unwrap().ip().to_string(), "10.0.0.1");
        }
    });
}

/// - given: a pipe and an `EventFd`
/// - when: tasks wait for them, also in a `select!`
/// - then: they wake up as outside of a simulation
#[test]
fn sim_142_pipes_and_notifications() {
    each_seed(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let news = EventFd::new().unwrap();
        assert_eq!(news.try_take(), None);
        ecru::scope(|s| {
            s.spawn(|| {
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                assert_eq!(text, "through the pipe");
                news.notify().unwrap();
            });
            s.spawn(move || {
                ecru::sleep(SECOND).unwrap();
                writer.write_all(b"through the pipe").unwrap();
            });
            news.wait().unwrap();
        });
        let (_tx, rx) = ecru::channel::bounded::<()>(1);
        for _ in 0..3 {
            ecru::scope(|s| {
                s.spawn(|| {
                    ecru::sleep(SECOND).unwrap();
                    news.notify().unwrap();
                });
                ecru::select! {
                    wait(news) -> _ => {},
                    recv(rx) -> _ => panic!("nothing was sent"),
                }
            });
        }
        assert_eq!(sim::elapsed(), 4 * SECOND);
    });
}

/// - given: no simulation
/// - when: a function for hosts and links is called
/// - then: it panics and says where to call it
#[test]
fn sim_143_hosts_belong_to_simulations() {
    let host = run(1, || sim::host("host", || Ok(())));
    for text in [
        panic_text(|| drop(sim::host("host", || Ok(())))),
        panic_text(sim::heal),
        panic_text(sim::calm),
        panic_text(|| host.crash()),
    ] {
        assert!(text.contains("outside"), "{text}");
    }
    let twice = || {
        sim::host("twice", || Ok(()));
        panic_text(|| drop(sim::host("TWICE", || Ok(()))))
    };
    assert!(run(1, twice).contains("already"));
}
