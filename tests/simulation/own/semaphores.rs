//! Semaphores: no permit is lost, and there are never more than there were.

use super::everywhere;
use ecru::sync::Semaphore;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn all_permits_come_back() {
    everywhere(|| {
        let (permits, used) = (Semaphore::new(2), AtomicUsize::new(0));
        ecru::scope(|s| {
            for count in [1, 2, 1, 2] {
                let (permits, used) = (&permits, &used);
                s.spawn(move || {
                    let Ok(_permit) = permits.acquire_many(count) else { return };
                    assert!(used.fetch_add(count, Relaxed) + count <= 2, "too many permits");
                    let _ = ecru::yield_now();
                    used.fetch_sub(count, Relaxed);
                });
            }
        });
        assert_eq!(permits.available_permits(), 2);
        assert!(permits.try_acquire_many(2).is_ok());
    });
}

#[test]
fn a_waiter_for_many_does_not_keep_what_it_has_gathered() {
    everywhere(|| {
        let permits = Semaphore::new(3);
        ecru::scope(|s| {
            let all = s.spawn(|| permits.acquire_many(3).map(drop));
            for _ in 0..2 {
                s.spawn(|| {
                    let Ok(mut permit) = permits.acquire_many(2) else { return };
                    let part = permit.split(1);
                    let _ = ecru::yield_now();
                    drop(permit);
                    let _ = ecru::yield_now();
                    drop(part);
                });
            }
            s.spawn(move || {
                let _ = ecru::yield_now();
                all.cancel();
            });
        });
        assert_eq!(permits.available_permits(), 3);
    });
}

#[test]
fn permits_that_are_added_reach_the_waiters() {
    everywhere(|| {
        let permits = Semaphore::new(0);
        ecru::scope(|s| {
            let waiters: Vec<_> = (0..2).map(|_| s.spawn(|| permits.acquire().map(drop))).collect();
            // Not a task of its own: if it were cancelled before it begins, the others would wait.
            permits.add_permits(1);
            drop(waiters);
        });
        assert_eq!(permits.available_permits(), 1);
    });
}
