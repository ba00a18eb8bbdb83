//! Polled sockets in the wrong hands: of two tasks, of foreign threads, without their run, and of
//! wakers that close them.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

use ecru::net::{Interest, Polled, TcpStream, UnixStream};

use super::{each_run, panic_of};
use crate::common::{Watchdog, pair, quiet_panic, run_on, settle, until};

fn polled_pair() -> (TcpStream, Polled<TcpStream>) {
    let (client, server) = pair();
    (client, Polled::new(server).unwrap())
}

/// Notes that nothing is there to read.
fn drain(stream: &Polled<TcpStream>) {
    let read = stream.try_io(Interest::Read, |mut socket| socket.read(&mut [0]));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
}

async fn read_some(stream: &Polled<TcpStream>) -> io::Result<usize> {
    let mut buffer = [0; 16];
    poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await
}

/// Two tasks read the same side. The later one is woken, and the other one can be cancelled.
#[test]
fn two_tasks_read_the_same_side() {
    each_run(|| {
        let (mut client, server) = polled_pair();
        ecru::scope(|s| {
            let tasks = [s.spawn_future(read_some(&server)), s.spawn_future(read_some(&server))];
            settle();
            client.write_all(b"for one of them").unwrap();
            until(|| tasks.iter().any(|task| task.is_finished()));
            for task in &tasks {
                task.cancel();
            }
            let [one, other] = tasks.map(|task| task.join());
            assert!(one.is_ok() || other.is_ok());
        });
        // The cancelled one is told of nothing any more, and the next reader is.
        ecru::scope(|s| {
            let task = s.spawn_future(read_some(&server));
            client.write_all(b"again").unwrap();
            assert_eq!(task.join().unwrap().unwrap(), 5);
        });
    });
}

/// Foreign threads ask for readiness all the time, while a task of a run reads to the end.
#[test]
fn foreign_threads_ask_beside_a_task() {
    each_run(|| {
        let (mut client, server) = polled_pair();
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut cx = Context::from_waker(Waker::noop());
                    while !is_over.load(SeqCst) {
                        // The write side has one waiter at most, and is ready anyway.
                        _ = server.poll_write_ready(&mut cx);
                        _ = server.try_io(Interest::Write, |_| io::Result::Ok(()));
                        thread::yield_now();
                    }
                });
            }
            ecru::scope(|s| {
                let task = s.spawn_future(async {
                    let mut all = 0;
                    loop {
                        match read_some(&server).await {
                            Ok(0) => return all,
                            other => all += other.unwrap(),
                        }
                    }
                });
                for _ in 0..200 {
                    client.write_all(b"seventeen bytes !").unwrap();
                    ecru::yield_now().unwrap();
                }
                client.shutdown(ecru::net::Shutdown::Write).unwrap();
                assert_eq!(task.join().unwrap(), 200 * 17);
            });
            is_over.store(true, SeqCst);
        });
    });
}

/// Streams that a run has watched are dropped, used and taken out when the run is gone, on other
/// threads and in other runs.
#[test]
fn registrations_without_their_run() {
    let left = run_on(2, || {
        let streams: Vec<_> = (0..6).map(|_| polled_pair()).collect();
        ecru::scope(|s| {
            for (_, server) in &streams {
                s.spawn_future(read_some(server));
            }
            settle();
            s.cancel();
        });
        streams
    });
    let _watchdog = Watchdog::new();
    for (number, (mut client, server)) in left.into_iter().enumerate() {
        match number {
            0 => drop(server),
            1 => thread::spawn(move || drop(server)).join().unwrap(),
            2 => run_on(1, || drop(server)),
            3 => {
                let mut stream = server.into_inner();
                client.write_all(b"x").unwrap();
                stream.set_nonblocking(false).unwrap();
                stream.read_exact(&mut [0]).unwrap();
            }
            4 => {
                client.write_all(b"x").unwrap();
                assert_eq!(ecru::block_on(read_some(&server)).unwrap().unwrap(), 1);
            }
            _ => run_on(1, || {
                ecru::scope(|s| {
                    let task = s.spawn_future(read_some(&server));
                    client.write_all(b"xy").unwrap();
                    assert_eq!(task.join().unwrap().unwrap(), 2);
                });
            }),
        }
    }
}

/// A waker that closes its own stream when it is called, and opens another one, which has the same
/// descriptor, and polls that.
struct Closes {
    stream: Mutex<Option<Polled<TcpStream>>>,
    next: Mutex<Option<Polled<TcpStream>>>,
    client: Mutex<Option<TcpStream>>,
    calls: AtomicUsize,
}

impl Wake for Closes {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, SeqCst);
        drop(self.stream.lock().unwrap().take());
        let (ours, theirs) = std_pair();
        let next = Polled::new(TcpStream::from(OwnedFd::from(theirs))).unwrap();
        drain(&next);
        assert!(next.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
        *self.client.lock().unwrap() = Some(TcpStream::from(OwnedFd::from(ours)));
        *self.next.lock().unwrap() = Some(next);
    }
}

