//! Tests of what only this driver does: what it remembers about fds. The tests that both drivers
//! share are in `driver::tests`.

use super::*;
use crate::driver::Manner;
use crate::driver::descriptor::Descriptor;
use crate::driver::tests::{GUARD, attempt, cancel, named, pair, start, submit};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

/// The results of waits that end: what poll(2) reports for the fd.
const READ: i32 = libc::POLLIN as i32;
const WRITE: i32 = libc::POLLOUT as i32;
/// The peer is gone, and has not read everything.
const GONE: i32 = (libc::POLLHUP | libc::POLLERR) as i32;

fn readiness(fd: &Descriptor, interest: Interest) -> Op<'_> {
    Op::Readiness { fd, interest }
}

/// Starts a wait that an attempt has found to be necessary.
fn wait_for(driver: &mut Poll, fd: &Descriptor, interest: Interest, token: u64) {
    submit(driver, &readiness(fd, interest), token);
}

/// Returns everything that completes within this time: tokens and results, in order.
fn over(driver: &mut Poll, within: Duration) -> Vec<(u64, i32)> {
    let mut completions = Vec::new();
    driver.poll(PollTimeout::For(within), &mut completions).unwrap();
    driver.poll(PollTimeout::Poll, &mut completions).unwrap();
    completions.into_iter().map(|one| (one.token.value(), one.result)).collect()
}

/// Ends the wait `token` to read, and no other, by bytes from its peer.
#[track_caller]
fn end_by(driver: &mut Poll, mut peer: impl Write, bytes: &[u8], token: u64) {
    peer.write_all(bytes).unwrap();
    assert_eq!(over(driver, GUARD), [(token, READ)]);
}

/// Ends the wait `token`, and no other, by a cancellation.
#[track_caller]
fn end_by_cancelling(driver: &mut Poll, token: u64) {
    cancel(driver, token);
    assert_eq!(over(driver, GUARD), [(token, Completion::CANCELLED)]);
}

fn nothing(driver: &mut Poll) {
    assert_eq!(over(driver, Duration::from_millis(2)), []);
}

#[test]
fn an_fd_is_registered_once_for_any_number_of_waits() {
    let mut driver = Poll::open(None).unwrap();
    let (mut ours, theirs) = pair();
    let fd = named(&ours);
    for round in 0..100 {
        wait_for(&mut driver, fd, Interest::Read, round);
        end_by(&mut driver, &theirs, b"x", round);
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
    }
    assert_eq!(driver.registrations, 1);
}

#[test]
fn news_that_finds_nobody_is_kept_for_the_next_who_comes() {
    let mut driver = Poll::open(None).unwrap();
    let (mut ours, mut theirs) = pair();
    let fd = named(&ours);
    wait_for(&mut driver, fd, Interest::Read, 0);
    nothing(&mut driver);
    end_by_cancelling(&mut driver, 0);
    // A read has been attempted in vain. The edge comes and is reported before the read is
    // submitted.
    theirs.write_all(b"x").unwrap();
    driver.poll(PollTimeout::For(Duration::from_millis(2)), &mut Vec::new()).unwrap();
    let started = start(&mut driver, &readiness(fd, Interest::Read), 1, true);
    assert!(matches!(started, StartedOp::Done(Ok(_))), "{started:?}");
    assert_eq!(driver.in_flight(), 0);
    // The news was kept for one wait only.
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
    wait_for(&mut driver, fd, Interest::Read, 2);
    nothing(&mut driver);
    end_by(&mut driver, &theirs, b"x", 2);
}

#[test]
fn a_hang_up_is_news_for_both_sides() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, theirs) = pair();
    let fd = named(&ours);
    let bytes = [0; 1 << 16];
    while (&ours).write(&bytes).is_ok() {}
    wait_for(&mut driver, fd, Interest::Read, 1);
    wait_for(&mut driver, fd, Interest::Write, 2);
    nothing(&mut driver);
    drop(theirs);
    let mut told = over(&mut driver, GUARD);
    told.sort_unstable();
    assert_eq!(told, [(1, READ | GONE), (2, WRITE | GONE)]);
}

#[test]
fn all_who_wait_are_told_in_order_and_only_for_their_side() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = pair();
    let fd = named(&ours);
    let bytes = [0; 1 << 16];
    while (&ours).write(&bytes).is_ok() {}
    wait_for(&mut driver, fd, Interest::Write, 9);
    for token in [3, 1, 2] {
        wait_for(&mut driver, fd, Interest::Read, token);
    }
    nothing(&mut driver);
    theirs.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(3, READ), (1, READ), (2, READ)]);
    end_by_cancelling(&mut driver, 9);
    assert_eq!(driver.registrations, 1);
}

