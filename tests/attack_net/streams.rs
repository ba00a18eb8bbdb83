//! Bytes mixed with urgent ones, readers that give up, and descriptor numbers that are reused.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::net::{Shutdown, TcpListener, UdpSocket};

use crate::{each, ms, pair};

#[test]
fn a_receive_into_nothing_waits_for_a_datagram_and_takes_it() {
    each(|| {
        let (one, other) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = other.local_addr().unwrap();
        for round in 0..4 {
            ecru::scope(|s| {
                let receive = s.spawn(|| match round {
                    0 => other.recv(&mut []).unwrap(),
                    1 => other.recv_from(&mut []).unwrap().0,
                    2 => {
                        assert_eq!(other.peek(&mut []).unwrap(), 0);
                        other.recv(&mut [0; 8]).unwrap() - 3
                    }
                    _ => other.recv(&mut [0; 2]).unwrap() - 2,
                });
                ecru::sleep(ms(3)).unwrap();
                assert!(!receive.is_finished());
                one.send_to(b"abc", to).unwrap();
                assert_eq!(receive.join().unwrap(), 0);
            });
            other.set_nonblocking(true).unwrap();
            assert_eq!(other.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            other.set_nonblocking(false).unwrap();
        }
        // The same with a datagram that is itself empty.
        ecru::scope(|s| {
            let receive = s.spawn(|| other.recv(&mut [0; 4]).unwrap());
            ecru::sleep(ms(1)).unwrap();
            one.send_to(b"", to).unwrap();
            assert_eq!(receive.join().unwrap(), 0);
        });
    });
}

/// Sends with libc, which can mark a byte as urgent.
fn send_urgent(stream: &std::net::TcpStream, byte: u8) {
    #[expect(unsafe_code, reason = "std sends no urgent bytes")]
    // SAFETY: the buffer is one byte, which outlives the call.
    let sent =
        unsafe { libc::send(stream.as_raw_fd(), (&raw const byte).cast(), 1, libc::MSG_OOB) };
    assert_eq!(sent, 1);
}

#[test]
fn bytes_around_urgent_ones_all_arrive() {
    each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut sent = 0;
            for round in 0..300_u64 {
                stream.write_all(b"abcd").unwrap();
                sent += 4;
                if round % 3 == 0 {
                    send_urgent(&stream, b'!');
                }
                if round % 5 == 0 {
                    stream.write_all(b"efg").unwrap();
                    sent += 3;
                }
                if round % 7 == 0 {
                    thread::sleep(Duration::from_micros(round * 3));
                }
                if round % 10 == 0 {
                    // Waits until the byte has been received.
                    stream.read_exact(&mut [0]).unwrap();
                }
            }
            sent
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = 0;
        let mut heard = 0;
        loop {
            let mut buffer = [0; 64];
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            got += count;
            // The peer waits in rounds 0, 10, 20, ..: they are always answered, some too early.
            if heard < 30 {
                heard += 1;
                stream.write_all(b"k").unwrap();
            }
        }
        // An urgent byte that is followed by another one before it is fetched becomes an ordinary
        // byte.
        let sent = peer.join().unwrap();
        assert!((sent..=sent + 100).contains(&got), "{got} of {sent}");
    });
}

/// Readers on both workers and on plain threads, all on one stream, give up at random, while a peer
/// sends small pieces, pauses and ends.
#[test]
fn many_readers_of_one_stream_that_give_up_at_random_lose_no_byte_and_all_hear_the_end_slow() {
    each(|| {
        for seed in 0..3_u64 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let peer = thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut sent = 0;
                for _ in 0..400 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let bytes = vec![7; (random % 100) as usize];
                    stream.write_all(&bytes).unwrap();
                    sent += bytes.len();
                    if random % 5 == 0 {
                        thread::sleep(Duration::from_micros(random % 300));
                    }
                }
                if seed % 2 == 0 {
                    thread::sleep(ms(3));
                }
                stream.shutdown(Shutdown::Write).unwrap();
                // The other direction stays open.
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                (sent, rest.len())
            });
            let (stream, _) = listener.accept().unwrap();
            let got = AtomicUsize::new(0);
            let reads = |patience: Option<u64>| {
                let mut pause = 1;
                loop {
                    let mut buffer = [0; 64];
                    let outcome = match patience {
                        Some(most) => {
                            pause = pause * 7 % most + 1;
                            ecru::timeout(Duration::from_micros(pause * 20), || {
                                (&stream).read(&mut buffer)
                            })
                        }
                        None => Ok((&stream).read(&mut buffer)),
                    };
                    match outcome {
                        Ok(Ok(0)) => return,
                        Ok(Ok(count)) => _ = got.fetch_add(count, SeqCst),
                        Ok(Err(error)) => panic!("{error}"),
                        Err(_elapsed) => {}
                    }
                }
            };
            ecru::scope(|s| {
                for patience in [None, None, Some(13), Some(31), None, Some(5)] {
                    s.spawn(move || reads(patience));
                }
                s.spawn(|| ecru::unblock(|| reads(None)));
                s.spawn(|| ecru::unblock(|| reads(Some(11))));
            });
            (&stream).write_all(b"bye").unwrap();
            drop(stream);
            assert_eq!(peer.join().unwrap(), (got.load(SeqCst), 3));
        }
    });
}

