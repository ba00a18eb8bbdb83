//! Tasks whose work is a future: `spawn_future`.

mod budget;
mod sleeps;
mod sockets;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;

use ecru::sync::Notify;
use ecru::task::TaskId;
use ecru::{JoinError, Source, channel, task};

use crate::support::{
    Counted, Watchdog, each_run, ms, panic_text, quiet_panic, run_on, settle, until,
};

/// Is pending once, and wakes itself.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Gives its waker away, and is pending until it has been woken.
async fn given_away(to: &Mutex<Option<Waker>>) {
    let mut has_waited = false;
    poll_fn(|cx| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        *to.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

/// - given: futures that are ready at once, or pending for a while, and borrow from the parent
/// - when: they are spawned by each method
/// - then: their outputs are joined
#[test]
fn polled_01_joined() {
    each_run(|| {
        let word = String::from("borrowed");
        ecru::scope(|s| {
            assert_eq!(s.spawn_future(ready(1)).join().unwrap(), 1);
            let later = async {
                yield_once().await;
                word.len()
            };
            assert_eq!(s.spawn_future(later).join().unwrap(), 8);
            let local = Rc::new(Cell::new(0));
            let handle = s.spawn_local_future(async move {
                yield_once().await;
                local.set(local.get() + 1);
                local
            });
            assert_eq!(handle.join().unwrap().get(), 1);
            let named = s
                .builder()
                .name("polled")
                .spawn_future(async { task::current().name().map(String::from) });
            assert_eq!(named.name(), Some("polled"));
            assert_eq!(named.join().unwrap().as_deref(), Some("polled"));
            s.builder().near().spawn_future(yield_once()).join().unwrap();
            s.builder().spawn_local_future(yield_once()).join().unwrap();
        });
        assert_eq!(ecru::spawn_future(async { 6 * 7 }).join().unwrap(), 42);
        let handle = ecru::RuntimeHandle::current();
        assert_eq!(handle.spawn_future(async { 6 * 7 }).unwrap().join().unwrap(), 42);
    });
}

/// - given: many tasks whose futures wake each other
/// - when: they run
/// - then: each ends, and nobody is polled without a wake
#[test]
fn polled_02_wakes_are_not_lost() {
    each_run(|| {
        let polls = AtomicUsize::new(0);
        ecru::scope(|s| {
            let (first, mut rx) = channel::unbounded::<u32>();
            for _ in 0..50 {
                let (tx, next) = channel::unbounded();
                let from = std::mem::replace(&mut rx, next);
                let polls = &polls;
                s.spawn_future(async move {
                    let mut items = from.to_future();
                    let mut counted = std::pin::pin!(async {
                        while let Ok(item) = (&mut items).await {
                            tx.try_send(item + 1).unwrap();
                        }
                    });
                    poll_fn(|cx| {
                        polls.fetch_add(1, SeqCst);
                        counted.as_mut().poll(cx)
                    })
                    .await;
                });
            }
            for item in 0..100 {
                first.send(item).unwrap();
            }
            drop(first);
            let all: Vec<u32> = rx.iter().collect();
            assert_eq!(all, (50..150).collect::<Vec<_>>());
        });
        // Each wake answers at least one item or the end.
        assert!(polls.into_inner() <= 50 * 102);
    });
}

/// - given: a pending task
/// - when: it is cancelled by its handle, its scope, or further out
/// - then: its future is polled once more and dropped, and `join` returns `Cancelled`
#[test]
fn polled_03_cancelled_while_pending() {
    each_run(|| {
        let (drops, polls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let never = || async {
            let _counted = Counted(&drops);
            poll_fn::<(), _>(|_| {
                polls.fetch_add(1, SeqCst);
                Poll::Pending
            })
            .await;
        };
        ecru::scope(|s| {
            let handle = s.spawn_future(never());
            until(|| polls.load(SeqCst) == 1);
            settle();
            handle.cancel();
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
            assert_eq!((drops.load(SeqCst), polls.load(SeqCst)), (1, 2));
        });
        ecru::scope(|s| {
            let handles = [s.spawn_future(never()), s.spawn_future(never())];
            until(|| polls.load(SeqCst) == 4);
            s.cancel();
            for handle in handles {
                assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
            }
        });
        let limited = ecru::timeout(ms(1), || ecru::scope(|s| drop(s.spawn_future(never()))));
        assert!(limited.is_err());
        assert_eq!(drops.load(SeqCst), 4);
    });
}

/// - given: a task whose future is being polled
/// - when: it is cancelled by its own code, or by another thread, during that poll
/// - then: its future is polled once more, and what it has been given meanwhile is not lost
#[test]
fn polled_29_cancelled_during_a_poll() {
    each_run(|| {
        let polls = AtomicUsize::new(0);
        ecru::scope(|s| {
            let handle = s.spawn_future(poll_fn(|_| {
                polls.fetch_add(1, SeqCst);
                if ecru::is_cancelled() {
                    return Poll::Ready("what came meanwhile");
                }
                s.cancel();
                Poll::Pending
            }));
            until(|| handle.is_finished());
            assert_eq!(handle.join().unwrap(), "what came meanwhile");
            assert_eq!(polls.load(SeqCst), 2);
        });
        ecru::scope(|s| {
            let handle = s.spawn_future(poll_fn::<(), _>(|_| {
                polls.fetch_add(1, SeqCst);
                s.cancel();
                Poll::Pending
            }));
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
            assert_eq!(polls.load(SeqCst), 4);
        });
    });
}

/// - given: a task that has not begun
/// - when: it is cancelled
/// - then: its future is dropped unpolled
#[test]
fn polled_04_cancelled_before() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.cancel();
            let counted = Counted(&drops);
            let handle = s.spawn_future(async move {
                let _counted = counted;
                unreachable!()
            });
            assert!(matches!(handle.join(), Err::<(), _>(JoinError::Cancelled)));
            assert_eq!(drops.load(SeqCst), 1);
        });
    });
}

