//! `map`, `or` and `filter`.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use super::side_by_side;
use crate::support::{everywhere, ms, panic_text, quiet_panic, run_on, settle, text_of};
use ecru::Source;
use ecru::channel::{self, RecvError, Select};
use ecru::select;
use ecru::source::{self, Either};

/// - given: `map(f)`
/// - when: an item comes
/// - then: f runs once, on the waiter's stack; it may wait, and the sender is not delayed
#[test]
fn source_09_map_runs_on_the_waiter_s_own_stack_after_the_item_is_taken() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let (pause, resume) = channel::bounded::<()>(0);
        let me = AtomicUsize::new(0);
        let (value, ()) = side.both(
            || {
                let here = Cell::new(0_u32);
                let mapped = (&receiver).map(|value: Result<u32, RecvError>| {
                    // The function runs in the waiter's frame, and may wait.
                    here.set(here.get() + 1);
                    me.store(1, SeqCst);
                    resume.recv().unwrap();
                    value.unwrap() * 2
                });
                let value = mapped.wait();
                assert_eq!(here.get(), 1);
                value
            },
            || {
                sender.send(21).unwrap();
                // The sender is not delayed by it.
                assert!(sender.try_send(0).is_err());
                pause.send(()).unwrap();
            },
        );
        assert_eq!(value, Ok(42));
        let chained = source::ready(1).map(|n| n + 1).map(|n| n * 10).or(source::never());
        assert_eq!(chained.wait(), Ok(20));
    });
}

/// - given: `a.or(b)`, both with items
/// - when: it is waited for
/// - then: items of `a` come first; those of `b` stay
#[test]
fn source_10_or_prefers_the_first_and_takes_nothing_from_the_other() {
    everywhere(|side| {
        let (a, from_a) = channel::unbounded();
        let (b, from_b) = channel::unbounded();
        for n in 0..10 {
            a.send(n).unwrap();
            b.send(n).unwrap();
        }
        for n in 0..10 {
            assert_eq!((&from_a).or(&from_b).wait(), Ok(Ok(n)));
        }
        assert_eq!(from_b.len(), 10);
        assert_eq!((&from_a).or(&from_b).wait(), Ok(Ok(0)));
        let both = (&from_a).or(source::never());
        let (got, ()) = side.both(
            || both.wait(),
            || {
                side.pause();
                a.send(77).unwrap();
            },
        );
        assert_eq!(got, Ok(Ok(77)));
    });
}

/// - given: two waiters for values of different kinds
/// - when: values of both kinds come in any order
/// - then: each gets its own values, in order, and nothing is lost
#[test]
fn source_11_a_refusing_filter_leaves_the_value_for_others() {
    everywhere(|side| {
        for capacity in [0, 3, usize::MAX] {
            let (sender, receiver) = channel::bounded(capacity);
            let even = |n: &u32| n.is_multiple_of(2);
            let odd = |n: &u32| n % 2 == 1;
            let (evens, odds) = side_by_side(
                side,
                || (0..3).map(|_| (&receiver).filter(even).wait().unwrap()).collect::<Vec<_>>(),
                || (0..3).map(|_| (&receiver).filter(odd).wait().unwrap()).collect::<Vec<_>>(),
                || [1, 3, 0, 2, 5, 4].into_iter().for_each(|n| sender.send(n).unwrap()),
            );
            assert_eq!(evens, [Ok(0), Ok(2), Ok(4)], "capacity {capacity}");
            assert_eq!(odds, [Ok(1), Ok(3), Ok(5)], "capacity {capacity}");
        }
    });
}

/// - given: a value at the front of the buffer that every filter refuses
/// - when: another value is behind it
/// - then: the waiters wait until the first is gone; without a buffer each waiting sender's value
///   is offered
#[test]
fn source_12_only_the_value_at_the_front_is_offered() {
    everywhere(|side| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let (got, ()) = side.both(
            || (&receiver).filter(|n| *n == 2).wait(),
            || {
                side.pause();
                assert_eq!(receiver.len(), 2, "it waits, though the buffer is not empty");
                assert_eq!(receiver.recv(), Ok(1));
            },
        );
        assert_eq!(got, Ok(Ok(2)), "as soon as it is at the front");
        // Without a buffer, the values of waiting senders are offered.
        let (sender, receiver) = channel::bounded(0);
        let (_, ()) = side.many(
            3,
            |n| sender.send(n).unwrap(),
            || {
                side.pause();
                for n in [2, 0, 1] {
                    assert_eq!((&receiver).filter(|value| *value == n).wait(), Ok(Ok(n)));
                }
            },
        );
    });
}

