//! `EventFd`: counted events, between ecru and foreign event loops.
#![expect(unsafe_code, reason = "polls a descriptor")]

use crate::support::{alone, everywhere, ms, until, without_descriptors};
use ecru::Source;
use ecru::io::{self, EventFd, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;

/// - given: an `EventFd`
/// - when: it is notified from a thread, from a task, and by a write to its fd
/// - then: a wait ends; several notifications count as one
#[test]
fn io_14_event_fd() {
    everywhere(|side| {
        let news = EventFd::new().unwrap();
        assert_eq!(news.try_take(), None);
        for _ in 0..3 {
            news.notify().unwrap();
        }
        assert_eq!(news.wait(), Ok(()));
        assert_eq!(news.try_take(), None);
        let other = news.clone();
        side.both(
            || {
                side.pause();
                other.notify().unwrap();
            },
            || news.wait().unwrap(),
        );
        let mut fd = std::fs::File::from(news.try_clone_fd().unwrap());
        fd.write_all(&3_u64.to_ne_bytes()).unwrap();
        assert_eq!(news.wait(), Ok(()));
        assert!(ecru::timeout(ms(1), || news.wait()).is_err());
    });
}

/// - given: an `EventFd` in a foreign poll(2) loop
/// - when: it is notified
/// - then: its fd is readable until the notification is taken
#[test]
fn io_15_event_fd_foreign_loop() {
    let readable = |fd: &EventFd| {
        let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the argument is one valid pollfd.
        unsafe { libc::poll(&raw mut asked, 1, 0) == 1 }
    };
    everywhere(|_| {
        let news = EventFd::new().unwrap();
        assert!(!readable(&news));
        news.notify().unwrap();
        assert!(readable(&news) && readable(&news));
        assert_eq!(news.try_take(), Some(()));
        assert!(!readable(&news));
    });
}

/// - given: `select!`, a callback and a future over an `EventFd`
/// - when: it is notified
/// - then: each of them receives the notification
#[test]
fn io_16_event_fd_selects() {
    everywhere(|side| {
        let news = EventFd::new().unwrap();
        let (_sender, receiver) = ecru::channel::bounded::<()>(1);
        for _ in 0..3 {
            side.both(
                || {
                    side.pause();
                    news.notify().unwrap();
                },
                || {
                    ecru::select! {
                        wait(&news) -> told => assert_eq!(told, Ok(())),
                        recv(receiver) -> _ => panic!("nobody sends"),
                    }
                },
            );
        }
        let (tell, told) = mpsc::channel();
        let subscription = news.clone().on_ready(move |()| tell.send(()).unwrap());
        assert!(told.try_recv().is_err());
        news.notify().unwrap();
        told.recv().unwrap();
        drop(subscription);
        let future = news.clone().to_future();
        side.both(
            || {
                side.pause();
                news.notify().unwrap();
            },
            || ecru::block_on(future).unwrap(),
        );
        assert_eq!(news.try_take(), None);
    });
}

/// - given: three tasks that select over one `EventFd` and another source
/// - when: it is notified repeatedly, as soon as the last notification was taken
/// - then: each notification is taken
///
/// Each notification is waited for before the next, by several tasks at once. If one were not
/// notified, the test would hang.
#[test]
fn io_26_event_fd_none_lost() {
    const ROUNDS: usize = 300;
    everywhere(|side| {
        let (news, taken) = (EventFd::new().unwrap(), AtomicUsize::new(0));
        let (end, ends) = ecru::channel::bounded::<()>(0);
        let take = |_| loop {
            ecru::select! {
                wait(&news) -> told => {
                    told.unwrap();
                    taken.fetch_add(1, SeqCst);
                }
                recv(ends) -> _ => break,
            }
        };
        let (_, ()) = side.many(3, take, || {
            for round in 1..=ROUNDS {
                news.notify().unwrap();
                until(|| taken.load(SeqCst) == round);
            }
            drop(end);
        });
        assert_eq!(taken.load(SeqCst), ROUNDS);
    });
}

/// - given: an `EventFd`, and then no descriptor left for a driver
/// - when: `wait` is called, on a task and on a thread
/// - then: it gets the notification, a little later
#[test]
fn io_27_event_fd_no_descriptors_left() {
    alone("io::event_fd::io_27_event_fd_no_descriptors_left", || {
        everywhere(|side| {
            let news = EventFd::new().unwrap();
            let (reader, _writer) = io::pipe().unwrap();
            without_descriptors(|| {
                let refused = (&reader).read(&mut [0]).unwrap_err();
                assert!(ecru::Cancelled::find(&refused).is_none(), "who waits has no driver");
                assert!(ecru::timeout(ms(2), || news.wait()).is_err());
                for _ in 0..3 {
                    side.both(
                        || {
                            side.pause();
                            news.notify().unwrap();
                        },
                        || news.wait().unwrap(),
                    );
                }
                assert_eq!(news.try_take(), None);
            });
        });
    });
}
