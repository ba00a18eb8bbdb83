//! Models of polling and dropping futures while an item arrives.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::SourceFuture;
use crate::park::WaitList;
use crate::source::Source;

struct Once {
    there: AtomicBool,
    waiters: WaitList,
}

impl Once {
    fn empty() -> Arc<Once> {
        Arc::new(Once { there: AtomicBool::new(false), waiters: WaitList::new() })
    }

    fn put(&self) {
        self.there.store(true, Ordering::Release);
        self.waiters.notify_one();
    }
}

impl Source for Once {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.there.swap(false, Ordering::AcqRel).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiters);
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn poll(future: &mut SourceFuture<Arc<Once>>, woken: &Arc<Woken>) -> Poll<()> {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn not_woken() -> Arc<Woken> {
    Arc::new(Woken(AtomicBool::new(false)))
}

#[test]
fn the_last_waker_is_woken_or_the_poll_sees_the_item() {
    loom::model(|| {
        let (once, first, last) = (Once::empty(), not_woken(), not_woken());
        let mut future = Source::to_future(Arc::clone(&once));
        assert!(poll(&mut future, &first).is_pending());
        let other = Arc::clone(&once);
        let thread = thread::spawn(move || other.put());
        let ready = poll(&mut future, &last).is_ready();
        thread.join().unwrap();
        if !ready {
            assert!(last.0.load(Ordering::Acquire));
            assert!(poll(&mut future, &last).is_ready());
        }
        drop(future);
        assert_eq!(Arc::strong_count(&once), 1);
    });
}

#[test]
fn a_future_that_is_dropped_passes_its_notification_on() {
    loom::model(|| {
        let (once, woken) = (Once::empty(), not_woken());
        let mut first = Source::to_future(Arc::clone(&once));
        let mut second = Source::to_future(Arc::clone(&once));
        assert!(poll(&mut first, &not_woken()).is_pending());
        assert!(poll(&mut second, &woken).is_pending());
        let other = Arc::clone(&once);
        let thread = thread::spawn(move || other.put());
        drop(first);
        thread.join().unwrap();
        assert!(woken.0.load(Ordering::Acquire));
        assert!(poll(&mut second, &woken).is_ready());
    });
}