#[test]
fn whoever_shuts_the_reading_half_ends_every_read_of_it_on_every_worker() {
    each(|| {
        for round in 0..20 {
            let (client, mut server) = pair();
            server.write_all(b"x").unwrap();
            // After a short read the driver knows that no more bytes are there.
            assert_eq!((&client).read(&mut [0; 8]).unwrap(), 1);
            ecru::scope(|s| {
                let reads: Vec<_> =
                    (0..4).map(|_| s.spawn(|| (&client).read(&mut [0; 8]).unwrap())).collect();
                if round % 2 == 0 {
                    ecru::sleep(Duration::from_micros(200)).unwrap();
                }
                if round % 4 < 2 {
                    client.shutdown(Shutdown::Read).unwrap();
                } else {
                    ecru::unblock(|| client.shutdown(Shutdown::Both).unwrap());
                }
                for read in reads {
                    assert_eq!(read.join().unwrap(), 0);
                }
            });
            drop(server);
        }
    });
}

#[test]
fn a_generator_reads_on_its_own_stack_and_the_task_waits() {
    each(|| {
        let (client, mut server) = pair();
        ecru::scope(|s| {
            s.spawn(|| {
                for byte in 0..20_u8 {
                    server.write_all(&[byte]).unwrap();
                    ecru::sleep(Duration::from_micros(100)).unwrap();
                }
                server.shutdown(Shutdown::Write).unwrap();
            });
            let bytes = ecru::coroutine::Generator::new(move |yielder| {
                let mut buffer = [0; 4];
                loop {
                    let count = (&client).read(&mut buffer).unwrap();
                    if count == 0 {
                        return;
                    }
                    for byte in &buffer[..count] {
                        yielder.suspend(*byte);
                    }
                }
            });
            assert!(bytes.eq(0..20));
        });
    });
}

#[test]
fn numbers_that_come_back_at_once_confuse_nobody() {
    each(|| {
        let done = AtomicBool::new(false);
        ecru::scope(|s| {
            for index in 0..4_u8 {
                let done = &done;
                s.spawn(move || {
                    for round in 0..60_u8 {
                        let (client, server) = pair();
                        let (clone, other) =
                            (client.try_clone().unwrap(), server.try_clone().unwrap());
                        ecru::scope(|s| {
                            let read = s.spawn(|| {
                                let mut bytes = [0; 2];
                                (&clone).read_exact(&mut bytes).unwrap();
                                bytes
                            });
                            // Waits for bytes that never come, and is cancelled.
                            let never = s.spawn(|| (&server).read(&mut [0; 8]));
                            if round % 3 == 0 {
                                ecru::yield_now().unwrap();
                            }
                            drop(client);
                            (&other).write_all(&[index]).unwrap();
                            ecru::yield_now().unwrap();
                            (&other).write_all(&[round]).unwrap();
                            assert_eq!(read.join().unwrap(), [index, round]);
                            never.cancel();
                            match never.join() {
                                Ok(outcome) => {
                                    let error = outcome.unwrap_err();
                                    assert!(ecru::Cancelled::find(&error).is_some(), "{error}");
                                }
                                // The task had not begun.
                                Err(error) => assert!(matches!(error, ecru::JoinError::Cancelled)),
                            }
                        });
                    }
                    done.store(true, SeqCst);
                });
            }
        });
        assert!(done.load(SeqCst));
    });
}

/// A `select` beside a read is not disturbed by the read, and the read is not disturbed by a panic
/// in a sibling's hook.
#[test]
fn a_read_survives_hooks_that_use_sockets_and_panic() {
    each(|| {
        let (client, mut server) = pair();
        let (hooked, mut peer) = pair();
        for round in 0..20_u8 {
            let outcome = ecru::cancel_scope(|cancel| {
                let begun = AtomicBool::new(false);
                ecru::scope(|s| {
                    let (hooked, begun) = (&hooked, &begun);
                    s.spawn(move || {
                        begun.store(true, SeqCst);
                        let _ = ecru::on_cancel(
                            move || {
                                // This never waits, because the socket has room for a byte.
                                hooked.set_nonblocking(true).unwrap();
                                let _ = { hooked }.write(&[round]);
                                std::panic::resume_unwind(Box::new("a hook"));
                            },
                            || ecru::sleep(Duration::from_secs(60)),
                        );
                    });
                    let canceller = cancel.clone();
                    s.spawn(move || {
                        // A task that is cancelled before it begins has no hook.
                        while !begun.load(SeqCst) {
                            let _ = ecru::yield_now();
                        }
                        let _ = ecru::sleep(Duration::from_micros(300));
                        canceller.cancel();
                    });
                    (&client).read(&mut [0; 8])
                })
            });
            assert!(ecru::Cancelled::find(&outcome.unwrap_err()).is_some());
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
        }
        server.write_all(b"x").unwrap();
        (&client).read_exact(&mut [0]).unwrap();
    });
}
