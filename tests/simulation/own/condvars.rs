//! Condition variables: no wake-up is lost, and a cancelled wait has its lock back.

use super::everywhere;
use ecru::sync::{Condvar, Mutex};
use std::time::Duration;

#[test]
fn a_notification_is_not_lost_with_a_cancelled_waiter() {
    everywhere(|| {
        let (mutex, condvar) = (Mutex::new(0_u32), Condvar::new());
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut guard = mutex.lock();
                    while *guard == 0 {
                        if condvar.wait(&mut guard).is_err() {
                            // The lock is held here: another task would see the change otherwise.
                            *guard += 10;
                            assert!(mutex.try_lock().is_err(), "the lock is free");
                            *guard -= 10;
                            return;
                        }
                    }
                    *guard -= 1;
                });
            }
            for _ in 0..2 {
                *mutex.lock() += 1;
                condvar.notify_one();
                let _ = ecru::yield_now();
            }
        });
        assert!(mutex.try_lock().is_ok(), "a lock is left behind");
    });
}

/// The items, and the number of senders that are still there.
type Items = Mutex<(Vec<(u32, u32)>, u32)>;

/// A sender that leaves when it is dropped, even if its task never begins.
struct Sender<'q>(&'q Items, &'q Condvar);

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.0.lock().1 -= 1;
        self.1.notify_all();
    }
}

#[test]
fn a_queue_of_lock_and_condition_loses_nothing() {
    everywhere(|| {
        let (queue, changed) = (Items::new((vec![], 2)), Condvar::new());
        let got = Mutex::new(vec![]);
        let senders = [Sender(&queue, &changed), Sender(&queue, &changed)];
        ecru::scope(|s| {
            for (number, sender) in (0..).zip(senders) {
                s.spawn(move || {
                    for item in 0..2 {
                        sender.0.lock().0.push((number, item));
                        sender.1.notify_one();
                    }
                });
            }
            for _ in 0..2 {
                s.spawn(|| {
                    loop {
                        let mut guard = queue.lock();
                        if changed
                            .wait_while(&mut guard, |(items, senders)| {
                                items.is_empty() && *senders > 0
                            })
                            .is_err()
                        {
                            return;
                        }
                        let Some(item) = guard.0.pop() else { return };
                        drop(guard);
                        got.lock().push(item);
                    }
                });
            }
        });
        let mut all = got.into_inner();
        all.extend(queue.into_inner().0);
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "an item came twice: {all:?}");
    });
}

#[test]
fn a_wait_with_a_limit_ends_with_its_lock() {
    everywhere(|| {
        let (mutex, condvar) = (Mutex::new(false), Condvar::new());
        ecru::scope(|s| {
            s.spawn(|| {
                let mut guard = mutex.lock();
                let limit = Duration::from_millis(10);
                if let Ok(result) = condvar.wait_timeout_while(&mut guard, limit, |set| !*set) {
                    assert!(*guard || result.timed_out());
                }
                assert!(mutex.try_lock().is_err(), "the lock is free");
            });
            s.spawn(|| {
                let _ = ecru::sleep(Duration::from_millis(10));
                *mutex.lock() = true;
                condvar.notify_all();
            });
        });
        assert!(mutex.try_lock().is_ok());
    });
}
