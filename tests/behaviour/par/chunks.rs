//! Results in chunks.

use super::dawdle;
use crate::support::{each_run, quiet_panic, settle};
use ecru::JoinError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: `s.map_chunks(3, ..)`
/// - when: no handle is taken, then one
/// - then: no item is started, then exactly the first three
#[test]
fn par_18_chunks_are_lazy() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0.., |n| {
                begun.fetch_add(1, SeqCst);
                n
            });
            settle();
            assert_eq!(begun.load(SeqCst), 0);
            assert_eq!(handles.next().unwrap().join().unwrap(), 0);
            settle();
            assert_eq!(begun.load(SeqCst), 3);
        });
        assert_eq!(begun.load(SeqCst), 3);
    });
}

/// - given: `s.map_chunks(3, ..)`
/// - when: the first handle is returned
/// - then: all three items of its chunk have ended
#[test]
fn par_19_chunks_finish() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0..9, |n| {
                dawdle(30 * (n % 3));
                ended.fetch_add(1, SeqCst);
            });
            let first = handles.next().unwrap();
            assert_eq!(ended.load(SeqCst), 3);
            assert!(first.is_finished());
            assert!(handles.next().unwrap().is_finished() && handles.next().unwrap().is_finished());
            assert_eq!(ended.load(SeqCst), 3);
        });
    });
}

/// - given: `s.map_chunks(3, ..)`
/// - when: the fourth handle is taken
/// - then: the second chunk is run, and the third has not begun
#[test]
fn par_20_chunks_next() {
    each_run(|| {
        let begun = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0..8, |n| begun.lock().unwrap().push(n));
            let seen = || {
                settle();
                let mut begun = begun.lock().unwrap().clone();
                begun.sort_unstable();
                begun
            };
            let three = [handles.next(), handles.next(), handles.next()];
            assert!(three.iter().all(Option::is_some));
            assert_eq!(seen(), [0, 1, 2]);
            assert!(handles.next().is_some());
            assert_eq!(seen(), [0, 1, 2, 3, 4, 5]);
            // The last chunk is a short one.
            assert_eq!(handles.count(), 4);
            assert_eq!(seen(), [0, 1, 2, 3, 4, 5, 6, 7]);
        });
    });
}

/// - given: a chunk in which one item panics
/// - when: the handles are joined
/// - then: `Panicked` for that item only, and the scope ends normally
#[test]
fn par_21_chunk_error() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        let results = ecru::scope(|s| {
            let handles = s.map_chunks(3, 0..6, |n| {
                begun.fetch_add(1, SeqCst);
                if n == 4 { quiet_panic("the fifth") } else { n }
            });
            handles.map(|handle| handle.join()).collect::<Vec<_>>()
        });
        assert_eq!(begun.load(SeqCst), 6);
        for (n, result) in results.into_iter().enumerate() {
            match result {
                Err(JoinError::Panicked(payload)) => {
                    assert_eq!((n, payload.message()), (4, Some("the fifth")));
                }
                other => assert_eq!(other.unwrap(), n),
            }
        }
    });
}

#[test]
fn par_21_chunk_error_of_a_chunk_not_reached_does_not_happen() {
    each_run(|| {
        ecru::scope(|s| {
            let mut handles =
                s.map_chunks(3, 0..6, |n| if n == 3 { quiet_panic("the fourth") } else { n });
            assert_eq!(handles.next().unwrap().join().unwrap(), 0);
            settle();
        });
    });
}
