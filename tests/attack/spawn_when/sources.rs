//! Sources that panic, suspend, notify or are dropped at the worst moment, and predicates that do.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ecru::channel::{self, RecvError};
use ecru::source::{self, WaitList};
use ecru::{JoinError, JoinHandle, Source};

use super::{Bomb, is_cancelled, panic_of, quiet};
use crate::common::{HOUR, OnDrop, each_run, ms, until};

/// The attacker's own source. `try_take` calls `take`, and `waiters` calls `look`.
struct Hostile<T, L> {
    take: T,
    look: L,
    list: WaitList,
}

impl<I, T: Fn() -> Option<I>, L: Fn(&WaitList)> Source for Hostile<T, L> {
    type Item = I;

    fn try_take(&self) -> Option<I> {
        (self.take)()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        (self.look)(&self.list);
        each(&self.list);
    }
}

fn hostile<I, T: Fn() -> Option<I>, L: Fn(&WaitList)>(take: T, look: L) -> Hostile<T, L> {
    Hostile { take, look, list: WaitList::new() }
}

/// The predicate panics, and then so does the destructor of a capture of the function. The task's
/// panic is the first one.
#[test]
fn the_predicate_panics_and_then_a_destructor_does() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let bomb = Bomb;
            let picky = (&rx).filter(|_| quiet("the predicate's"));
            let task = s.spawn_when(picky, move |_| drop(bomb));
            let _ = tx.try_send(1);
            assert_eq!(panic_of(task.join()), "the predicate's");
            let bomb = Bomb;
            let cancelled = s.spawn_when(source::never::<u8>(), move |_| drop(bomb));
            cancelled.cancel();
            assert_eq!(panic_of(cancelled.join()), "a bomb");
        });
    });
}

/// A source that panics at the n-th call of `try_take` or `waiters`, and whose destructor panics
/// too.
#[test]
fn a_source_panics_at_each_of_its_calls() {
    each_run(|| {
        for nth in 0..12 {
            let calls = AtomicUsize::new(0);
            let count = || {
                if calls.fetch_add(1, SeqCst) == nth {
                    quiet("the source's");
                }
            };
            let (tx, rx) = channel::bounded::<u8>(1);
            let result = ecru::scope(|s| {
                let bomb = Bomb;
                let (count, rx) = (&count, &rx);
                let take = move || {
                    count();
                    let _bomb = &bomb;
                    rx.try_recv().ok()
                };
                let source = hostile(take, move |_| count());
                let either = source.or(rx.map(|n| n.unwrap_or(0)));
                let task = s.spawn_when(either, |n| n);
                tx.try_send(7).unwrap();
                task.join()
            });
            match result {
                Ok(n) => assert_eq!(n, 7),
                panicked => assert_eq!(panic_of(panicked), "the source's"),
            }
        }
    });
}

/// A source whose `try_take` suspends, spawns, cancels its scope, or waits for itself.
#[test]
fn a_source_that_does_what_it_must_not() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let suspends = hostile(|| ecru::sleep(ms(1)).ok(), |_| ());
            let text = panic_of(s.spawn_when(suspends, |()| ()).join());
            assert!(text.contains("no_suspend"), "{text}");
        });
        ecru::scope(|s| {
            let once = AtomicBool::new(true);
            let ran = &ran;
            let spawns = hostile(
                move || {
                    if once.swap(false, SeqCst) {
                        s.spawn(|| ran.fetch_add(1, SeqCst));
                        s.spawn_when(source::ready(1), |n| ran.fetch_add(n, SeqCst));
                    }
                    None::<u8>
                },
                |_| (),
            );
            let task = s.spawn_when(spawns, |_| ());
            until(|| ran.load(SeqCst) == 2);
            task.cancel();
        });
        ecru::scope(|s| {
            // The cancel request comes during the set-up of the wait, on the thread that sets it
            // up.
            let cancels = hostile(
                || {
                    s.cancel();
                    None::<u8>
                },
                |_| (),
            );
            assert!(is_cancelled(&s.spawn_when(cancels, |_| unreachable!()).join()));
        });
        let begun = ecru::scope(|s| {
            let cancels_and_gives = hostile(
                || {
                    s.cancel();
                    Some(3)
                },
                |_| (),
            );
            s.spawn_when(cancels_and_gives, |n| (n, ecru::is_cancelled())).join().unwrap()
        });
        assert_eq!(begun, (3, true));
    });
}

/// The notification comes during the registration of the wait, in each pass.
#[test]
fn a_notification_during_registration() {
    each_run(|| {
        for after in 0..4 {
            let looks = AtomicUsize::new(0);
            ecru::scope(|s| {
                let source = hostile(
                    || (looks.load(SeqCst) > after).then_some(after),
                    |list| {
                        looks.fetch_add(1, SeqCst);
                        list.notify_one();
                        list.notify_all();
                    },
                );
                let source = Arc::new(source);
                let task = s.spawn_when(Arc::clone(&source), |n| n);
                while !task.is_finished() {
                    looks.fetch_add(1, SeqCst);
                    source.list.notify_one();
                    let _ = ecru::yield_now();
                }
                assert_eq!(task.join().unwrap(), after);
            });
        }
    });
}