/// Returns both ends of a connection, without a wait in direct style.
fn std_pair() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// See [`Closes`]. The driver calls that waker.
#[test]
fn a_waker_that_closes_its_stream() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (mut client, server) = polled_pair();
            drain(&server);
            let closes = Arc::new(Closes {
                stream: Mutex::new(Some(server)),
                next: Mutex::default(),
                client: Mutex::default(),
                calls: AtomicUsize::new(0),
            });
            let waker = Waker::from(Arc::clone(&closes));
            let mut cx = Context::from_waker(&waker);
            let polled = closes.stream.lock().unwrap().as_ref().unwrap().poll_read_ready(&mut cx);
            assert!(polled.is_pending());
            client.write_all(b"x").unwrap();
            until(|| closes.next.lock().unwrap().is_some());
            let next = closes.next.lock().unwrap().take().unwrap();
            let mut client = closes.client.lock().unwrap().take().unwrap();
            ecru::scope(|s| {
                let task = s.spawn_future(read_some(&next));
                settle();
                assert!(!task.is_finished());
                client.write_all(b"yz").unwrap();
                assert_eq!(task.join().unwrap().unwrap(), 2);
            });
            assert_eq!(closes.calls.load(SeqCst), 1);
        });
    }
}

/// A waker whose destructor polls the same stream, with a waker of the same kind, a few times.
struct PollsAgain {
    stream: Arc<Polled<TcpStream>>,
    left: usize,
    drops: Arc<AtomicUsize>,
}

impl Wake for PollsAgain {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PollsAgain {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        if self.left > 0 {
            let waker = Waker::from(Arc::new(PollsAgain {
                stream: Arc::clone(&self.stream),
                left: self.left - 1,
                drops: Arc::clone(&self.drops),
            }));
            _ = self.stream.poll_read_ready(&mut Context::from_waker(&waker));
        }
    }
}

/// A waker that is replaced or called re-enters the stream from its destructor.
#[test]
fn a_waker_whose_destructor_polls_the_stream() {
    let attack = || {
        let (mut client, server) = polled_pair();
        drain(&server);
        let stream = Arc::new(server);
        let drops = Arc::new(AtomicUsize::new(0));
        for left in [2, 0] {
            let waker = Waker::from(Arc::new(PollsAgain {
                stream: Arc::clone(&stream),
                left,
                drops: Arc::clone(&drops),
            }));
            assert!(stream.poll_read_ready(&mut Context::from_waker(&waker)).is_pending());
        }
        client.write_all(b"x").unwrap();
        assert_eq!(ecru::block_on(read_some(&stream)).unwrap().unwrap(), 1);
        until(|| drops.load(SeqCst) >= 2);
    };
    run_on(1, attack);
}

/// A transfer that panics, one that polls the stream, and one that makes the mode blocking.
#[test]
fn a_transfer_that_breaks_the_rules() {
    each_run(|| {
        let (mut client, server) = polled_pair();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            server.try_io(Interest::Read, |_| -> io::Result<()> { quiet_panic("in a transfer") })
        }));
        assert!(panicked.is_err());
        let polled = server.try_io(Interest::Read, |mut socket| {
            drain(&server);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(server.poll_read_ready(&mut cx).is_pending());
            socket.read(&mut [0])
        });
        assert_eq!(polled.unwrap_err().kind(), ErrorKind::WouldBlock);
        ecru::scope(|s| {
            let task = s.spawn_future(read_some(&server));
            client.write_all(b"there").unwrap();
            assert_eq!(task.join().unwrap().unwrap(), 5);
        });
    });
}

/// The mode is set to blocking behind the back of a stream without room: a poll refuses to wait.
#[test]
fn a_clone_makes_the_mode_blocking() {
    each_run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let clone = ours.try_clone().unwrap();
        let ours = Polled::new(ours).unwrap();
        let fills = Cell::new(0);
        ecru::scope(|s| {
            let writer = s.spawn_local_future(async {
                let chunk = [0; 4096];
                loop {
                    fills.set(fills.get() + 1);
                    poll_fn(|cx| ours.poll_write(cx, &chunk)).await.unwrap();
                }
            });
            settle();
            assert!(fills.get() > 1 && !writer.is_finished());
            clone.set_nonblocking(false).unwrap();
            // All the room that there is, which the writer uses up again.
            theirs.set_nonblocking(true).unwrap();
            let mut taken = vec![0; 64 << 10];
            while (&theirs).read(&mut taken).is_ok() {}
            let text = panic_of::<()>(writer.join());
            assert!(text.contains("`.await`"), "{text}");
        });
    });
}
