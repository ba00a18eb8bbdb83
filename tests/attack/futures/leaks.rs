//! Handles, futures and wakers that are forgotten. What they borrow must not be used after its
//! scope.

use std::future::{Future, pending, poll_fn};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use ecru::sync::Notify;
use ecru::time::Sleep;
use ecru::{Source, channel};

use super::{each_run, given_away, yield_once};
use crate::common::{HOUR, OnDrop, settle, until};

/// Handles are forgotten, and wakers kept, beyond the scope from which the outputs borrow.
#[test]
fn handles_and_wakers_of_outputs_that_borrow() {
    each_run(|| {
        let wakers = Mutex::new(Vec::new());
        let drops = AtomicUsize::new(0);
        for how in ["forgotten", "dropped", "joined"] {
            drops.store(0, SeqCst);
            let local = String::from("of the scope");
            ecru::scope(|s| {
                let task = s.spawn_future(async {
                    given_away(&wakers).await;
                    OnDrop(|| {
                        assert_eq!(local, "of the scope");
                        drops.fetch_add(1, SeqCst);
                    })
                });
                until(|| !wakers.lock().unwrap().is_empty());
                wakers.lock().unwrap()[0].wake_by_ref();
                match how {
                    "forgotten" => {
                        until(|| task.is_finished());
                        std::mem::forget(task);
                    }
                    "dropped" => drop(task),
                    _ => drop(task.join().unwrap()),
                }
            });
            let in_scope = drops.load(SeqCst);
            drop(local);
            wakers.lock().unwrap().drain(..).for_each(Waker::wake);
            assert_eq!(drops.load(SeqCst), in_scope, "{how}: dropped after its scope");
            // A handle that is forgotten keeps its output for ever.
            assert_eq!(in_scope, usize::from(how != "forgotten"), "{how}");
        }
    });
}

/// Pinned futures are polled and then leaked: waits that have begun stay in what they wait for.
#[test]
fn futures_that_wait() {
    each_run(|| {
        let wakes = AtomicUsize::new(0);
        let (tx, rx) = channel::bounded::<u32>(1);
        let notify = Notify::new();
        ecru::scope(|s| {
            let handle = s.spawn_future(yield_once());
            let leaker = s.spawn_local_future(async {
                let mut items = Box::pin((&rx).to_future());
                let mut notified = Box::pin((&notify).to_future());
                let mut sleep = Box::pin(Sleep::new(HOUR));
                let mut joined = Box::pin(handle.into_future());
                poll_fn(|cx| {
                    assert!(items.as_mut().poll(cx).is_pending());
                    assert!(notified.as_mut().poll(cx).is_pending());
                    assert!(sleep.as_mut().poll(cx).is_pending());
                    _ = joined.as_mut().poll(cx);
                    Poll::Ready(())
                })
                .await;
                std::mem::forget(items);
                std::mem::forget(notified);
                std::mem::forget(sleep);
                std::mem::forget(joined);
                wakes.fetch_add(1, SeqCst);
            });
            leaker.join().unwrap();
            // Both find a wait of a task that has ended. An item that it is given is lost.
            tx.try_send(1).unwrap();
            notify.notify_one();
            _ = tx.try_send(2);
            notify.notify_all();
            settle();
        });
        // The leaked waits are still in their lists when these end.
        drop((tx, rx, notify));
        assert_eq!(wakes.into_inner(), 1);
    });
}

/// A future that holds its own waker is dropped with its scope: it does not keep itself alive.
#[test]
fn a_future_that_holds_its_own_waker() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn_future(async {
                    let _counted = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                    let mut own = Vec::new();
                    poll_fn(|cx| {
                        own.extend([cx.waker().clone(), cx.waker().clone()]);
                        Poll::Pending::<()>
                    })
                    .await;
                });
            }
            settle();
            s.cancel();
        });
        assert_eq!(drops.into_inner(), 3);
    });
}

/// A waker is forgotten, while the future is dropped at its time.
#[test]
fn a_waker_that_is_forgotten() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        ecru::scope(|s| {
            let task = s.spawn_future(async {
                let _counted = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                poll_fn(|cx: &mut Context<'_>| {
                    std::mem::forget(cx.waker().clone());
                    Poll::Ready(())
                })
                .await;
                pending::<()>().await;
            });
            settle();
            task.cancel();
            assert!(task.join().is_err());
            assert_eq!(drops.load(SeqCst), 1);
        });
    });
}