/// - given: a pending task that has been given its item
/// - when: it is cancelled before it is polled
/// - then: it gets the item
#[test]
fn polled_05_the_value_wins() {
    each_run(|| {
        ecru::scope(|s| {
            let (tx, rx) = channel::bounded(0);
            let handle = s.builder().near().spawn_future(async move { rx.to_future().await });
            // The send succeeds once the future waits, and hands the value over.
            tx.send(7).unwrap();
            handle.cancel();
            assert_eq!(handle.join().unwrap(), Ok(7));
        });
    });
}

/// - given: futures that panic in a poll, at once or later, or in their destructors
/// - when: they are joined, or not
/// - then: `join` returns the panic, or the scope passes it on
#[test]
fn polled_06_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                quiet_panic("in the destructor");
            }
        }
    }
    each_run(|| {
        ecru::scope(|s| {
            let at_once = s.spawn_future(async { quiet_panic("at once") });
            let later = s.spawn_future(async {
                yield_once().await;
                quiet_panic("later")
            });
            let bomb = s.spawn_future(async {
                let bomb = ManuallyDrop::new(Bomb);
                yield_once().await;
                let _ = bomb;
            });
            bomb.join().unwrap();
            for (handle, text) in [(at_once, "at once"), (later, "later")] {
                let Err(JoinError::Panicked(payload)) = handle.join() else { unreachable!() };
                assert_eq!(payload.message(), Some(text));
            }
            let dropped = s.spawn_future(async {
                let _bomb = Bomb;
                pending::<()>().await;
            });
            settle();
            dropped.cancel();
            let Err(JoinError::Panicked(payload)) = dropped.join() else { unreachable!() };
            assert_eq!(payload.message(), Some("in the destructor"));
        });
        let text = panic_text(|| {
            ecru::scope(|s| drop(s.spawn_future(async { quiet_panic("not joined") })));
        });
        assert!(text.contains("not joined"), "{text}");
    });
}

