//! Futures that panic, wait, spawn or refuse to end, above all when they are cancelled.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
use ecru::time::Sleep;
use ecru::{JoinError, Source, channel};

use super::{each_run, given_away, panic_of, yield_once};
use crate::common::{HOUR, OnDrop, ms, quiet_panic, run_on, settle, until};

/// A future whose last poll and whose destructor do what they are told.
struct Worst<P: FnMut() -> Poll<u32> + Unpin, D: FnMut()> {
    last: P,
    _end: OnDrop<D>,
}

impl<P: FnMut() -> Poll<u32> + Unpin, D: FnMut() + Unpin> Future for Worst<P, D> {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        if ecru::is_cancelled() { (self.last)() } else { Poll::Pending }
    }
}

/// A cancelled future panics in its last poll, in its destructor, or in both. Each is reported once,
/// and nothing aborts.
#[test]
fn panics_when_it_is_cancelled() {
    each_run(|| {
        for (poll_panics, drop_panics) in [(true, false), (false, true), (true, true)] {
            ecru::scope(|s| {
                let last = move || {
                    if poll_panics {
                        quiet_panic("in the poll");
                    }
                    Poll::Pending
                };
                let end = move || {
                    if drop_panics {
                        quiet_panic("in the destructor");
                    }
                };
                let task = s.spawn_future(Worst { last, _end: OnDrop(end) });
                settle();
                task.cancel();
                let expected = if poll_panics { "in the poll" } else { "in the destructor" };
                assert_eq!(panic_of(task.join()), expected);
                // The worker polls as before.
                s.spawn_future(yield_once()).join().unwrap();
            });
        }
    });
}

/// The output, the payload of the panic and the destructor panic one after the other.
#[test]
fn panics_at_each_end() {
    struct Bomb(&'static AtomicUsize);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            if !thread::panicking() {
                quiet_panic("of a bomb");
            }
        }
    }
    static BOMBS: AtomicUsize = AtomicUsize::new(0);
    run_on(1, || {
        ecru::scope(|s| {
            // An output that nothing takes. Its panic may be passed on, and ends nothing else.
            _ = catch_unwind(AssertUnwindSafe(|| {
                ecru::scope(|inner| drop(inner.spawn_future(async { Bomb(&BOMBS) })));
            }));
            assert_eq!(BOMBS.load(SeqCst), 1);
            // A payload that panics, and a destructor that does, too.
            let task = s.spawn_future(async {
                let _bomb = Bomb(&BOMBS);
                yield_once().await;
                std::panic::resume_unwind(Box::new(Bomb(&BOMBS)));
            });
            let joined: Result<(), _> = task.join();
            let Err(JoinError::Panicked(payload)) = joined else { unreachable!() };
            assert_eq!(payload.message(), None);
            _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            s.spawn_future(yield_once()).join().unwrap();
        });
    });
    assert_eq!(BOMBS.load(SeqCst), 3);
}

/// A poll catches the panic of a direct-style wait and goes on, and its destructor waits, too.
#[test]
fn waits_in_direct_style_and_catches_that() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u32>(0);
        ecru::scope(|s| {
            let (sent, received) = (&tx, &rx);
            let refused = move || {
                let waits: [&dyn Fn(); 7] = [
                    &|| _ = ecru::sleep(ms(1)),
                    &|| _ = received.recv(),
                    &|| _ = sent.send(1),
                    &|| _ = ecru::block_on(pending::<()>()),
                    &|| ecru::scope(|s| drop(s.spawn(|| ()))),
                    &|| ecru::unblock(|| ()),
                    &|| ecru::run(|| ()),
                ];
                waits.iter().filter(|wait| catch_unwind(AssertUnwindSafe(wait)).is_err()).count()
            };
            let task = s.spawn_future(async move {
                let _at_end = OnDrop(move || assert_eq!(refused(), 7));
                assert_eq!(refused(), 7);
                yield_once().await;
                assert_eq!(refused(), 7);
                pending::<()>().await;
            });
            settle();
            task.cancel();
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
            // Tasks of the worker wait as before.
            let value = s.spawn(|| rx.recv());
            tx.send(3).unwrap();
            assert_eq!(value.join().unwrap(), Ok(3));
        });
    });
}