/// A task that waits for its own handle, the only one.
#[test]
fn a_task_that_waits_for_itself() {
    struct Own<'s>(Arc<OnceLock<JoinHandle<'s, u8>>>);

    impl Source for Own<'_> {
        type Item = Result<u8, JoinError>;

        fn try_take(&self) -> Option<Self::Item> {
            self.0.get()?.try_take()
        }

        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            self.0.get().into_iter().for_each(|own| own.waiters(each));
        }
    }

    each_run(|| {
        ecru::scope(|s| {
            let cell = Arc::default();
            let own = s.spawn_when(Own(Arc::clone(&cell)), |result| result.unwrap());
            assert!(cell.set(own).is_ok());
            drop(cell);
            s.cancel();
        });
    });
}

/// The source's destructor cancels the task, spawns, waits, drops a sender for which the next task
/// waits.
#[test]
fn a_source_whose_destructor_is_hostile() {
    struct Guarded<S, F: FnMut()>(S, OnDrop<F>);

    impl<S: Source, F: FnMut()> Source for Guarded<S, F> {
        type Item = S::Item;

        fn try_take(&self) -> Option<S::Item> {
            self.0.try_take()
        }

        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            self.0.waiters(each);
        }
    }

    each_run(|| {
        for cancels_first in [false, true] {
            let spawned = AtomicUsize::new(0);
            let (tx, rx) = channel::bounded::<u8>(1);
            let (next_tx, next_rx) = channel::bounded::<u8>(1);
            ecru::scope(|s| {
                let own: Arc<OnceLock<JoinHandle<'_, bool>>> = Arc::default();
                let (spawned, mut next_tx) = (&spawned, Some(next_tx));
                let own_too = Arc::clone(&own);
                let on_drop = OnDrop(move || {
                    drop(next_tx.take());
                    if let Some(own) = own_too.get() {
                        own.cancel();
                    }
                    s.spawn_when(source::ready(1), |n| spawned.fetch_add(n, SeqCst));
                    // The wait is refused, because the source is dropped where no wait is allowed.
                    let _ = ecru::sleep(HOUR);
                });
                let next = s.spawn_when(&next_rx, |end| end);
                let task = s.spawn_when(Guarded(&rx, on_drop), |_| ecru::is_cancelled());
                assert!(own.set(task).is_ok());
                let task = own.get().unwrap();
                if cancels_first {
                    task.cancel();
                    assert!(is_cancelled(&task.join()));
                } else {
                    tx.send(1).unwrap();
                    assert!(task.join().unwrap());
                }
                assert_eq!(next.join().unwrap(), Err(RecvError::Disconnected));
            });
            assert_eq!(spawned.load(SeqCst), 1);
        }
    });
}

/// Wrapped sources lose nothing: items that a withdrawn wait did not take are there for others.
#[test]
fn wrapped_sources_lose_nothing() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(2);
        let (other_tx, other_rx) = channel::bounded::<u8>(2);
        ecru::scope(|s| {
            let raced = source::race([&rx, &other_rx]);
            let wants_odd = raced.filter(|n| n % 2 == 1).map(|n| n.map(u32::from));
            let task = s.spawn_when(wants_odd, |n| n);
            tx.send(2).unwrap();
            other_tx.send(4).unwrap();
            assert!(task.join_timeout(Duration::ZERO).is_none());
            other_tx.send(5).unwrap();
            assert_eq!(other_rx.recv(), Ok(4));
            assert_eq!(task.join().unwrap(), Ok(5));
            let task = s.spawn_when((&other_rx).or(&other_rx).or(source::never()), |n| n);
            task.cancel();
            assert!(is_cancelled(&task.join()));
            other_tx.send(6).unwrap();
        });
        assert_eq!((rx.try_recv(), other_rx.try_recv()), (Ok(2), Ok(6)));
    });
}

/// A predicate spawns a task that waits for the channel that calls the predicate.
#[test]
fn a_predicate_spawns_on_its_own_channel() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let inner = Arc::new(OnceLock::new());
            let (rx, inner_too) = (&rx, Arc::clone(&inner));
            let picky = rx.filter(move |_| {
                inner_too.get_or_init(|| s.spawn_when(rx, |n| n));
                true
            });
            let outer = s.spawn_when(picky, |n| n);
            tx.send(7).unwrap();
            // The inner task is refused access to the channel, or waits for the next value. The
            // outer task is not affected in either case.
            assert_eq!(outer.join().unwrap(), Ok(7));
            tx.close();
            let inner: &JoinHandle<'_, _> = inner.get().unwrap();
            drop(inner.join());
        });
    });
}

/// While the channel is locked for a predicate, the predicate cancels the scope, and with it a task
/// that waits on the same channel.
#[test]
fn a_predicate_cancels_a_wait_for_its_own_channel() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let picky = (&rx).filter(|_| {
                s.cancel();
                false
            });
            let task = s.spawn_when(picky, |_| ());
            tx.send(1).unwrap();
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        });
        assert_eq!(rx.try_recv(), Ok(1));
    });
}
