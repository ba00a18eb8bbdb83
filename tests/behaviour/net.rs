//! Rows of `doc/behaviour/net.md`. What does not need a runtime is in `tests/net.rs`, on plain threads.

use crate::streams::{assert_cancelled, byte_at, listen, loud, pair, refusing, silent};
use crate::support::{
    HOUR, each_run, is_child, ms, panic_text, quiet_panic, run_on, settle, start_again, until,
};
use ecru::net::{Shutdown, TcpListener, TcpStream};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// In a task with one worker, in a task with two, and on a plain thread: the same lines.
fn everywhere(body: impl Fn() + Sync) {
    each_run(&body);
    // Not the root alone, which has the thread's own stack.
    each_run(|| ecru::scope(|s| s.spawn(&body).join().unwrap()));
    thread::scope(|scope| scope.spawn(&body).join().unwrap());
}

/// How many fds this process has open on sockets or otherwise; for processes of their own.
fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a test in a process of its own.
fn alone(test: &str, body: impl FnOnce()) {
    if is_child(test) {
        body();
        return;
    }
    let output = start_again(test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let good = output.status.success() && text.contains("1 passed");
    assert!(good, "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn net_01_echo() {
    each_run(|| {
        let (listener, address) = listen();
        assert_ne!(address.port(), 0);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let (mut stream, from) = listener.accept().unwrap();
                assert_eq!(stream.peer_addr().unwrap(), from);
                assert_eq!(stream.local_addr().unwrap(), address);
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
                from
            });
            let mut client = TcpStream::connect(address).unwrap();
            assert_eq!(client.peer_addr().unwrap(), address);
            client.write_all(b"hello").unwrap();
            let mut bytes = [0; 5];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");
            assert_eq!(server.join().unwrap(), client.local_addr().unwrap());
        });
    });
}

#[test]
fn net_02_traits() {
    fn by_trait(mut writer: impl Write, mut reader: impl Read) {
        writer.write_all(b"12345678").unwrap();
        writer.flush().unwrap();
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).unwrap();
        let mut text = String::new();
        reader.take(4).read_to_string(&mut text).unwrap();
        assert_eq!((&bytes[..], text.as_str()), (&b"1234"[..], "5678"));
    }
    everywhere(|| {
        let (mut one, mut other) = pair();
        by_trait(&one, &other);
        by_trait(&mut other, &mut one);
        by_trait(one, other);
        let (one, other) = pair();
        let mut lines = io::BufWriter::new(&one);
        writeln!(lines, "first\nsecond").unwrap();
        drop(lines);
        one.shutdown(Shutdown::Write).unwrap();
        let lines = io::BufRead::lines(io::BufReader::new(&other));
        assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), ["first", "second"]);
    });
}

#[test]
fn net_03_end() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        for _ in 0..3 {
            assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        }
        server.write_all(b"answer").unwrap();
        let mut bytes = [0; 6];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"answer");
    });
}

#[test]
fn net_03_end_wakes_a_parked_read() {
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]));
            settle();
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read.join().unwrap().unwrap(), 0);
            // The same by our own end.
            let read = s.spawn(|| (&server).read(&mut [0; 8]));
            settle();
            server.shutdown(Shutdown::Read).unwrap();
            assert_eq!(read.join().unwrap().unwrap(), 0);
        });
    });
}

#[test]
fn net_04_both_ways_at_once() {
    each_run(|| {
        let (client, server) = pair();
        let data: Vec<u8> = (0..1 << 20).map(byte_at).collect();
        ecru::scope(|s| {
            s.spawn(|| {
                let mut buffer = [0; 4096];
                loop {
                    match (&server).read(&mut buffer).unwrap() {
                        0 => return server.shutdown(Shutdown::Write).unwrap(),
                        count => (&server).write_all(&buffer[..count]).unwrap(),
                    }
                }
            });
            s.spawn(|| {
                (&client).write_all(&data).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let mut echo = Vec::new();
            (&client).read_to_end(&mut echo).unwrap();
            assert!(echo == data);
        });
        // A read that nobody answers does not hold up a write.
        let (client, mut server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| {
                let mut bytes = [0; 2];
                (&client).read_exact(&mut bytes).unwrap();
                bytes
            });
            settle();
            (&client).write_all(b"??").unwrap();
            let mut bytes = [0; 2];
            server.read_exact(&mut bytes).unwrap();
            server.write_all(&bytes).unwrap();
            assert_eq!(&read.join().unwrap(), b"??");
        });
    });
}

