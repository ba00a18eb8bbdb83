//! Sends on Unix sockets that wait while their own socket is shut, and waits at the edges of a
//! connection.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ecru::diag::TaskInfo;
use ecru::net::{UnixDatagram, UnixStream};
use ecru::{Cancelled, DriverKind, RuntimeHandle};

use super::on_each_driver;
use crate::common::{HOUR, ProcessorClock, begin, ms, pair, run_on, settle, until};

/// Returns a stream without room, and its peer. Nothing reads from the peer.
fn full() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    for size in [4096, 1] {
        while (&ours).write(&[1; 4096][..size]).is_ok() {}
    }
    ours.set_nonblocking(false).unwrap();
    (ours, theirs)
}

fn full_datagrams() -> (UnixDatagram, UnixDatagram) {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.send(&[1]).is_ok() {}
    ours.set_nonblocking(false).unwrap();
    (ours, theirs)
}

/// Waits until `count` tasks wait for a file descriptor.
fn until_waiting(count: usize) {
    let waits = |task: &&TaskInfo| task.waits_on().is_some_and(|wait| wait.fd().is_some());
    until(|| RuntimeHandle::current().dump().tasks().filter(waits).count() == count);
}

/// Starts a thread that calls `send`, and returns what it says after `end` was called. `end` is
/// called when the thread sleeps in the kernel.
fn on_a_thread<T: Send>(send: impl FnOnce() -> T + Send, end: impl FnOnce()) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    thread::scope(|s| {
        let sender = s.spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            send()
        });
        let state = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        let sleeps = || std::fs::read_to_string(&state).unwrap().contains(") S ");
        while !(sleeps() && {
            thread::sleep(ms(2));
            sleeps()
        }) {
            thread::yield_now();
        }
        end();
        sender.join().unwrap()
    })
}

/// As with std, the send of a plain thread ends when another thread shuts the socket.
#[test]
fn a_send_of_a_plain_thread() {
    let _watchdog = crate::common::Watchdog::new();
    for how in [Shutdown::Write, Shutdown::Both] {
        let (ours, _theirs) = full();
        let sent = on_a_thread(|| (&ours).write(&[1]), || ours.shutdown(how).unwrap());
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (ours, _theirs) = full_datagrams();
        let clone = ours.try_clone().unwrap();
        let sent = on_a_thread(|| ours.send(&[1]), || clone.shutdown(how).unwrap());
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

/// A plain thread's send that waits still notices room at once, and its time limits.
#[test]
fn a_send_of_a_plain_thread_ends_as_usual() {
    let _watchdog = crate::common::Watchdog::new();
    let (ours, theirs) = full();
    let mut buffer = vec![0; 1 << 20];
    let sent = on_a_thread(|| (&ours).write(&[1]), || _ = (&theirs).read(&mut buffer).unwrap());
    assert_eq!(sent.unwrap(), 1);
    let (ours, _theirs) = full();
    ours.set_write_timeout(Some(ms(15))).unwrap();
    assert_eq!((&ours).write(&[1]).unwrap_err().kind(), ErrorKind::TimedOut);
    ours.set_write_timeout(None).unwrap();
    let late = ecru::timeout(ms(15), || (&ours).write(&[1]).unwrap_err());
    late.unwrap_err();
    let (ours, theirs) = full();
    let sent = on_a_thread(|| (&ours).write(&[1]), || drop(theirs));
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

/// The same inside a closure of `unblock`, while a task shuts the socket.
#[test]
fn a_send_in_unblock() {
    run_on(1, || {
        let (ours, _theirs) = full();
        ecru::scope(|s| {
            let send = s.spawn(|| ecru::unblock(|| on_a_thread_of_the_pool(&ours)));
            while !STARTED.load(SeqCst) {
                ecru::yield_now().unwrap();
            }
            ecru::sleep(ms(5)).unwrap();
            ours.shutdown(Shutdown::Write).unwrap();
            assert_eq!(send.join().unwrap(), ErrorKind::BrokenPipe);
        });
    });
}

static STARTED: AtomicBool = AtomicBool::new(false);

fn on_a_thread_of_the_pool(mut ours: &UnixStream) -> ErrorKind {
    STARTED.store(true, SeqCst);
    ours.write(&[1]).unwrap_err().kind()
}

/// A shield keeps requests off, but the shutdown is no request to the task.
#[test]
fn a_send_in_a_shield_of_a_cancelled_task() {
    on_each_driver(1, || {
        let (ours, _theirs) = full();
        ecru::scope(|s| {
            let send = s.spawn(|| ecru::shield(|| (&ours).write(&[1])));
            until_waiting(1);
            send.cancel();
            settle();
            assert!(!send.is_finished());
            ours.shutdown(Shutdown::Write).unwrap();
            let error = send.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        });
    });
}

/// The end of a send leaves no trace: the task is not cancelled, its limit has not passed, and its
/// next waits work.
#[test]
fn a_task_whose_send_was_ended_goes_on() {
    on_each_driver(1, || {
        let (ours, mut theirs) = full();
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::timeout(HOUR, || {
                    ecru::cancel_scope(|handle| {
                        let error = (&ours).write(&[1]).unwrap_err();
                        assert!(Cancelled::find(&error).is_none());
                        assert!(!handle.is_cancelled() && !ecru::is_cancelled());
                        ecru::sleep(ms(1)).unwrap();
                        error.kind()
                    })
                })
            });
            until_waiting(1);
            ours.shutdown(Shutdown::Write).unwrap();
            assert_eq!(task.join().unwrap(), Ok(ErrorKind::BrokenPipe));
        });
        assert!(theirs.read_to_end(&mut Vec::new()).unwrap() > 0);
    });
}