/// - given: `filter` on a receiver, on `&`, on `race` and `or`, before `map`, each side before
///   `either`
/// - when: values come
/// - then: the predicate decides; refused values stay
#[test]
fn source_13_filters_stand_on_receivers_and_on_races_of_them() {
    everywhere(|_| {
        let (a, from_a) = channel::unbounded();
        let (b, from_b) = channel::unbounded();
        let big = |n: &u32| *n > 5;
        a.send(1).unwrap();
        b.send(9).unwrap();
        assert_eq!(source::race([&from_a, &from_b]).filter(big).wait(), Ok(Ok(9)));
        b.send(8).unwrap();
        a.send(2).unwrap();
        assert_eq!((&from_a).or(&from_b).filter(big).wait(), Ok(Ok(8)));
        b.send(7).unwrap();
        let mapped = (&from_a).or(&from_b).filter(big).map(|n| n.unwrap() + 100);
        assert_eq!(mapped.wait(), Ok(107));
        b.send(6).unwrap();
        let either = source::either((&from_a).filter(big), (&from_b).filter(big));
        assert_eq!(either.wait(), Ok(Either::Right(Ok(6))));
        assert_eq!((from_a.len(), from_b.len()), (2, 0), "those that were refused are there");
        // The same by value.
        a.send(10).unwrap();
        assert_eq!((from_a.recv(), from_a.recv()), (Ok(1), Ok(2)));
        assert_eq!(from_a.filter(big).wait(), Ok(Ok(10)));
    });
}

/// - given: a filter that refuses everything
/// - when: all senders are dropped
/// - then: it returns `Disconnected`, and the predicate is not called
#[test]
fn source_14_a_disconnect_passes_every_filter() {
    everywhere(|side| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded::<u32>(capacity);
            let (got, ()) = side.both(
                || (&receiver).filter(|_| false).wait(),
                || {
                    side.pause();
                    drop(sender);
                },
            );
            assert_eq!(got, Ok(Err(RecvError::Disconnected)));
            let none = (&receiver).filter(|_| panic!("there is nothing to ask about"));
            assert_eq!(none.try_take(), Some(Err(RecvError::Disconnected)));
        }
    });
}

/// - given: a predicate that panics when it runs on the sender
/// - when: a value is sent
/// - then: the sender is not affected; the panic is resumed in the waiter
#[test]
fn source_16_a_predicate_s_panic_is_the_waiter_s() {
    everywhere(|side| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            let asked = AtomicBool::new(false);
            let (payload, ()) = side.both(
                || {
                    let picky = (&receiver).filter(|_: &u32| {
                        asked.store(true, SeqCst);
                        quiet_panic("picky")
                    });
                    catch_unwind(AssertUnwindSafe(|| picky.wait())).unwrap_err()
                },
                || {
                    side.pause();
                    // The sender is not affected.
                    while !asked.load(SeqCst) {
                        let _ = sender.send_timeout(1, ms(5));
                    }
                },
            );
            assert_eq!(text_of(&*payload), "picky");
            assert!(receiver.len() <= capacity);
        }
    });
}

/// - given: a mapped source whose function panics
/// - when: an item arrives after the wait has parked
/// - then: the panic is resumed in the waiter
#[test]
fn source_46_a_mapping_s_panic_after_a_wait_is_the_waiter_s() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let (payload, sent) = side.both(
            || {
                let fragile = (&receiver).map(|_: Result<u32, RecvError>| quiet_panic("fragile"));
                catch_unwind(AssertUnwindSafe(|| fragile.wait())).unwrap_err()
            },
            || {
                side.pause();
                sender.send(1)
            },
        );
        assert_eq!((text_of(&*payload), sent), ("fragile", Ok(())));
    });
}

/// - given: a predicate that sleeps
/// - when: it is called
/// - then: it panics, as any wait under `no_suspend`; nothing is lost
#[test]
fn source_17_predicates_must_not_wait() {
    everywhere(|_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let text = panic_text(|| (&receiver).filter(|_: &u32| ecru::sleep(ms(1)).is_ok()).wait());
        assert!(text.contains("no_suspend"), "{text}");
        assert_eq!(receiver.recv(), Ok(1));
    });
}

/// - given: three filtered receivers with different predicates
/// - when: values come
/// - then: each value goes to the first receiver that accepts it
#[test]
fn source_34_filtered_receivers_are_served_in_order() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let reader = |limit: u32| {
                let receiver = &receiver;
                let task = s.spawn_local(move || {
                    (receiver.filter(move |n: &u32| *n >= limit).wait().unwrap().unwrap(), limit)
                });
                settle();
                task
            };
            let (high, low, lowest) = (reader(10), reader(5), reader(0));
            sender.send(7).unwrap();
            sender.send(20).unwrap();
            sender.send(30).unwrap();
            assert_eq!(low.join().unwrap(), (7, 5), "the first who wants it");
            assert_eq!(high.join().unwrap(), (20, 10));
            assert_eq!(lowest.join().unwrap(), (30, 0));
        });
    });
}

