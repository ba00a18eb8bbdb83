//! Notifications, latches, barriers, and values that are set once.

use super::{everywhere, in_every_order};
use ecru::sync::{Barrier, Latch, Mutex, Notify, OnceLock, SetOnce};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn a_notification_passes_a_cancelled_waiter() {
    everywhere(|| {
        let (notify, got) = (Notify::new(), AtomicU32::new(0));
        ecru::scope(|s| {
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    s.spawn(|| {
                        if notify.wait().is_ok() {
                            got.fetch_add(1, Relaxed);
                        }
                    })
                })
                .collect();
            notify.notify_one();
            let _ = ecru::yield_now();
            drop(waiters);
            // One of them has it, or it is kept. The other one is let go.
            let _ = ecru::sleep(std::time::Duration::from_secs(1));
            let before = got.load(Relaxed);
            assert!(before <= 1, "one notification woke {before}");
            notify.notify_one();
        });
        assert!(got.into_inner() <= 2);
    });
}

#[test]
fn a_latch_opens_for_all() {
    everywhere(|| {
        let latch = Latch::new(2);
        let counts = [Count(&latch), Count(&latch)];
        ecru::scope(|s| {
            for count in counts {
                s.spawn(move || {
                    let _ = ecru::yield_now();
                    drop(count);
                });
            }
            for _ in 0..2 {
                s.spawn(|| {
                    if latch.wait().is_ok() {
                        assert!(latch.is_open());
                    }
                });
            }
        });
        assert!(latch.is_open());
    });
}

/// Counts down when it is dropped, even if its task never begins.
struct Count<'l>(&'l Latch);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.count_down();
    }
}

#[test]
fn a_barrier_opens_for_each_generation_and_has_one_leader() {
    in_every_order(|| {
        let (barrier, leaders, at) = (Barrier::new(3), AtomicU32::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for round in 0..2 {
                        at.fetch_add(1, Relaxed);
                        let leads = barrier.wait().is_ok_and(|result| result.is_leader());
                        assert!(at.load(Relaxed) >= 3 * (round + 1), "a party is ahead");
                        leaders.fetch_add(u32::from(leads), Relaxed);
                    }
                });
            }
        });
        assert_eq!(leaders.into_inner(), 2);
    });
}

#[test]
fn a_cancelled_party_is_not_counted() {
    everywhere(|| {
        let (barrier, passed) = (Barrier::new(3), AtomicU32::new(0));
        ecru::scope(|s| {
            let parties: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        if barrier.wait().is_ok() {
                            passed.fetch_add(1, Relaxed);
                        }
                    })
                })
                .collect();
            let _ = ecru::sleep(std::time::Duration::from_secs(1));
            parties.iter().for_each(|party| party.cancel());
        });
        assert!(matches!(passed.into_inner(), 0 | 3), "some of the parties have passed");
    });
}

#[test]
fn a_value_is_made_once() {
    everywhere(|| {
        let (cell, made) = (OnceLock::new(), AtomicU32::new(0));
        ecru::scope(|s| {
            for number in 0..3 {
                let (cell, made) = (&cell, &made);
                s.spawn(move || {
                    let value = *cell.get_or_init(|| {
                        let _ = ecru::yield_now();
                        made.fetch_add(1, Relaxed);
                        number
                    });
                    assert_eq!(cell.get(), Some(&value));
                });
            }
        });
        assert!(made.into_inner() <= 1);
    });
}

#[test]
fn a_maker_that_fails_leaves_its_turn_to_the_next() {
    everywhere(|| {
        let (cell, order) = (OnceLock::new(), Mutex::new(vec![]));
        ecru::scope(|s| {
            for number in 0..3 {
                let (cell, order) = (&cell, &order);
                s.spawn(move || {
                    let _ = cell.get_or_try_init(|| {
                        let pause = ecru::yield_now();
                        order.lock().push(number);
                        // The first one fails, and so does a cancelled one.
                        if number == 0 || pause.is_err() { Err("on purpose") } else { Ok(number) }
                    });
                });
            }
        });
        let order = order.into_inner();
        if let Some(value) = cell.get() {
            assert_eq!(order.last(), Some(value), "a value was made although there was one");
        }
    });
}

#[test]
fn a_value_that_is_set_reaches_all() {
    everywhere(|| {
        let cell = SetOnce::new();
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    if let Ok(value) = cell.wait() {
                        assert_eq!(*value, 7);
                    }
                });
            }
            let _ = ecru::yield_now();
            assert_eq!(cell.set(7), Ok(()));
            assert_eq!(cell.set(8), Err(8));
        });
    });
}
