//! Broadcasts, rate limiters and supervisors, with a cancellation at each place.

use super::{everywhere, lock};
use ecru_flow::{
    BroadcastRecvError, RateLimiter, SlowReceivers, SuperviseError, broadcast_with, supervise,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Each receiver gets the values in order, each of them or the news that it has missed it.
#[test]
fn a_broadcast_accounts_for_each_value_slow() {
    for slow in [SlowReceivers::Lag, SlowReceivers::Block, SlowReceivers::Disconnect] {
        everywhere(move || {
            let (tx, first) = broadcast_with(1, slow);
            let receivers = [tx.subscribe(), first];
            let sent = Mutex::new(0);
            ecru::scope(|s| {
                let sent = &sent;
                s.spawn(move || {
                    for number in 0..3_u64 {
                        if tx.send(number).is_err() {
                            return;
                        }
                        *lock(sent) += 1;
                    }
                });
                for rx in receivers {
                    s.spawn(move || {
                        let mut next = 0;
                        loop {
                            match rx.recv() {
                                Ok(number) => {
                                    assert_eq!(number, next);
                                    next += 1;
                                }
                                Err(BroadcastRecvError::Lagged(missed)) => {
                                    assert_ne!(slow, SlowReceivers::Block);
                                    next += missed;
                                }
                                Err(BroadcastRecvError::Disconnected) => break,
                                Err(BroadcastRecvError::Cancelled) => return,
                            }
                        }
                        assert!(slow == SlowReceivers::Disconnect || next == *lock(sent));
                    });
                }
            });
        });
    }
}

/// A cancelled waiter holds up nobody and has taken nothing: the last permit comes at its time.
#[test]
fn a_rate_limiter_loses_no_permit_slow() {
    everywhere(|| {
        let limiter = RateLimiter::leaky_bucket(1, Duration::from_secs(1));
        let (start, taken) = (ecru::time::now(), AtomicUsize::new(0));
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    if limiter.acquire().is_ok() {
                        taken.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        let taken = taken.into_inner() as u32;
        ecru::shield(|| limiter.acquire()).unwrap();
        assert_eq!(ecru::time::now() - start, Duration::from_secs(taken.into()));
    });
}

/// A child is started again unless the supervisor is cancelled, and none is left behind.
#[test]
fn a_supervisor_leaves_no_child_slow() {
    everywhere(|| {
        let (running, starts) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let body = || {
            running.fetch_add(1, SeqCst);
            let start = starts.fetch_add(1, SeqCst);
            let slept = ecru::sleep(Duration::from_millis(1));
            running.fetch_sub(1, SeqCst);
            if start < 2 || slept.is_err() { Err("broken") } else { Ok(()) }
        };
        let outcome = supervise(5, Duration::from_secs(60)).child("a", body).child("b", body).run();
        assert_eq!(running.into_inner(), 0);
        // At most one wait is cancelled, in a child or here.
        let starts = starts.into_inner();
        match outcome {
            Ok(()) => assert!(starts == 4 || starts == 5, "{starts}"),
            Err(SuperviseError::Cancelled(_)) => assert!(starts <= 5, "{starts}"),
            Err(error) => panic!("{error}"),
        }
    });
}
