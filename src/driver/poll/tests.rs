//! Tests of what only this driver does: what it remembers about fds. The tests that both drivers
//! share are in `driver::tests`.

use super::*;
use crate::driver::tests::{GUARD, pair};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

fn wait_for(driver: &mut Poll, fd: Descriptor, interest: Interest, token: u64) {
    // SAFETY: S3: the op has no memory, and every test keeps its fds until it has seen the
    // completion.
    unsafe { driver.submit(&Op::Readiness { fd, interest }, Token::new(token)) };
}

/// Returns everything that completes within this time: tokens and results, in order.
fn over(driver: &mut Poll, within: Duration) -> Vec<(u64, i32)> {
    let mut completions = Vec::new();
    driver.poll(Wait::For(within), &mut completions).unwrap();
    driver.poll(Wait::Poll, &mut completions).unwrap();
    completions.into_iter().map(|one| (one.token.value(), one.result)).collect()
}

fn nothing(driver: &mut Poll) {
    assert_eq!(over(driver, Duration::from_millis(2)), []);
}

#[test]
fn an_fd_is_registered_once_for_any_number_of_waits() {
    let mut driver = Poll::open(None).unwrap();
    let (mut ours, mut theirs) = pair();
    let fd = Descriptor::of(&ours);
    for round in 0..100 {
        wait_for(&mut driver, fd, Interest::Read, round);
        theirs.write_all(b"x").unwrap();
        assert_eq!(over(&mut driver, GUARD), [(round, Completion::RETRY)]);
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
    }
    assert_eq!(driver.registrations, 1);
}

#[test]
fn news_that_finds_nobody_is_kept_for_the_next_who_comes() {
    let mut driver = Poll::open(None).unwrap();
    let (mut ours, mut theirs) = pair();
    let fd = Descriptor::of(&ours);
    wait_for(&mut driver, fd, Interest::Read, 0);
    nothing(&mut driver);
    driver.cancel(Token::new(0));
    assert_eq!(over(&mut driver, GUARD), [(0, Completion::CANCELLED)]);
    // A read has been attempted in vain. The edge comes and is reported before the read is
    // submitted.
    theirs.write_all(b"x").unwrap();
    driver.poll(Wait::For(Duration::from_millis(2)), &mut Vec::new()).unwrap();
    wait_for(&mut driver, fd, Interest::Read, 1);
    assert_eq!(driver.in_flight(), 1);
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    // The news was kept for one wait only.
    assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
    wait_for(&mut driver, fd, Interest::Read, 2);
    nothing(&mut driver);
    theirs.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(2, Completion::RETRY)]);
}

#[test]
fn a_hang_up_is_news_for_both_sides() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, theirs) = pair();
    let fd = Descriptor::of(&ours);
    let bytes = [0; 1 << 16];
    while (&ours).write(&bytes).is_ok() {}
    wait_for(&mut driver, fd, Interest::Read, 1);
    wait_for(&mut driver, fd, Interest::Write, 2);
    nothing(&mut driver);
    drop(theirs);
    let mut told = over(&mut driver, GUARD);
    told.sort_unstable();
    assert_eq!(told, [(1, Completion::RETRY), (2, Completion::RETRY)]);
}

#[test]
fn all_who_wait_are_told_in_order_and_only_for_their_side() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = pair();
    let fd = Descriptor::of(&ours);
    let bytes = [0; 1 << 16];
    while (&ours).write(&bytes).is_ok() {}
    wait_for(&mut driver, fd, Interest::Write, 9);
    for token in [3, 1, 2] {
        wait_for(&mut driver, fd, Interest::Read, token);
    }
    nothing(&mut driver);
    theirs.write_all(b"x").unwrap();
    let retry = Completion::RETRY;
    assert_eq!(over(&mut driver, GUARD), [(3, retry), (1, retry), (2, retry)]);
    driver.cancel(Token::new(9));
    assert_eq!(over(&mut driver, GUARD), [(9, Completion::CANCELLED)]);
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
    let old = Descriptor::of(&first);
    wait_for(&mut driver, old, Interest::Read, 1);
    first_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    // News for which no op waits. It belongs to the old file, not to the new one.
    first_peer.write_all(b"x").unwrap();
    driver.tell(News { key: key(old), read: true, write: true, plain: true, ended: false });
    let (second, mut second_peer) = pair();
    let taken = replace(first, &second);
    let new = Descriptor::of(&taken);
    assert_eq!(new.fd, old.fd);
    wait_for(&mut driver, new, Interest::Read, 2);
    nothing(&mut driver);
    assert_eq!(driver.registrations, 2);
    second_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(2, Completion::RETRY)]);
}