/// - given: a task whose future calls something that may wait, in a poll or in a destructor
/// - when: it is polled
/// - then: it panics, and the text says what to do
#[test]
fn polled_07_does_not_wait_in_direct_style() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = ecru::sleep(ms(1));
        }
    }
    each_run(|| {
        let refused = |wait: fn()| {
            ecru::scope(|s| {
                let handle = s.spawn_future(async move {
                    yield_once().await;
                    wait();
                });
                let Err(JoinError::Panicked(payload)) = handle.join() else { unreachable!() };
                let text = payload.message().unwrap().to_owned();
                assert!(text.contains("`.await`") && text.contains("block_on"), "{text}");
            });
        };
        refused(|| _ = ecru::sleep(ms(1)));
        refused(|| _ = ecru::yield_now());
        refused(|| _ = ecru::block_on(ready(1)));
        refused(|| _ = channel::unbounded::<u32>().1.recv());
        refused(|| ecru::scope(|_| ()));
        refused(|| drop(Waits));
        // Afterwards the worker's tasks wait as before.
        ecru::sleep(ms(1)).unwrap();
        // What does not wait may be called.
        ecru::scope(|s| {
            let (tx, rx) = channel::unbounded();
            s.spawn_future(async move {
                tx.try_send(1).unwrap();
                s.spawn(|| ecru::sleep(ms(1)).unwrap());
            });
            assert_eq!(rx.recv(), Ok(1));
        });
    });
}

/// - given: wakers of tasks that are pending, have ended, or whose scope and run have ended
/// - when: they are cloned, called and dropped on other threads
/// - then: a pending task is polled, and nothing else happens
#[test]
fn polled_08_wakers_outlive_everything() {
    let mut wakers = Vec::new();
    for workers in [1, 2] {
        run_threads(workers, &mut wakers);
    }
    for waker in wakers {
        let cloned = waker.clone();
        waker.wake();
        cloned.wake_by_ref();
    }
}

fn run_threads(workers: usize, wakers: &mut Vec<Waker>) {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(workers).build().unwrap().run(|| {
        let place = Mutex::new(None);
        ecru::scope(|s| {
            let handle = s.spawn_future(given_away(&place));
            until(|| place.lock().unwrap().is_some());
            let waker: Waker = place.lock().unwrap().take().unwrap();
            assert!(!handle.is_finished());
            let cloned = waker.clone();
            thread::spawn(move || cloned.wake()).join().unwrap();
            handle.join().unwrap();
            waker.wake_by_ref();
            wakers.push(waker);
            let cancelled = s.spawn_future(async {
                given_away(&place).await;
                pending::<()>().await;
            });
            until(|| place.lock().unwrap().is_some());
            cancelled.cancel();
            assert!(cancelled.join().is_err());
            wakers.push(place.lock().unwrap().take().unwrap());
        });
    });
}

/// - given: a future that is woken inside its own poll, and then by another thread
/// - when: it goes on being pending
/// - then: it is polled again for each of them, after the other tasks of its worker had a turn
#[test]
fn polled_09_woken_while_polled() {
    run_on(1, || {
        let order = RefCell::new(Vec::new());
        ecru::scope(|s| {
            for name in ["a", "b"] {
                let order = &order;
                s.spawn_local_future(async move {
                    for _ in 0..3 {
                        order.borrow_mut().push(name);
                        yield_once().await;
                    }
                });
            }
        });
        let order = order.into_inner();
        assert_eq!(order.len(), 6);
        #[cfg(feature = "sim")]
        if ecru::sim::is_simulated() {
            return;
        }
        assert_eq!(order, ["a", "b", "a", "b", "a", "b"]);
    });
}

/// - given: a task of `try_scope` whose future returns `Err`, panics, or is pending
/// - when: one of them fails
/// - then: the scope fails with its error, and the others are dropped
#[test]
fn polled_10_try_scope() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        let outcome = ecru::try_scope(|s| {
            let counted = Counted(&drops);
            let value = s.spawn_future(async { Ok(1) });
            drop(s.spawn_future(async move {
                let _counted = counted;
                pending::<Result<(), _>>().await
            }));
            assert_eq!(value.join().unwrap(), 1);
            let failed = s.spawn_local_future(async {
                yield_once().await;
                Err::<(), _>("broken")
            });
            assert!(matches!(failed.join(), Err(JoinError::Failed | JoinError::CallerCancelled)));
            Ok::<(), _>(())
        });
        assert_eq!(outcome, Err("broken"));
        assert_eq!(drops.load(SeqCst), 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            ecru::try_scope(|s| {
                s.builder().spawn_future(async {
                    yield_once().await;
                    if true {
                        quiet_panic("torn");
                    }
                    Ok(())
                });
                Ok::<(), ()>(())
            })
        }));
        assert!(panicked.is_err());
    });
}

