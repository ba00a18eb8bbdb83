//! Models of waits for one of three sources that notify. `channel` has models of selects over
//! channels, which hand their values over.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

use super::{Choice, Chosen, at_one_moment, choose};
use crate::park::WaitList;
use crate::source::{Arms, Won};

/// A source that holds some items.
struct Items {
    count: AtomicUsize,
    waiters: WaitList,
}

impl Items {
    fn put(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.waiters.notify_one();
    }

    fn take(&self) -> bool {
        let less = |count: usize| count.checked_sub(1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }
}

/// A wait for an item of one of these, which returns the number of the arm. The last one is tried
/// first.
struct Of<'i>(&'i [Items]);

impl Choice for Of<'_> {
    type Output = usize;

    fn attempt(&self) -> Option<usize> {
        (0..self.0.len()).rev().find(|arm| self.0[*arm].take())
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.0.iter().for_each(|items| arms.notified_by(&items.waiters));
    }

    fn finish(&self, won: &Won<'_>) -> Option<usize> {
        self.0[won.index()].take().then(|| won.index())
    }
}

fn wait_for(items: &[Items]) -> usize {
    match choose(&Of(items), None) {
        Chosen::Ready(arm) => arm,
        other => panic!("{other:?}"),
    }
}

fn three(counts: [usize; 3]) -> Arc<[Items; 3]> {
    Arc::new(counts.map(|count| Items { count: AtomicUsize::new(count), waiters: WaitList::new() }))
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

#[test]
fn an_item_in_any_of_three_arms_ends_the_wait() {
    for arm in 0..3 {
        check(3, move || {
            let items = three([0; 3]);
            let other = Arc::clone(&items);
            let thread = thread::spawn(move || other[arm].put());
            assert_eq!(wait_for(&*items), arm);
            thread.join().unwrap();
        });
    }
}

#[test]
fn items_in_two_of_three_arms_are_both_taken() {
    check(2, || {
        let items = three([0; 3]);
        let threads = [0, 2].map(|arm| {
            let items = Arc::clone(&items);
            thread::spawn(move || items[arm].put())
        });
        let both = [wait_for(&*items), wait_for(&*items)];
        assert!(both == [0, 2] || both == [2, 0], "{both:?}");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A wait that two arms have notified takes one item, and passes the other notification on.
#[test]
fn a_second_notification_is_passed_on() {
    check(2, || {
        let items = three([0; 3]);
        let (one, both) = (Arc::clone(&items), Arc::clone(&items));
        let alone = thread::spawn(move || wait_for(&one[1..2]));
        let puts = thread::spawn(move || {
            both[1].put();
            both[2].put();
        });
        if wait_for(&*items) == 1 {
            items[1].put();
        }
        assert_eq!(alone.join().unwrap(), 0);
        puts.join().unwrap();
    });
}

/// An item that moves from one arm to another is in one of them all the time.
#[test]
fn an_item_that_moves_is_found_at_one_moment() {
    for (from, to) in [(2, 0), (0, 2), (1, 2)] {
        check(3, move || {
            let mut counts = [0; 3];
            counts[from] = 1;
            let items = three(counts);
            let other = Arc::clone(&items);
            let thread = thread::spawn(move || {
                other[to].put();
                other[from].take();
            });
            assert!(at_one_moment(&Of(&*items)).is_some());
            thread.join().unwrap();
        });
    }
}