/// Makes the number of `old` name the file `by`. This closes the old file.
fn replace(old: UnixStream, by: &impl AsFd) -> OwnedFd {
    let number = old.as_raw_fd();
    // SAFETY: both numbers are open; the one that is closed belongs to `old`, which forgets it.
    let made =
        unsafe { libc::dup2(by.as_fd().as_raw_fd(), std::os::fd::IntoRawFd::into_raw_fd(old)) };
    assert_eq!(made, number);
    // SAFETY: the number names a file of this test, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[test]
fn a_number_that_is_used_again_is_registered_again() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut first_peer) = pair();
    let old = named(&first);
    wait_for(&mut driver, old, Interest::Read, 1);
    end_by(&mut driver, &first_peer, b"x", 1);
    // News for which no op waits. It belongs to the old file, not to the new one.
    first_peer.write_all(b"x").unwrap();
    driver.handle(News {
        key: key(old.fd, old.generation()),
        read: true,
        write: true,
        plain: true,
        ended: false,
    });
    let (second, second_peer) = pair();
    let taken = replace(first, &second);
    let new = named(&taken);
    assert_eq!(new.fd, old.fd);
    wait_for(&mut driver, new, Interest::Read, 2);
    nothing(&mut driver);
    assert_eq!(driver.registrations, 2);
    end_by(&mut driver, &second_peer, b"x", 2);
}

#[test]
fn events_of_a_closed_file_that_has_a_duplicate_are_not_taken_for_its_successors() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut first_peer) = pair();
    let _keeps_it_registered = first.try_clone().unwrap();
    wait_for(&mut driver, named(&first), Interest::Read, 1);
    nothing(&mut driver);
    end_by_cancelling(&mut driver, 1);
    let (second, second_peer) = pair();
    let taken = replace(first, &second);
    wait_for(&mut driver, named(&taken), Interest::Read, 2);
    first_peer.write_all(b"stale").unwrap();
    nothing(&mut driver);
    end_by(&mut driver, &second_peer, b"x", 2);
}

#[test]
fn a_number_that_comes_back_to_its_own_file_changes_the_registration() {
    let mut driver = Poll::open(None).unwrap();
    let (first, peer) = pair();
    let kept = first.try_clone().unwrap();
    wait_for(&mut driver, named(&first), Interest::Read, 1);
    end_by(&mut driver, &peer, b"x", 1);
    let again = replace(first, &kept);
    wait_for(&mut driver, named(&again), Interest::Read, 2);
    // What is already there is reported for the new registration.
    assert_eq!(over(&mut driver, GUARD), [(2, READ)]);
    assert_eq!(driver.registrations, 2);
}

#[test]
fn two_names_of_one_open_fd_share_its_registration_while_somebody_waits() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = pair();
    wait_for(&mut driver, named(&ours), Interest::Read, 1);
    wait_for(&mut driver, named(&ours), Interest::Read, 2);
    nothing(&mut driver);
    theirs.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, READ), (2, READ)]);
    assert_eq!(driver.registrations, 1);
}

fn wait_to_read_shared(driver: &mut Poll, fd: &Descriptor, buffer: &mut [u8], token: u64) {
    let (buf, len) = (buffer.as_mut_ptr(), buffer.len() as u32);
    submit(driver, &Op::Read { fd, buf, len, manner: Manner::Shared }, token);
}

/// Does what a program does that redirects its standard input: the `Descriptor` stays the same.
#[test]
fn a_shared_number_under_which_another_file_has_come_is_registered_again() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut first_peer) = pair();
    let fd = named(&first);
    let mut buffer = [0; 8];
    wait_to_read_shared(&mut driver, fd, &mut buffer, 1);
    nothing(&mut driver);
    first_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, 1)]);
    let (second, mut second_peer) = pair();
    let taken = replace(first, &second);
    wait_to_read_shared(&mut driver, fd, &mut buffer, 2);
    nothing(&mut driver);
    second_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(2, 1)]);
    // The same while an op waits for the old file. That op has to look at the new file, too.
    wait_to_read_shared(&mut driver, fd, &mut buffer[..1], 3);
    nothing(&mut driver);
    let (third, mut third_peer) = pair();
    let taken = replace(UnixStream::from(taken), &third);
    wait_to_read_shared(&mut driver, fd, &mut buffer[..1], 4);
    nothing(&mut driver);
    third_peer.write_all(b"xy").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(3, 1), (4, 1)]);
    drop(taken);
}

