//! Fairness: waiting tasks use no processor time, and ready tasks get it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram};
use ecru::{DriverKind, Runtime};

use crate::{PATIENCE, Watchdog, each, ms, pair};

#[test]
fn limits_past_the_end_of_time_are_none() {
    each(|| {
        let (client, mut server) = pair();
        client.set_read_timeout(Some(Duration::MAX)).unwrap();
        client.set_write_timeout(Some(Duration::from_secs(1 << 33))).unwrap();
        assert!(client.read_timeout().unwrap().is_none_or(|limit| limit > PATIENCE));
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]).unwrap());
            ecru::sleep(ms(2)).unwrap();
            server.write_all(b"x").unwrap();
            assert_eq!(read.join().unwrap(), 1);
        });
        client.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
        assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        TcpStream::connect_timeout(&address, Duration::MAX).unwrap();
        let std = std::net::TcpStream::try_from(client).unwrap();
        let mut back = TcpStream::try_from(std).unwrap();
        server.write_all(b"y").unwrap();
        back.set_read_timeout(None).unwrap();
        back.read_exact(&mut [0]).unwrap();
    });
}

/// Returns the processor time that this thread has used.
fn used(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "queries a thread's processor time")]
    // SAFETY: there is room for the time.
    let asked = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(asked, 0);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Returns sockets that always report an event but have nothing to read.
fn noisy() -> Vec<(&'static str, OwnedFd)> {
    // The peer has been closed.
    let (orphan, other) = UnixDatagram::pair().unwrap();
    drop(other);
    // There is an error in the error queue.
    let broken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let on: i32 = 1;
    #[expect(unsafe_code, reason = "an option that std does not set")]
    // SAFETY: the value is valid and has the given length.
    let set = unsafe {
        libc::setsockopt(
            broken.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_RECVERR,
            (&raw const on).cast(),
            4,
        )
    };
    assert_eq!(set, 0);
    // No other test can be given this port.
    broken.send_to(b"x", "127.0.0.1:1").unwrap();
    // The first call after the kernel's answer returns the error.
    broken.set_nonblocking(true).unwrap();
    let refused = loop {
        match broken.recv(&mut [0; 8]).unwrap_err().kind() {
            ErrorKind::WouldBlock => thread::yield_now(),
            kind => break kind,
        }
    };
    assert_eq!(refused, ErrorKind::ConnectionRefused);
    vec![("orphan", orphan.into()), ("broken", broken.into())]
}

#[test]
fn a_wait_for_what_is_noisy_and_has_nothing_to_read_does_not_spin_slow() {
    each(|| {
        for (name, socket) in noisy() {
            let socket = UdpSocket::from(socket);
            socket.set_nonblocking(false).unwrap();
            let before = used(libc::CLOCK_THREAD_CPUTIME_ID);
            let outcome = ecru::timeout(ms(100), || socket.recv(&mut [0; 8]));
            let spent = used(libc::CLOCK_THREAD_CPUTIME_ID) - before;
            if outcome.is_err() {
                assert!(spent < ms(30), "{name}: {spent:?} of 100 ms");
            } else {
                eprintln!("{name}: {outcome:?}");
            }
        }
    });
}

#[test]
fn a_wait_on_a_thread_for_what_is_noisy_and_has_nothing_to_read_does_not_spin() {
    let _in_time = Watchdog::new();
    for (name, socket) in noisy() {
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(false).unwrap();
        let before = used(libc::CLOCK_THREAD_CPUTIME_ID);
        let outcome = ecru::timeout(ms(100), || socket.recv(&mut [0; 8]));
        let spent = used(libc::CLOCK_THREAD_CPUTIME_ID) - before;
        if outcome.is_err() {
            assert!(spent < ms(30), "{name}: {spent:?} of 100 ms");
        } else {
            eprintln!("{name}: {outcome:?}");
        }
    }
}

