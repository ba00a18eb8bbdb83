//! Subscribing and withdrawing against an item that comes at the same time.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

use crate::park::WaitList;
use crate::source::Source;

/// Items that can be taken.
struct Items {
    there: AtomicUsize,
    waiters: WaitList,
}

impl Items {
    fn none() -> Arc<Items> {
        Arc::new(Items { there: AtomicUsize::new(0), waiters: WaitList::new() })
    }

    fn put(&self) {
        self.there.fetch_add(1, Ordering::AcqRel);
        self.waiters.notify_one();
    }
}

impl Source for Items {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let less = |there: usize| there.checked_sub(1);
        self.there.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).ok().map(drop)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiters);
    }
}

fn count(calls: &Arc<AtomicUsize>) -> impl FnOnce(()) + Send + 'static {
    let calls = Arc::clone(calls);
    move |()| {
        calls.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn of_withdrawing_and_ringing_one_comes_first_and_the_item_is_not_lost() {
    loom::model(|| {
        let (items, calls) = (Items::none(), Arc::new(AtomicUsize::new(0)));
        let subscription = Arc::clone(&items).on_ready(count(&calls));
        let other = Arc::clone(&items);
        let thread = thread::spawn(move || other.put());
        drop(subscription);
        thread.join().unwrap();
        let taken = calls.load(Ordering::Acquire);
        assert_eq!(taken + items.there.load(Ordering::Acquire), 1);
        // Everything of it is gone.
        assert_eq!((Arc::strong_count(&items), Arc::strong_count(&calls)), (1, 1));
    });
}

#[test]
fn an_item_that_comes_while_one_subscribes_is_not_overlooked() {
    loom::model(|| {
        let (items, calls) = (Items::none(), Arc::new(AtomicUsize::new(0)));
        let other = Arc::clone(&items);
        let thread = thread::spawn(move || other.put());
        let subscription = Arc::clone(&items).on_ready(count(&calls));
        thread.join().unwrap();
        assert_eq!(calls.load(Ordering::Acquire), 1);
        drop(subscription);
    });
}

#[test]
fn of_two_subscriptions_the_one_that_stays_gets_the_item() {
    loom::model(|| {
        let (items, calls) = (Items::none(), Arc::new(AtomicUsize::new(0)));
        let first = Arc::clone(&items).on_ready(count(&calls));
        let second = Arc::clone(&items).on_ready(count(&calls));
        let other = Arc::clone(&items);
        let thread = thread::spawn(move || other.put());
        drop(first);
        thread.join().unwrap();
        assert_eq!(calls.load(Ordering::Acquire), 1);
        drop(second);
    });
}
