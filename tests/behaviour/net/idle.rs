//! Streams that wait for their next bytes without a task.

use crate::streams::{listen, pair};
use crate::support::{Watchdog, each_run, ms, run_on, settle, until};
use ecru::net::{TcpStream, UnixStream, WhenReadable};
use ecru::{Runtime, Scope, Source, source};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Echoes four bytes at a time, and has no task between two of them.
fn echo<'scope>(s: &'scope Scope<'scope, '_>, stream: TcpStream, turns: &'scope AtomicUsize) {
    s.spawn_when(stream.when_readable(), move |mut stream| {
        let mut bytes = [0; 4];
        if stream.read_exact(&mut bytes).is_ok() {
            turns.fetch_add(1, SeqCst);
            stream.write_all(&bytes).unwrap();
            echo(s, stream, turns);
        }
    });
}

/// - given: connections, each of which has a task of `spawn_when` only while it is readable
/// - when: clients send requests one after another
/// - then: each is answered, and the connections end when the clients close them
#[test]
fn net_40_requests_of_idle_connections() {
    each_run(|| {
        let (listener, address) = listen();
        let turns = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut clients: Vec<_> = (0..20)
                .map(|_| {
                    let client = TcpStream::connect(address).unwrap();
                    echo(s, listener.accept().unwrap().0, &turns);
                    client
                })
                .collect();
            for round in 0..5_u8 {
                for (number, client) in (0_u8..).zip(&mut clients) {
                    let bytes = [round, number, 1, 2];
                    client.write_all(&bytes).unwrap();
                    let mut answer = [0; 4];
                    client.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, bytes);
                }
            }
        });
        assert_eq!(turns.load(SeqCst), 100);
    });
}

/// - given: an idle stream with data, or whose peer has closed it, or neither
/// - when: `try_take` and `wait` are called
/// - then: the stream comes once a read would not wait, and only once; a read then reports what
///   has happened
#[test]
fn net_41_the_stream_comes_once() {
    each_run(|| {
        let (ours, mut theirs) = pair();
        let idle = ours.when_readable();
        assert!(idle.try_take().is_none());
        theirs.write_all(b"x").unwrap();
        let mut ours = idle.wait().unwrap();
        assert!(idle.try_take().is_none());
        ecru::timeout(ms(1), || assert!(idle.wait().is_err())).unwrap_err();
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
        assert!(idle.into_inner().is_none());

        let idle = ours.when_readable();
        drop(theirs);
        assert_eq!(idle.wait().unwrap().read(&mut [0; 8]).unwrap(), 0);
    });
}

/// - given: an idle Unix stream
/// - when: a select waits for it and gives up, and another gets it
/// - then: the first has taken nothing, and `into_inner` would return the stream meanwhile
#[test]
fn net_42_a_select_gives_up() {
    each_run(|| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut idle = ours.when_readable();
        for _ in 0..3 {
            ecru::select! {
                wait(&idle) -> _ => panic!("nothing was sent"),
                default(ms(1)) => {}
            }
            idle = idle.into_inner().expect("it was not taken").when_readable();
        }
        ecru::scope(|s| {
            let both = s.spawn(|| source::either(&idle, source::never::<()>()).wait().unwrap());
            theirs.write_all(b"hi").unwrap();
            let source::Either::Left(mut stream) = both.join().unwrap() else { unreachable!() };
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 2);
        });
    });
}

/// - given: tasks of `spawn_when` over idle streams
/// - when: their scope is cancelled; or the source of one is dropped
/// - then: no task begins, and the peers see the end of their streams
#[test]
fn net_43_cancelled_idle_streams_are_closed() {
    each_run(|| {
        let pairs: Vec<_> = (0..10).map(|_| pair()).collect();
        let (ours, mut theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        ecru::scope(|s| {
            for stream in ours {
                s.spawn_when(stream.when_readable(), |_| panic!("nothing was sent"));
            }
            settle();
            s.cancel();
            for peer in &mut theirs {
                assert_eq!(peer.read(&mut [0]).unwrap(), 0);
            }
        });
        let (ours, mut theirs) = pair();
        drop(ours.when_readable());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    });
}

/// - given: several waits for one idle stream
/// - when: it becomes readable
/// - then: one of them gets the stream
#[test]
fn net_44_several_waits() {
    each_run(|| {
        let (ours, mut theirs) = pair();
        let idle = ours.when_readable();
        let got = AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn_daemon(|| {
                    if idle.wait().is_ok() {
                        got.fetch_add(1, SeqCst);
                    }
                });
            }
            settle();
            theirs.write_all(b"x").unwrap();
            until(|| got.load(SeqCst) == 1);
        });
        assert_eq!(got.load(SeqCst), 1);
    });
}

