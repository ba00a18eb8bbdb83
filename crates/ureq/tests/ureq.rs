//! ureq over ecru's sockets, with one worker and with two.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{HOUR, each_run, listen, ms};
use ecru::net::{TcpListener, TcpStream};
use ecru::{CancelReason, Cancelled};
use ureq::config::{Config, IpFamily};
use ureq::{Agent, Error};

/// Settings without the proxy that the environment may name.
fn config() -> Config {
    Agent::config_builder().proxy(None).build()
}

/// Answers requests without a body until the client closes the connection, or until `requests` have
/// been answered.
fn serve(mut stream: TcpStream, requests: usize) -> io::Result<()> {
    let mut received = Vec::new();
    for _ in 0..requests {
        let end = loop {
            if let Some(at) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            let mut buffer = [0; 1024];
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => received.extend_from_slice(&buffer[..count]),
            }
        };
        let head = String::from_utf8_lossy(&received[..end]).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len())?;
        received.drain(..end);
    }
    Ok(())
}

/// Runs `talk` with the port of a server whose connections answer this many requests, and with the
/// number of connections that it has closed. Returns how many it has closed in the end.
fn with_server(requests: usize, talk: impl FnOnce(u16, &AtomicUsize)) -> usize {
    let (listener, address) = listen();
    let closed = AtomicUsize::new(0);
    ecru::scope(|s| {
        s.spawn_daemon(|| {
            listener.serve(100, |stream, _| {
                let _ = serve(stream, requests);
                closed.fetch_add(1, SeqCst);
                Ok(())
            })
        });
        talk(address.port(), &closed);
    });
    closed.into_inner()
}

fn get(agent: &Agent, url: &str) -> Result<String, Error> {
    agent.get(url).call()?.into_body().read_to_string()
}

/// Many tasks share an agent and its connections. A name is looked up.
#[test]
fn many_tasks() {
    each_run(|| {
        let connections = with_server(usize::MAX, |port, _| {
            let agent = ecru_ureq::agent(config());
            ecru::scope(|s| {
                for task in 0..10 {
                    let agent = &agent;
                    s.spawn(move || {
                        for round in 0..5 {
                            let url = format!("http://localhost:{port}/{task}/{round}");
                            assert_eq!(get(agent, &url).unwrap(), format!("/{task}/{round}"));
                        }
                    });
                }
            });
            assert_eq!(get(&agent, &format!("http://localhost:{port}/last")).unwrap(), "/last");
        });
        // ureq keeps a few idle connections for a host, which later requests use.
        assert!((1..51).contains(&connections), "{connections}");
    });
}

/// A connection that the server has closed while it was idle is not used again.
#[test]
fn an_idle_connection_that_is_closed() {
    each_run(|| {
        let connections = with_server(1, |port, closed| {
            let agent = ecru_ureq::agent(config());
            for round in 0..3 {
                let url = format!("http://127.0.0.1:{port}/{round}");
                assert_eq!(get(&agent, &url).unwrap(), format!("/{round}"));
                common::until(|| closed.load(SeqCst) == round + 1);
            }
        });
        assert_eq!(connections, 3);
    });
}

/// A server that says nothing: a limit of ureq's, one of ecru's, and a cancellation.
#[test]
fn a_silent_server() {
    each_run(|| {
        let (_listener, address) = listen();
        let url = format!("http://{address}/");
        let agent = ecru_ureq::agent(config());
        let limited = agent.get(&url).config().timeout_global(Some(ms(5))).build().call();
        assert!(matches!(limited.unwrap_err(), Error::Timeout(ureq::Timeout::Global)));
        let elapsed = ecru::timeout(ms(5), || {
            let Error::Io(error) = agent.get(&url).call().unwrap_err() else { panic!() };
            let found = Cancelled::find(&error).map(|cancelled| cancelled.reason());
            assert_eq!(found, Some(CancelReason::Deadline), "{error}");
        });
        assert!(elapsed.is_err());
        ecru::scope(|s| {
            let request = common::begin(s, || agent.get(&url).call().map(drop));
            request.cancel();
            let Error::Io(error) = request.join().unwrap().unwrap_err() else { panic!() };
            assert!(Cancelled::find(&error).is_some(), "{error}");
        });
    });
}

/// Hosts that do not exist, that refuse, or that have no address of the family.
#[test]
fn failures_to_connect() {
    each_run(|| {
        let agent = ecru_ureq::agent(config());
        let unknown = get(&agent, "http://no-such-host.invalid/").unwrap_err();
        assert!(matches!(unknown, Error::Io(_) | Error::HostNotFound), "{unknown:?}");
        let (listener, address) = listen();
        drop(listener);
        let Error::Io(refused) = get(&agent, &format!("http://{address}/")).unwrap_err() else {
            panic!()
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let six = Agent::config_builder().proxy(None).ip_family(IpFamily::Ipv6Only).build();
        let none = get(&ecru_ureq::agent(six), &format!("http://{address}/")).unwrap_err();
        assert!(matches!(none, Error::HostNotFound), "{none:?}");
    });
}

/// The name and the sockets of a simulated host.
#[test]
fn a_simulated_host() {
    ecru::sim::test(|| {
        ecru::sim::host("pages", || {
            let listener = TcpListener::bind("0.0.0.0:80")?;
            loop {
                let _ = serve(listener.accept()?.0, usize::MAX);
            }
        });
        let agent = ecru_ureq::agent(config());
        let page = ecru::timeout(HOUR, || {
            // The host may not be listening yet.
            loop {
                if let Ok(page) = get(&agent, "http://pages/simulated") {
                    return page;
                }
                ecru::sleep(ms(10)).unwrap();
            }
        });
        assert_eq!(page.unwrap(), "/simulated");
    });
}
