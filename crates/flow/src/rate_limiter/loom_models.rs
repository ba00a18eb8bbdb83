//! Models of a limiter that several threads use. No permit is given twice, and each waiter gets its
//! own. If the turn is lost, a thread waits forever, which loom reports.

use loom::thread;
use std::sync::Arc;
use std::time::Duration;

use super::RateLimiter;
use crate::base::now;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn waiters_get_one_permit_each() {
    loom::model(|| {
        let limiter = Arc::new(RateLimiter::leaky_bucket(1, SECOND));
        let start = now();
        let acquiring = [(); 2].map(|()| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.acquire().unwrap())
        });
        limiter.acquire().unwrap();
        for acquiring in acquiring {
            acquiring.join().unwrap();
        }
        assert_eq!(now() - start, 2 * SECOND, "the first is free, and each other takes a second");
        assert_eq!(limiter.time_until_ready(), SECOND, "no thread waits any more");
    });
}

/// A wait for the turn ends by a time limit.
#[test]
fn a_waiter_that_gives_up_takes_nothing() {
    loom::model(|| {
        let limiter = Arc::new(RateLimiter::leaky_bucket(1, SECOND));
        limiter.acquire().unwrap();
        let waiting = Arc::clone(&limiter);
        let waiting = thread::spawn(move || waiting.acquire().unwrap());
        let hours = Duration::from_secs(3600);
        let _ = ecru::timeout(hours, || limiter.acquire());
        waiting.join().unwrap();
        limiter.acquire().unwrap();
        assert_eq!(limiter.time_until_ready(), SECOND, "no thread waits any more");
    });
}

#[test]
fn a_try_does_not_overtake_a_waiter() {
    loom::model(|| {
        let limiter = Arc::new(RateLimiter::leaky_bucket(1, SECOND));
        limiter.acquire().unwrap();
        let start = now();
        let waiting = Arc::clone(&limiter);
        let waiting = thread::spawn(move || waiting.acquire().unwrap());
        let tried = limiter.try_acquire().is_ok();
        waiting.join().unwrap();
        assert!(!tried, "the clock moves only when the waiter has the next permit");
        assert_eq!(now() - start, SECOND);
    });
}