/// So many connections at once, each of which echoes once.
fn echo_once_each(workers: usize, count: usize) {
    run_on(workers, || {
        let (listener, address) = listen();
        let open = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::scope(|s| {
                    for _ in 0..count {
                        let (mut stream, _) = listener.accept().unwrap();
                        s.spawn(move || {
                            let mut bytes = [0; 8];
                            stream.read_exact(&mut bytes).unwrap();
                            stream.write_all(&bytes).unwrap();
                        });
                    }
                });
            });
            for n in 0..count as u64 {
                let open = &open;
                s.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    open.fetch_add(1, SeqCst);
                    // All are open before the first is served.
                    while open.load(SeqCst) < count {
                        ecru::sleep(ms(1)).unwrap();
                    }
                    stream.write_all(&n.to_ne_bytes()).unwrap();
                    let mut bytes = [0; 8];
                    stream.read_exact(&mut bytes).unwrap();
                    assert_eq!(u64::from_ne_bytes(bytes), n);
                });
            }
        });
    });
}

#[test]
fn net_05_many_streams() {
    echo_once_each(1, 500);
}

#[test]
fn net_05_many_streams_slow_four_thousand() {
    let _loud = loud();
    echo_once_each(2, 4_000);
}

#[test]
fn net_06_larger_than_the_buffers() {
    each_run(|| {
        const LENGTH: usize = 8 << 20;
        let (mut client, mut server) = pair();
        let written = AtomicBool::new(false);
        let data: Vec<u8> = (0..LENGTH).map(byte_at).collect();
        ecru::scope(|s| {
            s.spawn(|| {
                client.write_all(&data).unwrap();
                written.store(true, SeqCst);
                drop(client);
            });
            ecru::sleep(ms(10)).unwrap();
            assert!(!written.load(SeqCst), "more than the kernel keeps");
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            assert!(all == data);
        });
    });
}

#[test]
fn net_07_empty_buffer() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(client.read(&mut []).unwrap(), 0);
            assert_eq!(client.peek(&mut []).unwrap(), 0);
            assert_eq!(client.read_vectored(&mut []).unwrap(), 0);
            assert_eq!(client.read_vectored(&mut [IoSliceMut::new(&mut [])]).unwrap(), 0);
            assert_eq!(client.write(&[]).unwrap(), 0);
            assert_eq!(client.write_vectored(&[]).unwrap(), 0);
        }
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert_eq!(client.read(&mut []).unwrap(), 0, "nor does it wait where nothing is left");
    });
}

#[test]
fn net_08_refused() {
    everywhere(|| {
        let (address, _kept) = refusing();
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&address, HOUR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn net_09_taken() {
    everywhere(|| {
        let (listener, address) = listen();
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        TcpListener::bind(address).unwrap();
    });
}

/// Closes a connection so that the other end sees a reset.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn net_10_reset() {
    everywhere(|| {
        let (mut client, server) = pair();
        reset(server);
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]));
            settle();
            reset(server);
            assert_eq!(read.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn net_11_connect_timeout() {
    let (address, _kept) = silent();
    everywhere(|| {
        let limit = ms(15);
        let start = Instant::now();
        let error = TcpStream::connect_timeout(&address, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!((limit..HOUR / 100).contains(&start.elapsed()));
    });
}

#[test]
fn net_12_read_timeout() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let limit = ms(8);
        client.set_read_timeout(Some(limit)).unwrap();
        for round in 0..3 {
            let start = Instant::now();
            assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!((limit..HOUR / 100).contains(&start.elapsed()));
            server.write_all(&[round; 4]).unwrap();
            let mut buffer = [0; 4];
            client.read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, [round; 4]);
        }
        assert!(!ecru::is_cancelled(), "a socket's time-out cancels nobody");
    });
}

