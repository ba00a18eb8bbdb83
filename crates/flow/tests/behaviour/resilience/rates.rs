//! `RateLimiter`: permits that become free as time passes.

use crate::common::{begin, ms, panic_text, since, until};
use crate::simulated::each_run;
use ecru::{Cancelled, sim, time};
use ecru_flow::RateLimiter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Acquires permits one after another, and returns when each of them came, in milliseconds.
fn times(limiter: &RateLimiter, permits: &[u32]) -> Vec<u128> {
    let start = time::now();
    let acquired = permits.iter().map(|count| {
        limiter.acquire_many(*count).unwrap();
        since(start).as_millis()
    });
    acquired.collect()
}

/// - given: a token bucket of 10 permits a second with a burst of 3
/// - when: permits are taken at once, and again after a pause
/// - then: the burst is free at once, the others come every 100 ms; a pause saves up to a burst
///
/// The times are exact, since they are virtual.
#[test]
fn resilience_01_token_bucket() {
    sim::test(|| {
        let limiter = RateLimiter::token_bucket(10, ms(1000), 3);
        assert_eq!(times(&limiter, &[1; 6]), [0, 0, 0, 100, 200, 300]);
        time::sleep(ms(250)).unwrap();
        assert_eq!(limiter.time_until_ready(), Duration::ZERO);
        assert_eq!(times(&limiter, &[1; 4]), [0, 0, 50, 150]);
        time::sleep(ms(10_000)).unwrap();
        assert_eq!(times(&limiter, &[3, 2, 1]), [0, 200, 300]);
    });
}

/// - given: a leaky bucket of 10 permits a second
/// - when: permits are taken at once, and again after a pause
/// - then: they are 100 ms apart, and a pause saves nothing
#[test]
fn resilience_02_leaky_bucket() {
    sim::test(|| {
        let limiter = RateLimiter::leaky_bucket(10, ms(1000));
        assert_eq!(times(&limiter, &[1; 4]), [0, 100, 200, 300]);
        time::sleep(ms(10_000)).unwrap();
        assert_eq!(times(&limiter, &[1; 3]), [0, 100, 200]);
    });
}

/// - given: a sliding window of 3 permits a second
/// - when: permits are taken at different times
/// - then: each becomes free again a second after it was taken
#[test]
fn resilience_03_sliding_window() {
    sim::test(|| {
        let limiter = RateLimiter::sliding_window(3, ms(1000));
        limiter.acquire().unwrap();
        time::sleep(ms(400)).unwrap();
        limiter.acquire_many(2).unwrap();
        assert_eq!(times(&limiter, &[1, 1, 1, 1]), [600, 1000, 1000, 1600]);
        time::sleep(ms(10_000)).unwrap();
        assert_eq!(times(&limiter, &[3, 3]), [0, 1000]);
    });
}

/// - given: a limiter without a free permit
/// - when: `try_acquire` and `time_until_ready` are called
/// - then: they return the time until a permit is free, take nothing, and do not wait; at that time
///   there is one
#[test]
fn resilience_04_time_until_ready() {
    sim::test(|| {
        let limiters = [
            RateLimiter::token_bucket(2, ms(1000), 1),
            RateLimiter::leaky_bucket(2, ms(1000)),
            RateLimiter::sliding_window(1, ms(500)),
        ];
        for limiter in limiters {
            limiter.try_acquire().unwrap();
            for _ in 0..3 {
                assert_eq!(limiter.try_acquire().unwrap_err().ready_after, ms(500));
            }
            time::sleep(ms(499)).unwrap();
            assert_eq!(limiter.time_until_ready(), ms(1));
            let refused = limiter.try_acquire().unwrap_err();
            assert_eq!(refused.to_string(), "the rate limit is reached; try again after 1ms");
            time::sleep(refused.ready_after).unwrap();
            limiter.try_acquire().unwrap();
        }
    });
}

/// - given: waiters that want 1, 3 and 1 permits, in this order
/// - when: permits become free, and others try to take some meanwhile
/// - then: the waiters are served in their order; no other call takes a permit before the last of
///   them has got its own, and `try_acquire` knows when that is
#[test]
fn resilience_05_waiters_come_first() {
    sim::test(|| {
        let limiter = RateLimiter::token_bucket(10, ms(1000), 3);
        limiter.acquire_many(3).unwrap();
        let served = Mutex::new(Vec::new());
        let start = time::now();
        ecru::scope(|s| {
            for (name, permits) in [("a", 1), ("b", 3), ("c", 1)] {
                let (limiter, served) = (&limiter, &served);
                begin(s, move || {
                    limiter.acquire_many(permits).unwrap();
                    served.lock().unwrap().push((name, since(start).as_millis()));
                });
            }
            assert_eq!(limiter.time_until_ready(), ms(600) - since(start));
            while since(start) < ms(500) {
                let refused = limiter.try_acquire().unwrap_err();
                assert_eq!(refused.ready_after, ms(600) - since(start));
                time::sleep(ms(7)).unwrap();
            }
        });
        assert_eq!(*served.lock().unwrap(), [("a", 100), ("b", 400), ("c", 500)]);
        time::sleep(ms(600) - since(start)).unwrap();
        limiter.try_acquire().unwrap();
    });
}