/// Shutting the reading side ends no send.
#[test]
fn shutting_the_reading_side() {
    on_each_driver(1, || {
        let (ours, mut theirs) = full();
        ecru::scope(|s| {
            let send = begin(s, || (&ours).write(&[1]));
            until_waiting(1);
            ours.shutdown(Shutdown::Read).unwrap();
            ours.shutdown(Shutdown::Read).unwrap();
            settle();
            assert!(!send.is_finished());
            _ = theirs.read(&mut vec![0; 1 << 20]).unwrap();
            assert_eq!(send.join().unwrap().unwrap(), 1);
        });
    });
}

/// Tasks of two runtimes wait on clones of one socket. Some are cancelled meanwhile.
#[test]
fn many_senders_of_two_runtimes() {
    let (ours, _theirs) = full();
    let waiting = Barrier::new(2);
    let _watchdog = crate::common::Watchdog::new();
    thread::scope(|threads| {
        let clone = ours.try_clone().unwrap();
        let waiting = &waiting;
        threads.spawn(move || {
            run_on(2, || {
                ecru::scope(|s| {
                    let sends: Vec<_> =
                        (0..40).map(|_| s.spawn(|| (&clone).write(&[1]).unwrap_err())).collect();
                    until_waiting(40);
                    waiting.wait();
                    sends.iter().step_by(2).for_each(|send| send.cancel());
                    for (index, send) in sends.iter().enumerate() {
                        let error = send.join().unwrap();
                        let is_end = error.kind() == ErrorKind::BrokenPipe;
                        let is_cancelled = Cancelled::find(&error).is_some();
                        assert!(is_end || (is_cancelled && index % 2 == 0), "{error:?}");
                    }
                });
            });
        });
        run_on(1, || {
            ecru::scope(|s| {
                let sends: Vec<_> =
                    (0..40).map(|_| s.spawn(|| (&ours).write(&[1]).unwrap_err())).collect();
                until_waiting(40);
                waiting.wait();
                ours.shutdown(Shutdown::Write).unwrap();
                for send in &sends {
                    assert_eq!(send.join().unwrap().kind(), ErrorKind::BrokenPipe);
                }
            });
        });
    });
}

/// A shutdown, a request and a time limit meet a send that is about to wait.
#[test]
fn a_shutdown_races_with_a_request() {
    for workers in [1, 2, 4] {
        run_on(workers, || {
            for round in 0..30 {
                let (ours, _theirs) = full();
                if round % 3 == 0 {
                    ours.set_write_timeout(Some(ms(1))).unwrap();
                }
                ecru::scope(|s| {
                    let send = s.spawn(|| (&ours).write(&[1]).unwrap_err());
                    let shut = s.spawn(|| ours.shutdown(Shutdown::Write).unwrap());
                    (0..round % 7).for_each(|_| ecru::yield_now().unwrap());
                    send.cancel();
                    shut.join().unwrap();
                    let error = send.join();
                    let Ok(error) = error else { return };
                    let expected = error.kind() == ErrorKind::BrokenPipe
                        || error.kind() == ErrorKind::TimedOut
                        || Cancelled::find(&error).is_some();
                    assert!(expected, "{error:?}");
                });
                assert_eq!((&ours).write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            }
        });
    }
}

/// A write that was taken in part says so. Vectored writes end as well.
#[test]
fn a_write_that_was_taken_in_part() {
    on_each_driver(1, || {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ecru::scope(|s| {
            let taken = s.spawn(|| {
                let big = vec![7; 4 << 20];
                let mut taken = 0;
                loop {
                    match (&ours).write_vectored(&[IoSlice::new(&[]), IoSlice::new(&big)]) {
                        Ok(count) => taken += count,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                            break taken;
                        }
                    }
                }
            });
            until_waiting(1);
            ours.shutdown(Shutdown::Write).unwrap();
            let taken = taken.join().unwrap();
            assert_eq!(theirs.read_to_end(&mut Vec::new()).unwrap(), taken);
        });
    });
}

