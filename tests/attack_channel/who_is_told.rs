//! Notifications: which waiters are notified of a value, and which one receives it.

use std::thread;
use std::time::{Duration, Instant};

use ecru::channel::{self, Select};
use ecru::{Source, select, source};

use crate::{Watchdog, at_once, ms, run_on, settle};

#[test]
fn a_select_that_only_looks_keeps_nobody_from_a_value() {
    for capacity in [0, 1, usize::MAX] {
        run_on(1, || {
            let (sender, receiver) = channel::bounded(capacity);
            ecru::scope(|s| {
                for _ in 0..2 {
                    s.spawn_local(|| {
                        let mut choice = Select::new();
                        choice.recv(&receiver);
                        choice.ready()
                    });
                }
                settle();
                let reading = s.spawn_local(|| receiver.recv());
                settle();
                sender.send(7).unwrap();
                assert_eq!(reading.join().unwrap(), Ok(7), "capacity {capacity}");
                receiver.close_now();
            });
        });
    }
}

#[test]
fn every_select_that_only_looks_is_told() {
    for capacity in [0, 1] {
        run_on(1, || {
            let (sender, receiver) = channel::bounded(capacity);
            ecru::scope(|s| {
                let looking: Vec<_> = (0..3)
                    .map(|_| {
                        s.spawn_local(|| {
                            let mut choice = Select::new();
                            choice.recv(&receiver);
                            choice.ready() == 0
                        })
                    })
                    .collect();
                settle();
                s.spawn_local(|| sender.send(7));
                assert!(looking.iter().all(|looking| looking.join().unwrap()));
                assert_eq!(receiver.recv(), Ok(7));
            });
        });
    }
}

#[test]
fn each_of_two_filters_of_one_receiver_gets_what_it_accepts() {
    at_once(1, |_| {
        for capacity in [0, 1, usize::MAX] {
            let (sender, receiver) = channel::bounded::<u32>(capacity);
            thread::scope(|s| {
                s.spawn(|| {
                    for n in 0..40 {
                        if n % 2 == 0 {
                            thread::sleep(Duration::from_micros(300));
                        }
                        sender.send(n).unwrap();
                    }
                });
                for n in 0..40 {
                    let even = (&receiver).filter(|n| n % 2 == 0);
                    let odd = (&receiver).filter(|n| n % 2 == 1);
                    let expected = if n % 2 == 0 {
                        source::Either::Left(Ok(n))
                    } else {
                        source::Either::Right(Ok(n))
                    };
                    assert_eq!(source::either(even, odd).wait(), Ok(expected));
                }
            });
        }
    });
}

#[test]
fn a_value_that_was_given_back_does_not_hide_those_behind_it() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn_local(|| sender.send(1));
            settle();
            let mut choice = Select::new();
            choice.recv(&receiver);
            // The value is back in the channel, in front of all waiting senders.
            drop(choice.select());
            let picky = s.spawn_local(|| (&receiver).filter(|n: &i32| *n == 2).wait());
            settle();
            let second = s.spawn_local(|| sender.send(2));
            settle();
            assert_eq!(receiver.recv(), Ok(1));
            assert_eq!(picky.join().unwrap(), Ok(Ok(2)));
            assert_eq!(second.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn a_filter_that_refuses_a_tick_sleeps_until_another_can_come() {
    fn used() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
    }
    let _watchdog = Watchdog::new();
    let ticks = channel::tick(ms(1));
    let first = Instant::now();
    thread::sleep(ms(3));
    thread::scope(|s| {
        let picky = s.spawn(|| {
            let before = used();
            // The tick that is due by now is not late enough.
            let late = (&ticks).filter(|due: &Instant| *due > first + ms(40));
            (late.wait().unwrap().unwrap(), used() - before)
        });
        thread::sleep(ms(60));
        assert!(ticks.try_recv().unwrap() < first + ms(40));
        let (due, used) = picky.join().unwrap();
        assert!(due > first + ms(40));
        assert!(used < ms(30), "it does not sleep: {used:?} of processor time");
    });
}

#[test]
fn a_select_with_a_default_does_not_wait_for_a_filter_that_may_refuse() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let picky = s.spawn_local(|| (&receiver).filter(|n: &i32| *n == 2).wait());
            settle();
            select! {
                send(sender, 1) -> sent => panic!("{sent:?}"),
                default => {}
            }
            let mut choice = Select::new();
            choice.send(&sender);
            assert!(choice.try_select().is_err());
            // A select without a default waits, and sends.
            select! { send(sender, 2) -> sent => sent.unwrap() }
            assert_eq!(picky.join().unwrap(), Ok(Ok(2)));
        });
    });
}
