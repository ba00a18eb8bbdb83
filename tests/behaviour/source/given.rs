//! Ready-made sources: items, timers, nothing; also on plain threads.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use super::Letters;
use crate::support::{HOUR, begin, each_run, everywhere, ms, now, run_on, since};
use ecru::Source;
use ecru::channel::{self};
use ecru::source::{self, Either};

/// - given: `from_iter`, and several waiters
/// - when: they take all items
/// - then: each item is taken once; after the last one they wait
#[test]
fn source_24_from_iter_has_each_item_once_and_then_nothing() {
    everywhere(|side| {
        let numbers = source::from_iter(0..300);
        let (got, own) = side.many(
            2,
            |_| (0..100).map(|_| numbers.wait().unwrap()).collect::<Vec<_>>(),
            || (0..100).map(|_| numbers.wait().unwrap()).collect::<Vec<_>>(),
        );
        let mut all: Vec<_> = got.into_iter().flatten().chain(own).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..300));
        assert_eq!(numbers.try_take(), None);
        assert!(ecru::timeout(ms(1), || numbers.wait().is_err()).is_err());
    });
}

/// - given: `ready(v)`, `never()`
/// - when: they are taken from
/// - then: v once; never an item
#[test]
fn source_25_ready_and_never() {
    everywhere(|side| {
        let once = source::ready(String::from("it"));
        let (got, own) = side.both(|| once.try_take(), || once.try_take());
        assert_eq!(got.or(own).as_deref(), Some("it"));
        assert_eq!(once.try_take(), None);
        assert_eq!(source::never::<u8>().try_take(), None);
        let either = source::never::<u8>().or(source::ready(1));
        assert_eq!(either.wait(), Ok(1));
        // Its own wait ends with a request, on a thread as in a task, and returns the same again.
        let limited = ecru::timeout(ms(1), || {
            assert!(source::never::<u8>().wait().is_err());
            source::never::<u8>().wait().is_err()
        });
        assert!(limited.is_err());
    });
    each_run(|| {
        ecru::scope(|s| {
            let task = begin(s, || source::never::<u8>().wait());
            task.cancel();
            let cancelled = task.join().unwrap().unwrap_err();
            assert_eq!(cancelled.reason(), ecru::CancelReason::Explicit);
        });
    });
}

/// - given: a plain thread without a runtime
/// - when: it races and waits
/// - then: it works as in a task
#[test]
fn source_37_waiting_on_a_thread_costs_nothing_and_needs_no_runtime() {
    let (sender, receiver) = channel::unbounded();
    let thread = thread::spawn(move || {
        let race = source::race([&receiver, &receiver]).wait();
        let left = source::either(&receiver, channel::after(ms(1))).wait();
        (race, matches!(left, Ok(Either::Right(_))))
    });
    thread::sleep(ms(2));
    sender.send(4).unwrap();
    assert_eq!(thread.join().unwrap(), (Ok(Ok(4)), true));
}

/// - given: `after`, `tick`
/// - when: they are raced with others
/// - then: the first to be due wins, never early
#[test]
fn source_38_timers_are_sources() {
    everywhere(|_| {
        let start = now();
        let quick = channel::after(ms(2));
        let slow = channel::after(HOUR);
        let (index, due) = source::race_indexed([&slow, &quick]).wait().unwrap();
        assert_eq!(index, 1);
        assert!(due.unwrap() >= start + ms(2) && now() >= due.unwrap());
        let ticks = channel::tick(ms(1));
        let seen: Vec<_> = (0..3).map(|_| (&ticks).or(&slow).wait().unwrap().unwrap()).collect();
        assert!(seen.windows(2).all(|pair| pair[1] >= pair[0] + ms(1)));
    });
}

/// - given: thousands of waits with a far timer
/// - when: the other side wins each time
/// - then: no wait for a timer remains
#[test]
fn source_39_a_timer_that_lost_costs_nothing() {
    run_on(1, || {
        let start = now();
        for _ in 0..2_000 {
            let ready = source::either(source::ready(1), channel::after(ms(1)));
            ready.wait().unwrap();
        }
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn_local(|| (0..500).for_each(|n| sender.send(n).unwrap()));
            for n in 0..500 {
                let either = source::either(&receiver, channel::after(HOUR));
                assert_eq!(either.wait(), Ok(Either::Left(Ok(n))));
            }
        });
        // The run ends although an hour has not passed.
        assert!(since(start) < HOUR / 100);
    });
}

/// - given: a source in `map` and `race`
/// - when: it is not waited for yet
/// - then: it has not been looked at
#[test]
fn source_40_nothing_is_taken_early() {
    everywhere(|_| {
        let letters = Letters::default();
        letters.post(1);
        let mapped = (&letters).map(|n| n);
        let race = source::race([&mapped, &mapped]);
        assert_eq!(letters.looks.load(SeqCst), 0, "to combine is not to take");
        assert_eq!(race.try_take(), Some(1));
        assert_eq!(race.try_take(), None);
    });
}
