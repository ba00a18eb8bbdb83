//! Sockets on plain threads, on other workers, and in two runtimes at once.

use crate::streams::{listen, pair, silent};
use crate::support::{HOUR, ms, now, run_on, since};
use ecru::net::{Shutdown, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// - given: plain threads without a runtime
/// - when: they listen, connect, read and write
/// - then: each call blocks its thread
#[test]
fn net_19_on_a_thread() {
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(3) {
                let mut stream = stream.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                stream.write_all(text.to_uppercase().as_bytes()).unwrap();
            }
        });
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).unwrap();
            thread::sleep(ms(1));
            client.write_all(b"text").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "TEXT");
        }
    });
}

/// - given: a plain thread inside `timeout` and a silent peer
/// - when: it reads
/// - then: `Elapsed`, in time
#[test]
fn net_20_thread_timeout() {
    let (mut client, mut server) = pair();
    let limit = ms(8);
    let start = now();
    assert!(ecru::timeout(limit, || client.read(&mut [0; 8])).is_err());
    assert!((limit..HOUR / 100).contains(&since(start)));
    // The nearer of the two limits applies.
    client.set_read_timeout(Some(limit)).unwrap();
    let error = ecru::timeout(HOUR, || client.read(&mut [0; 8])).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    client.set_read_timeout(Some(HOUR)).unwrap();
    assert!(ecru::timeout(limit, || client.read(&mut [0; 8])).is_err());
    let (listener, _) = listen();
    assert!(ecru::timeout(limit, || listener.accept()).is_err());
    let (address, _kept) = silent();
    assert!(ecru::timeout(limit, || TcpStream::connect(address)).is_err());
    // The stream stays usable.
    server.write_all(b"late").unwrap();
    let mut bytes = [0; 4];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"late");
}

/// Echoes everything until the other end has finished.
fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 1000];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            count => stream.write_all(&buffer[..count]).unwrap(),
        }
    }
}

/// - given: a server in tasks and a client on a plain thread
/// - when: they exchange bytes
/// - then: it works
#[test]
fn net_21_task_to_thread() {
    for workers in [1, 2] {
        let (listener, address) = listen();
        thread::scope(|scope| {
            scope.spawn(|| {
                run_on(workers, || {
                    ecru::scope(|s| {
                        for _ in 0..4 {
                            let (stream, _) = listener.accept().unwrap();
                            s.spawn(move || echo(stream));
                        }
                    });
                });
            });
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = TcpStream::connect(address).unwrap();
                    for round in 0..50 {
                        client.write_all(&[round; 100]).unwrap();
                        let mut bytes = [0; 100];
                        client.read_exact(&mut bytes).unwrap();
                        assert_eq!(bytes, [round; 100]);
                    }
                });
            }
        });
    }
}

#[test]
fn net_21_task_to_thread_over_one_pair_made_elsewhere() {
    // The stream is created on a thread, used by a task of one runtime, then by a task of another,
    // then by a thread again.
    let (mut client, mut server) = pair();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..4 {
                let mut bytes = [0; 3];
                server.read_exact(&mut bytes).unwrap();
                assert_eq!(bytes, [round; 3]);
                server.write_all(&bytes).unwrap();
            }
        });
        let mut exchange = |round: u8| {
            client.write_all(&[round; 3]).unwrap();
            let mut bytes = [0; 3];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [round; 3]);
        };
        exchange(0);
        run_on(1, || exchange(1));
        run_on(2, || ecru::scope(|s| s.spawn(|| exchange(2)).join().unwrap()));
        exchange(3);
    });
}

#[test]
fn net_21_task_to_thread_and_two_runtimes_at_once() {
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| {
            run_on(2, || {
                ecru::scope(|s| {
                    for _ in 0..20 {
                        let (stream, _) = listener.accept().unwrap();
                        s.spawn(move || echo(stream));
                    }
                });
            });
        });
        scope.spawn(|| {
            run_on(2, || {
                let echoed = ecru::par::map(0..20_u8, |n| {
                    let mut stream = TcpStream::connect(address).unwrap();
                    for _ in 0..10 {
                        stream.write_all(&[n; 10]).unwrap();
                        let mut bytes = [0; 10];
                        stream.read_exact(&mut bytes).unwrap();
                        assert_eq!(bytes, [n; 10]);
                        ecru::sleep(Duration::from_micros(100)).unwrap();
                    }
                    n
                });
                assert_eq!(echoed, (0..20).collect::<Vec<_>>());
            });
        });
    });
}

/// - given: a stream accepted on one worker
/// - when: a task on another worker uses it
/// - then: it works
#[test]
fn net_22_moves_to_another_worker() {
    let _watchdog = crate::support::Watchdog::new();
    let runtime =
        ecru::Runtime::builder().workers(2).placement(ecru::Placement::Spread).build().unwrap();
    runtime.run(|| {
        let moved = AtomicUsize::new(0);
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn(|| {
                for n in 0..40_u8 {
                    let mut client = TcpStream::connect(address).unwrap();
                    client.write_all(&[n; 10]).unwrap();
                    let mut bytes = Vec::new();
                    client.read_to_end(&mut bytes).unwrap();
                    assert_eq!(bytes, [n; 20]);
                }
            });
            for n in 0..40 {
                let (mut stream, _) = listener.accept().unwrap();
                let here = thread::current().id();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
                let moved = &moved;
                s.spawn(move || {
                    moved.fetch_add(usize::from(thread::current().id() != here), SeqCst);
                    let mut bytes = [0; 5];
                    stream.read_exact(&mut bytes).unwrap();
                    stream.write_all(&bytes).unwrap();
                    stream.write_all(&[n; 10]).unwrap();
                });
            }
        });
        assert!(moved.load(SeqCst) > 0, "no task was started on the other worker");
    });
}
