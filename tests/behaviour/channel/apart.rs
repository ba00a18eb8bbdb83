//! A sender and a receiver on two workers. They listen for each other before they park.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{HOUR, ms, run_placed};
use ecru::channel::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use ecru::{JoinHandle, Placement, Scope};

/// The number of values after which both sides have learnt that the other answers soon.
const TALK: u64 = 3_000;

fn run_apart<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    run_placed(2, Placement::Spread, body)
}

fn channels() -> [(&'static str, Sender<u64>, Receiver<u64>); 4] {
    let named = |name, (sender, receiver)| (name, sender, receiver);
    [
        named("rendezvous", channel::bounded(0)),
        named("one", channel::bounded(1)),
        named("many", channel::bounded(128)),
        named("unbounded", channel::unbounded()),
    ]
}

fn talk(sender: &Sender<u64>) {
    (0..TALK).for_each(|value| sender.send(value).unwrap());
}

fn hear(receiver: &Receiver<u64>) {
    (0..TALK).for_each(|value| assert_eq!(receiver.recv(), Ok(value)));
}

/// - given: a pair on two workers that has exchanged values, each kind
/// - when: the receiver waits, and is cancelled
/// - then: it gets `Cancelled`, and the next value goes to the next receiver
#[test]
fn channel_61_a_pair_that_has_talked_is_cancelled_like_any_other() {
    run_apart(|| {
        for (name, sender, receiver) in channels() {
            let waits = AtomicBool::new(false);
            ecru::scope(|s| {
                let (sender, receiver) = (&sender, &receiver);
                let receives = s.spawn(|| {
                    hear(receiver);
                    waits.store(true, SeqCst);
                    receiver.recv()
                });
                let sends = s.spawn(|| {
                    talk(sender);
                    while !waits.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                });
                sends.join().unwrap();
                receives.cancel();
                assert_eq!(receives.join().unwrap(), Err(RecvError::Cancelled), "{name}");
                // No trace of the wait is left in the channel.
                let sends = s.spawn(|| sender.send(7));
                assert_eq!(receiver.recv(), Ok(7), "{name}");
                sends.join().unwrap().unwrap();
            });
        }
    });
}

/// - given: a pair on two workers that has exchanged values, each kind
/// - when: `send_timeout` and `recv_timeout` are called
/// - then: both return `Timeout`
#[test]
fn channel_59_a_pair_that_has_talked_keeps_its_time_limits() {
    run_apart(|| {
        for (name, sender, receiver) in channels() {
            ecru::scope(|s| {
                let sends = s.spawn(|| talk(&sender));
                let receives = s.spawn(|| hear(&receiver));
                receives.join().unwrap();
                sends.join().unwrap();
                let nothing = s.spawn(|| receiver.recv_timeout(ms(1)));
                assert_eq!(nothing.join().unwrap(), Err(RecvTimeoutError::Timeout), "{name}");
                if name == "unbounded" {
                    return;
                }
                while sender.try_send(0).is_ok() {}
                let no_room = s.spawn(|| sender.send_timeout(7, ms(1)));
                assert!(no_room.join().unwrap().unwrap_err().is_timeout(), "{name}");
            });
        }
    });
}

/// Starts a pair of tasks that passes one value after another until it is told to stop.
fn babble<'scope>(
    s: &'scope Scope<'scope, '_>,
    stop: &'scope AtomicBool,
    sender: Sender<u64>,
    receiver: Receiver<u64>,
    beside: impl Fn() + Send + 'scope,
) -> JoinHandle<'scope, u64> {
    s.spawn(move || {
        let mut count = 0;
        while !stop.load(SeqCst) {
            sender.send(count).unwrap();
            count += 1;
        }
    });
    s.spawn(move || {
        beside();
        receiver.iter().count() as u64
    })
}

/// - given: a pair on two workers that exchanges values without end, each kind
/// - when: other tasks of these workers yield and sleep
/// - then: they continue meanwhile
#[test]
fn channel_60_a_pair_that_talks_on_leaves_its_workers_to_others() {
    run_apart(|| {
        for (name, sender, receiver) in channels() {
            let (stop, ticks, slept) =
                (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
            ecru::scope(|s| {
                let beside = || {
                    // These two tasks run on the receiver's worker.
                    s.builder().near().spawn(|| {
                        (0..1_000).for_each(|_| {
                            ecru::yield_now().unwrap();
                            ticks.fetch_add(1, SeqCst);
                        });
                    });
                    s.builder().near().spawn(|| {
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                        slept.store(true, SeqCst);
                    });
                };
                let talks = babble(s, &stop, sender, receiver, beside);
                // This task is not part of the pair either. It wakes up again and again.
                let waits = s.spawn(|| {
                    while ticks.load(SeqCst) < 1_000 || !slept.load(SeqCst) {
                        ecru::sleep(ms(1)).unwrap();
                    }
                });
                let begun = ecru::timeout(HOUR, || waits.join());
                assert!(begun.is_ok(), "{name}");
                stop.store(true, SeqCst);
                assert!(talks.join().unwrap() > 0, "{name}");
            });
        }
    });
}