#[test]
fn a_connection_does_not_wait_for_a_worker_that_computes_while_another_is_idle() {
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        let _in_time = Watchdog::new();
        Runtime::builder()
            .workers(2)
            .placement(ecru::Placement::Together)
            .driver(kind)
            .build()
            .unwrap()
            .run(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                let (computing, enough) = (AtomicBool::new(false), AtomicBool::new(false));
                ecru::scope(|s| {
                    s.spawn_daemon(|| {
                        listener.serve(100, |mut stream, _| {
                            let mut what = [0];
                            stream.read_exact(&mut what)?;
                            if what == *b"c" {
                                computing.store(true, SeqCst);
                                while !enough.load(SeqCst) {
                                    std::hint::spin_loop();
                                }
                            }
                            stream.write_all(b"done")
                        })
                    });
                    // These are plain threads, so that the two workers have nothing else to do.
                    ecru::unblock(|| {
                        for _ in 0..4 {
                            let mut computes = std::net::TcpStream::connect(address).unwrap();
                            computes.write_all(b"c").unwrap();
                            while !computing.swap(false, SeqCst) {
                                thread::yield_now();
                            }
                            // If one of these connections went to that worker, it would never be
                            // answered.
                            for _ in 0..4 {
                                let mut quick = std::net::TcpStream::connect(address).unwrap();
                                quick.write_all(b"q").unwrap();
                                quick.read_exact(&mut [0; 4]).unwrap();
                                thread::sleep(ms(2));
                            }
                            enough.store(true, SeqCst);
                            computes.read_exact(&mut [0; 4]).unwrap();
                            enough.store(false, SeqCst);
                        }
                    });
                });
            });
    }
}

#[test]
fn a_flood_of_readable_bytes_leaves_others_their_turn_slow() {
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        let _in_time = Watchdog::new();
        Runtime::builder().workers(1).driver(kind).build().unwrap().run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let over = std::sync::Arc::new(AtomicBool::new(false));
            let flood = thread::spawn({
                let over = std::sync::Arc::clone(&over);
                move || {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    while !over.load(SeqCst) && stream.write_all(&[1; 1 << 16]).is_ok() {}
                }
            });
            let (stream, _) = listener.accept().unwrap();
            let (quiet, mut peer) = pair();
            let longest = ecru::scope(|s| {
                s.spawn_daemon(
                    || while (&stream).read(&mut [0; 16]).is_ok_and(|count| count > 0) {},
                );
                s.spawn_daemon(move || {
                    while (&quiet).read(&mut [0; 16]).is_ok_and(|count| count > 0) {
                        (&quiet).write_all(b"pong").unwrap();
                    }
                });
                let mut longest = Duration::ZERO;
                for _ in 0..20 {
                    // This is the worker's own time. With the flood it is always busy, and other
                    // programs do not count.
                    let before = used(libc::CLOCK_THREAD_CPUTIME_ID);
                    peer.write_all(b"ping").unwrap();
                    peer.read_exact(&mut [0; 4]).unwrap();
                    ecru::sleep(ms(1)).unwrap();
                    longest = longest.max(used(libc::CLOCK_THREAD_CPUTIME_ID) - before);
                }
                longest
            });
            over.store(true, SeqCst);
            drop(stream);
            flood.join().unwrap();
            assert!(longest < ms(200), "{kind:?}: {longest:?}");
        });
    }
}

#[test]
fn whoever_waits_uses_no_processor_slow() {
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        let _in_time = Watchdog::new();
        Runtime::builder().workers(1).driver(kind).build().unwrap().run(|| {
            let (client, server) = pair();
            let (broken, other) = pair();
            let (datagrams, _peer) = UnixDatagram::pair().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            ecru::scope(|s| {
                s.spawn_daemon(|| (&client).read(&mut [0; 8]));
                s.spawn_daemon(|| datagrams.recv(&mut [0; 8]));
                s.spawn_daemon(|| listener.serve(3, |_, _| Ok(())));
                s.spawn_daemon(|| while (&server).write(&[0; 4096]).is_ok() {});
                // The socket is registered, then closed by the peer, and kept.
                let ended = s.spawn(|| (&broken).read(&mut [0; 8]));
                ecru::sleep(ms(5)).unwrap();
                other.set_linger(Some(Duration::ZERO)).unwrap();
                drop(other);
                ended.join().unwrap().unwrap_err();
                ecru::sleep(ms(50)).unwrap();
                // This is the time of this thread, which is the worker. The other tests are in the
                // same process.
                let before = used(libc::CLOCK_THREAD_CPUTIME_ID);
                ecru::sleep(ms(400)).unwrap();
                let spent = used(libc::CLOCK_THREAD_CPUTIME_ID) - before;
                eprintln!("{kind:?}: {spent:?}");
                assert!(spent < ms(200), "{kind:?}: {spent:?} of 400 ms");
            });
        });
    }
}

#[test]
fn ten_thousand_who_wait_for_one_socket_are_given_up_at_once_slow() {
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        let _in_time = Watchdog::new();
        Runtime::builder().workers(1).driver(kind).build().unwrap().run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let start = Instant::now();
            ecru::scope(|s| {
                for _ in 0..10_000 {
                    s.spawn(|| socket.recv(&mut [0; 8]).unwrap_err());
                }
                ecru::sleep(ms(100)).unwrap();
                s.cancel();
            });
            eprintln!("{kind:?}: {:?}", start.elapsed());
            assert!(start.elapsed() < PATIENCE / 2);
        });
    }
}
