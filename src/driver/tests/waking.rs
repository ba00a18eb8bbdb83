//! Wakes by other threads, and by signals.
#![expect(unsafe_code, reason = "waits on raw pointers")]

use super::*;

#[test]
fn a_wake_that_came_before_ends_the_next_wait() {
    on_each(|driver| {
        let waker = driver.waker();
        for _ in 0..3 {
            waker.wake();
            waker.wake();
            driver.poll(PollTimeout::Poll, &mut Vec::new()).unwrap();
            expect_wake(driver);
        }
    });
}

#[test]
fn a_driver_takes_over_the_waker_of_one_that_went_before() {
    on_each(|driver| {
        let waker = driver.waker();
        // The next driver may be of another kind, because the runs on one worker need not use the
        // same.
        for kind in [DriverKind::Poll, DriverKind::Uring] {
            let mut next = open(&choose(kind).unwrap(), Some(waker.clone())).unwrap();
            waker.wake();
            expect_wake(&mut next);
        }
    });
}

/// Lets another thread wake the driver again and again.
pub(in crate::driver) fn receive_wakes(driver: &mut impl Driver, waker: Waker) {
    const WAKES: u64 = 2_000;
    let (news, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let other = thread::spawn({
        let (news, seen) = (Arc::clone(&news), Arc::clone(&seen));
        move || {
            for number in 1..=WAKES {
                news.store(number, Ordering::Relaxed);
                waker.wake();
                // In some rounds, waits for the other side, so that wakes meet a driver in each of
                // its states.
                while !number.is_multiple_of(3) && seen.load(Ordering::Relaxed) < number {
                    thread::yield_now();
                }
            }
        }
    });
    let end = Instant::now() + GUARD;
    while seen.load(Ordering::Relaxed) < WAKES {
        driver.poll(PollTimeout::For(GUARD), &mut Vec::new()).unwrap();
        assert!(Instant::now() < end, "a wake was lost after {seen:?}");
        seen.store(news.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    other.join().unwrap();
}

#[test]
fn no_wake_of_another_thread_is_lost() {
    on_each(|driver| receive_wakes(driver, driver.waker()));
}

#[test]
fn a_signal_ends_a_wait_early_and_is_no_error() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: zeroes are a valid action, with an empty mask and no flags, so without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing.
    let installed =
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
    on_each(|driver| {
        for wait in [PollTimeout::For(GUARD), PollTimeout::Forever] {
            // Arms the watch for wakes, so that the next system call has nothing to do and can only
            // report the signal.
            driver.poll(PollTimeout::For(Duration::from_micros(1)), &mut Vec::new()).unwrap();
            // SAFETY: the call has no precondition.
            let this = unsafe { libc::pthread_self() };
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        // SAFETY: the thread waits for this one before it ends.
                        unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                        thread::yield_now();
                    }
                });
                let start = Instant::now();
                let mut completions = Vec::new();
                let outcome = driver.poll(wait, &mut completions);
                done.store(true, Ordering::Relaxed);
                outcome.unwrap();
                assert!(start.elapsed() < GUARD && completions.is_empty());
            });
        }
    });
}
