//! Races: the first of several sources, and nothing from the others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::Letters;
use crate::support::{Watchdog, assert_even, everywhere, ms, now, run_on};
use ecru::Source;
use ecru::channel::{self, RecvError};
use ecru::source::{self, Either};

/// - given: a race of five channels
/// - when: one gets a value
/// - then: the race returns it, and is registered nowhere any more
#[test]
fn source_18_a_race_takes_the_first_and_nothing_from_the_others() {
    everywhere(|side| {
        let channels: Vec<_> = (0..5).map(|_| channel::unbounded()).collect();
        let receivers: Vec<_> = channels.iter().map(|(_, receiver)| receiver).collect();
        let (got, ()) = side.both(
            || source::race(receivers.iter().copied()).wait(),
            || {
                side.pause();
                channels[3].0.send(3).unwrap();
            },
        );
        assert_eq!(got, Ok(Ok(3)));
        for (n, (sender, receiver)) in channels.iter().enumerate() {
            // No waiter is registered there any more.
            sender.send(n).unwrap();
            assert_eq!(receiver.len(), 1);
        }
    });
}

/// - given: a race of races, a thousand channels in all
/// - when: it is waited for repeatedly
/// - then: all values come, each once
#[test]
fn source_19_nested_races_of_a_thousand_channels_lose_nothing() {
    everywhere(|side| {
        let channels: Vec<_> = (0..100).map(|_| channel::unbounded()).collect();
        let total = 400;
        let ((), sum) = side.both(
            || {
                for n in 0..total {
                    channels[n * 37 % 100].0.send(n).unwrap();
                }
            },
            || {
                let rows: Vec<_> = channels
                    .chunks(10)
                    .map(|chunk| source::race(chunk.iter().map(|(_, receiver)| receiver)))
                    .collect();
                let race = source::race(rows);
                (0..total).map(|_| race.wait().unwrap().unwrap()).sum::<usize>()
            },
        );
        assert_eq!(sum, total * (total - 1) / 2);
        assert!(channels.iter().all(|(_, receiver)| receiver.is_empty()));
    });
}

#[test]
fn source_19_nested_races_of_a_thousand_channels_lose_nothing_slow() {
    run_on(2, || {
        let channels: Vec<_> = (0..1000)
            .map(|n| {
                let (sender, receiver) = channel::unbounded();
                sender.send(n).unwrap();
                (sender, receiver)
            })
            .collect();
        let rows: Vec<_> = channels
            .chunks(10)
            .map(|chunk| source::race(chunk.iter().map(|(_, receiver)| receiver)))
            .collect();
        let race = source::race(rows);
        let sum: usize = (0..1000).map(|_| race.wait().unwrap().unwrap()).sum();
        assert_eq!(sum, 999 * 1000 / 2);
    });
}

/// - given: a race of no sources
/// - when: it is waited for
/// - then: the wait does not end
#[test]
fn source_20_a_race_of_none_never_has_anything() {
    everywhere(|_| {
        let none = source::race(Vec::<source::Ready<u8>>::new());
        assert_eq!(none.try_take(), None);
        assert!(ecru::timeout(ms(1), || none.wait().is_err()).is_err());
    });
}

/// - given: `race_indexed`
/// - when: one has an item
/// - then: its position comes with the item
#[test]
fn source_21_race_indexed_says_which() {
    everywhere(|_| {
        let channels: Vec<_> = (0..12).map(|_| channel::unbounded()).collect();
        for n in [7, 0, 11] {
            channels[n].0.send("it").unwrap();
            let race = source::race_indexed(channels.iter().map(|(_, receiver)| receiver));
            assert_eq!(race.wait(), Ok((n, Ok("it"))));
        }
    });
}

/// - given: two sources with different item types
/// - when: one is ready first
/// - then: `Left` or `Right`; the other source is not affected
#[test]
fn source_22_either_of_two_types() {
    everywhere(|side| {
        let (numbers, n) = channel::bounded::<u32>(0);
        let (texts, t) = channel::unbounded::<&str>();
        let either = source::either(&n, &t);
        texts.send("text").unwrap();
        assert_eq!(either.wait(), Ok(Either::Right(Ok("text"))));
        let (got, ()) = side.both(|| either.wait(), || numbers.send(5).unwrap());
        assert_eq!(got, Ok(Either::Left(Ok(5))));
        // The slower one continues.
        let slow = source::either(&n, channel::after(ms(1)));
        assert!(matches!(slow.wait(), Ok(Either::Right(Ok(_)))));
        let (sent, ()) = side.both(|| numbers.send(6), || assert_eq!(n.recv(), Ok(6)));
        assert_eq!(sent, Ok(()));
    });
}

/// - given: `race`, `either`
/// - when: both have an item
/// - then: each is picked sometimes
#[test]
fn source_23_of_several_that_are_ready_chance_picks_one() {
    everywhere(|_| {
        let (a, from_a) = channel::unbounded();
        let (b, from_b) = channel::unbounded();
        for _ in 0..400 {
            a.send('a').unwrap();
            b.send('b').unwrap();
        }
        let raced = (0..100).filter(|_| source::race([&from_a, &from_b]).wait() == Ok(Ok('a')));
        assert!((10..90).contains(&raced.count()));
        let left = (0..100)
            .filter(|_| matches!(source::either(&from_a, &from_b).wait(), Ok(Either::Left(_))));
        assert!((10..90).contains(&left.count()));
    });
}

