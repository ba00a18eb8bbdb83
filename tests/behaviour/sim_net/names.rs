//! Names of hosts.

use super::{MS, SECOND, each_strategy, on_host, run};
use ecru::net::{TcpListener, TcpStream, ToSocketAddrs};
use ecru::{sim, sleep};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// Resolves a name as a library would.
fn first(name: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    Ok(name.to_socket_addrs()?.next().unwrap())
}

/// - given: a host
/// - when: its name is resolved by `ToSocketAddrs`, in each of its forms
/// - then: the result is its address, as for `connect`; other names are not known
#[test]
fn sim_197_names_are_resolved_by_the_trait() {
    run(1, || {
        sim::host("server", || Ok(()));
        let expected = "10.0.0.1:80".parse().unwrap();
        let (text, pair) = (String::from("server:80"), (String::from("server"), 80));
        let found = [
            first("server:80"),
            first(&text),
            first(text.clone()),
            first(("server", 80)),
            first(&pair),
            first(pair.clone()),
            Ok(text.as_str().to_socket_addrs().unwrap().next().unwrap()),
        ];
        for address in found {
            assert_eq!(address.unwrap(), expected);
        }
        assert_eq!(first("localhost:1").unwrap(), "127.0.0.1:1".parse().unwrap());
        let error = first("nothing:80").unwrap_err();
        assert!(error.to_string().contains("Name or service not known"), "{error}");
        assert_eq!(sim::elapsed(), std::time::Duration::ZERO);
    });
}

/// - given: hosts whose programs connect to each other as they begin
/// - when: they are made one after another
/// - then: each name is known, whichever task runs first; a name of which no host is made at this
///   moment is not
#[test]
fn sim_198_names_of_hosts_that_are_made_later() {
    each_strategy(|| {
        let client = || {
            assert!(TcpStream::connect("late:80").is_err());
            let mut stream = TcpStream::connect("server:80")?;
            stream.read_exact(&mut [0])?;
            sleep(SECOND)?;
            TcpStream::connect("late:80").map(drop)
        };
        let server =
            || TcpListener::bind("0.0.0.0:80")?.serve(9, |mut stream, _| stream.write_all(b"!"));
        let slow = move || {
            // The server begins to listen a moment later.
            sleep(MS)?;
            client()
        };
        let one = sim::host("one", slow);
        sim::host("two", || {
            assert_eq!(first("server:80")?.to_string(), "10.0.0.3:80");
            Ok(())
        });
        sim::host("server", server);
        sleep(SECOND / 2).unwrap();
        sim::host("late", server);
        sleep(10 * SECOND).unwrap();
        assert_eq!(one.name(), "one");
    });
}

/// - given: a host, a host whose clock is wrong, a host that is cut off, and the root
/// - when: each looks for the name of a host that does not exist yet, and again at a later virtual
///   time, after another host has made that host
/// - then: the first lookup finds nothing, and each later one finds the address: by the trait, in
///   all of its forms, and by a connection
#[test]
fn sim_416_names_are_looked_up_anew() {
    fn unknown() {
        let error = first("late:80").unwrap_err();
        assert!(error.to_string().contains("no host of the simulation"), "{error}");
        assert!(first(("late", 80)).is_err() && TcpStream::connect("late:80").is_err());
    }
    fn known() -> io::Result<()> {
        let expected = "10.0.0.5:80".parse().unwrap();
        assert_eq!(first("late:80")?, expected);
        assert_eq!(first("LATE:80")?, expected);
        assert_eq!(first(("late", 80))?, expected);
        assert_eq!(first(&(String::from("late"), 80))?, expected);
        sim::note("known");
        Ok(())
    }
    each_strategy(|| {
        let maker = sim::host("maker", || {
            sleep(SECOND)?;
            // Its program ends. The name stays.
            sim::host("late", || TcpListener::bind("0.0.0.0:80").map(drop));
            Ok(())
        });
        let client = || {
            unknown();
            sleep(SECOND + MS)?;
            known()
        };
        sim::host("client", client);
        sim::host("wrong", client).skew(-500_000);
        let cut = sim::host("cut", client);
        sim::partition(&[&cut], &[&sim::here(), &maker]);
        unknown();
        // The first nanosecond after the host was made.
        sleep(SECOND + std::time::Duration::from_nanos(1)).unwrap();
        known().unwrap();
        sleep(2 * SECOND).unwrap();
        let error = TcpStream::connect("late:80").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(sim::notes().len(), 4);
    });
}

/// - given: a program without `ecru-sim-libc`
/// - when: it writes a file, and again after a virtual hour
/// - then: the file's time is that of `SystemTime` when the process's first simulation began, and an
///   hour later
#[test]
fn sim_199_times_of_files_are_those_of_the_clock() {
    let (first, second) = run(1, || {
        on_host("host", || {
            let modified = || {
                ecru::fs::write("/tmp/file", "text").unwrap();
                ecru::fs::metadata("/tmp/file").unwrap().modified().unwrap()
            };
            let first = modified();
            sleep(3600 * SECOND).unwrap();
            (first, modified())
        })
    });
    let ended = std::time::SystemTime::now();
    // No test program runs for an hour.
    let ago = ended.duration_since(first).unwrap();
    assert!(ago < 3600 * SECOND, "{first:?} {ended:?}");
    assert_eq!(second.duration_since(first).unwrap(), 3600 * SECOND);
}
