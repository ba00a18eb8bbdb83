//! The driver that the first op starts, and names that are looked up off the workers.

use super::everywhere;
use crate::streams::{assert_cancelled, listen};
use crate::support::{alone, ms, run_on, until};
use ecru::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Returns how many drivers this process has open.
fn drivers() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let of_a_driver = |name: &str| name.contains("io_uring") || name.contains("eventpoll");
    targets.filter(|target| of_a_driver(&target.to_string_lossy())).count()
}

/// - given: a run without IO
/// - when: it ends
/// - then: no driver was opened; the first wait for IO opens one, for its own worker
#[test]
fn net_30_first_io_starts_the_driver() {
    alone("net::names::net_30_first_io_starts_the_driver", || {
        run_on(2, || {
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(ms(5)).unwrap());
                assert_eq!(ecru::unblock(|| 7), 7);
            });
            let (listener, _) = listen();
            assert_eq!(drivers(), 0);
            assert!(ecru::timeout(ms(2), || listener.accept()).is_err());
            assert_eq!(drivers(), 1, "only the worker that needs one has one");
        });
        assert_eq!(drivers(), 0);
    });
}

/// Returns the names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// - given: names and addresses of every type that std accepts, and a user-defined type that is not
///   `Send`
/// - when: `connect`, `bind` and `send_to` are called
/// - then: names are looked up on the pool's threads, addresses in place; all of them work, also on
///   threads
#[test]
fn net_31_names_off_the_worker() {
    alone("net::names::net_31_names_off_the_worker", || {
        let pool = || threads().iter().filter(|name| name.ends_with("-unblock")).count();
        run_on(1, || {
            let (listener, address) = listen();
            let port = address.port();
            TcpStream::connect(("127.0.0.1", port)).unwrap();
            TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            TcpStream::connect([address].as_slice()).unwrap();
            assert_eq!(pool(), 0, "addresses are resolved where they stand");
            TcpStream::connect(("localhost", port)).unwrap();
            assert!(pool() >= 1);
            // All types that std accepts.
            let name = format!("localhost:{port}");
            TcpStream::connect(&*name).unwrap();
            TcpStream::connect(&name).unwrap();
            TcpStream::connect(name).unwrap();
            TcpStream::connect((String::from("localhost"), port)).unwrap();
            assert!(TcpListener::bind("localhost:0").is_ok());
            let socket = ecru::net::UdpSocket::bind(("localhost", 0)).unwrap();
            let at = socket.local_addr().unwrap();
            socket.send_to(b"x", ("localhost", at.port())).unwrap();
            let error = TcpStream::connect("no port").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            for _ in 0..8 {
                listener.accept().unwrap();
            }
            // A type that is not `Send`, which std does not require.
            struct Own(std::rc::Rc<SocketAddr>);
            impl ToSocketAddrs for Own {
                type Iter = std::option::IntoIter<SocketAddr>;
                fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                    Ok(Some(*self.0).into_iter())
                }
            }
            TcpStream::connect(Own(std::rc::Rc::new(address))).unwrap();
        });
    });
}

#[test]
fn net_31_names_off_the_worker_and_on_threads() {
    everywhere(|| {
        let (listener, address) = listen();
        let client = TcpStream::connect(("localhost", address.port())).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

/// - given: a name that is not resolved yet
/// - when: its task is cancelled or timed out
/// - then: `Cancelled`, at once; and a wait for the resolver does not count as a deadlock
#[test]
fn net_32_cancelled_name() {
    alone("net::names::net_32_cancelled_name", || {
        // The number of threads in the pool.
        const ALL: usize = 512;
        let gate = Mutex::new(());
        let busy = AtomicUsize::new(0);
        run_on(1, || {
            let mut closed = Some(gate.lock().unwrap());
            ecru::scope(|s| {
                for _ in 0..ALL {
                    s.spawn(|| {
                        ecru::unblock(|| {
                            busy.fetch_add(1, SeqCst);
                            drop(gate.lock().unwrap());
                        });
                    });
                }
                until(|| busy.load(SeqCst) == ALL);
                // The resolver never gets a turn.
                let connect = || TcpStream::connect("localhost:1");
                assert!(ecru::timeout(ms(2), connect).is_err());
                ecru::cancel_scope(|c| {
                    c.cancel();
                    assert_cancelled(&connect().unwrap_err());
                });
                drop(closed.take());
            });
        });
    });
}

#[test]
fn net_32_cancelled_name_is_no_deadlock() {
    each_with_detector(|| {
        for _ in 0..20 {
            let error = TcpListener::bind("no such host.invalid:0").map(drop);
            assert!(error.is_err());
        }
    });
}

/// Runs with deadlock detection, which must not report a wait for the resolver.
fn each_with_detector(body: impl Fn()) {
    for workers in [1, 2] {
        let runtime = ecru::Runtime::builder()
            .workers(workers)
            .placement(ecru::Placement::Together)
            .detect_deadlock(true)
            .build();
        runtime.unwrap().run(&body);
    }
}