/// A future that was never polled waits in its destructor, and so does one that has ended.
#[test]
fn waits_in_each_destructor() {
    each_run(|| {
        ecru::scope(|s| {
            let waits = || OnDrop(|| _ = ecru::sleep(ms(1)));
            let (before, after) = (waits(), waits());
            let unpolled = s.builder().near().spawn_future(async move { drop(before) });
            unpolled.cancel();
            let text = panic_of(unpolled.join());
            assert!(text.contains("`.await`"), "{text}");
            let ended = s.spawn_future(async move {
                let _after = after;
                yield_once().await;
            });
            assert!(panic_of(ended.join()).contains("`.await`"));
        });
    });
}

/// A future writes to locals outside its scope until its destructor, while the scope's body panics
/// or is cancelled from far outside.
#[test]
fn borrows_locals_of_a_scope_that_ends_badly() {
    each_run(|| {
        for ends in ["a panic", "a cancellation"] {
            let mut words = vec![String::from("first")];
            let polls = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                ecru::timeout(if ends == "a panic" { HOUR } else { ms(5) }, || {
                    ecru::scope(|s| {
                        let (words, polls) = (&mut words, &polls);
                        s.spawn_future(async move {
                            let mut kept = OnDrop(|| words.push(String::from("the last")));
                            poll_fn(|_| {
                                polls.fetch_add(1, SeqCst);
                                Poll::Pending::<()>
                            })
                            .await;
                            (kept.0)();
                        });
                        until(|| polls.load(SeqCst) > 0);
                        if ends == "a panic" {
                            quiet_panic("on purpose");
                        }
                    });
                })
            }));
            assert!(!matches!(outcome, Ok(Ok(()))));
            assert_eq!(words, ["first", "the last"]);
            assert_eq!(polls.into_inner(), 2);
        }
    });
}

/// A `!Send` future is cancelled by other workers and threads at any moment. What it shares with its
/// parent is dropped on their thread.
#[test]
fn is_not_send_and_cancelled_from_elsewhere() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 100 };
    run_on(2, || {
        for round in 0..ROUNDS {
            let shared = Rc::new(Cell::new(0));
            let own = thread::current().id();
            ecru::scope(|s| {
                let kept = Rc::clone(&shared);
                let task = s.spawn_local_future(async move {
                    let shared = Rc::clone(&kept);
                    let _end = OnDrop(move || {
                        assert_eq!(thread::current().id(), own);
                        shared.set(shared.get() + 1);
                    });
                    loop {
                        kept.set(kept.get() + 2);
                        yield_once().await;
                    }
                });
                let task: ecru::JoinHandle<'_, ()> = task;
                if round % 2 == 0 {
                    thread::scope(|threads| _ = threads.spawn(|| task.cancel()));
                } else {
                    ecru::scope(|inner| _ = inner.spawn(|| task.cancel()));
                }
                assert!(matches!(task.join(), Err(JoinError::Cancelled)));
            });
            assert_eq!(Rc::strong_count(&shared), 1);
        }
    });
}

/// A poll spawns the next future, which spawns the next, and each is dropped by its scope's end.
#[test]
fn spawns_in_each_poll_and_in_its_destructor() {
    fn chain<'s>(s: &'s ecru::Scope<'s, '_>, count: &'s AtomicUsize, left: usize) {
        s.spawn_future(async move {
            count.fetch_add(1, SeqCst);
            let _end = OnDrop(move || {
                let end = s.spawn_future(async move { count.fetch_add(1, SeqCst) });
                s.spawn_local_future(async move { end.into_future().await.is_ok() });
            });
            if left > 0 {
                chain(s, count, left - 1);
            }
            yield_once().await;
        });
    }
    const DEPTH: usize = if cfg!(miri) { 20 } else { 2_000 };
    each_run(|| {
        let count = AtomicUsize::new(0);
        ecru::scope(|s| chain(s, &count, DEPTH));
        assert_eq!(count.into_inner(), 2 * (DEPTH + 1));
    });
}

