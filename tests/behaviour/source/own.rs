//! User-defined sources, and which waiters are notified of their items.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use super::{Letters, side_by_side};
use crate::support::{Watchdog, everywhere, ms, run_on, settle};
use ecru::Source;
use ecru::channel::Sender;
use ecru::source::{self, WaitList};

/// A gate that stays open once it is opened, so any number of waiters may take from it.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    waiting: WaitList,
}

impl Source for Gate {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.open.load(SeqCst).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiting);
    }
}

/// - given: a type with `try_take` and `waiters`
/// - when: a task or thread waits for it
/// - then: the wait ends at once if there is an item, otherwise when it is notified
#[test]
fn source_01_a_type_of_the_user_s_own() {
    everywhere(|side| {
        let letters = Letters::default();
        assert_eq!(letters.try_take(), None);
        letters.post(1);
        assert_eq!(letters.wait(), Ok(1), "no wait if there is something");
        let (got, ()) = side.both(
            || letters.wait(),
            || {
                side.pause();
                letters.post(2);
            },
        );
        assert_eq!(got, Ok(2));
    });
}

/// - given: a source
/// - when: it is passed by `&`, `&&`, `Box`, `Box<dyn ..>`
/// - then: it is a source in each form
#[test]
fn source_02_references_and_boxes_are_sources_too() {
    everywhere(|_| {
        let letters = Letters::default();
        (1..=4).for_each(|n| letters.post(n));
        fn first(source: impl Source<Item = u32>) -> u32 {
            source.wait().unwrap()
        }
        assert_eq!(first(&letters), 1);
        let reference = &&letters;
        assert_eq!(first(reference), 2);
        let boxed: Box<dyn Source<Item = u32> + '_> = Box::new(&letters);
        assert_eq!(first(&*boxed), 3);
        assert_eq!(first(boxed), 4);
    });
}

/// - given: several waiters
/// - when: `notify_one` and `notify_all` are called
/// - then: one waiter looks again; all look again
#[test]
fn source_03_notify_one_tells_one_and_notify_all_everybody() {
    everywhere(|side| {
        let letters = Letters::default();
        let (got, ()) = side.many(
            3,
            |_| letters.wait().unwrap(),
            || {
                side.pause();
                (1..=3).for_each(|n| letters.post(n));
            },
        );
        assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([1, 2, 3]));
        let gate = Gate::default();
        let (_, ()) = side.many(
            4,
            |_| gate.wait().unwrap(),
            || {
                side.pause();
                gate.open.store(true, SeqCst);
                gate.waiting.notify_all();
            },
        );
    });
    // If no waiter comes late, the looks can be counted.
    run_on(1, || {
        let letters = Letters::default();
        ecru::scope(|s| {
            let reader = |_| {
                let reader = s.spawn_local(|| letters.wait());
                settle();
                reader
            };
            let readers: Vec<_> = (0..3).map(reader).collect();
            for n in 1..=3 {
                let before = letters.looks.load(SeqCst);
                letters.post(n);
                settle();
                assert_eq!(letters.looks.load(SeqCst), before + 1, "one was told");
            }
            let got = readers.into_iter().map(|task| task.join().unwrap().unwrap());
            assert!(got.eq(1..=3));
        });
    });
}

/// - given: five waiters
/// - when: five notifications come
/// - then: the waiters are notified in the order in which they came
#[test]
fn source_04_those_who_wait_are_told_in_the_order_in_which_they_came() {
    run_on(1, || {
        let letters = Letters::default();
        ecru::scope(|s| {
            let reader = |_| {
                let reader = s.spawn_local(|| letters.wait());
                settle();
                reader
            };
            let readers: Vec<_> = (0..5).map(reader).collect();
            for n in 0..5 {
                letters.post(n);
                settle();
            }
            let got: Vec<_> =
                readers.into_iter().map(|task| task.join().unwrap().unwrap()).collect();
            assert_eq!(got, [0, 1, 2, 3, 4]);
        });
    });
}