/// - given: four waiters for two sources
/// - when: items come to both
/// - then: each is received once
#[test]
fn source_26_each_item_goes_to_exactly_one_of_those_who_wait() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        let letters = Letters::default();
        let got = Mutex::new(Vec::new());
        let read = |n: usize| {
            for _ in 0..40 {
                let value = match n % 2 {
                    0 => source::race([&receiver, &receiver]).wait().unwrap().unwrap(),
                    _ => letters.wait().unwrap(),
                };
                got.lock().unwrap().push(value);
            }
        };
        let (_, ()) = side.many(4, read, || {
            for n in 0..80 {
                sender.send(n).unwrap();
                letters.post(100 + n);
            }
        });
        let mut got = got.into_inner().unwrap();
        got.sort_unstable();
        assert!(got.into_iter().eq((0..80).chain(100..180)));
    });
}

/// - given: a race
/// - when: all its channels are closed
/// - then: all waiters get `Disconnected`
#[test]
fn source_27_a_race_of_closed_channels_is_over() {
    everywhere(|side| {
        let (a, from_a) = channel::bounded::<u8>(0);
        let (b, from_b) = channel::unbounded::<u8>();
        let (ends, ()) = side.many(
            3,
            |_| source::race([&from_a, &from_b]).wait(),
            || {
                side.pause();
                drop(a);
                drop(b);
            },
        );
        assert!(ends.iter().all(|end| *end == Ok(Err(RecvError::Disconnected))));
    });
}

/// - given: a race over the values that two tasks send
/// - when: one wins
/// - then: the other task runs on, and its value is still there
#[test]
fn source_28_a_race_cancels_nobody() {
    run_on(2, || {
        let done = AtomicUsize::new(0);
        ecru::scope(|s| {
            let (quick, first) = channel::bounded(1);
            let (slow, second) = channel::bounded(1);
            let done = &done;
            s.spawn(move || quick.send(1).unwrap());
            s.spawn(move || {
                ecru::sleep(ms(5)).unwrap();
                done.fetch_add(1, SeqCst);
                slow.send(2).unwrap();
            });
            assert_eq!(source::race([&first, &second]).wait(), Ok(Ok(1)));
            assert_eq!(second.recv(), Ok(2), "the loser has run on, and its value is there");
        });
        assert_eq!(done.load(SeqCst), 1);
    });
}

/// - given: a race of 3,000 sources
/// - when: one has an item
/// - then: it is found, and no waiter is left in any list
#[test]
fn source_32_many_sources_at_once() {
    everywhere(|side| {
        let channels: Vec<_> = (0..3_000).map(|_| channel::bounded(0)).collect();
        let receivers = || channels.iter().map(|(_, receiver)| receiver);
        let (got, ()) = side.both(
            || source::race_indexed(receivers()).wait(),
            || channels[2_345].0.send('x').unwrap(),
        );
        assert_eq!(got, Ok((2_345, Ok('x'))));
        for (sender, _) in &channels {
            assert!(sender.try_send('y').is_err(), "nobody is left in line");
        }
    });
}

/// - given: a task that never has to wait; two tasks that hand over to each other
/// - when: others are ready, a timer is due
/// - then: they get their turn
#[test]
fn source_36_operations_that_always_succeed_do_not_starve_others() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        let (ping, pong) = (channel::bounded(0), channel::bounded(0));
        let (others, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn_local(|| others.fetch_add(1, SeqCst));
            while others.load(SeqCst) == 0 {
                sender.send(1).unwrap();
                receiver.recv().unwrap();
            }
            // Two tasks that hand over to each other.
            let stop = &stop;
            let (ping, pong) = (&ping, &pong);
            s.spawn_local(move || {
                while let Ok(n) = ping.1.recv() {
                    pong.0.send(n).unwrap();
                }
            });
            s.spawn_local(move || {
                while !stop.load(SeqCst) {
                    ping.0.send(1).unwrap();
                    pong.1.recv().unwrap();
                }
                ping.0.close();
            });
            s.spawn_local(|| {
                // The same with a timer.
                ecru::sleep(ms(1)).unwrap();
                stop.store(true, SeqCst);
            });
        });
    });
}

/// - given: a race in which ready sources are listed after sources that are not ready
/// - when: `wait` and `try_take` of `race` and `race_indexed` are repeated
/// - then: each ready source is picked equally often, by a chi-squared test
#[test]
fn source_42_each_ready_source_of_a_race_has_the_same_chance() {
    run_on(1, || {
        let idle = channel::never::<u32>();
        let (sender, ready) = channel::bounded(1);
        sender.send(7).unwrap();
        for length in [5, 100] {
            let places = [0, length - 2, length - 1];
            let all = |n| if places.contains(&n) { &ready } else { &idle };
            let race = source::race((0..length).map(|n| all(n).map(move |_| n)));
            let indexed = source::race_indexed((0..length).map(all));
            let take = |look: &dyn Fn() -> usize| {
                let mut counts = [0; 3];
                for _ in 0..3_000 {
                    let taken = look();
                    counts[places.iter().position(|place| *place == taken).unwrap()] += 1;
                    sender.send(7).unwrap();
                }
                assert_even(&counts);
            };
            take(&|| race.wait().unwrap());
            take(&|| race.try_take().unwrap());
            take(&|| indexed.wait().unwrap().0);
            take(&|| indexed.try_take().unwrap().0);
        }
    });
}

/// - given: a race with a timer whose time comes while the wait is registered
/// - when: it is waited for
/// - then: the wait ends
#[test]
fn source_48_a_timer_becomes_due_during_the_registration() {
    let _watchdog = Watchdog::new();
    for nanos in (0..600).cycle().take(3_000) {
        let due = now() + Duration::from_nanos(nanos * 5);
        let race = source::race([channel::at(due)]);
        let ended = ecru::timeout(Duration::from_secs(20), || race.wait());
        assert_eq!(ended, Ok(Ok(Ok(due))), "due after {nanos}");
    }
}