#[test]
fn net_12_read_timeout_of_a_write() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let limit = ms(8);
        client.set_write_timeout(Some(limit)).unwrap();
        let chunk: Vec<u8> = (0..251 * 253).map(byte_at).collect();
        let mut written = 0;
        let error = loop {
            let from = written % chunk.len();
            match client.write(&chunk[from..]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written);
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

#[test]
fn net_13_cancelled_read_loses_nothing() {
    each_run(|| {
        let (client, mut server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| {
                let mut buffer = [7; 8];
                let result = (&client).read(&mut buffer);
                assert_eq!(buffer, [7; 8]);
                let again = (&client).read(&mut buffer);
                assert_cancelled(&again.unwrap_err());
                result
            });
            // One that has not begun would be dropped unrun.
            ecru::sleep(ms(2)).unwrap();
            read.cancel();
            assert_cancelled(&read.join().unwrap().unwrap_err());
        });
        server.write_all(b"all of it").unwrap();
        let mut buffer = [0; 9];
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"all of it");
    });
}

#[test]
fn net_13_cancelled_read_loses_nothing_that_is_there() {
    each_run(|| {
        let (client, mut server) = pair();
        server.write_all(b"here").unwrap();
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_cancelled(&(&client).read(&mut [0; 4]).unwrap_err());
            assert_cancelled(&client.peek(&mut [0; 4]).unwrap_err());
            assert_cancelled(&(&client).write(b"never").unwrap_err());
            // A shield keeps the request out.
            ecru::shield(|| (&client).write_all(b"shielded").unwrap());
        });
        let mut buffer = [0; 8];
        (&client).read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(&buffer[..4], b"here");
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"shielded");
    });
}

#[test]
fn net_14_cancelled_accept_loses_nothing() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            let accept = s.spawn(|| listener.accept().map(drop));
            ecru::sleep(ms(2)).unwrap();
            accept.cancel();
            assert_cancelled(&accept.join().unwrap().unwrap_err());
        });
        let client = TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn net_15_cancelled_write_stays_whole() {
    each_run(|| {
        let (client, mut server) = pair();
        let written = AtomicUsize::new(0);
        ecru::scope(|s| {
            let writer = s.spawn(|| {
                let chunk: Vec<u8> = (0..251 * 253).map(byte_at).collect();
                loop {
                    let from = written.load(SeqCst) % chunk.len();
                    match (&client).write(&chunk[from..]) {
                        Ok(count) => written.fetch_add(count, SeqCst),
                        Err(error) => return error,
                    };
                }
            });
            // Until it is stuck.
            let mut before = usize::MAX;
            while before != written.load(SeqCst) || before == 0 {
                before = written.load(SeqCst);
                ecru::sleep(ms(5)).unwrap();
            }
            writer.cancel();
            assert_cancelled(&writer.join().unwrap());
        });
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written.load(SeqCst));
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

#[test]
fn net_17_cancelled_connect() {
    alone("net::net_17_cancelled_connect", || {
        let (address, _kept) = silent();
        for workers in [1, 2] {
            run_on(workers, || {
                // The drivers are open when the count begins.
                assert!(ecru::timeout(ms(2), || TcpStream::connect(address)).is_err());
                ecru::scope(|s| {
                    let before = open_fds();
                    let attempts: Vec<_> =
                        (0..10).map(|_| s.spawn_local(|| TcpStream::connect(address))).collect();
                    ecru::sleep(ms(2)).unwrap();
                    assert_eq!(open_fds(), before + 10);
                    for attempt in &attempts {
                        attempt.cancel();
                    }
                    for attempt in attempts {
                        assert_cancelled(&attempt.join().unwrap().unwrap_err());
                    }
                    assert_eq!(open_fds(), before);
                });
            });
        }
    });
}

#[test]
fn net_18_timeout_around_io() {
    each_run(|| {
        let (client, _server) = pair();
        let (listener, _) = listen();
        let limit = ms(8);
        let start = Instant::now();
        assert!(ecru::timeout(limit, || (&client).read(&mut [0; 8])).is_err());
        assert!((limit..HOUR / 100).contains(&start.elapsed()));
        assert!(ecru::timeout(limit, || listener.accept()).is_err());
        let result = ecru::try_timeout(limit, || (&client).read(&mut [0; 8]));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        // In a child of a scope inside, too.
        let result = ecru::timeout(limit, || {
            ecru::scope(|s| drop(s.spawn(|| (&client).read(&mut [0; 8]))));
        });
        assert!(result.is_err());
        assert_eq!(ecru::timeout(HOUR, || (&client).write(b"x")).unwrap().unwrap(), 1);
    });
}

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

#[test]
fn net_20_thread_timeout() {
    let (mut client, mut server) = pair();
    let limit = ms(8);
    let start = Instant::now();
    assert!(ecru::timeout(limit, || client.read(&mut [0; 8])).is_err());
    assert!((limit..HOUR / 100).contains(&start.elapsed()));
    // The nearer of the two limits is the one that counts.
    client.set_read_timeout(Some(limit)).unwrap();
    let error = ecru::timeout(HOUR, || client.read(&mut [0; 8])).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    client.set_read_timeout(Some(HOUR)).unwrap();
    assert!(ecru::timeout(limit, || client.read(&mut [0; 8])).is_err());
    let (listener, _) = listen();
    assert!(ecru::timeout(limit, || listener.accept()).is_err());
    let (address, _kept) = silent();
    assert!(ecru::timeout(limit, || TcpStream::connect(address)).is_err());
    // And the stream is as good as before.
    server.write_all(b"late").unwrap();
    let mut bytes = [0; 4];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"late");
}

/// Writes everything back until the other end has finished.
fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 1000];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            count => stream.write_all(&buffer[..count]).unwrap(),
        }
    }
}

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
    // Made on a thread, used by a task of one runtime, then by one of another, then by a thread again.
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

