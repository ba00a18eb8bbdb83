//! Tests of the biased lock with real threads and a real `membarrier`.

use super::{BiasedLock, NEVER, NOBODY, STEADY, fence};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Waits for the kernel's answer, before which no lock is biased.
fn ask_the_kernel() {
    while fence::can_be_heavy().is_none() {
        thread::yield_now();
    }
    assert_eq!(fence::can_be_heavy(), Some(true));
}

/// The owner and a thread that revokes its bias exclude each other, over many thousand operations.
#[test]
fn a_thief_and_the_owner_are_never_both_inside() {
    ask_the_kernel();
    let mut biased = 0;
    for _ in 0..300 {
        let lock = BiasedLock::new(0_u64);
        let ready = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000 {
                    let mut value = lock.lock();
                    let seen = *value;
                    std::hint::black_box(&mut value);
                    *value = seen + 1;
                    if round == 500 {
                        ready.store(true, Ordering::Relaxed);
                    }
                }
            });
            while !ready.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            biased += u32::from(lock.streak.get() == NEVER);
            for _ in 0..100 {
                *lock.lock() += 1;
            }
            assert_eq!(lock.owner.load(Ordering::Relaxed), NOBODY);
        });
        assert_eq!(*lock.lock(), 20_100);
    }
    assert!(biased > 250, "the locks must have been biased: {biased}");
}

/// Code that runs under the lock takes it again. From the acquisition that makes this thread the
/// owner on, that is a panic.
#[test]
fn the_owner_comes_in_once() {
    ask_the_kernel();
    let lock = BiasedLock::new(());
    // The first finds another thread's number. The next `STEADY` are counted.
    (0..=STEADY).for_each(|_| drop(lock.lock()));
    assert_ne!(lock.streak.get(), NEVER);
    for _ in 0..3 {
        let guard = lock.lock();
        assert_ne!(lock.owner.load(Ordering::Relaxed), NOBODY, "it is biased by now");
        let again = panic::catch_unwind(AssertUnwindSafe(|| drop(lock.lock())));
        assert!(again.is_err(), "a second guard beside the first");
        drop(guard);
    }
    // Another thread revokes the bias while the owner is not inside. From then on, both use the
    // flag.
    thread::scope(|scope| scope.spawn(|| drop(lock.lock())).join()).unwrap();
    assert_eq!(lock.owner.load(Ordering::Relaxed), NOBODY);
    drop(lock.lock());
}

/// The acquisition that biases the lock excludes a revoking thread until it is over, although the
/// flag is already free.
#[test]
fn a_thief_waits_for_the_lock_that_gave_the_bias_out() {
    ask_the_kernel();
    let lock = BiasedLock::new(0);
    (0..=STEADY).for_each(|_| drop(lock.lock()));
    let mut guard = lock.lock();
    thread::scope(|scope| {
        let thief = scope.spawn(|| *lock.lock());
        let patience = Instant::now() + Duration::from_secs(60);
        while lock.owner.load(Ordering::Relaxed) != NOBODY && Instant::now() < patience {
            thread::yield_now();
        }
        let taken_away = lock.owner.load(Ordering::Relaxed) == NOBODY;
        *guard = 1;
        drop(guard);
        assert_eq!(thief.join().unwrap(), 1);
        assert!(taken_away, "the flag is free, so the thief takes the bias");
    });
}