#[test]
fn events_of_a_closed_file_that_has_a_duplicate_are_not_taken_for_its_successors() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut first_peer) = pair();
    let _keeps_it_registered = first.try_clone().unwrap();
    wait_for(&mut driver, Descriptor::of(&first), Interest::Read, 1);
    nothing(&mut driver);
    driver.cancel(Token::new(1));
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::CANCELLED)]);
    let (second, mut second_peer) = pair();
    let taken = replace(first, &second);
    wait_for(&mut driver, Descriptor::of(&taken), Interest::Read, 2);
    first_peer.write_all(b"stale").unwrap();
    nothing(&mut driver);
    second_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(2, Completion::RETRY)]);
}

#[test]
fn a_number_that_comes_back_to_its_own_file_changes_the_registration() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut peer) = pair();
    let kept = first.try_clone().unwrap();
    wait_for(&mut driver, Descriptor::of(&first), Interest::Read, 1);
    peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    let again = replace(first, &kept);
    wait_for(&mut driver, Descriptor::of(&again), Interest::Read, 2);
    // What is already there is reported for the new registration.
    assert_eq!(over(&mut driver, GUARD), [(2, Completion::RETRY)]);
    assert_eq!(driver.registrations, 2);
}

#[test]
fn two_names_of_one_open_fd_share_its_registration_while_somebody_waits() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = pair();
    wait_for(&mut driver, Descriptor::of(&ours), Interest::Read, 1);
    wait_for(&mut driver, Descriptor::of(&ours), Interest::Read, 2);
    nothing(&mut driver);
    theirs.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY), (2, Completion::RETRY)]);
    assert_eq!(driver.registrations, 1);
}

fn wait_to_read_shared(driver: &mut Poll, fd: Descriptor, buffer: &mut [u8], token: u64) {
    let (buf, len) = (buffer.as_mut_ptr(), buffer.len() as u32);
    let op = Op::Read { fd, buf, len, manner: crate::driver::Manner::Shared };
    // SAFETY: S3: this driver does not touch the buffer, and every test keeps its fds until it has
    // seen the completion.
    unsafe { driver.submit(&op, Token::new(token)) };
}

/// Does what a program does that redirects its standard input: the `Descriptor` stays the same.
#[test]
fn a_shared_number_under_which_another_file_has_come_is_registered_again() {
    let mut driver = Poll::open(None).unwrap();
    let (first, mut first_peer) = pair();
    let fd = Descriptor::of(&first);
    let mut buffer = [0; 8];
    wait_to_read_shared(&mut driver, fd, &mut buffer, 1);
    nothing(&mut driver);
    first_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    let (second, mut second_peer) = pair();
    let taken = replace(first, &second);
    wait_to_read_shared(&mut driver, fd, &mut buffer, 2);
    nothing(&mut driver);
    second_peer.write_all(b"x").unwrap();
    assert_eq!(over(&mut driver, Duration::from_secs(1)), [(2, Completion::RETRY)]);
    // The same while an op waits for the old file. That op has to look at the new file, too.
    assert_eq!((&second).read(&mut buffer).unwrap(), 1);
    wait_to_read_shared(&mut driver, fd, &mut buffer, 3);
    nothing(&mut driver);
    let (third, mut third_peer) = pair();
    let taken = replace(UnixStream::from(taken), &third);
    wait_to_read_shared(&mut driver, fd, &mut buffer, 4);
    nothing(&mut driver);
    third_peer.write_all(b"x").unwrap();
    let retry = Completion::RETRY;
    assert_eq!(over(&mut driver, Duration::from_secs(1)), [(3, retry), (4, retry)]);
    drop(taken);
}

