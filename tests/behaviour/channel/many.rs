//! Many values and many waiters: no value is lost or received twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::kinds;
use crate::support::{Counted, everywhere, ms, run_on};
use ecru::channel::{self, RecvError};
use rustix::time::{ClockId, clock_gettime};

/// - given: each kind
/// - when: 10,000 values are sent and received
/// - then: none is lost
#[test]
fn channel_42_ten_thousand_values_add_up() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let ((), sum) = side.both(
                move || (0..10_000_u64).for_each(|n| sender.send(n).unwrap()),
                || receiver.iter().sum::<u64>(),
            );
            assert_eq!(sum, 9_999 * 10_000 / 2, "{name}");
        }
    });
}

/// - given: three senders of many values, and two receivers, one of them slower
/// - when: everything is received
/// - then: each value is received exactly once
#[test]
fn channel_43_readers_compete_and_each_value_goes_to_one_slow() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let got = Mutex::new(Vec::new());
            let sender = Mutex::new(Some(sender));
            let per_writer = if name == "rendezvous" { 1_000 } else { 10_000 };
            let writers = AtomicUsize::new(0);
            let work = |id: usize| {
                if id < 3 {
                    let own = sender.lock().unwrap().as_ref().unwrap().clone();
                    if writers.fetch_add(1, SeqCst) == 2 {
                        *sender.lock().unwrap() = None;
                    }
                    for n in 0..per_writer {
                        own.send(id * per_writer + n).unwrap();
                    }
                } else {
                    // One of the readers is slower.
                    let mut own = Vec::new();
                    for value in &receiver {
                        own.push(value);
                        if id == 4 && value % 7 == 0 {
                            match side {
                                crate::support::Side::Task => drop(ecru::yield_now()),
                                crate::support::Side::Thread => thread::yield_now(),
                            }
                        }
                    }
                    got.lock().unwrap().extend(own);
                }
            };
            side.many(5, work, || ());
            let mut got = got.into_inner().unwrap();
            got.sort_unstable();
            assert!(got.into_iter().eq(0..3 * per_writer), "{name}");
        }
    });
}

/// - given: two waiting receivers
/// - when: one value is sent, then the channel is closed
/// - then: one of them gets it, and the other gets `Disconnected`
#[test]
fn channel_44_two_readers_one_value() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let (got, ()) = side.many(
                2,
                |_| receiver.recv(),
                || {
                    side.pause();
                    sender.send(5).unwrap();
                    side.pause();
                    sender.close();
                },
            );
            assert_eq!(got.iter().filter(|got| **got == Ok(5)).count(), 1, "{name}");
            assert!(got.contains(&Err(RecvError::Disconnected)), "{name}");
        }
    });
}

/// - given: one channel
/// - when: 1,500 tasks wait on one side, or on both
/// - then: no task is refused, and each is served, in order
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn channel_45_any_number_may_wait() {
    run_on(2, || {
        let (sender, receiver) = channel::bounded(0);
        let sum = AtomicUsize::new(0);
        ecru::scope(|s| {
            for n in 0..1_500 {
                let (sender, receiver, sum) = (&sender, &receiver, &sum);
                s.spawn(move || sender.send(n).unwrap());
                s.spawn(move || sum.fetch_add(receiver.recv().unwrap(), SeqCst));
            }
        });
        assert_eq!(sum.load(SeqCst), 1_499 * 1_500 / 2);
        // First all tasks wait on one side, and none is refused.
        ecru::scope(|s| {
            let readers: Vec<_> = (0..1_500).map(|_| s.spawn_local(|| receiver.recv())).collect();
            crate::support::settle();
            (0..1_500).for_each(|n| sender.try_send(n).unwrap());
            let values = readers.into_iter().map(|task| task.join().unwrap().unwrap());
            let mut values: Vec<_> = values.collect();
            values.sort_unstable();
            assert!(values.into_iter().eq(0..1_500));
        });
    });
}

/// - given: 5,000 tasks that wait on another channel
/// - when: two tasks play ping-pong
/// - then: it takes as long as without the 5,000 tasks
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn channel_46_who_waits_elsewhere_costs_nothing() {
    let _loud = crate::streams::loud();
    run_on(1, || {
        let (ping, pong) = (channel::bounded(0), channel::bounded(0));
        let used = || {
            Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time to have used")
        };
        let rounds = || {
            ecru::scope(|s| {
                let before = used();
                s.spawn_local(|| {
                    for _ in 0..2_000 {
                        pong.0.send(ping.1.recv().unwrap()).unwrap();
                    }
                });
                for n in 0..2_000 {
                    ping.0.send(n).unwrap();
                    assert_eq!(pong.1.recv(), Ok(n));
                }
                used() - before
            })
        };
        let alone = (0..3).map(|_| rounds()).min().unwrap();
        let (gate, waiting) = channel::bounded::<u8>(0);
        ecru::scope(|s| {
            for _ in 0..5_000 {
                s.spawn_local(|| waiting.recv());
            }
            crate::support::settle();
            let beside = (0..3).map(|_| rounds()).min().unwrap();
            gate.close();
            assert!(beside < 4 * alone + ms(2), "{beside:?}, and {alone:?} alone");
        });
    });
}

/// - given: a sender and a receiver that sleep between values
/// - when: everything is received
/// - then: no value is lost
#[test]
fn channel_48_channels_and_sleeps_mix() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let ((), sum) = side.both(
            move || {
                for n in 0..6 {
                    sender.send(n).unwrap();
                    ecru::sleep(ms(1)).unwrap();
                }
            },
            || {
                receiver
                    .iter()
                    .inspect(|_| ecru::sleep(Duration::from_micros(700)).unwrap())
                    .sum::<u32>()
            },
        );
        assert_eq!(sum, 15);
    });
}

/// - given: 100 values of which 40 are received
/// - when: the receiver is dropped
/// - then: each value is dropped once, wherever it was
#[test]
fn channel_50_values_are_dropped_once() {
    let drops = AtomicUsize::new(0);
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            drops.store(0, SeqCst);
            let (drops, taken) = (&drops, AtomicUsize::new(0));
            let ((), ()) = side.both(
                move || {
                    for _ in 0..100 {
                        drop(sender.send(Counted(drops)));
                    }
                },
                || {
                    let some = receiver.iter().take(40).count();
                    taken.store(some, SeqCst);
                    drop(receiver);
                },
            );
            assert_eq!(taken.load(SeqCst), 40, "{name}");
            assert_eq!(drops.load(SeqCst), 100, "{name}");
        }
    });
}

/// - given: a task and a plain thread
/// - when: one sends, the other receives
/// - then: the task parks, and the thread blocks
#[test]
fn channel_53_tasks_and_threads_meet() {
    for workers in [1, 2] {
        run_on(workers, || {
            for (name, sender, receiver) in kinds() {
                let thread = thread::spawn(move || (0..200).all(|n| sender.send(n).is_ok()));
                assert!(receiver.iter().eq(0..200), "{name}");
                assert!(thread.join().unwrap(), "{name}");
            }
            for (name, sender, receiver) in kinds() {
                let thread = thread::spawn(move || receiver.iter().sum::<u32>());
                (0..200).for_each(|n| sender.send(n).unwrap());
                drop(sender);
                assert_eq!(thread.join().unwrap(), 199 * 200 / 2, "{name}");
            }
        });
    }
}
