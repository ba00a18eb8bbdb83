//! What a request does not reach: shields, and unwinding tasks.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ecru::channel::{self, RecvError, SendError};
use ecru::sync::Latch;
use ecru::{CancelReason, JoinError};

use super::cancelled;
use crate::support::{
    HOUR, OnDrop, begin, each_run, forever, ms, now, quiet_panic, settle, since, until,
};

/// - given: a task in `shield`
/// - when: it is cancelled
/// - then: waits inside continue; the first wait outside returns `Cancelled`
#[test]
fn cancel_17_shield() {
    each_run(|| {
        let (shielded, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                ecru::shield(|| {
                    shielded.store(true, SeqCst);
                    until(|| cancelled.load(SeqCst));
                    assert!(!ecru::is_cancelled());
                    assert!(ecru::sleep(ms(1)).is_ok());
                    assert!(ecru::shield(|| ecru::checkpoint()).is_ok());
                });
                assert!(ecru::is_cancelled());
                ecru::sleep(HOUR).unwrap_err().reason()
            });
            until(|| shielded.load(SeqCst));
            child.cancel();
            cancelled.store(true, SeqCst);
            assert_eq!(child.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// - given: a cancelled task
/// - when: it enters `shield` and waits
/// - then: the wait works
#[test]
fn cancel_18_shield_entered_late() {
    each_run(|| {
        cancelled(|| {
            assert!(ecru::checkpoint().is_err());
            assert!(ecru::shield(|| ecru::sleep(ms(1))).is_ok());
            assert_eq!(ecru::shield(|| ecru::scope(|s| s.spawn(|| 5).join())).unwrap(), 5);
            assert!(ecru::checkpoint().is_err());
        });
    });
}

/// - given: a scope opened inside `shield`
/// - when: the task is cancelled from outside
/// - then: its children are not cancelled
#[test]
fn cancel_19_shield_covers_children() {
    each_run(|| {
        let (sleeping, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::shield(|| {
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            sleeping.store(true, SeqCst);
                            until(|| cancelled.load(SeqCst));
                            assert!(!ecru::is_cancelled());
                            ecru::sleep(ms(1)).unwrap();
                            inner.spawn(|| 5).join().unwrap()
                        });
                    });
                });
                ecru::is_cancelled()
            });
            until(|| sleeping.load(SeqCst));
            task.cancel();
            cancelled.store(true, SeqCst);
            assert!(task.join().unwrap());
        });
    });
}