#[test]
fn a_regular_file_is_always_ready() {
    let mut driver = Poll::open(None).unwrap();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = named(&file);
    for round in 0..3 {
        wait_for(&mut driver, fd, Interest::Read, round);
        assert_eq!(over(&mut driver, GUARD), [(round, READ)]);
    }
    assert_eq!(driver.registrations, 1, "it is asked once");
}

#[test]
fn high_and_low_numbers_are_told_apart() {
    let mut driver = Poll::open(None).unwrap();
    let (low, mut low_peer) = pair();
    // SAFETY: the number is open.
    let high = unsafe { libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 900) };
    assert!(high >= 900);
    // SAFETY: the number is new, and belongs to this test.
    let high = unsafe { OwnedFd::from_raw_fd(high) };
    wait_for(&mut driver, named(&low), Interest::Read, 1);
    wait_for(&mut driver, named(&high), Interest::Read, 2);
    nothing(&mut driver);
    low_peer.write_all(b"x").unwrap();
    let mut told = over(&mut driver, GUARD);
    told.sort_unstable();
    assert_eq!(told, [(1, READ), (2, READ)]);
    assert_eq!(driver.registrations, 2);
}

#[test]
fn more_events_than_one_wait_fetches_are_all_told() {
    const FDS: u64 = 300;
    let mut driver = Poll::open(None).unwrap();
    let pairs: Vec<_> = (0..FDS).map(|_| pair()).collect();
    for (token, (ours, _)) in (0..).zip(&pairs) {
        wait_for(&mut driver, named(ours), Interest::Read, token);
    }
    nothing(&mut driver);
    for (_, theirs) in &pairs {
        (&*theirs).write_all(b"x").unwrap();
    }
    let mut told = over(&mut driver, GUARD);
    assert_eq!(told.len() as u64, FDS, "by two polls");
    told.sort_unstable();
    assert!(told.into_iter().eq((0..FDS).map(|token| (token, READ))));
}

/// Waits for `limit` until one wait is less than 700 µs late. A busy machine may delay any number
/// of waits. If the driver rounded its limits to milliseconds, it would delay all of them.
fn until_exact(driver: &mut Poll, limit: Duration) {
    let begun = Instant::now();
    loop {
        let start = Instant::now();
        assert_eq!(over(driver, limit), []);
        let late = start.elapsed().checked_sub(limit).expect("never early");
        if late < Duration::from_micros(700) {
            return;
        }
        assert!(
            begun.elapsed() < GUARD,
            "each wait of {limit:?} is late, the last one by {late:?}"
        );
    }
}

#[test]
fn a_wait_is_exact_to_less_than_a_millisecond_on_old_kernels_too() {
    let mut driver = Poll::open(None).unwrap();
    for old in [false, true] {
        if old {
            driver.set.grow_old();
        }
        for micros in [150, 1_250] {
            until_exact(&mut driver, Duration::from_micros(micros));
        }
        let (ours, theirs) = pair();
        wait_for(&mut driver, named(&ours), Interest::Read, 1);
        end_by(&mut driver, &theirs, b"x", 1);
    }
}

fn recv<'a>(fd: &'a Descriptor, buffer: &mut [u8]) -> Op<'a> {
    let (buf, len) = (buffer.as_mut_ptr(), buffer.len() as u32);
    Op::Recv { fd, buf, len, flags: 0, stream: true }
}

/// Does what a worker does for a read: attempts it unless the driver would not.
fn read(driver: &mut Poll, fd: &Descriptor, buffer: &mut [u8]) -> Option<u32> {
    let op = recv(fd, buffer);
    if driver.is_certain_of_news(&op) {
        return None;
    }
    attempt(&op).ok()
}

fn tcp() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

fn is_drained(driver: &mut Poll, fd: &Descriptor) -> bool {
    driver.is_certain_of_news(&recv(fd, &mut []))
}