/// - given: a predicate that drops the last sender of the channel that calls it, and then accepts,
///   refuses or panics
/// - when: it is called at once, before a wait, or for another waiter
/// - then: the channel is closed, and all receivers get `Disconnected`
#[test]
fn source_43_a_predicate_may_drop_the_last_sender() {
    everywhere(|side| {
        for accepts in [Some(true), Some(false), None] {
            // The predicate is called at once, and before a wait.
            for waits in [false, true] {
                let (sender, receiver) = channel::unbounded();
                sender.send(1).unwrap();
                let last = Mutex::new(Some(sender));
                let filtered = (&receiver).filter(|_| {
                    drop(last.lock().unwrap().take());
                    accepts.unwrap_or_else(|| quiet_panic("a predicate"))
                });
                let look = || {
                    catch_unwind(AssertUnwindSafe(|| match waits {
                        true => {
                            select! { wait(filtered) -> got => got.ok(), default(ms(1)) => None }
                        }
                        false => filtered.try_take(),
                    }))
                };
                match accepts {
                    Some(true) => assert_eq!(look().unwrap(), Some(Ok(1))),
                    Some(false) => assert_eq!(look().unwrap(), None),
                    None => assert_eq!(look().unwrap_err().downcast_ref(), Some(&"a predicate")),
                }
                assert!(receiver.is_closed());
                if accepts != Some(true) {
                    assert_eq!(receiver.recv(), Ok(1));
                }
                assert!(receiver.recv().unwrap_err().is_disconnected());
            }
        }
        // Other receivers already wait.
        let (sender, receiver) = channel::unbounded();
        let last = Mutex::new(Some(sender.clone()));
        let (got, ()) = side.both(
            || {
                let refusing = (&receiver).filter(|value| *value == 2);
                refusing.wait().unwrap()
            },
            || {
                side.pause();
                sender.send(1).unwrap();
                drop(sender);
                side.pause();
                let taken = (&receiver).filter(|_| {
                    drop(last.lock().unwrap().take());
                    true
                });
                assert_eq!(taken.try_take(), Some(Ok(1)));
            },
        );
        assert_eq!(got, Err(RecvError::Disconnected));
    });
}

/// - given: a predicate that drops a subscription, a future and a selected operation of the channel
///   that calls it
/// - when: it is called, at once or for a waiter
/// - then: the call continues; when the channel is unlocked, the dropped waiters have left their
///   lists, and their value or room is returned
#[test]
fn source_45_a_predicate_may_drop_what_waits_on_its_channel() {
    everywhere(|side| {
        for waits in [false, true] {
            let (sender, receiver) = channel::bounded(3);
            let called = Arc::new(AtomicUsize::new(0));
            let make = || {
                let count = Arc::clone(&called);
                let picky = receiver.clone().filter(|n| *n > 9);
                let subscription = picky.on_ready(move |_| _ = count.fetch_add(1, SeqCst));
                let mut future = Box::pin((&receiver).filter(|n| *n > 9).to_future());
                let mut context = Context::from_waker(Waker::noop());
                assert!(future.as_mut().poll(&mut context).is_pending());
                (subscription, future)
            };
            let mut select = Select::new();
            select.send(&sender);
            let held = Mutex::new(Some((make(), select.try_select().unwrap())));
            let filtered = (&receiver).filter(|n| {
                drop(held.lock().unwrap().take());
                *n == 2
            });
            let got = if waits {
                let send = || {
                    side.pause();
                    (1..=2).for_each(|n| sender.send(n).unwrap());
                    // A value that the waiter refuses is in front of the one that it accepts.
                    while held.lock().unwrap().is_some() {
                        side.pause();
                    }
                    assert_eq!(receiver.recv(), Ok(1));
                };
                side.both(|| filtered.wait().unwrap().unwrap(), send).0
            } else {
                sender.send(1).unwrap();
                assert_eq!(filtered.try_take(), None);
                assert_eq!(receiver.recv(), Ok(1));
                sender.send(2).unwrap();
                filtered.try_take().unwrap().unwrap()
            };
            assert_eq!(got, 2);
            // All room is free, and there is no other waiter.
            (10..13).for_each(|n| sender.try_send(n).unwrap());
            assert_eq!(called.load(SeqCst), 0);
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [10, 11, 12]);
        }
    });
}

/// - given: a filter that refuses the value in the buffer; all senders have been dropped
/// - when: it is polled, or waited for
/// - then: there is no item until another receiver has taken the value; then `Disconnected`
#[test]
fn source_44_a_refused_value_is_in_front_of_the_disconnect() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        sender.send(1).unwrap();
        let refusing = (&receiver).filter(|_| false);
        assert_eq!(refusing.try_take(), None);
        drop(sender);
        // The value is for other receivers, so the end cannot be reported.
        assert_eq!(refusing.try_take(), None);
        let (got, ()) = side.both(
            || refusing.wait().unwrap(),
            || {
                side.pause();
                assert_eq!(receiver.recv(), Ok(1));
            },
        );
        assert_eq!(got, Err(RecvError::Disconnected));
        assert_eq!(refusing.try_take(), Some(Err(RecvError::Disconnected)));
    });
}
