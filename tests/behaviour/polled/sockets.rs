//! `net::Polled`: readiness and wakers.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use ecru::net::{
    Interest, Polled, Shutdown, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener,
    UnixStream,
};

use crate::support::{Watchdog, each_run, run_on, settle};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

async fn read_all(stream: &Polled<TcpStream>, room: usize) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
    loop {
        match poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn write_all(stream: &Polled<TcpStream>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(bytes.len() / 2);
        let parts = [IoSlice::new(head), IoSlice::new(rest)];
        let count = poll_fn(|cx| stream.poll_write_vectored(cx, &parts)).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// - given: a TCP stream that is polled, and its peer
/// - when: the peer sends chunks of any size, pauses and ends the stream, at once or later
/// - then: all bytes and the end are read, whatever the size of the buffer
#[test]
fn polled_20_reads_to_the_end() {
    each_run(|| {
        for (room, chunk, pauses) in
            [(1, 1, true), (7, 5, true), (16, 16, false), (64, 13, false), (4096, 100, true)]
        {
            let (mut client, server) = pair();
            let server = Polled::new(server).unwrap();
            let sent: Vec<u8> = (0..300).map(|number| number as u8).collect();
            ecru::scope(|s| {
                let read = s.spawn_future(read_all(&server, room));
                for part in sent.chunks(chunk) {
                    client.write_all(part).unwrap();
                    if pauses {
                        ecru::yield_now().unwrap();
                    }
                }
                drop(client);
                assert_eq!(read.join().unwrap().unwrap(), sent);
            });
        }
    });
}

/// - given: two streams that are polled by futures, on one or several workers
/// - when: more is written than the kernel takes
/// - then: the writer is pending until the reader has made room, and nothing is lost
#[test]
fn polled_21_back_pressure() {
    each_run(|| {
        let (client, server) = pair();
        let (client, server) = (Polled::new(client).unwrap(), Polled::new(server).unwrap());
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        ecru::scope(|s| {
            let written = s.spawn_future(async {
                write_all(&client, &sent).await?;
                client.get_ref().shutdown(Shutdown::Write)
            });
            settle();
            let read = s.spawn_future(read_all(&server, 100_000));
            written.join().unwrap().unwrap();
            assert!(read.join().unwrap().unwrap() == sent);
        });
    });
}

/// - given: sockets of each kind
/// - when: they are accepted from, received from and sent to by `try_io`
/// - then: `WouldBlock` makes the side pending until there is news
#[test]
fn polled_22_sockets_of_each_kind() {
    async fn until_done<S: ecru::net::Pollable, T>(
        socket: &Polled<S>,
        interest: Interest,
        mut transfer: impl FnMut(&S) -> io::Result<T>,
    ) -> T {
        loop {
            poll_fn(|cx| match interest {
                Interest::Read => socket.poll_read_ready(cx),
                Interest::Write => socket.poll_write_ready(cx),
            })
            .await
            .unwrap();
            match socket.try_io(interest, &mut transfer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome.unwrap(),
            }
        }
    }
    each_run(|| {
        let listener = Polled::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        let udp = Polled::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut unix, unix_server) = UnixStream::pair().unwrap();
        let unix_server = Polled::new(unix_server).unwrap();
        let (datagram, datagram_server) = UnixDatagram::pair().unwrap();
        let datagram_server = Polled::new(datagram_server).unwrap();
        ecru::scope(|s| {
            let accepted =
                s.spawn_future(until_done(&listener, Interest::Read, TcpListener::accept));
            let received = s.spawn_future(until_done(&udp, Interest::Read, |udp| {
                let mut buffer = [0; 8];
                udp.recv(&mut buffer).map(|count| buffer[..count].to_vec())
            }));
            let read = s.spawn_future(async {
                let mut buffer = [0; 8];
                let count = poll_fn(|cx| unix_server.poll_read(cx, &mut buffer)).await.unwrap();
                poll_fn(|cx| unix_server.poll_write(cx, &buffer[..count])).await.unwrap();
                buffer[..count].to_vec()
            });
            let taken = s.spawn_future(until_done(&datagram_server, Interest::Read, |socket| {
                socket.recv(&mut [0; 8])
            }));
            settle();
            let client = TcpStream::connect(address).unwrap();
            let (stream, peer) = accepted.join().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            drop(stream);
            other.send_to(b"udp", udp.get_ref().local_addr().unwrap()).unwrap();
            assert_eq!(received.join().unwrap(), b"udp");
            unix.write_all(b"unix").unwrap();
            assert_eq!(read.join().unwrap(), b"unix");
            unix.read_exact(&mut [0; 4]).unwrap();
            datagram.send(b"four").unwrap();
            assert_eq!(taken.join().unwrap(), 4);
            s.spawn_future(until_done(&udp, Interest::Write, |_| Ok(()))).join().unwrap();
        });
    });
}

/// - given: a Unix listener that is polled
/// - when: clients connect
/// - then: each is accepted
#[test]
fn polled_23_unix_listener() {
    let _watchdog = Watchdog::new();
    let name = format!("ecru-polled-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    run_on(1, || {
        let listener = Polled::new(UnixListener::bind_addr(&address).unwrap()).unwrap();
        ecru::scope(|s| {
            let count = s.spawn_future(async {
                for _ in 0..10 {
                    poll_fn(|cx| {
                        loop {
                            if listener.poll_read_ready(cx)?.is_pending() {
                                return Poll::Pending;
                            }
                            match listener.try_io(Interest::Read, UnixListener::accept) {
                                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                                other => return Poll::Ready(other),
                            }
                        }
                    })
                    .await
                    .unwrap();
                }
                10
            });
            for _ in 0..10 {
                drop(UnixStream::connect_addr(&address).unwrap());
                ecru::yield_now().unwrap();
            }
            assert_eq!(count.join().unwrap(), 10);
        });
    });
}

