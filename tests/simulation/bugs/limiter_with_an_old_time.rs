//! A limiter that reads the clock before it waits: with an old time it sets its own clock back, and
//! counts the time in between twice.

use super::{Form, is_found, passes};
use ecru::sync::Mutex;
use ecru::{sim, sleep, time};
use std::time::{Duration, Instant};

/// One token in each 10 ms, and none at first.
const EVERY: Duration = Duration::from_millis(10);

struct Limiter {
    /// The time up to which tokens have been added.
    added_to: Instant,
    /// The time whose tokens have not been taken.
    saved: Duration,
}

/// Takes a token if there is one.
fn take(form: Form, limiter: &Mutex<Limiter>) -> bool {
    let before = time::now();
    // It looks up how much the client may use.
    let _ = sleep(Duration::from_micros(sim::random_u64() % 3_000));
    let mut limiter = limiter.lock();
    let now = if form == Form::Buggy { before } else { time::now() };
    let since = std::mem::replace(&mut limiter.added_to, now);
    limiter.saved += now.saturating_duration_since(since);
    // It writes to its log.
    let _ = sleep(Duration::from_millis(1));
    let takes = limiter.saved >= EVERY;
    if takes {
        limiter.saved -= EVERY;
    }
    takes
}

fn program(form: Form) {
    let began = time::now();
    let limiter = Mutex::new(Limiter { added_to: began, saved: Duration::ZERO });
    let taken = ecru::scope(|s| {
        let tasks: Vec<_> = (0..3)
            .map(|number| {
                let limiter = &limiter;
                s.builder().name(format!("client {number}")).spawn(move || {
                    let mut taken = 0;
                    for _ in 0..8 {
                        taken += u32::from(take(form, limiter));
                        let _ = sleep(Duration::from_micros(sim::random_u64() % 2_000));
                    }
                    taken
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().expect("it ends")).sum::<u32>()
    });
    let passed = time::now() - began;
    assert!(taken * EVERY <= passed, "{taken} tokens in {passed:?}");
}

#[test]
fn limiter_with_an_old_time_is_found() {
    is_found(program, &[" tokens in ", "limiter_with_an_old_time.rs"]);
}

#[test]
fn limiter_with_an_old_time_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("limiter with an old time", program);