/// The socket is shut by a callback under `no_suspend`, and by a destructor that unwinds.
#[test]
fn a_shutdown_where_nothing_may_wait() {
    use ecru::{Source, channel};
    on_each_driver(1, || {
        let (ours, _theirs) = full();
        ecru::scope(|s| {
            let send = s.spawn(|| (&ours).write(&[1]).unwrap_err().kind());
            until_waiting(1);
            let (ring, rung) = channel::unbounded();
            let clone = ours.try_clone().unwrap();
            let subscription = rung.on_ready(move |_| clone.shutdown(Shutdown::Write).unwrap());
            ring.send(()).unwrap();
            assert_eq!(send.join().unwrap(), ErrorKind::BrokenPipe);
            drop(subscription);
        });
        let (ours, _theirs) = full();
        ecru::scope(|s| {
            let send = s.spawn(|| (&ours).write(&[1]).unwrap_err().kind());
            until_waiting(1);
            let panics = s.spawn(|| {
                let _shuts = super::OnDrop(|| ours.shutdown(Shutdown::Both).unwrap());
                crate::common::quiet_panic("with a socket")
            });
            panics.join().unwrap_err();
            assert_eq!(send.join().unwrap(), ErrorKind::BrokenPipe);
        });
    });
}

/// A send waits in an arm of a race of tasks, and the race is lost.
#[test]
fn a_send_that_loses_a_race() {
    on_each_driver(2, || {
        let (ours, theirs) = full();
        let ended = AtomicUsize::new(0);
        for _ in 0..20 {
            let lost = ecru::timeout(ms(1), || {
                let error = (&ours).write_all(&[1; 4096]).unwrap_err();
                assert!(Cancelled::find(&error).is_some());
                ended.fetch_add(1, SeqCst);
            });
            assert!(lost.is_err());
        }
        assert_eq!(ended.load(SeqCst), 20);
        // Nothing that waited is left for the shutdown, and nothing was sent.
        let before = {
            theirs.set_nonblocking(true).unwrap();
            let mut all = Vec::new();
            _ = (&theirs).read_to_end(&mut all);
            all.len()
        };
        assert!(before > 0);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
    });
}

/// A datagram to an address whose queue is full waits without an event. It ends, too.
#[test]
fn a_datagram_to_an_address() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("ecru-attack-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let theirs = UnixDatagram::bind_addr(&address).unwrap();
    for driver in [DriverKind::Uring, DriverKind::Poll] {
        super::run_by(driver, 1, || {
            let ours = UnixDatagram::unbound().unwrap();
            ours.set_nonblocking(true).unwrap();
            while ours.send_to_addr(&[1], &address).is_ok() {}
            ours.set_nonblocking(false).unwrap();
            ecru::scope(|s| {
                let send = begin(s, || ours.send_to_addr(&[1], &address));
                ecru::sleep(ms(2)).unwrap();
                ours.shutdown(Shutdown::Write).unwrap();
                assert_eq!(send.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
            theirs.set_nonblocking(true).unwrap();
            while theirs.recv(&mut [0]).is_ok() {}
        });
    }
}

/// Many readers and writers wait on a TCP connection whose peer has shut its side. None of them
/// spins, none is lost, and the number of the fd is used again afterwards.
#[test]
fn a_peer_that_is_half_closed() {
    on_each_driver(1, || {
        for _ in 0..3 {
            let (ours, theirs) = pair();
            theirs.shutdown(Shutdown::Write).unwrap();
            assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
            ours.set_nonblocking(true).unwrap();
            let mut written = 0;
            while let Ok(count) = (&ours).write(&[1; 1 << 16]) {
                written += count;
            }
            ours.set_nonblocking(false).unwrap();
            let clock = ProcessorClock::of_this_thread();
            ecru::scope(|s| {
                let writers: Vec<_> = (0..4).map(|_| s.spawn(|| (&ours).write(&[2]))).collect();
                let ready = s.spawn(|| ours.wait_writable());
                until_waiting(5);
                writers[0].cancel();
                let before = clock.used();
                ecru::sleep(ms(15)).unwrap();
                let used = clock.used() - before;
                assert!(used < ms(10), "{used:?}");
                assert!(Cancelled::find(&writers[0].join().unwrap().unwrap_err()).is_some());
                let mut left = written + 3;
                let mut buffer = vec![0; 1 << 20];
                while left > 0 {
                    left -= (&theirs).read(&mut buffer).unwrap();
                }
                writers[1..].iter().for_each(|one| assert_eq!(one.join().unwrap().unwrap(), 1));
                ready.join().unwrap().unwrap();
            });
        }
    });
}
