//! `block_on` with old wakers, inside itself, and at the end of a thread.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn, ready};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::thread;

use ecru::{Source, channel};

use super::{each_run, yield_once};
use crate::common::{HOUR, OnDrop, Watchdog, begin, ms, panic_text, quiet_panic, run_on, settle};

/// Wakers of earlier calls are called during later ones of the same thread, which they do not
/// disturb.
#[test]
fn beside_wakers_of_earlier_calls() {
    let attack = || {
        let old = RefCell::new(Vec::<Waker>::new());
        for round in 0..20 {
            let mut polls = 0;
            ecru::block_on(poll_fn(|cx| {
                polls += 1;
                old.borrow_mut().push(cx.waker().clone());
                let others = old.borrow().clone();
                if polls == 1 {
                    // One of them is this call's own.
                    others.into_iter().for_each(Waker::wake);
                    return Poll::Pending;
                }
                Poll::Ready(())
            }))
            .unwrap();
            assert_eq!(polls, 2, "in round {round}");
        }
        let old = old.into_inner();
        thread::spawn(move || old.into_iter().for_each(Waker::wake)).join().unwrap();
        // A notification that came after the end is not one of the next call.
        let mut polls = 0;
        let limited = ecru::timeout(ms(5), || {
            ecru::block_on(poll_fn(|_| {
                polls += 1;
                Poll::Pending::<()>
            }))
        });
        assert!(!matches!(limited, Ok(Ok(()))));
        assert_eq!(polls, 1);
    };
    run_on(1, attack);
    let _watchdog = Watchdog::new();
    thread::spawn(attack).join().unwrap();
}

/// Calls inside polls of calls, whose wakers cross, in a task and on a thread.
#[test]
fn inside_itself() {
    fn nested(depth: usize, outer: Option<&Waker>) -> usize {
        let mut polls = 0;
        ecru::block_on(poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                if let Some(outer) = outer {
                    outer.wake_by_ref();
                }
                cx.waker().wake_by_ref();
                let inner = if depth > 0 { nested(depth - 1, Some(cx.waker())) } else { 0 };
                assert_eq!(inner, depth * 2);
                return Poll::Pending;
            }
            Poll::Ready(())
        }))
        .unwrap();
        2 * (depth + 1)
    }
    let _watchdog = Watchdog::new();
    assert_eq!(nested(5, None), 12);
    each_run(|| {
        ecru::scope(|s| {
            let task = s.spawn(|| nested(5, None));
            assert_eq!(nested(3, None), 8);
            assert_eq!(task.join().unwrap(), 12);
        });
    });
}

/// In the destructor of a thread-local, where the memory that is kept for the next call may be gone.
#[test]
fn at_the_end_of_a_thread() {
    struct AtEnd;
    impl Drop for AtEnd {
        fn drop(&mut self) {
            ENDED.fetch_add(1, SeqCst);
            ecru::block_on(yield_once()).unwrap();
            assert_eq!(ecru::block_on(ready(7)), Ok(7));
            ENDED.fetch_add(1, SeqCst);
        }
    }
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static AT_END: AtEnd = const { AtEnd }; }
    let _watchdog = Watchdog::new();
    for first in [true, false] {
        thread::spawn(move || {
            if first {
                AT_END.with(|_| ());
            }
            ecru::block_on(yield_once()).unwrap();
            AT_END.with(|_| ());
        })
        .join()
        .unwrap();
    }
    assert_eq!(ENDED.load(SeqCst), 4);
}

/// The future panics in a poll, or in its destructor when the call is cancelled, and waits there.
#[test]
fn with_futures_that_panic_or_wait_at_the_end() {
    each_run(|| {
        let text = panic_text(|| {
            ecru::block_on(async {
                yield_once().await;
                quiet_panic("in a poll");
            })
        });
        assert_eq!(text, "in a poll");
        let waited = Mutex::new(None);
        ecru::scope(|s| {
            let task = begin(s, || {
                ecru::block_on(async {
                    let _end = OnDrop(|| *waited.lock().unwrap() = Some(ecru::sleep(HOUR)));
                    pending::<()>().await;
                })
            });
            task.cancel();
            assert!(matches!(task.join(), Ok(Err(ecru::Cancelled { .. }))));
            assert!(waited.lock().unwrap().take().unwrap().is_err());
            let task = begin(s, || {
                ecru::block_on(async {
                    let _end = OnDrop(|| quiet_panic("in the destructor"));
                    pending::<()>().await;
                })
            });
            task.cancel();
            assert_eq!(super::panic_of(task.join()), "in the destructor");
            assert_eq!(ecru::block_on(ready(1)), Ok(1));
        });
    });
}

/// The future of one call is polled once, moved to a thread and finished there, while the first
/// caller's waker stays registered nowhere.
#[test]
fn with_a_future_that_moves_to_a_thread() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u32>(0);
        let mut items = Box::pin(rx.to_future());
        ecru::block_on(poll_fn(|cx| {
            assert!(items.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        }))
        .unwrap();
        let other = thread::spawn(move || ecru::block_on(items));
        tx.send(5).unwrap();
        assert_eq!(ecru::unblock(|| other.join().unwrap()), Ok(Ok(5)));
        settle();
    });
}
