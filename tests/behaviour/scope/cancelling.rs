//! Cancelling children: all, or one.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use ecru::{CancelReason, JoinError};

use crate::support::{Counted, each_run, forever, ms, until};

/// - given: parked children and a body that continues to wait
/// - when: `s.cancel()` is called
/// - then: the children's waits are cancelled, the body's are not
#[test]
fn scope_26_cancel_children() {
    each_run(|| {
        let parked = AtomicU32::new(0);
        ecru::scope(|s| {
            let children: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        parked.fetch_add(1, SeqCst);
                        forever().reason()
                    })
                })
                .collect();
            until(|| parked.load(SeqCst) == 3);
            s.cancel();
            assert!(ecru::sleep(ms(1)).is_ok());
            assert!(!ecru::is_cancelled());
            for child in children {
                assert_eq!(child.join().unwrap(), CancelReason::Explicit);
            }
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a scope after `s.cancel()`
/// - when: it spawns
/// - then: the closure is dropped unrun, and `join` returns `Cancelled`
#[test]
fn scope_27_cancel_is_sticky() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.cancel();
            let counted = Counted(&dropped);
            let late = s.spawn(move || {
                let _counted = counted;
                unreachable!()
            });
            assert!(matches!(late.join(), Err::<(), _>(JoinError::Cancelled)));
            assert_eq!(dropped.load(SeqCst), 1);
            assert!(matches!(s.spawn_local(|| ()).join(), Err(JoinError::Cancelled)));
        });
    });
}

/// - given: two parked children
/// - when: one handle's `cancel` is called
/// - then: only that child is cancelled
#[test]
fn scope_30_cancel_one() {
    each_run(|| {
        let (parked, release) = (AtomicU32::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            let sleeper = || {
                parked.fetch_add(1, SeqCst);
                while !release.load(SeqCst) {
                    ecru::sleep(ms(1))?;
                }
                Ok::<_, ecru::Cancelled>(())
            };
            let (one, other) = (s.spawn(sleeper), s.spawn(sleeper));
            until(|| parked.load(SeqCst) == 2);
            one.cancel();
            assert!(one.join().unwrap().is_err());
            assert!(!other.is_finished());
            release.store(true, SeqCst);
            assert!(other.join().unwrap().is_ok());
        });
    });
}