/// - given: pending tasks and running ones
/// - when: the run is dumped
/// - then: it shows what they wait for, their names and where they were spawned
#[test]
fn polled_11_dumped() {
    each_run(|| {
        ecru::scope(|s| {
            let handle = s.builder().name("asleep").spawn_future(pending::<()>());
            settle();
            let tree = ecru::RuntimeHandle::current().dump();
            let text = tree.to_string();
            assert!(text.contains("'asleep'") && text.contains("its future to be woken"), "{text}");
            assert!(text.contains(file!()), "{text}");
            handle.cancel();
        });
    });
}

/// - given: a task that is joined before it has begun
/// - when: its future is ready at its first poll, or later
/// - then: the join gets its output, wherever it was polled
#[test]
fn polled_12_joined_in_place() {
    each_run(|| {
        ecru::scope(|s| {
            for pending_first in [false, true] {
                let handles: Vec<_> = (0..20)
                    .map(|number| {
                        s.spawn_future(async move {
                            if pending_first {
                                yield_once().await;
                            }
                            number
                        })
                    })
                    .collect();
                let sum: u32 = handles.iter().map(|handle| handle.join().unwrap()).sum();
                assert_eq!(sum, 190);
            }
        });
    });
}

/// - given: a task whose future has begun
/// - when: it is woken by other workers and threads
/// - then: it is polled by the same thread each time, as the same task
#[test]
#[cfg(not(ecru_baton))] // each poll is on a thread of its own
fn polled_13_keeps_its_worker() {
    run_on(2, || {
        let (notify, is_over) = (Notify::new(), AtomicUsize::new(0));
        ecru::scope(|s| {
            let handle = s.spawn_future(async {
                let mut seen: Vec<(thread::ThreadId, TaskId)> = Vec::new();
                let mut wait = (&notify).to_future();
                for _ in 0..20 {
                    (&mut wait).await;
                    seen.push((thread::current().id(), task::current().id()));
                }
                is_over.store(1, SeqCst);
                seen
            });
            for _ in 0..2 {
                s.spawn(|| {
                    while is_over.load(SeqCst) == 0 {
                        notify.notify_one();
                        ecru::yield_now().unwrap();
                    }
                });
            }
            let seen = handle.join().unwrap();
            assert!(seen.iter().all(|place| *place == seen[0]), "{seen:?}");
        });
    });
}

/// - given: a `!Send` future with a `Drop`, and a future whose destructor spawns
/// - when: it is cancelled
/// - then: it is dropped on its worker, and the spawned task runs
#[test]
#[cfg(not(ecru_baton))] // each poll is on a thread of its own
fn polled_14_dropped_on_its_worker() {
    struct Spawns<'s, 'e>(&'s ecru::Scope<'s, 'e>, thread::ThreadId, &'s AtomicUsize);
    impl Drop for Spawns<'_, '_> {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.1);
            let count = self.2;
            self.0.spawn(|| count.fetch_add(1, SeqCst));
        }
    }
    each_run(|| {
        let count = AtomicUsize::new(0);
        ecru::scope(|s| {
            ecru::scope(|inner| {
                let spawns = Spawns(s, thread::current().id(), &count);
                let handle = inner.spawn_local_future(async move {
                    let _spawns = (spawns, Rc::new(1));
                    pending::<()>().await;
                });
                settle();
                handle.cancel();
                assert!(handle.join().is_err());
            });
        });
        assert_eq!(count.into_inner(), 1);
    });
}

/// - given: a future that needs more stack than a task usually has, and one with a stack of its own
///   size
/// - when: they are polled
/// - then: a poll has a MiB, or what the builder asked for
#[test]
fn polled_15_stack() {
    each_run(|| {
        ecru::scope(|s| {
            let left = s.spawn_future(async { ecru::coroutine::remaining_stack() });
            assert!(left.join().unwrap() > 1_000_000);
            let deep = s.builder().stack_size(4 << 20).spawn_future(async {
                yield_once().await;
                ecru::coroutine::remaining_stack()
            });
            assert!(deep.join().unwrap() > 4_000_000);
        });
    });
}