/// - given: a task in `shield_for(d, ..)` that has been cancelled
/// - when: `d` has passed
/// - then: the wait inside ends with `Cancelled`
#[test]
fn cancel_20_shield_for() {
    each_run(|| {
        cancelled(|| {
            let before = now();
            let (short, long) = ecru::shield_for(ms(3), || (ecru::sleep(ms(1)), ecru::sleep(HOUR)));
            assert!(short.is_ok());
            assert_eq!(long.unwrap_err().reason(), CancelReason::Explicit);
            assert!(since(before) >= ms(3));
            assert!(ecru::shield_for(Duration::MAX, || ecru::sleep(ms(1))).is_ok());
        });
        // A request after that time gets through as well, also to children.
        let ready = AtomicBool::new(false);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::shield_for(ms(1), || {
                    ecru::scope(|inner| {
                        let child = inner.spawn(|| {
                            ecru::sleep(ms(2)).unwrap();
                            ready.store(true, SeqCst);
                            forever().reason()
                        });
                        ecru::shield(|| child.join()).unwrap()
                    })
                })
            });
            until(|| ready.load(SeqCst));
            task.cancel();
            assert_eq!(task.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// - given: `timeout` inside `shield`
/// - when: it expires
/// - then: the body is cancelled: a shield only blocks requests from outside
#[test]
fn cancel_21_timeout_inside_a_shield() {
    each_run(|| {
        cancelled(|| {
            ecru::shield(|| {
                let mut reason = None;
                let result = ecru::timeout(ms(1), || reason = Some(forever().reason()));
                assert!(result.is_err());
                assert_eq!(reason, Some(CancelReason::Deadline));
                assert!(ecru::checkpoint().is_ok());
            });
        });
    });
}

/// - given: a task that unwinds
/// - when: a destructor waits
/// - then: the wait returns `Cancelled` without parking
#[test]
fn cancel_41_unwinding() {
    each_run(|| {
        let waits = Mutex::new(Vec::new());
        let go = Latch::new(1);
        ecru::scope(|s| {
            let other = s.spawn(forever);
            let unstarted = s.spawn(|| go.wait().is_ok());
            ecru::scope(|inner| {
                let panicking = inner.spawn(|| {
                    let _waits = OnDrop(|| {
                        let mut waits = waits.lock().unwrap();
                        waits.push(ecru::sleep(HOUR).is_err());
                        waits.push(ecru::sleep(ms(1)).is_err());
                        waits.push(ecru::checkpoint().is_err());
                        waits.push(ecru::yield_now().is_err());
                        waits.push(matches!(other.join(), Err(JoinError::CallerCancelled)));
                        waits.push(matches!(unstarted.join(), Err(JoinError::CallerCancelled)));
                    });
                    quiet_panic("unwinding");
                });
                assert!(matches!(panicking.join(), Err::<(), _>(JoinError::Panicked(_))));
            });
            // No other task was affected.
            go.count_down();
            assert!(unstarted.join().unwrap());
            assert!(ecru::sleep(ms(1)).is_ok());
            other.cancel();
        });
        assert_eq!(*waits.lock().unwrap(), [true; 6]);
    });
}

/// - given: a task that unwinds
/// - when: a destructor waits inside `shield`, or opens a scope with a child
/// - then: it parks, and gets its value
#[test]
fn cancel_42_unwinding_shield() {
    each_run(|| {
        let (shielded, child) = (Mutex::new(None), Mutex::new(None));
        ecru::scope(|s| {
            let panicking = s.spawn(|| {
                let _waits = OnDrop(|| {
                    *shielded.lock().unwrap() = Some(ecru::shield(|| ecru::sleep(ms(2))));
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            *child.lock().unwrap() = Some(ecru::sleep(ms(2)));
                        });
                    });
                });
                quiet_panic("unwinding");
            });
            // Meanwhile the worker's other tasks do not count as unwinding.
            let sibling = s.spawn(|| (0..4).all(|_| ecru::sleep(ms(1)).is_ok()));
            assert!(matches!(panicking.join(), Err::<(), _>(JoinError::Panicked(_))));
            assert!(sibling.join().unwrap());
        });
        assert_eq!(*shielded.lock().unwrap(), Some(Ok(())));
        assert_eq!(*child.lock().unwrap(), Some(Ok(())));
    });
}

/// - given: a task that unwinds
/// - when: a destructor sends
/// - then: the value is sent if that needs no wait; otherwise it is returned with `Cancelled` or
///   `Disconnected`
#[test]
fn cancel_51_send_while_unwinding() {
    each_run(|| {
        let (room, has_room) = channel::bounded(2);
        let (full, has_none) = channel::bounded(1);
        full.send(0).unwrap();
        let (unheard, nobody) = channel::bounded(1);
        drop(nobody);
        let (meeting, taken) = channel::bounded(0);
        ecru::scope(|s| {
            let receiver = &begin(s, || taken.recv());
            ecru::scope(|s| {
                settle();
                let task = s.spawn(|| {
                    let _report = OnDrop(|| {
                        room.send(1).unwrap();
                        room.send_timeout(2, HOUR).unwrap();
                        assert_eq!(full.send(3), Err(SendError::Cancelled(3)));
                        assert_eq!(unheard.send(4), Err(SendError::Disconnected(4)));
                        // Its receiver may not be waiting yet.
                        if meeting.send(5).is_err() {
                            receiver.cancel();
                        }
                    });
                    quiet_panic("on purpose");
                });
                assert!(task.join().is_err());
            });
            assert_eq!((has_room.recv(), has_room.recv()), (Ok(1), Ok(2)));
            assert!(matches!(receiver.join().unwrap(), Ok(5) | Err(RecvError::Cancelled)));
        });
        assert_eq!(has_none.recv(), Ok(0));
    });
}