#[test]
fn a_short_read_saves_the_next_attempt_until_there_is_news() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = tcp();
    let fd = named(&ours);
    let mut buffer = [0; 8];
    for round in 0..3 {
        assert_eq!(read(&mut driver, fd, &mut buffer), None);
        wait_for(&mut driver, fd, Interest::Read, round);
        nothing(&mut driver);
        end_by(&mut driver, &theirs, b"abcd", round);
        assert!(!is_drained(&mut driver, fd));
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(4));
        assert!(is_drained(&mut driver, fd));
    }
    // News for which no op waits is remembered for the next read.
    theirs.write_all(b"ef").unwrap();
    wait_for(&mut driver, named(&theirs), Interest::Read, 7);
    driver.poll(PollTimeout::For(Duration::from_millis(2)), &mut Vec::new()).unwrap();
    let started = start(&mut driver, &recv(fd, &mut buffer[..2]), 8, false);
    assert!(matches!(started, StartedOp::Done(Ok(2))), "{started:?}");
    // A read that fills its buffer proves nothing.
    assert!(!is_drained(&mut driver, fd));
    cancel(&mut driver, 7);
}

#[test]
fn nothing_is_concluded_from_short_reads_once_the_end_is_near() {
    let mut driver = Poll::open(None).unwrap();
    for urgent in [false, true] {
        let (ours, mut theirs) = tcp();
        let fd = named(&ours);
        let mut buffer = [0; 8];
        wait_for(&mut driver, fd, Interest::Read, 1);
        nothing(&mut driver);
        theirs.write_all(b"abcd").unwrap();
        if urgent {
            // SAFETY: the byte exists until the call has returned.
            let sent =
                unsafe { libc::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
            assert_eq!(sent, 1);
            theirs.write_all(b"efg").unwrap();
        } else {
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
        }
        assert_eq!(over(&mut driver, GUARD), [(1, READ)]);
        // The end or the urgent byte came in one edge with the bytes that were read.
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(4));
        assert!(!is_drained(&mut driver, fd));
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(if urgent { 3 } else { 0 }));
    }
}

#[test]
fn nothing_is_concluded_from_short_reads_of_other_sockets() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, theirs) = pair();
    let fd = named(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    end_by(&mut driver, &theirs, b"abcd", 1);
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
    assert!(!is_drained(&mut driver, fd));
}

#[test]
fn who_is_cancelled_every_time_hears_of_the_news_all_the_same() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = tcp();
    let fd = named(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    end_by(&mut driver, &theirs, b"abcd", 1);
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
    assert!(is_drained(&mut driver, fd));
    theirs.write_all(b"efgh").unwrap();
    let (mut buffer, end) = ([0; 8], Instant::now() + GUARD);
    let count = loop {
        assert!(Instant::now() < end, "it is never read again");
        match start(&mut driver, &recv(fd, &mut buffer), 2, false) {
            StartedOp::Done(result) => break result.unwrap(),
            _ => cancel(&mut driver, 2),
        }
        driver.poll(PollTimeout::Poll, &mut Vec::new()).unwrap();
    };
    assert_eq!(count, 4);
}

/// A wait for readiness uses the news up without reading anything.
#[test]
fn a_read_after_a_wait_for_readiness_is_attempted() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, theirs) = tcp();
    let fd = named(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    end_by(&mut driver, &theirs, b"abcd", 1);
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
    assert!(is_drained(&mut driver, fd));
    wait_for(&mut driver, fd, Interest::Read, 2);
    end_by(&mut driver, &theirs, b"efgh", 2);
    let started = start(&mut driver, &recv(fd, &mut [0; 8]), 3, false);
    assert!(matches!(started, StartedOp::Done(Ok(4))), "{started:?}");
}

/// A short read on another thread says nothing about the news that this thread's set has had.
#[test]
fn nothing_is_concluded_from_short_reads_on_other_threads() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, theirs) = tcp();
    let fd = named(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    end_by(&mut driver, &theirs, b"abcd", 1);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(attempt(&recv(fd, &mut [0; 8])).unwrap(), 4));
    });
    assert!(fd.is_drained() && !is_drained(&mut driver, fd));
}

/// The news is used up by an op that names the file in another way, which does not read it all.
#[test]
fn nothing_is_concluded_from_short_reads_once_there_are_two_names() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = tcp();
    let (first, second) = (named(&ours), named(&ours));
    wait_for(&mut driver, first, Interest::Read, 1);
    end_by(&mut driver, &theirs, b"abcd", 1);
    assert_eq!(read(&mut driver, first, &mut [0; 8]), Some(4));
    assert!(is_drained(&mut driver, first));
    let mut buffer = [0; 2];
    wait_for(&mut driver, first, Interest::Read, 2);
    submit(&mut driver, &recv(second, &mut buffer), 3);
    end_by_cancelling(&mut driver, 2);
    theirs.write_all(b"efgh").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(3, 2)]);
    let started = start(&mut driver, &recv(first, &mut buffer), 4, false);
    assert!(matches!(started, StartedOp::Done(Ok(2))), "{started:?}");
}