/// - given: three waiters
/// - when: the first is cancelled, then the last
/// - then: they have taken nothing; the second gets its permits at the time at which the first would
///   have got one; the estimates no longer count the cancelled ones
#[test]
fn resilience_06_cancelled_waiters_take_nothing() {
    sim::test(|| {
        let limiter = RateLimiter::leaky_bucket(10, ms(1000));
        limiter.acquire().unwrap();
        let start = time::now();
        ecru::scope(|s| {
            let waiters = [(); 3].map(|()| {
                begin(s, || {
                    limiter.acquire()?;
                    Ok::<_, Cancelled>(since(start))
                })
            });
            assert_eq!(limiter.time_until_ready(), ms(400) - since(start));
            waiters[0].cancel();
            assert!(waiters[0].join().unwrap().is_err());
            assert_eq!(limiter.time_until_ready(), ms(300) - since(start));
            waiters[2].cancel();
            assert!(waiters[2].join().unwrap().is_err());
            assert_eq!(waiters[1].join().unwrap(), Ok(ms(100)));
            assert_eq!(limiter.time_until_ready(), ms(100));
            // A limit counts like a cancellation.
            assert!(ecru::timeout(ms(99), || limiter.acquire().unwrap_err()).is_err());
            assert_eq!(limiter.time_until_ready(), ms(1));
            limiter.acquire().unwrap();
        });
    });
}

/// - given: a limiter that eight tasks share
/// - when: they take as many permits as they get
/// - then: no permit comes before its time
#[test]
fn resilience_07_shared_limiter() {
    each_run(|| {
        let limiters = [
            RateLimiter::token_bucket(10_000, ms(1000), 5),
            RateLimiter::leaky_bucket(10_000, ms(1000)),
            RateLimiter::sliding_window(5, Duration::from_micros(500)),
        ];
        for (limiter, free) in limiters.into_iter().zip([5, 1, 5]) {
            let taken = AtomicUsize::new(0);
            let start = time::now();
            ecru::scope(|s| {
                for _ in 0..8 {
                    s.spawn(|| {
                        for _ in 0..8 {
                            limiter.acquire().unwrap();
                            taken.fetch_add(1, SeqCst);
                        }
                    });
                }
            });
            // All but the first come at intervals of 100 us in the mean.
            assert_eq!(taken.into_inner(), 64);
            let intervals = if free == 1 { 63 } else { 64 - 2 * free as u32 };
            assert!(since(start) >= intervals * Duration::from_micros(100), "{:?}", since(start));
        }
    });
}

/// - given: free permits, and a task that takes them in a loop
/// - when: other tasks of its worker are ready, or it is cancelled, or the call is inside `no_suspend`
/// - then: the others run; the call returns `Cancelled`; the call panics
#[test]
fn resilience_08_free_permits_are_waits_too() {
    each_run(|| {
        let limiter = RateLimiter::token_bucket(1000, ms(1000), 1000);
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let greedy = s.spawn(|| {
                while limiter.acquire().is_ok() {
                    taken.fetch_add(1, SeqCst);
                }
            });
            until(|| taken.load(SeqCst) >= 1000);
            greedy.cancel();
        });
        let text = panic_text(|| ecru::no_suspend(|| limiter.acquire()));
        assert!(text.contains("no_suspend"), "{text}");
    });
}

/// - given: settings that never give a permit, and requests for more permits than are ever free
/// - when: they are used
/// - then: it panics and says why
#[test]
fn resilience_09_impossible_requests() {
    let text = panic_text(|| RateLimiter::leaky_bucket(0, ms(1)));
    assert!(text.contains("`RateLimiter::leaky_bucket` with 0 permits per 1ms"), "{text}");
    let text = panic_text(|| RateLimiter::sliding_window(1, Duration::ZERO));
    assert!(text.contains("longer than zero"), "{text}");
    let text = panic_text(|| RateLimiter::token_bucket(1, ms(1), 0));
    assert!(text.contains("`burst` of at least 1"), "{text}");
    let limiter = RateLimiter::token_bucket(100, ms(1), 7);
    for text in [panic_text(|| limiter.acquire_many(8)), panic_text(|| limiter.try_acquire_many(8))]
    {
        assert_eq!(text, "8 permits are never free together; this limiter has at most 7");
    }
    // No permits are always there.
    limiter.try_acquire_many(0).unwrap();
}