#[test]
fn net_22_moves_to_another_worker() {
    let _watchdog = crate::support::Watchdog::new();
    let runtime = ecru::Runtime::builder().workers(2).spread(true).build().unwrap();
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

#[test]
fn net_23_peek() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        for _ in 0..2 {
            // Loopback: what has been written is there.
            assert_eq!(client.peek(&mut buffer).unwrap(), 3);
            assert_eq!(&buffer[..3], b"abc");
        }
        assert_eq!(client.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let peek = s.spawn(|| {
                let mut buffer = [0; 8];
                client.peek(&mut buffer).map(|count| (count, buffer[0]))
            });
            settle();
            (&server).write_all(b"x").unwrap();
            assert_eq!(peek.join().unwrap().unwrap(), (1, b'x'));
            assert_eq!((&client).read(&mut [0; 8]).unwrap(), 1);
        });
    });
}

#[test]
fn net_24_vectored() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(client.write_vectored(&parts).unwrap(), 5);
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let mut parts =
            [IoSliceMut::new(&mut first), IoSliceMut::new(&mut []), IoSliceMut::new(&mut second)];
        assert_eq!(server.read_vectored(&mut parts).unwrap(), 5);
        assert_eq!((&first, &second), (b"abcd", b"e\0\0\0"));
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| {
                let (mut first, mut second) = ([0; 2], [0; 4]);
                let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
                let count = (&server).read_vectored(&mut parts).unwrap();
                (count, first, second)
            });
            settle();
            (&client).write_all(b"12345").unwrap();
            assert_eq!(read.join().unwrap(), (5, *b"12", *b"345\0"));
        });
    });
}

#[test]
fn net_25_options() {
    everywhere(|| {
        let (client, mut server) = pair();
        let (listener, _) = listen();
        for on in [true, false] {
            client.set_nodelay(on).unwrap();
            assert_eq!(client.nodelay().unwrap(), on);
        }
        client.set_ttl(77).unwrap();
        listener.set_ttl(78).unwrap();
        assert_eq!((client.ttl().unwrap(), listener.ttl().unwrap()), (77, 78));
        assert!(client.set_ttl(100_000).is_err());
        assert!(client.take_error().unwrap().is_none());
        assert!(listener.take_error().unwrap().is_none());
        let clone = client.try_clone().unwrap();
        drop(client);
        (&clone).write_all(b"x").unwrap();
        clone.shutdown(Shutdown::Both).unwrap();
        let mut bytes = Vec::new();
        server.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"x");
        assert_eq!((&clone).read(&mut [0]).unwrap(), 0);
        assert_eq!((&clone).write(b"y").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let twin = listener.try_clone().unwrap();
        assert_eq!(twin.local_addr().unwrap(), listener.local_addr().unwrap());
    });
}