/// - given: a race of two sources, and other waiters for each
/// - when: items come for both at the same moment
/// - then: a waiter that was notified but took the other item passes the notification on: no item
///   stays while a waiter waits
#[test]
fn source_05_a_notified_loser_passes_it_on() {
    everywhere(|side| {
        for _ in 0..20 {
            // The first waiter may take from either source. There are enough items for all in each
            // case.
            let (a, b) = (Letters::default(), Letters::default());
            let (left, right) = side.both(
                || source::race([&a, &b]).wait().unwrap(),
                || {
                    side_by_side(
                        side,
                        || b.wait().unwrap(),
                        || a.wait().unwrap(),
                        || {
                            a.post(1);
                            b.post(2);
                            a.post(3);
                            b.post(4);
                        },
                    )
                },
            );
            assert_eq!((right.0 % 2, right.1 % 2), (0, 1));
            let rest = a.try_take().into_iter().chain(b.try_take());
            let mut all: Vec<_> = [left, right.0, right.1].into_iter().chain(rest).collect();
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3, 4]);
        }
    });
}

/// A source that has one more list with each look.
struct Growing {
    lists: [WaitList; 8],
    used: AtomicUsize,
    open: AtomicBool,
}

impl Source for Growing {
    type Item = usize;

    fn try_take(&self) -> Option<usize> {
        self.open.load(SeqCst).then(|| self.used.load(SeqCst))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        let used = (self.used.fetch_add(1, SeqCst) + 1).min(self.lists.len());
        self.lists[..used].iter().for_each(each);
    }
}

/// - given: a source that names one more list with each look
/// - when: it is waited for
/// - then: it is notified by any of them
#[test]
fn source_33_the_number_of_lines_may_grow() {
    everywhere(|side| {
        let growing = Growing {
            lists: [const { WaitList::new() }; 8],
            used: AtomicUsize::new(0),
            open: AtomicBool::new(false),
        };
        let (got, ()) = side.both(
            || growing.wait(),
            || {
                side.pause();
                growing.open.store(true, SeqCst);
                growing.lists.iter().for_each(WaitList::notify_all);
            },
        );
        assert!(got.is_ok());
    });
}

/// A source whose attempts are a function of the test.
struct Attempts<F> {
    attempt: F,
    waiting: WaitList,
}

impl<T, F: Fn(&WaitList) -> Option<T>> Source for Attempts<F> {
    type Item = T;

    fn try_take(&self) -> Option<T> {
        (self.attempt)(&self.waiting)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiting);
    }
}

/// - given: a thread that waits for a source, and is notified in the middle of an attempt
/// - when: the attempt calls `ecru::run`, whose tasks wait
/// - then: the run and the wait end
#[test]
fn source_47_an_attempt_may_start_a_run() {
    let _watchdog = Watchdog::new();
    let looks = Cell::new(0);
    let source = Attempts {
        attempt: |waiting: &WaitList| {
            // From the second look on, the wait is registered.
            waiting.notify_all();
            let slept = run_on(1, || ecru::sleep(ms(1)));
            looks.set(looks.get() + 1);
            (looks.get() == 3).then_some(slept)
        },
        waiting: WaitList::new(),
    };
    assert_eq!(source.wait(), Ok(Ok(())));
}

/// - given: `ready`, `from_iter`
/// - when: they are dropped untaken
/// - then: the items are dropped
#[test]
fn source_41_sources_are_dropped_with_what_they_hold() {
    let drops = AtomicUsize::new(0);
    drop(source::ready(crate::support::Counted(&drops)).map(|counted| counted));
    drop(source::from_iter([crate::support::Counted(&drops)]));
    assert_eq!(drops.load(SeqCst), 2);
    fn shared<T: Send + Sync>() {}
    shared::<WaitList>();
    shared::<source::Ready<Sender<u8>>>();
}