/// - given: a handle of a task, and other handles, awaited by a future
/// - when: those tasks end, fail or are cancelled
/// - then: the future gets their results
#[test]
fn polled_16_awaits_handles() {
    each_run(|| {
        ecru::scope(|s| {
            let slow = s.spawn(|| {
                ecru::yield_now().unwrap();
                7
            });
            let sum = s.spawn_future(async { slow.into_future().await.unwrap() + 1 });
            let outer = s.spawn_future(async { sum.into_future().await.unwrap() + 1 });
            assert_eq!(outer.join().unwrap(), 9);
        });
    });
}

/// A waker of another executor that forwards to ecru's.
struct Forward(Mutex<Option<Waker>>, AtomicUsize);

impl Wake for Forward {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        if let Some(waker) = self.0.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// - given: a future inside an executor inside a future, as `FuturesUnordered` is
/// - when: the inner waker is called from a thread
/// - then: the outer task is polled
#[test]
fn polled_17_nested_executors() {
    let _watchdog = Watchdog::new();
    ecru::Runtime::builder().workers(1).build().unwrap().run(|| {
        let (tx, rx) = mpsc::channel::<Waker>();
        let other = thread::spawn(move || rx.iter().for_each(Waker::wake));
        ecru::scope(|s| {
            let forward = Arc::new(Forward(Mutex::new(None), AtomicUsize::new(0)));
            let handle = s.spawn_local_future(async move {
                let inner = Waker::from(Arc::clone(&forward));
                let mut sent = false;
                poll_fn(|cx| {
                    *forward.0.lock().unwrap() = Some(cx.waker().clone());
                    if forward.1.load(SeqCst) > 0 {
                        return Poll::Ready(());
                    }
                    if !sent {
                        sent = true;
                        tx.send(inner.clone()).unwrap();
                    }
                    Poll::Pending
                })
                .await;
            });
            handle.join().unwrap();
        });
        other.join().unwrap();
    });
}

/// - given: a run in which only pending tasks are left
/// - when: they are cancelled or woken by a thread
/// - then: the run ends
#[test]
fn polled_18_run_waits_for_them() {
    let _watchdog = Watchdog::new();
    let place = Arc::new(Mutex::new(None::<Waker>));
    let other = {
        let place = Arc::clone(&place);
        thread::spawn(move || {
            loop {
                if let Some(waker) = place.lock().unwrap().take() {
                    return waker.wake();
                }
                thread::yield_now();
            }
        })
    };
    let has_ended = Arc::new(AtomicUsize::new(0));
    ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
        let (place, has_ended) = (Arc::clone(&place), Arc::clone(&has_ended));
        drop(ecru::spawn_future(async move {
            given_away(&place).await;
            has_ended.fetch_add(1, SeqCst);
        }));
    });
    assert_eq!(has_ended.load(SeqCst), 1);
    other.join().unwrap();
}

/// - given: tasks with futures that send and receive on each other's channels
/// - when: some are cancelled at any moment by a task and by threads
/// - then: the scope ends, and each value was received once or is still there
#[test]
fn polled_19_cancelled_at_any_moment() {
    each_run(|| {
        for round in 0..20 {
            let (tx, rx) = channel::unbounded();
            let received = AtomicUsize::new(0);
            ecru::scope(|s| {
                let handles: Vec<_> = (0..4)
                    .map(|_| {
                        let (rx, received) = (rx.clone(), &received);
                        s.spawn_future(async move {
                            let mut items = rx.to_future();
                            while (&mut items).await.is_ok() {
                                received.fetch_add(1, SeqCst);
                            }
                        })
                    })
                    .collect();
                for number in 0..100 {
                    tx.send(number).unwrap();
                    if number % 25 == round {
                        handles[number / 25].cancel();
                    }
                    if number % 7 == 0 {
                        ecru::yield_now().unwrap();
                    }
                }
                drop(tx);
                for handle in &handles {
                    handle.cancel();
                }
            });
            assert_eq!(received.into_inner() + rx.try_iter().count(), 100);
        }
    });
}