/// A waker that unparks a thread, as those of other runtimes do.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_thread_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// - given: streams that are polled by a thread of another runtime
/// - when: bytes come, or room
/// - then: its wakers are called, without any run of ecru
#[test]
fn polled_24_on_other_threads() {
    let _watchdog = Watchdog::new();
    let (client, server) = pair();
    let (client, server) = (Polled::new(client).unwrap(), Polled::new(server).unwrap());
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 241) as u8).collect();
    thread::scope(|s| {
        let read = s.spawn(|| block_thread_on(read_all(&server, 100_000)).unwrap());
        block_thread_on(write_all(&client, &sent)).unwrap();
        client.get_ref().shutdown(Shutdown::Write).unwrap();
        assert!(read.join().unwrap() == sent);
    });
}

/// - given: a stream that a task of a run has polled
/// - when: the run ends, and a thread polls it, or another run does
/// - then: it is told of what comes
#[test]
fn polled_25_outlives_its_run() {
    let _watchdog = Watchdog::new();
    let (mut client, server) = pair();
    let server = Arc::new(Polled::new(server).unwrap());
    let runtime = |workers| ecru::Runtime::builder().workers(workers).build().unwrap();
    let read = |server: &Polled<TcpStream>| -> u8 {
        let mut byte = [0];
        block_thread_on(poll_fn(|cx| server.poll_read(cx, &mut byte))).unwrap();
        byte[0]
    };
    for round in 0..3 {
        runtime(1 + round % 2).run(|| {
            ecru::scope(|s| {
                let task = s.spawn_future(async {
                    let mut byte = [0];
                    poll_fn(|cx| server.poll_read(cx, &mut byte)).await.unwrap();
                    byte[0]
                });
                settle();
                client.write_all(b"r").unwrap();
                assert_eq!(task.join().unwrap(), b'r');
                // It is registered, and nothing is there.
                let pending = s.spawn_future(async {
                    poll_fn(|cx| server.poll_read(cx, &mut [0])).await.unwrap();
                });
                settle();
                pending.cancel();
            });
        });
        let (begun, has_begun) = mpsc::channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                begun.send(()).unwrap();
                read(&server)
            }
        });
        has_begun.recv().unwrap();
        client.write_all(b"t").unwrap();
        assert_eq!(thread.join().unwrap(), b't');
    }
}

