//! Time limits that end at the same instant as what they limit.

use super::{Ledger, everywhere};
use ecru::channel;
use ecru::sync::{Mutex, Semaphore};
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(10);

#[test]
fn a_value_that_comes_at_the_limit_is_not_lost() {
    for capacity in [0, 1] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            ecru::scope(|s| {
                let ledger = &ledger;
                s.spawn(move || {
                    let _ = ecru::sleep(LIMIT);
                    match tx.send_timeout(ledger.make(), LIMIT) {
                        Ok(()) => ledger.sent(),
                        Err(error) => ledger.returned(error.into_inner()),
                    }
                });
                s.spawn(move || {
                    if let Ok(Ok(value)) = ecru::timeout(LIMIT, || rx.recv()) {
                        ledger.taken(value);
                    }
                });
            });
            while let Ok(value) = rest.try_recv() {
                ledger.taken(value);
            }
            drop(rest);
            ledger.balance();
        });
    }
}

#[test]
fn a_permit_that_comes_at_the_limit_is_not_lost() {
    everywhere(|| {
        let permits = Semaphore::new(1);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let permit = ecru::timeout(LIMIT, || permits.acquire());
                    let _ = ecru::sleep(LIMIT);
                    drop(permit);
                });
            }
        });
        assert_eq!(permits.available_permits(), 1);
    });
}

#[test]
fn a_lock_that_comes_at_the_limit_is_not_lost() {
    everywhere(|| {
        let mutex = Mutex::new(());
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let _ = ecru::timeout(LIMIT, || {
                        mutex.lock_cancellable().map(|_guard| ecru::sleep(LIMIT))
                    });
                });
            }
        });
        assert!(mutex.try_lock().is_ok(), "a lock is left behind");
    });
}

#[test]
fn a_limit_is_kept_to_the_instant() {
    everywhere(|| {
        let begun = ecru::time::now();
        let limited = ecru::timeout(LIMIT, || ecru::sleep(2 * LIMIT));
        let took = ecru::time::now() - begun;
        match limited {
            Err(_) => assert_eq!(took, LIMIT),
            // The whole task was cancelled.
            Ok(slept) => assert!(slept.is_err() && took <= LIMIT),
        }
    });
}
