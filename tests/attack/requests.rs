//! Cancel requests that come at the worst moment, or from the cancelled task itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ecru::JoinError;

use crate::{HOUR, OnDrop, run_on};

#[test]
fn a_request_reaches_a_time_limit_inside_unblock() {
    run_on(1, || {
        ecru::scope(|s| {
            let (begun, has_begun) = mpsc::channel();
            let child = s.spawn(move || {
                ecru::unblock(|| {
                    ecru::timeout(HOUR, || {
                        begun.send(()).unwrap();
                        let since = Instant::now();
                        while !ecru::is_cancelled() && since.elapsed() < Duration::from_secs(30) {
                            thread::yield_now();
                        }
                        ecru::is_cancelled()
                    })
                })
            });
            ecru::unblock(move || {
                // The child starts while this task waits.
                has_begun.recv().unwrap();
            });
            child.cancel();
            assert_eq!(child.join().unwrap(), Ok(true));
        });
    });
}

#[test]
fn a_result_that_waits_when_it_is_dropped_leaves_nothing_in_the_tree() {
    run_on(1, || {
        let waited = &AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..8 {
                drop(s.spawn(move || {
                    OnDrop(move || {
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                        waited.fetch_add(1, Ordering::Relaxed);
                    })
                }));
            }
            ecru::sleep(Duration::from_millis(2)).unwrap();
            while waited.load(Ordering::Relaxed) < 8 {
                ecru::yield_now().unwrap();
            }
            // Other task boxes reuse the memory of the old ones.
            let later: Vec<_> = (0..8).map(|_| s.spawn(|| ecru::sleep(HOUR))).collect();
            ecru::yield_now().unwrap();
            s.cancel();
            assert!(
                later
                    .iter()
                    .all(|task| matches!(task.join(), Ok(Err(_)) | Err(JoinError::Cancelled)))
            );
        });
    });
}

#[test]
fn hooks_may_cancel_their_own_scope_and_end_before_it() {
    ecru::run(|| {
        let calls = AtomicUsize::new(0);
        ecru::cancel_scope(|c| {
            let again = c.clone();
            let hook = || {
                again.cancel();
                calls.fetch_add(1, Ordering::Relaxed);
            };
            ecru::on_cancel(hook, || {
                c.cancel();
                c.cancel();
            });
        });
        assert_eq!(calls.into_inner(), 1);
    });
}

#[test]
fn a_shield_that_runs_out_lets_the_request_through_to_what_hangs_below() {
    run_on(2, || {
        ecru::cancel_scope(|c| {
            c.cancel();
            let children = ecru::shield_for(Duration::from_millis(2), || {
                ecru::scope(|s| {
                    let children: Vec<_> = (0..4)
                        .map(|_| s.spawn(|| ecru::timeout(HOUR, || ecru::sleep(HOUR))))
                        .collect();
                    ecru::shield(|| children.iter().map(|child| child.join()).collect::<Vec<_>>())
                })
            });
            // On a slow machine, the shield may run out before some of the children have begun.
            assert!(
                children
                    .iter()
                    .all(|child| matches!(child, Ok(Ok(Err(_))) | Err(JoinError::Cancelled)))
            );
        });
    });
}

#[test]
fn two_requests_from_elsewhere_and_none_is_lost() {
    run_on(2, || {
        for _ in 0..500 {
            ecru::scope(|s| {
                let (give, take) = mpsc::channel();
                let waiting = s.spawn(move || {
                    ecru::cancel_scope(|outer| {
                        ecru::shield(|| {
                            ecru::cancel_scope(|inner| {
                                give.send((outer, inner)).unwrap();
                                ecru::sleep(HOUR)
                            })
                        })
                    })
                });
                ecru::unblock(move || {
                    let (outer, inner) = take.recv().unwrap();
                    outer.cancel();
                    inner.cancel();
                });
                assert!(waiting.join().unwrap().is_err());
            });
        }
    });
}

#[test]
fn handles_cancel_tasks_as_they_start() {
    run_on(2, || {
        for _ in 0..500 {
            ecru::scope(|s| {
                let tasks: Vec<_> =
                    (0..4).map(|_| s.spawn(|| ecru::sleep(HOUR).is_err())).collect();
                ecru::unblock(|| tasks.iter().for_each(|task| task.cancel()));
                for task in &tasks {
                    assert!(matches!(task.join(), Ok(true) | Err(JoinError::Cancelled)));
                }
            });
        }
    });
}
