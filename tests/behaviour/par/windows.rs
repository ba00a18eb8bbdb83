//! `map_buffered`: at most a window of items at once.

use super::{Crowd, dawdle};
use crate::support::{each_run, panic_text, run_on, until};
use ecru::par;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: a hundred items and a window of 8
/// - when: `par::map_buffered` is called
/// - then: never more than 8 run at a time, and 8 are reached
#[test]
fn par_07_window() {
    each_run(|| {
        for verb in 0..2 {
            let crowd = Crowd::default();
            let item = |n| {
                crowd.enter();
                until(|| n > 7 || crowd.most.load(SeqCst) == 8);
                dawdle(n % 5 + 1);
                crowd.leave();
                n
            };
            match verb {
                0 => assert_eq!(par::map_buffered(8, 0..100_usize, item).len(), 100),
                _ => par::for_each(8, 0..100, |n| {
                    item(n);
                }),
            }
            assert_eq!(crowd.most.load(SeqCst), 8);
        }
    });
}

/// - given: a first item that takes longest
/// - when: `par::map_buffered` is called
/// - then: the other slots of the window are refilled while it runs
#[test]
fn par_08_slides() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        par::map_buffered(4, 0..100, |n| {
            if n == 0 {
                until(|| ended.load(SeqCst) == 99);
            } else {
                dawdle(1);
                ended.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(ended.load(SeqCst), 99);
    });
}

/// - given: items that take different times
/// - when: `par::map_buffered` is called
/// - then: the results in the order of the items
#[test]
fn par_09_buffered_order() {
    each_run(|| {
        for window in [1, 2, 7, 200] {
            let items = (0..200_usize).collect::<Vec<_>>();
            let same = par::map_buffered(window, items.clone(), |n| {
                dawdle((n * 7919) % 23);
                n
            });
            assert_eq!(same, items);
        }
    });
}

/// - given: three items and a window of 512
/// - when: `par::map_buffered` is called
/// - then: all three run at once
#[test]
fn par_10_window_wider_than_input() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        let items = par::map_buffered(512, 0..3, |n| {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 3);
            n
        });
        assert_eq!(items, [0, 1, 2]);
        assert_eq!(par::map_buffered(usize::MAX, 0..3, |n| n), [0, 1, 2]);
    });
}

/// - given: a window of 0
/// - when: `par::map_buffered` is called
/// - then: it panics, naming the window
#[test]
fn par_11_window_of_none() {
    each_run(|| {
        let texts = [
            panic_text(|| par::map_buffered(0, 0..3, |n| n)),
            panic_text(|| par::for_each(0, 0..3, |_| ())),
            panic_text(|| ecru::scope(|s| s.map_buffered(0, 0..3, |n| n).count())),
            panic_text(|| ecru::scope(|s| s.map_chunks(0, 0..3, |n| n).count())),
        ];
        for text in &texts[..3] {
            assert!(text.contains("a window of 0"), "{text}");
        }
        assert!(texts[3].contains("a chunk of 0"), "{}", texts[3]);
    });
}

/// - given: an iterator that counts the items taken from it
/// - when: `par::map_buffered` is half done
/// - then: at most a window of items has been taken beyond those that have ended
#[test]
fn par_12_buffered_input_is_lazy() {
    each_run(|| {
        let (taken, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let check = || assert!(taken.load(SeqCst) <= ended.load(SeqCst) + 5);
        let input = || {
            (0..100_usize).inspect(|_| {
                taken.fetch_add(1, SeqCst);
                check();
            })
        };
        let item = |n| {
            check();
            dawdle(n % 7);
            check();
            ended.fetch_add(1, SeqCst);
        };
        par::map_buffered(5, input(), item);
        assert_eq!((taken.swap(0, SeqCst), ended.swap(0, SeqCst)), (100, 100));
        par::for_each(5, input(), item);
        assert_eq!((taken.load(SeqCst), ended.load(SeqCst)), (100, 100));
    });
}

/// - given: a first item to begin that panics, and windows of 1, 3 and as many as there can be
/// - when: `par::map_buffered` or `par::for_each` is called on one worker
/// - then: no further item begins or is taken, those in the window are dropped, and the panic is
///   continued
#[test]
fn par_38_no_item_begins_after_a_panic() {
    run_on(1, || {
        for window in [1, 3, usize::MAX] {
            for verb in 0..2 {
                let (begun, taken, item) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::new(()));
                let items = (0..100).map(|_| {
                    taken.fetch_add(1, SeqCst);
                    Arc::clone(&item)
                });
                let call = |_: Arc<()>| {
                    begun.fetch_add(1, SeqCst);
                    panic!("the first one");
                };
                let text = panic_text(|| match verb {
                    0 => drop(par::map_buffered(window, items, call)),
                    _ => par::for_each(window, items, call),
                });
                assert!(text.contains("the first one"), "{text}");
                assert_eq!(begun.load(SeqCst), 1);
                assert_eq!(Arc::strong_count(&item), 1);
                assert!(taken.load(SeqCst) <= window.min(100));
            }
        }
    });
}
