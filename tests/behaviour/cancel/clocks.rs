//! Deadlines that pass while a task computes.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::support::{HOUR, OnDrop, Watchdog, each_run, everywhere, ms, now, run_on};
use ecru::{CancelReason, Cancelled, channel};

/// Computes until the task sees that it is cancelled.
fn compute() {
    while !ecru::is_cancelled() {}
}

/// Computes until an instant has passed.
fn compute_past(moment: Instant) {
    while Instant::now() <= moment {}
}

/// - given: a task or thread inside `timeout`, or a child of such a task, that computes
/// - when: it calls `is_cancelled` until it returns true
/// - then: it returns true once the deadline has passed
///
/// There may be any number of scopes in between.
#[test]
fn cancel_47_computing_sees_a_deadline() {
    let _watchdog = Watchdog::new();
    everywhere(|_| {
        let limited = ecru::timeout(ms(2), || {
            compute();
            ecru::checkpoint().unwrap_err().reason()
        });
        assert!(limited.is_err());
    });
    each_run(|| {
        // A child on the same worker is started in place of its joiner, which therefore does not
        // check its timer.
        let limited = ecru::timeout(ms(2), || {
            ecru::scope(|s| {
                let child = s.spawn_local(|| {
                    ecru::scope(|s| {
                        s.spawn_daemon(compute);
                        let _ = s.spawn(compute).join();
                    });
                });
                let _ = child.join();
                ecru::checkpoint()
            })
        });
        assert!(limited.is_err());
        // A child that computes on another worker. Again, if it has not begun within the limit.
        while !limits_a_computing_child() {}
    });
}

/// A task with a limit spawns a child that computes until it sees that limit. Returns whether the child began before the limit.
fn limits_a_computing_child() -> bool {
    let (began, over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    ecru::scope(|s| {
        s.spawn(move || {
            let limited = ecru::timeout(ms(2), || {
                ecru::scope(|s| {
                    let ends = OnDrop(move || over.store(true, SeqCst));
                    s.spawn(move || {
                        let _ends = ends;
                        began.store(true, SeqCst);
                        compute();
                    });
                    while !over.load(SeqCst) {
                        let _ = ecru::yield_now();
                    }
                    ecru::checkpoint()
                })
            });
            assert!(limited.is_err());
        });
    });
    began.load(SeqCst)
}

/// - given: a cancelled task that computes inside `shield_for`
/// - when: the shield's time is up
/// - then: `is_cancelled` is true, also for its children
#[test]
fn cancel_48_computing_sees_a_shield_run_out() {
    let _watchdog = Watchdog::new();
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            ecru::shield_for(HOUR, || assert!(!ecru::is_cancelled()));
            ecru::shield_for(ms(2), || {
                compute();
                assert_eq!(ecru::checkpoint().unwrap_err().reason(), CancelReason::Explicit);
            });
            ecru::shield_for(ms(2), || {
                ecru::shield_for(HOUR, || assert!(!ecru::is_cancelled()));
                let _ = ecru::scope(|s| s.spawn(compute).join());
            });
        });
        // An expired shield without a pending request changes nothing.
        ecru::shield_for(Duration::ZERO, || {
            compute_past(Instant::now());
            assert_eq!(ecru::checkpoint(), Ok(()));
        });
    });
}

/// - given: a deadline that passed while the task computed, or before `timeout_at`
/// - when: the task calls `checkpoint`, `yield_now` or `sleep(0)`
/// - then: that call is cancelled; in a limit whose deadline had passed before it began, every wait
///   is
#[test]
fn cancel_49_passed_deadline_is_seen_at_once() {
    type Point = fn() -> Result<(), Cancelled>;
    let points: [Point; 4] = [
        ecru::checkpoint,
        || ecru::yield_now(),
        || ecru::sleep(Duration::ZERO),
        || ecru::time::sleep_until(now()),
    ];
    everywhere(|_| {
        let past = now();
        compute_past(past);
        for point in points {
            assert!(ecru::timeout_at(past, point).is_err());
            assert!(ecru::timeout(Duration::ZERO, point).is_err());
            let soon = now() + Duration::from_micros(100);
            let late = ecru::timeout_at(soon, || {
                compute_past(soon);
                point()
            });
            assert!(late.is_err());
        }
        // A limit that begins after its deadline cancels even a call that would not have to wait.
        let (sender, receiver) = channel::bounded(1);
        sender.send(7).unwrap();
        assert!(ecru::timeout_at(past, || receiver.recv().unwrap_err()).is_err());
        assert_eq!(receiver.recv(), Ok(7));
        // An expired limit without a cancellation point inside has no effect.
        assert_eq!(ecru::timeout_at(past, || 1), Ok(1));
    });
}

/// - given: two nested limits that have both passed
/// - when: the task reaches a cancellation point
/// - then: the limit with the earlier deadline reports `Elapsed`
#[test]
fn cancel_50_earlier_of_two_passed_deadlines() {
    // Opens two limits, and returns whether the first and the second one reported. A busy machine
    // may reach a deadline before both limits are open, which is another case: then it tries again.
    let reports = |outer_is_first: bool| loop {
        let deadlines = [now() + ms(1), now() + ms(2)];
        let [outer, inner] = if outer_is_first { [0, 1] } else { [1, 0] }.map(|n| deadlines[n]);
        let is_late = Cell::new(false);
        let mut inner_reports = false;
        let outer_reports = ecru::timeout_at(outer, || {
            let ended = ecru::timeout_at(inner, || {
                is_late.set(now() >= deadlines[0]);
                compute_past(deadlines[1]);
                ecru::checkpoint()
            });
            inner_reports = ended.is_err();
        })
        .is_err();
        if !is_late.get() {
            return (outer_reports, inner_reports);
        }
    };
    run_on(1, || {
        assert_eq!(reports(true), (true, false));
        assert_eq!(reports(false), (false, true));
        // The later limit is only opened when both have passed.
        let (first, second) = (now() + ms(1), now() + ms(2));
        let outer = ecru::timeout_at(first, || {
            compute_past(second);
            let checked = ecru::timeout_at(second, ecru::checkpoint);
            assert!(checked.unwrap().is_err());
            let slept = ecru::timeout(Duration::ZERO, || ecru::sleep(HOUR));
            assert!(slept.unwrap().is_err());
        });
        assert!(outer.is_err());
    });
}