/// - given: idle streams that are waited for, and dropped or taken back just when their peers write
/// - when: this happens again and again, so that descriptors are used anew at once
/// - then: each stream comes only for its own bytes
#[test]
fn net_45_dropped_against_readable() {
    let _watchdog = Watchdog::new();
    run_on(2, || {
        for round in 0..300_u32 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let idle = ours.when_readable();
            let (quiet, _peer) = UnixStream::pair().unwrap();
            ecru::scope(|s| {
                // It fails if the stream has been dropped.
                s.spawn(|| theirs.write_all(b"x").is_ok());
                let got = ecru::timeout(ms(u64::from(round % 2)), || idle.wait());
                let stream = got.ok().and_then(Result::ok).or_else(|| idle.into_inner());
                let mut stream = stream.expect("it was taken once");
                if round % 3 == 0 {
                    drop(stream);
                } else {
                    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
                }
                assert!(quiet.when_readable().try_take().is_none());
            });
        }
    });
}

/// - given: `detect_deadlock`, and a run in which only an idle stream is waited for
/// - when: nothing happens for a while, and then a plain thread writes
/// - then: the run is not reported as stuck, because something may come from outside
#[test]
fn net_46_no_deadlock() {
    let _watchdog = Watchdog::new();
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(ms(20));
        theirs.write_all(b"x").unwrap();
    });
    let runtime = Runtime::builder().workers(2).detect_deadlock(true).build().unwrap();
    runtime.run(|| {
        let idle: WhenReadable<UnixStream> =
            UnixStream::from(std::os::fd::OwnedFd::from(ours)).when_readable();
        ecru::scope(|s| {
            let task = s.spawn_when(idle, |mut stream| stream.read(&mut [0; 8]).unwrap());
            assert_eq!(task.join().unwrap(), 1);
        });
    });
    writer.join().unwrap();
}

/// - given: an idle stream that is watched
/// - when: it is dropped while its peer writes
/// - then: it is closed when the drop returns
#[test]
fn net_47_a_dropped_one_is_closed_at_once() {
    let _watchdog = Watchdog::new();
    for _ in 0..500 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // The number of the fd may soon be another file's, and the peer may see an open socket for
        // as long as a process that another test has just forked holds its copy.
        let number = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let socket = std::fs::read_link(&number).unwrap();
        let idle = ours.when_readable();
        ecru::select! {
            wait(&idle) -> _ => unreachable!("nothing was sent"),
            default(Duration::ZERO) => {}
        }
        std::thread::scope(|threads| {
            let mut writer = theirs.try_clone().unwrap();
            threads.spawn(move || _ = writer.write(b"x"));
            drop(idle);
            assert_ne!(std::fs::read_link(&number).ok(), Some(socket));
        });
    }
}

/// - given: an idle stream
/// - when: it is formatted by a writer that uses the same source
/// - then: that works, and shows the fd
#[test]
fn net_48_formatted_by_a_writer_that_uses_it() {
    struct Uses<'s>(&'s WhenReadable<UnixStream>, String);
    impl std::fmt::Write for Uses<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            assert!(self.0.try_take().is_none());
            self.1.push_str(text);
            Ok(())
        }
    }
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    let idle = ours.when_readable();
    let mut writer = Uses(&idle, String::new());
    std::fmt::Write::write_fmt(&mut writer, format_args!("{idle:?}")).unwrap();
    assert_eq!(writer.1, format!("WhenReadable {{ fd: Some({fd}) }}"));
}