#[test]
fn a_regular_file_is_always_ready() {
    let mut driver = Poll::open(None).unwrap();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = Descriptor::of(&file);
    for round in 0..3 {
        wait_for(&mut driver, fd, Interest::Read, round);
        assert_eq!(over(&mut driver, GUARD), [(round, Completion::RETRY)]);
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
    wait_for(&mut driver, Descriptor::of(&low), Interest::Read, 1);
    wait_for(&mut driver, Descriptor::of(&high), Interest::Read, 2);
    nothing(&mut driver);
    low_peer.write_all(b"x").unwrap();
    let mut told = over(&mut driver, GUARD);
    told.sort_unstable();
    assert_eq!(told, [(1, Completion::RETRY), (2, Completion::RETRY)]);
    assert_eq!(driver.registrations, 2);
}

#[test]
fn more_events_than_one_wait_fetches_are_all_told() {
    const FDS: u64 = 300;
    let mut driver = Poll::open(None).unwrap();
    let pairs: Vec<_> = (0..FDS).map(|_| pair()).collect();
    for (token, (ours, _)) in (0..).zip(&pairs) {
        wait_for(&mut driver, Descriptor::of(ours), Interest::Read, token);
    }
    nothing(&mut driver);
    for (_, theirs) in &pairs {
        (&*theirs).write_all(b"x").unwrap();
    }
    let mut told = over(&mut driver, GUARD);
    assert_eq!(told.len() as u64, FDS, "by two polls");
    told.sort_unstable();
    assert!(told.into_iter().eq((0..FDS).map(|token| (token, Completion::RETRY))));
}

/// Returns the smallest lateness of ten waits. A busy machine may delay some of them, so the best
/// shows what the driver can do.
fn best_lateness(driver: &mut Poll, limit: Duration) -> Duration {
    let late = |driver: &mut Poll| {
        let start = Instant::now();
        assert_eq!(over(driver, limit), []);
        start.elapsed().checked_sub(limit).expect("never early")
    };
    (0..10).map(|_| late(driver)).min().unwrap()
}

#[test]
fn a_wait_is_exact_to_less_than_a_millisecond_on_old_kernels_too() {
    let mut driver = Poll::open(None).unwrap();
    for old in [false, true] {
        if old {
            driver.set.grow_old();
        }
        for micros in [150, 1_250] {
            let late = best_lateness(&mut driver, Duration::from_micros(micros));
            assert!(late < Duration::from_micros(700), "{late:?} late, old: {old}");
        }
        let (ours, mut theirs) = pair();
        wait_for(&mut driver, Descriptor::of(&ours), Interest::Read, 1);
        theirs.write_all(b"x").unwrap();
        assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    }
}

/// Does what a worker does for a read: asks the driver, attempts, reports.
fn read(driver: &mut Poll, fd: Descriptor, buffer: &mut [u8]) -> Option<u32> {
    let (buf, len) = (buffer.as_mut_ptr(), buffer.len() as u32);
    let op = Op::Recv { fd, buf, len, flags: 0, drained: true };
    if !driver.is_worth_attempting(&op) {
        return None;
    }
    // SAFETY: the buffer exists until the call has returned.
    let count = unsafe { op.attempt() }.ok()?;
    driver.observe(&op, count);
    Some(count)
}

fn tcp() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

fn is_empty(driver: &Poll, fd: Descriptor) -> bool {
    driver.known(fd).is_some_and(Entry::is_empty)
}

#[test]
fn a_short_read_saves_the_next_attempt_until_there_is_news() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = tcp();
    let fd = Descriptor::of(&ours);
    let mut buffer = [0; 8];
    for round in 0..3 {
        assert_eq!(read(&mut driver, fd, &mut buffer), None);
        wait_for(&mut driver, fd, Interest::Read, round);
        nothing(&mut driver);
        theirs.write_all(b"abcd").unwrap();
        assert_eq!(over(&mut driver, GUARD), [(round, Completion::RETRY)]);
        assert!(!is_empty(&driver, fd));
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(4));
        assert!(is_empty(&driver, fd));
    }
    // News for which no op waits ends the state as well.
    theirs.write_all(b"ef").unwrap();
    wait_for(&mut driver, Descriptor::of(&theirs), Interest::Read, 7);
    driver.poll(Wait::For(Duration::from_millis(2)), &mut Vec::new()).unwrap();
    assert!(!is_empty(&driver, fd));
    // A read that fills its buffer proves nothing.
    assert_eq!(read(&mut driver, fd, &mut buffer[..2]), Some(2));
    assert!(!is_empty(&driver, fd));
    driver.cancel(Token::new(7));
}

#[test]
fn nothing_is_concluded_from_short_reads_once_the_end_is_near() {
    let mut driver = Poll::open(None).unwrap();
    for urgent in [false, true] {
        let (ours, mut theirs) = tcp();
        let fd = Descriptor::of(&ours);
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
        assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
        // The end or the urgent byte came in one edge with the bytes that were read.
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(4));
        assert!(!is_empty(&driver, fd));
        assert_eq!(read(&mut driver, fd, &mut buffer), Some(if urgent { 3 } else { 0 }));
    }
}

#[test]
fn nothing_is_concluded_from_short_reads_of_other_sockets() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = pair();
    let fd = Descriptor::of(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    theirs.write_all(b"abcd").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
    assert!(!is_empty(&driver, fd));
}

#[test]
fn who_is_cancelled_every_time_hears_of_the_news_all_the_same() {
    let mut driver = Poll::open(None).unwrap();
    let (ours, mut theirs) = tcp();
    let fd = Descriptor::of(&ours);
    wait_for(&mut driver, fd, Interest::Read, 1);
    theirs.write_all(b"abcd").unwrap();
    assert_eq!(over(&mut driver, GUARD), [(1, Completion::RETRY)]);
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
    assert!(is_empty(&driver, fd));
    theirs.write_all(b"efgh").unwrap();
    let end = Instant::now() + GUARD;
    while is_empty(&driver, fd) {
        assert!(Instant::now() < end, "it is never read again");
        wait_for(&mut driver, fd, Interest::Read, 2);
        driver.cancel(Token::new(2));
        driver.poll(Wait::Poll, &mut Vec::new()).unwrap();
    }
    assert_eq!(read(&mut driver, fd, &mut [0; 8]), Some(4));
}
