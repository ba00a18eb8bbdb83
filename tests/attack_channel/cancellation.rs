//! Cancellation against hand-over, and waits at the end of a run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ecru::channel::{self, RecvError, SendError};
use ecru::{Source, select, source};

use crate::{at_once, run_on, settle};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_cancelled_receive_swallows_nothing() {
    for workers in [1, 2] {
        for capacity in [0, 1, 5, usize::MAX] {
            run_on(workers, || {
                let (sender, receiver) = channel::bounded(capacity);
                let got = Mutex::new(Vec::new());
                let rounds = 400;
                ecru::scope(|s| {
                    let source = s.spawn(|| {
                        (0..rounds).filter(|n| sender.send(*n).is_ok()).count();
                        sender.close();
                    });
                    loop {
                        let (receiver, got) = (&receiver, &got);
                        let reader = s.spawn(move || {
                            let value = receiver.recv();
                            if let Ok(value) = value {
                                got.lock().unwrap().push(value);
                            }
                            value
                        });
                        for _ in 0..fastrand::usize(0..3) {
                            let _ = ecru::yield_now();
                        }
                        reader.cancel();
                        if let Ok(Err(RecvError::Disconnected)) = reader.join() {
                            break;
                        }
                    }
                    source.join().unwrap();
                });
                let mut got = got.into_inner().unwrap();
                got.sort_unstable();
                assert!(got.into_iter().eq(0..rounds), "capacity {capacity}");
            });
        }
    }
}

#[test]
fn a_cancelled_select_swallows_nothing() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (x, from_x) = channel::bounded(0);
            let (y, from_y) = channel::bounded(2);
            let got = Mutex::new(Vec::new());
            let rounds = 200;
            ecru::scope(|s| {
                s.spawn(|| {
                    (0..rounds).for_each(|n| x.send(n).unwrap());
                    x.close();
                });
                s.spawn(|| {
                    (rounds..2 * rounds).for_each(|n| y.send(n).unwrap());
                    y.close();
                });
                let mut ended = false;
                while !ended {
                    let (from_x, from_y, got) = (&from_x, &from_y, &got);
                    let reader = s.spawn(move || {
                        let value = if fastrand::bool() {
                            select! {
                                recv(from_x) -> value => value,
                                recv(from_y) -> value => value,
                            }
                        } else {
                            source::race([from_x, from_y])
                                .wait()
                                .unwrap_or(Err(RecvError::Cancelled))
                        };
                        if let Ok(value) = value {
                            got.lock().unwrap().push(value);
                        }
                        value == Err(RecvError::Disconnected)
                    });
                    for _ in 0..fastrand::usize(0..3) {
                        let _ = ecru::yield_now();
                    }
                    reader.cancel();
                    if reader.join().unwrap_or(false) {
                        ended = got.lock().unwrap().len() == 2 * rounds;
                    }
                }
            });
            let mut got = got.into_inner().unwrap();
            got.sort_unstable();
            assert!(got.into_iter().eq(0..2 * rounds));
        });
    }
}

#[test]
fn a_cancelled_send_is_sent_or_comes_back() {
    for workers in [1, 2] {
        for capacity in [0, 1] {
            run_on(workers, || {
                let (sender, receiver) = channel::bounded(capacity);
                let (sent, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let received = ecru::scope(|s| {
                    let reader = s.spawn(|| receiver.iter().count());
                    for n in 0..600 {
                        let (sender, sent, back) = (&sender, &sent, &back);
                        let writer = s.spawn(move || match sender.send(n) {
                            Ok(()) => sent.fetch_add(1, SeqCst),
                            Err(SendError::Cancelled(value)) => {
                                assert_eq!(value, n);
                                back.fetch_add(1, SeqCst)
                            }
                            Err(SendError::Disconnected(_)) => panic!("it is not"),
                        });
                        for _ in 0..fastrand::usize(0..3) {
                            let _ = ecru::yield_now();
                        }
                        writer.cancel();
                        let _ = writer.join();
                    }
                    sender.close();
                    reader.join().unwrap()
                });
                assert_eq!(received, sent.load(SeqCst), "{} came back", back.load(SeqCst));
            });
        }
    }
}

#[test]
fn a_time_limit_against_a_hand_over() {
    at_once(3, {
        let (sender, receiver) = channel::bounded(0);
        let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let done = AtomicUsize::new(0);
        move |member| {
            for round in 0..150_u64 {
                let limit = Duration::from_micros((round * 7 + member as u64 * 13) % 80);
                if member == 0 {
                    if sender.send_timeout(round, limit).is_ok() {
                        sent.fetch_add(1, SeqCst);
                    }
                } else if receiver.recv_timeout(limit).is_ok() {
                    received.fetch_add(1, SeqCst);
                }
            }
            // The last task of each run compares.
            if done.fetch_add(1, SeqCst) % 3 == 2 {
                assert_eq!(sent.load(SeqCst), received.load(SeqCst));
            }
        }
    });
}

#[test]
fn a_wait_that_nothing_ends_ends_with_its_run() {
    let (_sender, receiver) = channel::bounded::<u8>(0);
    let start = Instant::now();
    run_on(2, || {
        ecru::scope(|s| {
            s.spawn_daemon(|| receiver.recv());
            s.spawn_daemon(|| select! { recv(receiver) -> value => value, default(HOUR) => Err(RecvError::Disconnected) });
            settle();
        });
    });
    assert!(start.elapsed() < HOUR / 100);
}