/// A cancelled future goes on for ever with a source that is always ready: its last poll has a
/// budget as well.
#[test]
fn never_ends_with_a_source_that_is_always_ready() {
    run_on(1, || {
        let (tx, rx) = channel::unbounded();
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let task = s.spawn_future(async {
                loop {
                    tx.try_send(1).unwrap();
                    (&rx).to_future().await.unwrap();
                    taken.fetch_add(1, SeqCst);
                    Sleep::new(Duration::ZERO).await;
                }
            });
            until(|| taken.load(SeqCst) > 0);
            task.cancel();
            assert!(matches!(task.join(), Err::<(), _>(JoinError::Cancelled)));
        });
        // What the last poll has put there may be left.
        assert!(rx.len() <= 1);
    });
}

/// A coroutine is suspended inside a poll of `block_on` that has used up its budget. The polls of its
/// resumer have their own, and when the coroutine has ended, nothing of its poll is left.
#[test]
fn polls_across_a_coroutine() {
    run_on(1, || {
        let (tx, rx) = channel::unbounded();
        (0..5_000).for_each(|n| tx.send(n).unwrap());
        let ready = |cx: &mut Context<'_>| {
            (0..300).take_while(|_| pin!((&rx).to_future()).poll(cx).is_ready()).count()
        };
        let by_hand = || ready(&mut Context::from_waker(std::task::Waker::noop()));
        ecru::coroutine::scoped(
            |yielder: &Yielder<(), ()>, ()| {
                _ = ecru::block_on(poll_fn(|cx| {
                    assert_eq!(ready(cx), 128);
                    yielder.suspend(());
                    Poll::Ready(())
                }));
            },
            |coroutine| {
                assert!(matches!(coroutine.resume(()), CoroutineState::Yielded(())));
                let in_a_poll = || ecru::block_on(poll_fn(|cx| Poll::Ready(ready(cx))));
                assert_eq!((in_a_poll(), in_a_poll()), (Ok(128), Ok(128)));
                ecru::sleep(ms(1)).unwrap();
                ecru::scope(|s| {
                    let task = s.spawn_local_future(poll_fn(|cx| Poll::Ready(ready(cx))));
                    assert_eq!(task.join().unwrap(), 128);
                });
                assert!(matches!(coroutine.resume(()), CoroutineState::Complete(())));
                assert_eq!(by_hand(), 300);
            },
        );
    });
}

/// A poll resumes a coroutine that waits, and one that suspends in the middle of another poll.
#[test]
fn resumes_coroutines_in_a_poll() {
    run_on(1, || {
        ecru::scope(|s| {
            let task = s.spawn_local_future(async {
                let waits = Coroutine::new(|_: &Yielder<(), ()>, ()| ecru::sleep(ms(1)).is_ok());
                let refused = catch_unwind(AssertUnwindSafe(|| waits.resume(())));
                assert!(refused.is_err(), "a coroutine in a poll cannot wait either");
                let suspends = Coroutine::new(|yielder: &Yielder<u32, u32>, mut n: u32| {
                    loop {
                        n = yielder.suspend(n + 1);
                    }
                });
                let mut last = 0;
                for _ in 0..3 {
                    let CoroutineState::Yielded(next) = suspends.resume(last);
                    last = next;
                    yield_once().await;
                }
                last
            });
            assert_eq!(task.join().unwrap(), 3);
        });
    });
}

/// A future drops the handle of its own task, and cancels itself by it.
#[test]
fn holds_its_own_handle() {
    each_run(|| {
        for cancels in [true, false] {
            let wakers = Arc::new(Mutex::new(Vec::new()));
            let place = Arc::new(Mutex::new(None::<ecru::JoinHandle<'static, ()>>));
            let (has_ended, own, taken) = (Arc::new(()), Arc::clone(&wakers), Arc::clone(&place));
            let is_over = Arc::downgrade(&has_ended);
            let task = ecru::spawn_future(async move {
                let _has_ended = has_ended;
                given_away(&own).await;
                let own = taken.lock().unwrap().take().unwrap();
                if cancels {
                    own.cancel();
                }
                drop(own);
                yield_once().await;
                if cancels {
                    pending::<()>().await;
                }
            });
            *place.lock().unwrap() = Some(task);
            until(|| !wakers.lock().unwrap().is_empty());
            wakers.lock().unwrap().drain(..).for_each(std::task::Waker::wake);
            until(|| is_over.strong_count() == 0);
            assert!(place.lock().unwrap().is_none());
        }
    });
}