#[test]
fn net_26_from_std() {
    everywhere(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let std = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let listener = TcpListener::try_from(listener).unwrap();
        let mut client = TcpStream::try_from(std).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(
            ecru::timeout(ms(3), || client.read(&mut [0])).is_err(),
            "it waits, and can be interrupted"
        );
        client.write_all(b"x").unwrap();
        let mut std = std::net::TcpStream::try_from(client).unwrap();
        // The kernel counts in its own coarse ticks.
        std.set_read_timeout(Some(ms(20))).unwrap();
        let start = Instant::now();
        let error = loop {
            // The kernel interrupts a thread that blocks while its ring has work to finish.
            match std.read(&mut [0]).unwrap_err() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= ms(10), "it blocks");
        std.write_all(b"y").unwrap();
        let mut bytes = [0; 2];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"xy");
    });
}

#[test]
fn net_27_incoming() {
    each_run(|| {
        let (listener, address) = listen();
        let served = Mutex::new(Vec::new());
        let served = &served;
        let (clients, rest) = ecru::scope(|s| {
            let server = s.spawn(|| {
                let mut incoming = listener.incoming();
                for stream in incoming.by_ref() {
                    match stream {
                        Ok(stream) => served.lock().unwrap().push(stream.peer_addr().unwrap()),
                        Err(error) => return (error, incoming.next().unwrap().unwrap_err()),
                    }
                }
                unreachable!("`incoming` ends");
            });
            let clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
            until(|| served.lock().unwrap().len() == 5);
            server.cancel();
            (clients, server.join().unwrap())
        });
        assert_cancelled(&rest.0);
        assert_cancelled(&rest.1);
        let clients: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
        assert_eq!(*served.lock().unwrap(), clients);
    });
}

#[test]
fn net_29_panics_with_io_in_flight() {
    each_run(|| {
        let (client, mut server) = pair();
        let mut buffer = [7_u8; 64];
        let ended = AtomicUsize::new(0);
        let text = panic_text(|| {
            ecru::scope(|s| {
                // Borrows what belongs to the frame that the panic unwinds.
                s.spawn(|| {
                    let result = (&client).read(&mut buffer);
                    ended.fetch_add(1, SeqCst);
                    assert_cancelled(&result.unwrap_err());
                });
                ecru::sleep(ms(2)).unwrap();
                quiet_panic("the body");
            });
        });
        assert_eq!((text.as_str(), ended.load(SeqCst)), ("the body", 1));
        // Too late for a read that was given up without being awaited.
        server.write_all(&[9; 64]).unwrap();
        settle();
        assert_eq!(buffer, [7; 64]);
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [9; 64]);
    });
}

#[test]
fn net_29_panics_with_io_in_flight_of_a_sibling() {
    each_run(|| {
        let (client, mut server) = pair();
        let mut buffer = [7_u8; 64];
        let text = panic_text(|| {
            ecru::try_scope(|s| {
                s.spawn(|| -> io::Result<()> {
                    ecru::sleep(ms(2))?;
                    quiet_panic("a sibling");
                });
                let count = (&client).read(&mut buffer)?;
                Ok::<usize, io::Error>(count)
            })
        });
        assert!(text.contains("a sibling"), "{text}");
        server.write_all(&[9; 64]).unwrap();
        settle();
        assert_eq!(buffer, [7; 64]);
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [9; 64]);
    });
}

/// How many rings this process has open.
fn rings() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("io_uring")).count()
}

#[test]
fn net_30_first_io_starts_the_driver() {
    alone("net::net_30_first_io_starts_the_driver", || {
        run_on(2, || {
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(ms(5)).unwrap());
                assert_eq!(ecru::unblock(|| 7), 7);
            });
            let (listener, _) = listen();
            assert_eq!(rings(), 0);
            assert!(ecru::timeout(ms(2), || listener.accept()).is_err());
            assert_eq!(rings(), 1, "only the worker that needs one has one");
        });
        assert_eq!(rings(), 0);
    });
}