/// - given: a stream that one worker has polled
/// - when: a task of another worker polls it
/// - then: that one is told
#[test]
fn polled_26_moves_between_workers() {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
        let (mut client, server) = pair();
        let mut server = Polled::new(server).unwrap();
        let places = AtomicUsize::new(0);
        for round in 0..20_u8 {
            let here = thread::current().id();
            server = ecru::scope(|s| {
                let read = |server: Polled<TcpStream>| async {
                    let server = server;
                    let mut byte = [0];
                    poll_fn(|cx| server.poll_read(cx, &mut byte)).await.unwrap();
                    if thread::current().id() != here {
                        places.fetch_add(1, SeqCst);
                    }
                    (byte[0], server)
                };
                let task = match round % 2 {
                    0 => s.spawn_local_future(read(server)),
                    _ => s.spawn_future(read(server)),
                };
                if round % 3 == 0 {
                    settle();
                }
                client.write_all(&[round]).unwrap();
                let (byte, server) = task.join().unwrap();
                assert_eq!(byte, round);
                server
            });
        }
    });
}

/// - given: many connections, one after another, with the same numbers of descriptors
/// - when: each is polled and closed, or taken out again
/// - then: no connection is told of another, and a stream that was taken out can be read in direct
///   style
#[test]
fn polled_27_descriptors_are_used_again() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            for round in 0..30_u8 {
                let mut client = TcpStream::connect(address).unwrap();
                let server = Polled::new(listener.accept().unwrap().0).unwrap();
                let task = s.spawn_future(async move {
                    let mut byte = [0];
                    poll_fn(|cx| server.poll_read(cx, &mut byte)).await.unwrap();
                    (byte[0], server)
                });
                settle();
                client.write_all(&[round]).unwrap();
                let (byte, server) = task.join().unwrap();
                assert_eq!(byte, round);
                if round % 2 == 0 {
                    let mut server = server.into_inner();
                    server.set_nonblocking(false).unwrap();
                    let task = s.spawn(move || server.read(&mut [0; 8]).unwrap());
                    settle();
                    client.write_all(b"more").unwrap();
                    assert_eq!(task.join().unwrap(), 4);
                }
            }
        });
    });
}

/// - given: a stream that is read and written by two tasks at once
/// - when: the peer echoes
/// - then: each is woken for its side
#[test]
fn polled_28_both_sides() {
    each_run(|| {
        let (client, server) = pair();
        let client = Polled::new(client).unwrap();
        let sent: Vec<u8> = (0..500_000_u32).map(|number| (number % 239) as u8).collect();
        ecru::scope(|s| {
            s.spawn(|| {
                let (mut from, mut to) = (&server, &server);
                io::copy(&mut from, &mut to).unwrap();
                server.shutdown(Shutdown::Write).unwrap();
            });
            let written = s.spawn_future(async {
                write_all(&client, &sent).await.unwrap();
                client.get_ref().shutdown(Shutdown::Write).unwrap();
            });
            let read = s.spawn_future(read_all(&client, 10_000));
            written.join().unwrap();
            assert!(read.join().unwrap().unwrap() == sent);
        });
    });
}

/// - given: a datagram socket that was made a `TcpStream` by its descriptor
/// - when: several datagrams are there, each smaller than the buffer
/// - then: each is read
#[test]
fn polled_30_not_a_tcp_stream() {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(1).build().unwrap().run(|| {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let stream = Polled::new(TcpStream::from(std::os::fd::OwnedFd::from(theirs))).unwrap();
        ecru::scope(|s| {
            let read = s.spawn_future(async {
                let (mut all, mut buffer) = (0, [0; 50]);
                while all < 30 {
                    all += poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap();
                }
            });
            settle();
            for _ in 0..10 {
                ours.send(b"abc").unwrap();
            }
            read.join().unwrap();
        });
    });
}

/// - given: a stream that is armed on a worker
/// - when: another thread drops it
/// - then: its waker is dropped as well, and nothing of its task is kept
#[test]
fn polled_31_dropped_by_another_thread() {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(1).build().unwrap().run(|| {
        let (_client, server) = pair();
        let server = Polled::new(server).unwrap();
        let waker = Arc::new(Unpark(thread::current()));
        let first = Waker::from(Arc::clone(&waker));
        let mut cx = Context::from_waker(&first);
        assert!(server.poll_read(&mut cx, &mut [0]).is_pending());
        assert_eq!(Arc::strong_count(&waker), 3);
        thread::spawn(move || drop(server)).join().unwrap();
        assert_eq!(Arc::strong_count(&waker), 2);
    });
}
